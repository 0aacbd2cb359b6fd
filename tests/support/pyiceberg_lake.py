"""Tables that PyIceberg writes, for tests that compare what it and Esker make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa


def pyiceberg_catalog(folder: Path) -> Any:
    """An empty catalog of PyIceberg below a folder."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("ns")
    return catalog


def events(first: int, count: int) -> pa.Table:
    """Rows of an everyday table: numbers, times, text, nulls, a NaN, a struct and a list."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "ts": pa.array([86_400_000_000 * (n % 3) + n for n in ids], pa.timestamp("us", tz="UTC")),
            "day": pa.array([n % 3 for n in ids], pa.date32()),
            "kind": pa.array(["abc"[n % 3] for n in ids]),
            "price": pa.array([float("nan") if n == 2 else n / 4 for n in ids]),
            "note": pa.array([None if n % 2 else f"n{n}" for n in ids]),
            "tags": pa.array([[f"t{n}"] for n in ids], pa.list_(pa.string())),
            "place": pa.array([{"lat": n * 1.0} for n in ids], pa.struct([("lat", pa.float64())])),
        }
    )


def directory_of(table: Any) -> str:
    """Where a PyIceberg table lies."""
    location: str = table.location()
    return location.removeprefix("file://")
