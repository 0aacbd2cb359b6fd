"""An everyday table for tests of writing: orders, by region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from esker.lake import Lake
from esker.table import Table

NAME = "sales.orders"
SCHEMA = "id bigint not null, region string, n int"
QUICK = {
    "commit.retry.min-wait-ms": "0",
    "commit.retry.max-wait-ms": "1",
    "commit.status-check.min-wait-ms": "0",
    "commit.status-check.num-retries": "2",
}
"""Retries that do not wait."""


def orders(lake: Lake, *, schema: object = SCHEMA, properties: Mapping[str, str] | None = None, **how: Any) -> Table:
    """The table, made; the namespace too where it is missing."""
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    return lake.create_table(NAME, schema, properties={**QUICK, **(properties or {})}, **how)


def rows(ids: Iterable[int], region: str | None = "eu", n: int | None = 1) -> pa.Table:
    """Some orders of one region."""
    all_ids = list(ids)
    return pa.table(
        {
            "id": pa.array(all_ids, pa.int64()),
            "region": pa.array([region] * len(all_ids), pa.string()),
            "n": pa.array([n] * len(all_ids), pa.int32()),
        }
    )
