"""Rows of a rollup combined without Spark, and the sum of an account with what a transform did."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from esker.cli.commands.ingest import identity
from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.pipeline.rollups import SERVICE_RED, Rollup, chosen_rollups
from esker.ingest.receipts import BatchCounts

ROLLUP = Rollup(
    name="a.b",
    source="c.d",
    keys={"K": "k"},
    sums={"S": "s"},
    maxima={"X": "x"},
    minima={"N": "x"},
    histogram=("H", "x"),
)
SCHEMA = pa.schema(
    [
        ("Minute", pa.timestamp("us", "UTC")),
        ("K", pa.string()),
        ("S", pa.int64()),
        ("X", pa.float64()),
        ("N", pa.float64()),
        ("H", pa.map_(pa.int32(), pa.int64())),
    ]
)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], schema=SCHEMA)


def test_rows_are_combined_by_period_and_keys_and_others_are_left_alone() -> None:
    there = rows((0, "a", 1, 2.0, 2.0, [(3, 1)]), (0, None, 1, None, 1.0, []), (60, "a", 7, 7.0, 7.0, []))
    coming = rows(
        (0, "a", 4, 1.0, 1.0, [(3, 1), (5, 2)]), (0, None, None, 9.0, None, [(1, 1)]), (0, "new", 1, 1, 1, [])
    )
    assert ROLLUP.combined_rows(there, coming) == rows(
        (0, "a", 5, 2.0, 1.0, [(3, 2), (5, 2)]),
        (0, None, 1, 9.0, 1.0, [(1, 1)]),
        (0, "new", 1, 1, 1, []),
    )


def test_nan_is_the_largest_number_as_in_spark() -> None:
    for one, two in ((math.nan, 1.0), (1.0, math.nan)):
        (found,) = ROLLUP.combined_rows(rows((0, "a", 1, one, one, [])), rows((0, "a", 1, two, two, []))).to_pylist()
        assert math.isnan(found["X"])
        assert found["N"] == 1.0


def test_what_cannot_be_compared_here_is_left_to_spark() -> None:
    assert ROLLUP.combines_here(SCHEMA)
    assert not ROLLUP.combines_here(SCHEMA.set(3, pa.field("X", pa.struct([("a", pa.int64())]))))


def test_rollups_are_chosen_by_a_word_or_given() -> None:
    assert (chosen_rollups(True), chosen_rollups(False)) == ((SERVICE_RED,), ())
    assert chosen_rollups(ROLLUP) == chosen_rollups([ROLLUP]) == (ROLLUP,)
    with pytest.raises(InvalidInput, match="cannot use 'otel' as a rollup"):
        chosen_rollups(["otel"])


def test_what_a_transform_dropped_and_added_are_terms_of_the_sum() -> None:
    account = Account()
    account.count(BatchCounts(received=10, dropped={"otel.spans": 3}, added={"otel.logs": 1}))
    account.tables.update({"otel.spans": 5, "otel.logs": 2})
    account.dead_letters = 1
    assert account.holds
    assert identity(account).startswith("received 10 + added 1 = tables 7 + dead letter 1 + pending 0 + dropped 3 ")
    account.tables["otel.spans"] = 4
    assert not account.holds
