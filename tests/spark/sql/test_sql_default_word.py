"""DEFAULT as a value in INSERT, UPDATE and MERGE: the column's default, or null; refused inside an expression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_lakes import lake_of, read_in

import esker
from esker.errors import InvalidInput
from esker.lake import Lake
from esker.spark.sql.changes.insert_rows import query_of
from esker.spark.sql.grammar import statements as said


@pytest.fixture(scope="module")
def plain() -> Lake:
    lake = lake_of({})
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint, x int default 42, y string default 'it''s', k int not null", format_version=3)
    return lake


def replaced(lake: Lake, text: str) -> str:
    statement = read_in(lake, text)
    assert isinstance(statement, said.Insert)
    query = query_of(lake.table("s.t"), statement)
    assert query.text[query.body.start : query.body.end] == query.text.strip()
    return query.text.strip()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (
            "insert into s.t values (default, DEFAULT, Default, 1), (2, 3, (default), 4)",
            "values (CAST(NULL AS bigint), CAST(42 AS int), CAST('it\\'s' AS string), 1), "
            "(2, 3, (CAST('it\\'s' AS string)), 4)",
        ),
        ("insert into s.t (k, x) values (1, default)", "values (1, CAST(42 AS int))"),
        ("insert into s.t (x) values default, 5", "values CAST(42 AS int), 5"),
        (
            "insert into s.t select f(1, 2), default, 'default', `default` from u where a > 1",
            "select f(1, 2), CAST(42 AS int), 'default', `default` from u where a > 1",
        ),
        ("insert into s.t (select 1, default, 'a', 2)", "(select 1, CAST(42 AS int), 'a', 2)"),
        ("insert into s.t select 1, u.default, 'a', 2 from u", "select 1, u.default, 'a', 2 from u"),
        ("insert into s.t select 1, default union select 2, 3", "select 1, default union select 2, 3"),
        ("insert into s.t select 1, (select default from u), 'a', 2", "select 1, (select default from u), 'a', 2"),
    ],
)
def test_a_default_is_replaced_by_the_value_of_its_column(plain: Lake, text: str, query: str) -> None:
    assert replaced(plain, text) == query


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("insert into s.t values (1, default + 1, 'a', 1)", "it must be the whole value", "line 1, column 28"),
        ("insert into s.t values\n (1, cast(default as int), 'a', 1)", "the whole value", "line 2, column 11"),
        ("insert into s.t select 1, default as x, 'a', 1", "it must be the whole value", "line 1, column 27"),
        ("insert into s.t by name select 1 as id, default", "taken by name, and it has none", "line 1, column 41"),
        ("insert into s.t select *, default from u", r"it is behind \*", "line 1, column 27"),
    ],
)
def test_a_default_that_is_no_whole_value_is_refused_with_its_place(
    plain: Lake, text: str, message: str, place: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        replaced(plain, text)
    assert refusal.value.place == place


def test_a_column_that_needs_a_value_has_no_null_for_a_default(plain: Lake) -> None:
    with pytest.raises(InvalidInput, match="column 'k' must have a value, and its DEFAULT is null"):
        replaced(plain, "insert into s.t values (1, 2, 'a', default)")


@pytest.mark.slow
@pytest.mark.spark
def test_every_change_of_rows_takes_defaults(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE s")
    lake.sql(
        "CREATE TABLE s.t (id bigint, x int DEFAULT 42, day date DEFAULT DATE '2026-01-02', y string) "
        "TBLPROPERTIES ('format-version' = '3')"
    )

    def rows() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql("SELECT id, x, CAST(day AS string), y FROM s.t ORDER BY id").collect()]

    lake.sql("INSERT INTO s.t VALUES (1, DEFAULT, DEFAULT, DEFAULT), (2, 7, NULL, 'b'), (3, 8, NULL, 'c')")
    assert rows() == [(1, 42, "2026-01-02", None), (2, 7, None, "b"), (3, 8, None, "c")]
    lake.sql("UPDATE s.t SET x = DEFAULT, y = (DEFAULT) WHERE id = 2")
    assert rows()[1] == (2, 42, None, None)
    lake.sql(
        """MERGE INTO s.t USING (SELECT id, 5 AS `default` FROM VALUES (3), (4) AS v(id)) AS u ON t.id = u.id
        WHEN MATCHED THEN UPDATE SET t.x = DEFAULT, day = DEFAULT
        WHEN NOT MATCHED THEN INSERT (id, x, y) VALUES (u.id, DEFAULT, DEFAULT)"""
    )
    assert rows()[2:] == [(3, 42, "2026-01-02", "c"), (4, 42, "2026-01-02", None)]
    before = len(lake.table("s.t").snapshots)
    with pytest.raises(InvalidInput, match=r"cannot update DEFAULT \(at line 1, column 20\): it must be the whole"):
        lake.sql("UPDATE s.t SET x = DEFAULT + 1")
    assert len(lake.table("s.t").snapshots) == before
