"""DELETE, UPDATE and MERGE INTO as SQL: any expression of Spark's, lake tables in subqueries, one snapshot each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import esker
from esker.errors import InvalidInput
from esker.lake import Lake


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE s")
    lake.sql(
        """CREATE TABLE s.orders (id bigint, region string, qty int) PARTITIONED BY (region)
        TBLPROPERTIES ('write.merge.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read')"""
    )
    lake.sql("INSERT INTO s.orders VALUES (1, 'eu', 1), (2, 'us', 2), (3, 'eu', 3), (4, 'us', 4)")
    lake.sql("CREATE TABLE s.news (id int, region string, qty int)")
    lake.sql("INSERT INTO s.news VALUES (2, 'us', 20), (3, 'asia', 30), (9, 'eu', 90)")
    return lake


def rows(lake: Lake, text: str = "SELECT * FROM s.orders ORDER BY id") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


def test_a_merge_of_a_lake_table_does_every_clause_in_order(lake: Lake) -> None:
    answer = rows(
        lake,
        """MERGE INTO s.orders o USING s.news ON o.id = news.id
        WHEN MATCHED AND news.region = 'asia' THEN DELETE
        WHEN MATCHED THEN UPDATE SET qty = o.qty + news.qty, region = CASE WHEN o.id = 2 THEN upper(o.region) END
        WHEN NOT MATCHED AND news.id IN (SELECT max(id) FROM s.news) THEN INSERT (id, qty) VALUES (news.id, -1)
        WHEN NOT MATCHED BY SOURCE AND o.region = 'eu' THEN UPDATE SET qty = 0
        WHEN NOT MATCHED BY SOURCE THEN DELETE""",
    )
    assert [row[0] for row in answer] == ["overwrite"]
    assert rows(lake) == [(1, "eu", 0), (2, "US", 22), (9, None, -1)]
    assert len(lake.table("s.orders").snapshots) == 2


def test_a_merge_of_a_query_inserts_and_updates_by_name(lake: Lake) -> None:
    lake.sql(
        """MERGE INTO s.orders AS t USING (SELECT qty, id, region FROM s.news WHERE id <> 3) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert rows(lake) == [(1, "eu", 1), (2, "us", 20), (3, "eu", 3), (4, "us", 4), (9, "eu", 90)]


@pytest.mark.parametrize("source", ["fresh", "(SELECT * FROM fresh WHERE id < 9)"])
def test_a_merge_takes_its_source_from_ctes_before_it(lake: Lake, source: str) -> None:
    lake.sql(
        f"""WITH few AS (SELECT * FROM s.news WHERE id <> 3), fresh AS (SELECT id, qty FROM few)
        MERGE INTO s.orders o USING {source} AS f ON o.id = f.id WHEN MATCHED THEN UPDATE SET qty = f.qty
        WHEN NOT MATCHED THEN INSERT (id, qty) VALUES (f.id, f.qty)"""
    )
    new = [(9, None, 90)] if source == "fresh" else []
    assert rows(lake) == [(1, "eu", 1), (2, "us", 20), (3, "eu", 3), (4, "us", 4), *new]


def test_an_update_sets_by_subqueries_and_functions(lake: Lake) -> None:
    lake.sql(
        """UPDATE s.orders SET qty = (SELECT max(qty) FROM s.news n WHERE n.id = orders.id), region = 'x' || region
        WHERE id IN (SELECT id FROM s.news) AND region <> 'none'"""
    )
    assert rows(lake) == [(1, "eu", 1), (2, "xus", 20), (3, "xeu", 30), (4, "us", 4)]
    lake.sql("UPDATE s.orders AS o SET qty = o.qty * 2")
    assert rows(lake, "SELECT sum(qty) FROM s.orders") == [(110,)]
    assert rows(lake, "UPDATE s.orders SET qty = 1 WHERE id = 77") == []


def test_a_delete_takes_subqueries_and_functions(lake: Lake) -> None:
    lake.sql("DELETE FROM s.orders o WHERE EXISTS (SELECT 1 FROM s.news n WHERE n.id = o.id) OR abs(o.id) = 1")
    assert rows(lake) == [(4, "us", 4)]
    assert rows(lake, "SELECT record_count FROM s.orders.delete_files") == [(1,)]  # the other file left as a whole


def test_a_branch_is_changed_alone(lake: Lake) -> None:
    lake.sql("ALTER TABLE s.orders CREATE BRANCH work")
    lake.sql("MERGE INTO s.orders.branch_work o USING s.news n ON o.id = n.id WHEN MATCHED THEN DELETE")
    assert len(rows(lake)) == 4
    assert rows(lake, "SELECT id FROM s.orders.branch_work ORDER BY id") == [(1,), (4,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UPDATE s.orders SET qty = nosuch", r"the value of 'qty' in UPDATE, 'nosuch' \(at line 1, column 27\)"),
        ("UPDATE s.orders SET nosuch = 1", r"cannot update \(at line 1, column 30\): no column 'nosuch'"),
        ("UPDATE s.orders SET qty = 'a' WHERE id", "'id' .* is no condition but a value of type long"),
        ("UPDATE s.orders SET qty = 1, qty = 2", r"cannot set column 'qty' twice \(at line 1, column 36\)"),
        (
            "MERGE INTO s.orders USING s.news n ON orders.id = n.id\nWHEN MATCHED AND n.nope THEN DELETE",
            r"the condition of WHEN MATCHED, 'n.nope' \(at line 2, column 18\), is not understood",
        ),
        ("MERGE INTO s.orders USING s.orders ON true WHEN MATCHED THEN DELETE", "are both called orders"),
        ("DELETE FROM s.orders WHERE id IN (SELECT id FROM s.nothing)", "nothing"),
        (
            "MERGE INTO s.orders o USING (SELECT 2 AS id UNION ALL SELECT 2) n ON o.id = n.id "
            "WHEN MATCHED AND o.id > 0 THEN DELETE",
            "several rows of the source match one row of the table where id = 2",
        ),
    ],
)
def test_what_cannot_be_done_is_said_with_its_place_and_leaves_the_table(lake: Lake, text: str, message: str) -> None:
    with pytest.raises(esker.EskerError, match=message) as refusal:
        lake.sql(text)
    assert isinstance(refusal.value, InvalidInput | esker.NoSuchTable)
    assert len(lake.table("s.orders").snapshots) == 1
