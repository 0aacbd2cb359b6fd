"""CACHE TABLE never hides a commit, ANALYZE TABLE is refused by name, and EXPLAIN of a change writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_lakes import lake_of, read_in

import esker
from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.spark.rows.resolve_expressions import Scope
from esker.spark.sql.grammar.statements import CacheTable, Explain, Foreign, Query


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    found = esker.connect(str(tmp_path), spark=spark)
    found.create_namespace("n")
    table = found.create_table("n.t", "id bigint, d string", partition_by=["d"])
    for day in ("a", "b", "c"):
        table.append({"id": [1, 2], "d": [day, day]})
    return found


def ids(lake: Lake, text: str = "SELECT id FROM n.t ORDER BY id, d") -> list[int]:
    return [row[0] for row in lake.sql(text).collect()]


def is_cached(lake: Lake, text: str = "SELECT * FROM n.t") -> bool:
    return "InMemoryRelation" in lake.sql(f"EXPLAIN {text}").head()[0]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("lazy", ["", "LAZY "])
def test_a_cached_table_shows_every_commit(lake: Lake, tmp_path: Path, lazy: str) -> None:
    """Of this lake, and of another; after each the table is cached as it is then."""
    lake.sql(f"CACHE {lazy}TABLE n.t")
    try:
        assert is_cached(lake)
        assert is_cached(lake, "SELECT id FROM lake.n.t WHERE d = 'a'")
        assert ids(lake) == [1, 1, 1, 2, 2, 2]
        lake.sql("INSERT INTO n.t VALUES (3, 'a')")
        assert ids(lake) == [1, 1, 1, 2, 2, 2, 3]
        assert is_cached(lake)
        esker.connect(str(tmp_path)).table("n.t").delete("id = 1")
        assert ids(lake) == [2, 2, 2, 3]
        assert ids(lake, "SELECT id FROM n.t WHERE d = 'a' ORDER BY id") == [2, 3]
        first = lake.table("n.t").history[0].snapshot_id
        assert ids(lake, f"SELECT id FROM n.t VERSION AS OF {first}") == [1, 2]
        assert not is_cached(lake, f"SELECT id FROM n.t VERSION AS OF {first}")
        lake.sql("ALTER TABLE n.t ADD COLUMN more bigint")
        assert lake.sql("SELECT * FROM n.t").columns == ["id", "d", "more"]
        lake.sql("REFRESH TABLE n.t")
        assert is_cached(lake)
    finally:
        lake.sql("UNCACHE TABLE n.t")
    assert not is_cached(lake)
    lake.sql("UNCACHE TABLE IF EXISTS n.none")
    with pytest.raises(NoSuchTable):
        lake.sql("UNCACHE TABLE n.none")


@pytest.mark.spark
@pytest.mark.slow
def test_the_rows_of_a_query_are_cached_under_a_name(lake: Lake, spark: Any) -> None:
    lake.sql("CACHE TABLE kept OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT id FROM n.t WHERE d = 'a'")
    try:
        assert is_cached(lake, "SELECT * FROM kept")
        lake.sql("INSERT INTO n.t VALUES (9, 'a')")
        assert ids(lake, "SELECT id FROM kept ORDER BY id") == [1, 2]  # a temporary view, of the table as it was
    finally:
        lake.sql("UNCACHE TABLE kept")
        spark.catalog.dropTempView("kept")
    with pytest.raises(Unsupported, match="only a whole table can be cached; CACHE TABLE name AS SELECT"):
        lake.sql("CACHE TABLE n.t.files")
    with pytest.raises(InvalidInput, match="storage level 'NOWHERE'"):
        lake.sql("CACHE TABLE n.t OPTIONS ('storageLevel' 'NOWHERE')")
    lake.sql("CACHE TABLE n.t")
    lake.sql("CLEAR CACHE")
    assert not is_cached(lake)


def test_statements_are_read_as_what_they_are() -> None:
    lake = lake_of({"n.t": ("id bigint", [{"id": [1]}], ())})
    assert isinstance(read_in(lake, "CACHE TABLE n.t"), CacheTable)
    assert isinstance(read_in(lake, "CACHE TABLE default.own"), Foreign)
    assert isinstance(read_in(lake, "EXPLAIN SELECT * FROM n.t"), Query)
    assert isinstance(read_in(lake, "EXPLAIN COST WITH c AS (SELECT 1 AS x) SELECT * FROM c, n.t"), Query)
    assert isinstance(read_in(lake, "EXPLAIN DROP TABLE default.own"), Foreign)
    explained = read_in(
        lake, "EXPLAIN EXTENDED WITH c AS (SELECT 1 AS x) DELETE FROM n.t WHERE id IN (SELECT x FROM c)"
    )
    assert isinstance(explained, Explain)
    assert explained.kind == "extended"
    with pytest.raises(Unsupported, match="cannot do EXPLAIN DROP"):
        read_in(lake, "EXPLAIN DROP TABLE n.t")
    with pytest.raises(Unsupported, match=r"cannot do ANALYZE TABLE \(at line 1, column 15\): every file of n.t") as no:
        read_in(lake, "ANALYZE TABLE n.t COMPUTE STATISTICS FOR ALL COLUMNS")
    assert no.value.facts["place"] == "line 1, column 15"
    assert isinstance(read_in(lake, "ANALYZE TABLE default.own COMPUTE STATISTICS"), Foreign)


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        ("DELETE FROM n.t WHERE d = 'a'", ["DELETE n.t", "mode       copy-on-write", "dropped    1 files as a whole"]),
        ("DELETE FROM n.t AS x WHERE x.id = 1 AND d < 'c'", ["dropped    0 files", "files      2 of 3 to read"]),
        ("DELETE FROM n.t WHERE d = 'b' AND id + 1 > 2", ["files      1 of 3 to read", "filter     d = 'b'"]),
        ("DELETE FROM n.t", ["files      all of them, by metadata alone"]),
        ("TRUNCATE TABLE n.t", ["files      all of them, by metadata alone"]),
        ("TRUNCATE TABLE n.t PARTITION (d = 'a')", ["dropped    1 files as a whole", "files      1 of 3 to read"]),
        ("UPDATE n.t SET id = id + 1 WHERE d IN ('a', 'c')", ["UPDATE n.t", "files      2 of 3 to read"]),
        (
            "MERGE INTO n.t USING (SELECT 1L AS id) s ON t.id = s.id AND t.d = 'a' WHEN MATCHED THEN DELETE",
            ["MERGE n.t", "clause     WHEN MATCHED THEN DELETE", "files      1 of 3 to read"],
        ),
        (
            "MERGE INTO n.t USING (SELECT 1L AS id) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
            ["clause     WHEN NOT MATCHED BY SOURCE THEN DELETE", "reads      every file"],
        ),
        ("INSERT INTO n.t SELECT 5, 'z'", ["INSERT n.t", "branch     main", "replaces   nothing: new files only"]),
        ("INSERT OVERWRITE n.t PARTITION (d = 'a') SELECT 5", ["INSERT OVERWRITE n.t", "the partition d = 'a'"]),
        ("INSERT INTO n.t REPLACE WHERE d = 'a' SELECT 5, 'a'", ["replaces   the rows", "files      1 of 3 to read"]),
        ("CREATE TABLE n.u PARTITIONED BY (d) AS SELECT * FROM n.t", ["CREATE TABLE n.u AS SELECT", "layout     d"]),
        ("REPLACE TABLE n.t AS SELECT 1 AS x", ["REPLACE TABLE n.t AS SELECT"]),
    ],
)
def test_an_explained_change_says_what_it_would_do_and_does_nothing(
    lake: Lake, tmp_path: Path, statement: str, lines: list[str]
) -> None:
    before = files_of(tmp_path)
    found = lake.sql(f"EXPLAIN FORMATTED {statement}")
    assert found.columns == ["plan"]
    (row,) = found.collect()
    for line in lines:
        assert line in row.plan, row.plan
    assert row.plan.startswith("== Esker Plan ==\n")
    assert ("== Physical Plan ==" in row.plan) == ("all of them" not in lines[0])
    assert files_of(tmp_path) == before
    assert lake.tables() == ["n.t"]


@pytest.mark.spark
@pytest.mark.slow
def test_explain_shows_the_query_that_a_change_runs(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = Scope.query

    def query(self: Scope, template: str) -> Any:
        asked.append(template)
        return real(self, template)

    monkeypatch.setattr(Scope, "query", query)
    for statement in (
        "MERGE INTO n.t USING (SELECT 1L AS id, 'z' AS d) s ON t.id = s.id WHEN MATCHED AND t.d = 'a' THEN UPDATE SET "
        "d = s.d WHEN NOT MATCHED THEN INSERT *",
        "UPDATE n.t SET id = id + 1 WHERE upper(d) = 'A'",
        "DELETE FROM n.t WHERE id IN (SELECT id + 1 FROM n.t)",
    ):
        plan = lake.sql(f"EXPLAIN FORMATTED {statement}").head()[0]
        explained = asked[-1].lower().removeprefix("explain formatted ")
        assert explained != asked[-1].lower()
        assert "== Physical Plan ==" in plan
        asked.clear()
        lake.sql(statement)
        assert asked[-1].lower() == explained
        asked.clear()


@pytest.mark.spark
@pytest.mark.slow
def test_an_explained_change_of_a_table_in_audit_makes_no_branch(lake: Lake, spark: Any) -> None:
    lake.sql("ALTER TABLE n.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.branch", "audit")
    try:
        lake.sql("EXPLAIN DELETE FROM n.t WHERE id = 1")
        assert list(lake.table("n.t").refs) == ["main"]
    finally:
        spark.conf.unset("spark.wap.branch")


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_change_would_refuse_its_explanation_refuses(lake: Lake) -> None:
    with pytest.raises(NoSuchTable):
        lake.sql("EXPLAIN DELETE FROM n.none WHERE id = 1")
    with pytest.raises(InvalidInput, match=r"ON, 't\.id = s\.none' .*is not understood"):
        lake.sql("EXPLAIN MERGE INTO n.t USING (SELECT 1 AS id) s ON t.id = s.none WHEN MATCHED THEN DELETE")
    with pytest.raises(esker.EskerError, match="it exists already"):
        lake.sql("EXPLAIN CREATE TABLE n.t AS SELECT 1 AS id")
    assert (
        "nothing: the table is there already"
        in (lake.sql("EXPLAIN CREATE TABLE IF NOT EXISTS n.t AS SELECT 1 AS id").head()[0])
    )
