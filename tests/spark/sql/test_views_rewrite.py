"""Views in queries, before Spark is asked: what becomes of the text, what is pruned, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sql_lakes import FakeSpark, lake_of, only_scan, rewritten

from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.tree.view_metadata import SqlRepresentation, ViewVersion
from esker.wiring import lake_over
from esker.write.views.make_view import make_view
from esker.write.views.view_versions import QUERY_COLUMNS, commit_view


@pytest.fixture
def lake() -> Lake:
    """A table of which every row is a file, so that what is pruned can be counted in rows."""
    rows = [{"id": [n], "region": ["eu" if n % 2 else "us"]} for n in range(8)]
    lake = lake_of({"sales.orders": ("id bigint, region string", rows, ()), "other.orders": ("id bigint", [], ())})
    _view(lake, "sales.europe", "SELECT id, region FROM orders WHERE region = 'eu' -- all of it")
    return lake


def _view(lake: Lake, name: str, sql: str, columns: str = "id bigint, region string", *, known: str = "") -> None:
    properties = {QUERY_COLUMNS: known} if known else {}
    lake.create_view(name, sql, schema=columns, properties=properties)


def _foreign_view(lake: Lake, name: str, sql: str, columns: str) -> None:
    """A view as another engine makes it, whatever its query."""
    made = TableName.parse(name)
    make_view(
        lake.catalog,
        made,
        sql,
        columns=columns,
        is_analysed=False,
        namespace=made.namespace,
        properties={},
        replaces=False,
    )


def _change(lake: Lake, name: str, **changes: Any) -> None:
    """The current version as another engine would have made it."""

    def changed(version: ViewVersion) -> ViewVersion:
        return replace(version, **changes)

    commit_view(
        lake.catalog.view_catalog(),
        TableName.parse(name),
        lambda base: replace(base, versions=tuple(map(changed, base.versions))),
    )


def _kept(lake: Lake, text: str, **seen: Any) -> int:
    return only_scan(rewritten(lake, text, **seen)).plan().funnel.files_kept


def test_a_view_becomes_its_query_under_its_columns(lake: Lake) -> None:
    assert rewritten(lake, "select * from sales.europe e").template == (
        "select * from (SELECT * FROM (\nSELECT id, region FROM {esker_0} AS orders WHERE region = 'eu'\n"
        ") AS europe(id, region)) e"
    )
    _view(lake, "sales.renamed", "SELECT id, region FROM orders", "key bigint, region string", known="id,region")
    assert rewritten(lake, "select key from sales.renamed").template == (
        "select key from (SELECT id AS key, region FROM (\nSELECT id, region FROM {esker_0} AS orders\n"
        ") AS renamed) AS renamed"
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("table sales.europe", "(SELECT * FROM (\n"),
        ("(table sales.europe) union all select 1, 'x'", "((SELECT * FROM (\n"),
        ("from sales.europe select id", "from (SELECT * FROM (\n"),
        ("select sales.europe.id from sales.europe", "select europe.id from (SELECT * FROM (\n"),
        ("SELECT * FROM Sales.EUROPE", "SELECT * FROM (SELECT * FROM (\n"),
        ("explain select * from sales.europe", "explain select * from (SELECT * FROM (\n"),
        ("with europe as (select 1) select * from sales.europe", "with europe as (select 1) select * from (SELECT *"),
    ],
)
def test_a_view_stands_wherever_a_table_may(lake: Lake, text: str, start: str) -> None:
    found = rewritten(lake, text)
    assert found.template.startswith(start)
    assert len(found.frames) == 1


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("select * from sales.europe", 4),
        ("select * from sales.europe where id = 3", 1),
        ("select * from sales.europe e where e.id > 5", 1),
        ("select * from sales.europe where id = 3 or region = 'x'", 1),
        ("select * from sales.deeper where key = 5", 1),
        ("select count(*) from sales.counted where n = 1", 8),
        ("with w as (select * from sales.europe) select * from w where id < 2", 1),
    ],
)
def test_conditions_reach_the_tables_below_through_any_number_of_views(lake: Lake, text: str, files: int) -> None:
    _view(lake, "sales.deeper", "SELECT region AS r, id AS key FROM sales.europe", "r string, key bigint")
    _view(lake, "sales.counted", "SELECT region, count(*) FROM orders GROUP BY region", "region string, n bigint")
    assert _kept(lake, text) == files


def test_names_of_one_part_are_those_of_the_views_own_namespace(lake: Lake) -> None:
    for current in ((), ("sales",), ("other",)):
        scan = only_scan(rewritten(lake, "select * from sales.europe", current=current))
        assert scan.metadata.uuid == lake.table("sales.orders").uuid
    lake.create_view("other.far", "SELECT id FROM orders", schema="id bigint", default_namespace="sales")
    assert only_scan(rewritten(lake, "select * from other.far")).metadata.uuid == lake.table("sales.orders").uuid
    near = rewritten(lake, "select * from europe", current=("sales",))
    assert only_scan(near).metadata.uuid == lake.table("sales.orders").uuid


def test_neither_ctes_nor_temporary_views_around_it_change_what_a_view_reads(lake: Lake) -> None:
    text = "with orders as (select 1 as id) select * from orders join sales.europe using (id)"
    assert rewritten(lake, text, spark=FakeSpark(views=("orders",))).template.count("{esker_0}") == 1


def test_the_same_table_below_several_views_is_read_once(lake: Lake) -> None:
    text = "select * from sales.europe a join sales.europe b on a.id = b.id join sales.orders o on o.region = 'eu'"
    assert len(rewritten(lake, text).frames) == 1


def test_a_query_within_a_view_may_travel_and_a_view_may_not(lake: Lake) -> None:
    first = lake.table("sales.orders").snapshots[0].snapshot_id
    _view(lake, "sales.past", f"SELECT * FROM orders VERSION AS OF {first}")
    assert _kept(lake, "select * from sales.past") == 1
    for travel in (f"version as of {first}", "timestamp as of '0'", "for system_version as of 1"):
        with pytest.raises(InvalidInput, match=r"cannot read sales\.europe as of a version or a time: a view has no"):
            rewritten(lake, f"select * from sales.europe {travel}")


def test_a_view_may_read_metadata_tables_and_branches(lake: Lake) -> None:
    lake.table("sales.orders").branch("work")
    _view(lake, "sales.files", "SELECT file_path, record_count FROM orders.files", "p string, n bigint")
    _view(lake, "sales.work", "SELECT * FROM orders.branch_work")
    assert len(rewritten(lake, "select * from sales.files").frames) == 1
    assert _kept(lake, "select * from sales.work where id = 2") == 1


def test_views_that_read_one_another_in_a_ring_are_refused_with_the_ring(lake: Lake) -> None:
    _view(lake, "sales.one", "SELECT * FROM two")
    _view(lake, "sales.two", "SELECT * FROM sales.one")
    with pytest.raises(InvalidInput, match=r"it reads itself \(sales\.one → sales\.two → sales\.one\)"):
        rewritten(lake, "select * from sales.one")
    _view(lake, "sales.self", "SELECT * FROM sales.self")
    with pytest.raises(InvalidInput, match=r"cannot read view sales\.self: it reads itself"):
        rewritten(lake, "select * from sales.self")


def test_views_that_double_one_another_are_refused_before_they_fill_memory(lake: Lake) -> None:
    _view(lake, "sales.v0", "SELECT id FROM orders", "id bigint")
    for n in range(1, 40):
        _view(lake, f"sales.v{n}", f"SELECT a.id FROM v{n - 1} a JOIN v{n - 1} b ON a.id = b.id", "id bigint")
    with pytest.raises(InvalidInput, match="with the queries of its views it has over"):
        rewritten(lake, "select * from sales.v39")


def test_a_long_chain_of_views_is_refused_by_name(lake: Lake) -> None:
    _view(lake, "sales.c0", "SELECT id FROM orders", "id bigint")
    for n in range(1, 60):
        _view(lake, f"sales.c{n}", f"SELECT id FROM c{n - 1}", "id bigint")
    with pytest.raises(InvalidInput, match="more than 50 views read one another"):
        rewritten(lake, "select * from sales.c59")


def test_a_view_without_a_query_in_sparks_dialect_names_those_it_has(lake: Lake) -> None:
    trino = (SqlRepresentation(sql="select 1", dialect="trino"), SqlRepresentation(sql="select 1", dialect="Presto"))
    _change(lake, "sales.europe", representations=trino)
    with pytest.raises(Unsupported, match=r"its query is stored in trino, presto, not in Spark's dialect"):
        rewritten(lake, "select * from sales.europe")
    assert lake.view("sales.europe").sql == "select 1"


def test_a_view_over_another_catalog_is_refused_and_over_sparks_own_left_to_spark_if_trusted(lake: Lake) -> None:
    _change(lake, "sales.europe", default_catalog="prod")
    with pytest.raises(Unsupported, match="its names are those of the catalog prod, not of this one"):
        rewritten(lake, "select * from sales.europe")
    _change(lake, "sales.europe", default_catalog="spark_catalog")
    with pytest.raises(InvalidInput, match=r"it reads spark_catalog\.sales\.orders, which is no table or view of the"):
        rewritten(lake, "select * from sales.europe")
    trusting = lake_over(lake.catalog, trusted_views=["spark_catalog.sales.orders"])
    found = rewritten(trusting, "select * from sales.europe")
    assert (found.frames, "FROM spark_catalog.sales.orders AS orders" in found.template) == ({}, True)


def test_a_lakes_own_catalog_name_before_a_name_changes_nothing(tmp_path: Any) -> None:
    import esker

    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db?catalog_name=prod")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint")
    lake.create_view("sales.v", "SELECT id FROM prod.sales.orders", schema="id bigint")
    assert only_scan(rewritten(lake, "select * from sales.v")).metadata.uuid == lake.table("sales.orders").uuid
    _change(lake, "sales.v", default_catalog="prod")
    assert len(rewritten(lake, "select * from sales.v").frames) == 1


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT * FROM gone", r"cannot read view sales\.bad: there is no table or view sales\.gone"),
        ("SELECT * FROM sales.gone", r"cannot read view sales\.bad: no table sales\.gone"),
        ("SELECT * FROM memory", r"memory is a temporary view, which a stored view cannot read"),
        ("SELECT 1) AS x, (SELECT 2", r"cannot read view sales\.bad: \) at line 1, column 9 is not understood"),
        ("SELECT FROM WHERE", r"cannot read view sales\.bad: FROM at line 1, column 8 is not understood"),
        ("DROP TABLE sales.orders; SELECT 1", r"cannot read view sales\.bad: it has ';' in it, at line 1, column 24"),
    ],
)
def test_a_view_that_cannot_be_read_says_which_and_why(lake: Lake, sql: str, why: str) -> None:
    _foreign_view(lake, "sales.bad", sql, "a bigint")
    with pytest.raises((InvalidInput, NoSuchTable), match=why):
        rewritten(lake, "select * from sales.bad", spark=FakeSpark(views=("memory",)))


def test_a_sample_is_taken_of_a_view_as_of_a_table(lake: Lake) -> None:
    text = "select * from sales.europe tablesample (5 percent) repeatable (3) where id = 1"
    assert rewritten(lake, text).template.endswith(
        ") AS europe(id, region)) tablesample (5 percent) repeatable (3)) AS europe where id = 1"
    )
    named = rewritten(lake, "select * from sales.europe tablesample (5 rows) e where e.id = 1").template
    assert named.endswith(") AS europe(id, region)) tablesample (5 rows)) e where e.id = 1")
    assert _kept(lake, text) == 4  # rows that are left out are not sampled, so nothing is


def test_a_view_outside_the_lake_over_its_tables_is_refused_with_a_hint(lake: Lake) -> None:
    with pytest.raises(
        Unsupported, match=r"sales\.orders is a table of the lake; give the view a namespace of the lake"
    ):
        rewritten(lake, "CREATE VIEW loose AS SELECT * FROM sales.orders")


def test_braces_of_a_views_query_reach_spark_as_they_are(lake: Lake) -> None:
    _view(lake, "sales.braces", "SELECT id, '{x}' AS t FROM orders", "id bigint, t string")
    assert "'{{x}}'" in rewritten(lake, "select * from sales.braces").template
