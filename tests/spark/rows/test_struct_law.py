"""Structs are written as Spark's own tables take them: by place, or by the names of their members, or not at all.

Spark's Parquet tables are the oracle for INSERT. UPDATE and MERGE align members as ``INSERT … BY NAME`` does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import esker
from esker.errors import InvalidInput
from esker.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True, slots=True)
class Made:
    """A type, and a value of it that may have its members named and placed otherwise."""

    type: str
    value: str


def made(chance: random.Random, depth: int, *, leaf: int, change: str) -> Made:
    """A struct of two or three members, some nested; ``change`` is what becomes of one struct's members."""
    names = ["a", "b", "c"][: chance.randint(2, 3)]
    inner = chance.choice(names) if depth else ""
    here = chance.random() < 0.5 or not depth
    members = []
    for at, name in enumerate(names):
        if name == inner:
            member = wrapped(chance, made(chance, depth - 1, leaf=leaf * 10, change="" if here else change))
        else:
            member = Made("bigint", f"{leaf + at}")
        members.append((name, member))
    type_ = f"struct<{', '.join(f'{name}: {one.type}' for name, one in members)}>"
    given = changed(chance, members, change if here else "")
    return Made(type_, f"named_struct({', '.join(f'{name!r}, {one.value}' for name, one in given)})")


def wrapped(chance: random.Random, one: Made) -> Made:
    match chance.randint(0, 3):
        case 0:
            return Made(f"array<{one.type}>", f"array({one.value}, NULL)")
        case 1:
            return Made(f"map<string, {one.type}>", f"map('k', {one.value})")
        case _:
            return one


def changed(chance: random.Random, members: list[tuple[str, Made]], change: str) -> list[tuple[str, Made]]:
    match change:
        case "order":
            return members[1:] + members[:1]
        case "case":
            return [(name.upper(), one) for name, one in reversed(members)]
        case "name":
            return [(("x" if at == 0 else name), one) for at, (name, one) in enumerate(members)]
        case "missing":
            return members[:-1]
        case "extra":
            return [*members, ("x", Made("bigint", "9"))]
        case _:
            return members


@pytest.fixture
def both(spark: Any, tmp_path: Path) -> Iterator[tuple[Lake, Any]]:
    """A lake, and beside it a database of Spark's own that goes away."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("s")
    spark.sql(f"CREATE DATABASE struct_law LOCATION '{tmp_path}/oracle'")
    yield lake, spark
    spark.sql("DROP DATABASE struct_law CASCADE")


def rows_of(run: Any, statement: str, table: str) -> str:
    """What the table holds after the statement; that it was refused, otherwise."""
    from pyspark.errors import AnalysisException

    try:
        run(statement)
    except (InvalidInput, AnalysisException):
        return "refused"
    return repr(sorted(map(repr, run(f"SELECT * FROM {table}").collect())))


CHANGES = ("", "order", "case", "name", "missing", "extra")


@pytest.mark.parametrize("change", CHANGES)
def test_structs_are_written_as_sparks_own_tables_take_them(both: tuple[Lake, Any], change: str) -> None:
    lake, spark = both
    chance = random.Random(f"structs {change}")
    seen = set()
    for at in range(2):
        one = made(chance, 2, leaf=1, change=change)
        mine, theirs = f"s.t{at}", f"struct_law.t{at}"
        spark.sql(f"CREATE TABLE {theirs} (id bigint, v {one.type}) USING parquet")
        lake.sql(f"CREATE TABLE {mine} (id bigint, v {one.type})")
        by_name = ""
        for form in (
            f"INSERT OVERWRITE {{t}} SELECT 1 AS id, {one.value} AS v UNION ALL SELECT 2, NULL",
            f"INSERT OVERWRITE {{t}} (v, id) SELECT {one.value}, 1",
            f"INSERT OVERWRITE {{t}} BY NAME SELECT {one.value} AS v, 1 AS id",
        ):
            by_name = rows_of(spark.sql, form.format(t=theirs), theirs)
            assert rows_of(lake.sql, form.format(t=mine), mine) == by_name, (form, one)
        seen.add(by_name == "refused")
        source = f"(SELECT 1 AS id, {one.value} AS v) s"
        forms = [
            f"UPDATE {mine} SET v = {one.value}",
            f"MERGE INTO {mine} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            f"MERGE INTO {mine} t USING {source} ON t.id = s.id + 1 WHEN NOT MATCHED THEN INSERT *",
        ]
        if "map<" not in one.type and "array<" not in one.type:  # Spark runs no query within a function over lists
            forms.append(f"UPDATE {mine} SET v = (SELECT max({one.value}) FROM s.one)")
        for form in forms:
            lake.sql("CREATE TABLE IF NOT EXISTS s.one AS SELECT 1 AS one")
            start = "1 AS id" if "NOT MATCHED" not in form else "5 AS id"
            lake.sql(f"INSERT OVERWRITE {mine} SELECT {start}, NULL AS v")
            found = rows_of(lake.sql, form, f"{mine} WHERE id = 1")
            assert found == by_name, (form, one)
    assert seen == {change in ("name", "missing", "extra")}


@pytest.mark.parametrize("change", ["", "order", "name", "extra"])
def test_data_of_dataframes_goes_by_name_too(both: tuple[Lake, Any], change: str) -> None:
    lake, spark = both
    chance = random.Random(f"frames {change}")
    one = made(chance, 2, leaf=1, change=change)
    spark.sql(f"CREATE TABLE struct_law.f (id bigint, v {one.type}) USING parquet")
    lake.sql(f"CREATE TABLE s.f (id bigint, v {one.type})")
    value = one.value.replace(", NULL)", ")")  # PySpark gives no Arrow data of a null beside a struct
    text = f"SELECT {value} AS v, 1 AS id"
    expected = rows_of(spark.sql, f"INSERT INTO struct_law.f BY NAME {text}", "struct_law.f")
    table = lake.table("s.f")
    frame = spark.sql(text)
    verbs = {
        "append": lambda: table.append(frame),
        "append Arrow": lambda: table.append(frame.toArrow()),
        "upsert": lambda: table.upsert(frame, on=["id"]),
        "merge": lambda: table.merge(frame, "t.id = s.id").when_not_matched_insert("*").commit(),
    }
    for name, verb in verbs.items():
        lake.sql("TRUNCATE TABLE s.f")
        table.refresh()
        assert rows_of(lambda text, verb=verb: lake.sql(text) if text else verb(), "", "s.f") == expected, name
