"""Filters that Spark pushes down: they mean here what they mean there, and they prune."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

import esker
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind
from esker.model.schema import Schema
from esker.spark.source.batch_read import parts, pin, schema_of
from esker.spark.source.pushed_filters import unbound_filters
from esker.spark.source.read_worker import unpacked
from esker.write.definition.new_table import define_table

DDL = "id bigint, name string, d date, tz timestamp, ntz timestamp_ntz, f double, dec decimal(9, 2), s struct<a: int>"
NOON = datetime.datetime(2026, 1, 2, 12)


@pytest.mark.parametrize(
    ("filter_", "sql"),
    [
        (EqualTo(("id",), 7), "id = 7"),
        (EqualNullSafe(("id",), 7), "id <=> 7"),
        (GreaterThan(("f",), 1.5), "f > 1.5"),
        (GreaterThanOrEqual(("dec",), Decimal("1.50")), "dec >= 1.50"),
        (LessThan(("d",), datetime.date(2026, 1, 2)), "d < date '2026-01-02'"),
        (LessThanOrEqual(("ntz",), NOON), "ntz <= timestamp_ntz '2026-01-02 12:00:00'"),
        (LessThanOrEqual(("tz",), NOON.replace(tzinfo=datetime.UTC)), "tz <= timestamp '2026-01-02 12:00:00+00:00'"),
        (In(("id",), (1, 2, None)), "id in (1, 2, null)"),
        (IsNull(("name",)), "name is null"),
        (IsNotNull(("s", "a")), "s.a is not null"),
        (StringStartsWith(("name",), "a_%"), r"name like 'a\\_\\%%'"),
        (StringEndsWith(("name",), "z"), "name like '%z'"),
        (StringContains(("name",), "m"), "name like '%m%'"),
        (Not(EqualTo(("id",), 7)), "not id = 7"),
        (Not(In(("name",), ("a", "b"))), "not name in ('a', 'b')"),
    ],
)
def test_a_filter_means_what_the_same_words_mean(filter_: Any, sql: str) -> None:
    schema = _schema(DDL)
    (found,) = unbound_filters([filter_], schema)
    assert bind(found, schema) == bind(parse(sql), schema)


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("gone",), 1),
        EqualTo(("ID",), 1),  # Spark says the name as it stands
        EqualTo(("id", "x"), 1),
        EqualTo(("s",), {"a": 1}),
        LessThan(("tz",), NOON),  # of no zone, compared with an instant
        LessThan(("ntz",), NOON.replace(tzinfo=datetime.UTC)),
        GreaterThan(("u",), "0"),  # Spark compares the text of a uuid
        Not(EqualTo(("u",), "A9B1E8C2-0000-0000-0000-000000000000")),
        Not(EqualTo(("gone",), 1)),
    ],
)
def test_a_filter_that_may_mean_something_else_is_left_to_spark(filter_: Any) -> None:
    assert list(unbound_filters([filter_], _schema(f"{DDL}, u uuid"))) == []


def _schema(ddl: str) -> Schema:
    return define_table(schema=ddl, location="memory://t").schema


@pytest.fixture
def table(tmp_path: Path) -> esker.Table:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("sales")
    made = lake.create_table("sales.orders", "id bigint, region string, u uuid", partition_by=["region"])
    for region in ("eu", "us"):
        made.append(pa.table({"id": [1, 2], "region": [region] * 2}))
    made.append(pa.table({"id": [8, 9], "region": ["eu"] * 2}))
    return made


@pytest.mark.parametrize(
    ("filters", "where", "files"),
    [
        ([], None, 3),
        ([EqualTo(("region",), "us")], None, 1),
        ([GreaterThan(("id",), 5)], None, 1),
        ([GreaterThan(("id",), 1)], "region = 'eu'", 2),
        ([GreaterThan(("id",), 5)], "region = 'us'", 0),
        ([EqualTo(("u",), "no uuid")], None, 3),  # cannot be asked, and does no harm
        ([IsNotNull(("u",))], None, 0),
    ],
)
def test_files_are_pruned_by_filters_and_by_the_option(
    table: esker.Table, filters: list[Any], where: str | None, files: int
) -> None:
    plan = pin({"path": table.location, **({"where": where} if where else {})}, None)
    found = [unpacked(part) for part in parts(plan, schema_of(plan), filters)]
    assert sum(len(list(part.request.tasks)) for part in found) == files


def test_a_pinned_scan_stays_with_its_snapshot_and_takes_no_history_along(table: esker.Table) -> None:
    plan = pin({"path": table.location}, None)
    table.append(pa.table({"id": [100], "region": ["eu"]}))
    assert sum(len(list(unpacked(part).request.tasks)) for part in parts(plan, schema_of(plan), [])) == 3
    assert list(pickle.loads(plan).metadata.snapshots) == []


def test_a_snapshot_is_chosen_as_a_scan_chooses_it(table: esker.Table) -> None:
    first = table.snapshots[0]
    table.tag("first", first.snapshot_id)
    table.branch("dev", first.snapshot_id)
    moment = str(first.timestamp_ms)
    for option, value in (
        ("snapshot-id", str(first.snapshot_id)),
        ("tag", "first"),
        ("branch", "dev"),
        ("ref", "first"),
        ("as-of", moment),
        ("as-of-timestamp", moment),
    ):
        plan = pin({"path": table.location, option: value}, None)
        assert sum(len(list(unpacked(part).request.tasks)) for part in parts(plan, schema_of(plan), [])) == 1, option
    with pytest.raises(esker.InvalidInput, match="cannot take both branch and ref: give one"):
        pin({"path": table.location, "branch": "dev", "ref": "first"}, None)
    with pytest.raises(esker.InvalidInput, match="cannot choose a snapshot twice"):
        pin({"path": table.location, "branch": "dev", "snapshot-id": "1"}, None)
    with pytest.raises(esker.NoSuchSnapshot, match="no branch or tag 'gone'"):
        pin({"path": table.location, "ref": "gone"}, None)


def test_small_files_are_read_together_and_large_ones_apart(table: esker.Table, monkeypatch: Any) -> None:
    plan = pin({"path": table.location}, None)
    assert len(parts(plan, schema_of(plan), [])) == 1
    monkeypatch.setattr("esker.spark.source.batch_read._PART_BYTES", 8 << 20)
    assert len(parts(plan, schema_of(plan), [])) == 2
