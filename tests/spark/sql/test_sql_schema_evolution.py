"""MERGE and INSERT WITH SCHEMA EVOLUTION: columns of the source come with its rows, in one commit or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import esker
from esker.errors import InvalidInput
from esker.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.spark]

BOTH = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


MODES = pytest.mark.parametrize("lake", ["copy-on-write", "merge-on-read"], indirect=True)


@pytest.fixture
def lake(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    mode = getattr(request, "param", "merge-on-read")
    lake.sql("CREATE NAMESPACE s")
    lake.sql(
        f"""CREATE TABLE s.t (id int, dep string, home struct<c1: int, c2: string>, tags array<struct<a: int>>)
        TBLPROPERTIES ('write.merge.mode' = '{mode}', 'write.update.mode' = '{mode}')"""
    )
    lake.sql(
        """INSERT INTO s.t VALUES (1, 'hr', named_struct('c1', 10, 'c2', 'a'), array(named_struct('a', 1))),
        (2, 'it', named_struct('c1', 20, 'c2', 'b'), NULL)"""
    )
    return lake


def rows(lake: Lake, text: str = "SELECT * FROM s.t ORDER BY id") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


def merged(lake: Lake, source: str, clauses: str = BOTH, on: str = "t.id = s.id") -> None:
    lake.sql(f"MERGE WITH SCHEMA EVOLUTION INTO s.t AS t USING ({source}) AS s ON {on} {clauses}")


@MODES
def test_columns_and_members_of_the_source_come_with_its_rows(lake: Lake) -> None:
    before = len(lake.table("s.t").metadata.metadata_log)
    merged(
        lake,
        """SELECT id, dep, named_struct('c3', c, 'c2', 'z', 'c1', 5000000000) AS home,
        array(named_struct('b', 'q', 'a', 7)) AS tags, c AS salary
        FROM VALUES (1, 'hr', 100), (3, 'fin', 300) AS v(id, dep, c)""",
    )
    assert rows(lake) == [
        (1, "hr", (5000000000, "z", 100), [(7, "q")], 100),
        (2, "it", (20, "b", None), None, None),
        (3, "fin", (5000000000, "z", 300), [(7, "q")], 300),
    ]
    table = lake.table("s.t")
    assert len(table.metadata.metadata_log) == before + 1
    assert table.current_snapshot is not None
    assert table.current_snapshot.schema_id == table.schema.schema_id


def test_what_the_source_lacks_stays_and_a_new_row_has_null(lake: Lake) -> None:
    merged(lake, "SELECT * FROM VALUES (1, 'x'), (3, 'y') AS v(id, dep)")
    assert rows(lake, "SELECT id, dep, home.c1 FROM s.t ORDER BY id") == [(1, "x", 10), (2, "it", 20), (3, "y", None)]
    with pytest.raises(InvalidInput, match="no member 'c2'"):
        merged(lake, "SELECT 1 AS id, named_struct('c1', 1) AS home")


def test_a_column_that_only_the_source_has_may_be_set_by_name(lake: Lake) -> None:
    merged(
        lake,
        "SELECT * FROM VALUES (1, 100, 5), (3, 300, 6) AS v(id, salary, other)",
        """WHEN MATCHED AND salary > 50 THEN UPDATE SET salary = s.salary
        WHEN NOT MATCHED THEN INSERT (id, salary) VALUES (s.id, s.salary)""",
        on="t.id = s.id AND salary < 1000",
    )
    assert rows(lake, "SELECT id, salary FROM s.t ORDER BY id") == [(1, 100), (2, None), (3, 300)]
    assert "other" not in lake.table("s.t").schema.id_by_name
    with pytest.raises(InvalidInput, match="other"):
        merged(lake, "SELECT 1 AS id, 2 AS other", "WHEN MATCHED THEN UPDATE SET other = s.other + 1")
    merged(lake, "SELECT 1 AS id, named_struct('c9', 9) AS home", "WHEN MATCHED THEN UPDATE SET home.c9 = s.home.c9")
    assert rows(lake, "SELECT home.c1, home.c9 FROM s.t WHERE id = 1") == [(10, 9)]


def test_a_merge_that_fails_adds_no_column_and_without_the_words_none_is_added(lake: Lake) -> None:
    before = lake.table("s.t").metadata_location
    with pytest.raises(InvalidInput, match="several rows of the source match"):
        merged(lake, "SELECT * FROM VALUES (1, 1), (1, 2) AS v(id, salary)")
    with pytest.raises(InvalidInput, match="is of type string"):
        merged(lake, "SELECT 'a' AS id, 1 AS salary", on="false")
    source = "(SELECT 1 AS id, 'x' AS dep, t.home, t.tags, 5 AS salary FROM s.t WHERE id = 1)"
    assert lake.table("s.t").metadata_location == before
    lake.sql(f"MERGE INTO s.t USING {source} AS s ON t.id = s.id {BOTH}")
    lake.sql("ALTER TABLE s.t SET TBLPROPERTIES ('write.spark.auto-schema-evolution.enabled' = 'false')")
    lake.sql(f"MERGE WITH SCHEMA EVOLUTION INTO s.t USING {source} AS s ON t.id = s.id {BOTH}")
    assert "salary" not in lake.table("s.t").schema.id_by_name


def test_the_builder_takes_arrow_and_adds_columns(lake: Lake) -> None:
    table = lake.table("s.t")
    merge = table.merge([{"id": 2, "salary": 7}], on="t.id = s.id").when_matched_update("*")
    assert merge.with_schema_evolution().commit() is not None
    assert rows(lake, "SELECT id, dep, salary FROM s.t ORDER BY id") == [(1, "hr", None), (2, "it", 7)]


def test_an_insert_brings_columns_by_place_and_by_name(lake: Lake) -> None:
    lake.sql("INSERT WITH SCHEMA EVOLUTION INTO s.t SELECT 3000000000, 'x', NULL, NULL, 1.5D AS score")
    lake.sql(
        """INSERT WITH SCHEMA EVOLUTION INTO s.t BY NAME
        SELECT named_struct('c2', 'k', 'c1', 1, 'c4', 4) AS home, 4 AS id, true AS ok"""
    )
    lake.sql("WITH c AS (SELECT 5 AS id) INSERT WITH SCHEMA EVOLUTION INTO s.t BY NAME SELECT id, 'v' AS more FROM c")
    assert rows(lake, "SELECT id, score, home.c4, ok, more FROM s.t ORDER BY id") == [
        (1, None, None, None, None),
        (2, None, None, None, None),
        (4, None, 4, True, None),
        (5, None, None, None, "v"),
        (3000000000, 1.5, None, None, None),
    ]
    lake.sql("INSERT WITH SCHEMA EVOLUTION OVERWRITE s.t BY NAME SELECT 9 AS id, 1 AS last")
    assert rows(lake, "SELECT id, last FROM s.t") == [(9, 1)]
    with pytest.raises(InvalidInput, match="has no column 'nothing'"):
        lake.sql("INSERT INTO s.t BY NAME SELECT 1 AS nothing")
