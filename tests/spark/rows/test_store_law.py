"""What a column cannot hold is refused by every statement: null where it is NOT NULL, numbers too large, odd members.

Spark's Parquet tables are the oracle for numbers: a value that does not fit ends an INSERT in any session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import esker
from esker.errors import InvalidInput
from esker.lake import Lake
from esker.spark.source.register_source import PUSH_DOWN

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ANSI = "spark.sql.ansi.enabled"
NUMBERS = "id bigint, i int, d decimal(4, 2), l array<struct<a: int>>, m map<int, bigint>"
FITS = {
    "i": "CAST(12.7 AS double)",
    "d": "CAST(1.239 AS decimal(9, 3))",
    "l": "array(named_struct('a', 5L), NULL, named_struct('a', CAST(NULL AS bigint)))",
    "m": "map(6L, 7)",
}
TOO_LARGE = (
    ("i", "3000000000L"),
    ("l", "array(named_struct('a', 3000000000L))"),
    ("d", "CAST(123.45 AS decimal(9, 2))"),
    ("d", "3000000000L"),
    ("i", "CAST('NaN' AS double)"),
    ("m", "map(3000000000L, 1L)"),
)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[Lake]:
    """A lake that the session knows, and beside it a database of Spark's own that goes away."""
    made = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    made.create_namespace("s")
    esker.spark.register(spark, made)
    spark.sql(f"CREATE DATABASE store_law LOCATION '{tmp_path}/oracle'")
    yield made
    spark.conf.unset(ANSI)
    spark.conf.unset(PUSH_DOWN)
    spark.sql("DROP DATABASE store_law CASCADE")


def values(given: dict[str, str], names: str) -> str:
    return ", ".join(f"{given.get(name, 'NULL')} AS {name}" for name in names)


def is_refused(run: Any, *args: Any) -> bool:
    """Whether Esker or Spark refuses it; errors of any other kind are not caught."""
    from pyspark.errors import PySparkException

    try:
        run(*args)
    except (InvalidInput, PySparkException):
        return True
    return False


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_number_that_does_not_fit_is_refused_in_any_session(lake: Lake, spark: Any, ansi: str) -> None:
    spark.sql(f"CREATE TABLE store_law.n ({NUMBERS}) USING parquet")
    lake.sql(f"CREATE TABLE s.n ({NUMBERS})")
    spark.conf.set(ANSI, ansi)
    good = f"SELECT 1L AS id, {values(FITS, 'idlm')}"
    spark.sql(f"INSERT INTO store_law.n {good}")
    expected = spark.table("store_law.n").collect()
    merge = "MERGE INTO s.n t USING ({}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    for form in ("INSERT OVERWRITE s.n BY NAME {}", merge):
        lake.sql(form.format(good))
        assert lake.sql("SELECT * FROM s.n").collect() == expected, form
    for name, text in TOO_LARGE if ansi == "false" else TOO_LARGE[:1]:
        query = f"SELECT 1L AS id, {values({name: text}, 'idlm')}"
        assert is_refused(spark.sql, f"INSERT INTO store_law.n {query}"), text
        assert is_refused(lake.sql, f"INSERT INTO s.n {query}"), text
    for name, text in TOO_LARGE[:2]:
        query = f"SELECT 1L AS id, {values({name: text}, 'idlm')}"
        for statement in (f"UPDATE s.n SET {name} = {text}", merge.format(query)):
            assert is_refused(lake.sql, statement), statement
    for statement in ("INSERT INTO s.n (i) SELECT 'abc'", "UPDATE s.n SET i = concat('1', '2')"):
        with pytest.raises(InvalidInput, match="cast it"):
            lake.sql(statement)
    assert lake.sql("SELECT * FROM s.n").collect() == expected


DEEP = (
    "id bigint, r int NOT NULL, v struct<a: int NOT NULL, l: array<struct<x: int NOT NULL>>, "
    "m: map<string, struct<y: int NOT NULL>>, d: struct<z: int NOT NULL>>"
)


def with_null(null: str) -> str:
    """A row in which one value is null, which only the row shows: Spark cannot know it of a random number."""
    of = {name: "IF(rand() < 2, CAST(NULL AS int), 1)" if name == null else "1" for name in "raxyz"}
    return (
        f"SELECT 1L AS id, {of['r']} AS r, named_struct('a', {of['a']}, 'l', array(named_struct('x', {of['x']})), "
        f"'m', map('k', named_struct('y', {of['y']})), 'd', named_struct('z', {of['z']})) AS v"
    )


def test_null_is_refused_where_a_column_or_member_must_have_a_value(lake: Lake, spark: Any) -> None:
    from pyspark.errors import PySparkException

    lake.sql(f"CREATE TABLE s.d ({DEEP})")
    lake.sql("INSERT INTO s.d SELECT 1, 7, NULL")
    statements = [f"INSERT INTO s.d {with_null(null)}" for null in "raxyz"]
    y, merge = with_null("y"), "MERGE INTO s.d t USING ({}) s"
    statements += [
        f"INSERT INTO s.d (v, r) SELECT v, r FROM ({y})",
        f"UPDATE s.d SET v = (SELECT v FROM ({y}))",
        f"{merge.format(y)} ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        f"{merge.format(with_null('r'))} ON t.id = s.id + 1 WHEN NOT MATCHED THEN INSERT *",
    ]
    for statement in statements:
        with pytest.raises(InvalidInput, match="required"):
            lake.sql(statement)
    frame = spark.sql(with_null("x"))
    with pytest.raises(InvalidInput, match="required"):
        lake.table("s.d").append(frame)
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="required"):
            frame.write.format("esker").mode(mode).save("s.d")
    assert lake.table("s.d").scan().to_arrow().to_pylist() == [{"id": 1, "r": 7, "v": None}]


def test_a_null_struct_does_not_take_one_member_where_another_must_have_a_value(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE s.d ({DEEP})")
    lake.sql("INSERT INTO s.d SELECT 1, 7, NULL")
    for statement in ("UPDATE s.d SET v.d.z = 1", "UPDATE s.d SET r = NULL", "INSERT INTO s.d (id) VALUES (1)"):
        with pytest.raises(InvalidInput, match=r"required|must have a value"):
            lake.sql(statement)
    assert lake.table("s.d").scan().to_arrow().to_pylist() == [{"id": 1, "r": 7, "v": None}]


MEMBERS = {
    "missing": "named_struct('a', 1L)",
    "extra": "named_struct('a', 1L, 'b', 2L, 'c', 3L)",
    "twice": "named_struct('a', 1L, 'b', 2L, 'A', 3L)",
    "upper case": "named_struct('B', 2L, 'A', 1L)",
}


@pytest.mark.parametrize("change", MEMBERS)
def test_frames_need_the_members_of_structs_in_lists_and_maps(lake: Lake, spark: Any, change: str) -> None:
    whole = "named_struct('a', 1L, 'b', 2L)"
    columns = "l array<struct<a: bigint, b: bigint>>, m map<string, struct<a: bigint, b: bigint>>"
    spark.sql(f"CREATE TABLE store_law.f ({columns}) USING parquet")
    lake.sql(f"CREATE TABLE s.f ({columns})")
    table = lake.table("s.f")
    for first, second in ((MEMBERS[change], whole), (whole, MEMBERS[change])):
        text = f"SELECT map('k', {second}) AS M, array({first}) AS l"
        frame = spark.sql(text)
        refused = is_refused(spark.sql, f"INSERT INTO store_law.f BY NAME {text}")
        assert refused == (change != "upper case")
        for mode in ("append", "overwrite"):
            assert is_refused(frame.write.format("esker").mode(mode).save, "s.f") == refused, mode
        assert is_refused(table.refresh().append, frame) == refused
    row = {"l": [{"a": 1, "b": 2}], "m": [("k", {"a": 1, "b": 2})]}
    found = table.refresh().scan().to_arrow().to_pylist()
    assert found == ([] if change != "upper case" else [row, row])
