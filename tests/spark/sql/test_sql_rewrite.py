"""Queries made ready for Spark: which names become frames, and what of the text changes."""

from __future__ import annotations

import pytest
from sql_lakes import FakeSpark, lake_of, only_scan, rewritten

from esker.errors import InvalidInput, NoSuchSnapshot, NoSuchTable
from esker.lake import Lake
from esker.read.scan_changes import ChangeScan
from esker.spark.sql.queries.rewrite_query import MetadataRows


@pytest.fixture(scope="module")
def lake() -> Lake:
    one = {"id": [1], "Region": ["eu"]}
    lake = lake_of(
        {
            "sales.orders": ("id bigint, Region string", [one, {"id": [2], "Region": ["us"]}], ()),
            "Sales2.Mixed": ("id bigint", [], ()),
            "a.b.deep": ("id bigint", [], ()),
        }
    )
    table = lake.table("sales.orders")
    table.tag("first", table.snapshots[0].snapshot_id)
    table.branch("work")
    return lake


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("select * from sales.orders", "select * from {esker_0} AS orders"),
        ("select * from sales.orders o", "select * from {esker_0} o"),
        ("select * from `sales`.`orders` as o", "select * from {esker_0} as o"),
        ("SELECT o.id FROM SALES.ORDERS AS o", "SELECT o.id FROM {esker_0} AS o"),
        ("select * from sales2.mixed", "select * from {esker_0} AS mixed"),
        ("select * from a.b.deep", "select * from {esker_0} AS deep"),
        ("select sales.orders.id from sales.orders", "select orders.id from {esker_0} AS orders"),
        ("select a.b.deep.* from a.b.deep", "select deep.* from {esker_0} AS deep"),
        ("select sales.orders.id from x sales", "select sales.orders.id from x sales"),
        ("table sales.orders", "table {esker_0}"),
        ("(table sales.orders) union all table a.b.deep", "(table {esker_0}) union all table {esker_1}"),
        ("from sales.orders select id", "from {esker_0} AS orders select id"),
        ("select '{x}' from sales.orders -- {y}", "select '{{x}}' from {esker_0} AS orders -- {{y}}"),
        ("explain select * from sales.orders", "explain select * from {esker_0} AS orders"),
        (
            "select * from sales.orders tablesample (5 percent) repeatable (3) where id = 1",
            "select * from {esker_0} tablesample (5 percent) repeatable (3) AS orders where id = 1",
        ),
        (
            "select * from sales.orders pivot (count(1) for region in ('eu', 'us'))",
            "select * from {esker_0} AS orders pivot (count(1) for region in ('eu', 'us'))",
        ),
        (
            "with x as (select * from sales.orders) select * from x join x as y using (id)",
            "with x as (select * from {esker_0} AS orders) select * from x join x as y using (id)",
        ),
        (
            "select * from sales.orders o where exists (select 1 from a.b.deep d where d.id = o.id)",
            "select * from {esker_0} o where exists (select 1 from {esker_1} d where d.id = o.id)",
        ),
        (
            "select (select max(id) from sales.orders), * from sales.orders lateral view explode(array(1)) t as x",
            "select (select max(id) from {esker_0} AS orders), * from {esker_0} AS orders "
            "lateral view explode(array(1)) t as x",
        ),
        ("from sales.orders |> where id > 5", "from {esker_0} AS orders |> where id > 5"),
        (
            "select /*+ broadcast(orders) */ * from sales.orders",
            "select /*+ broadcast(orders) */ * from {esker_0} AS orders",
        ),
        ("select 1 as `sales.orders`", "select 1 as `sales.orders`"),
        ("select * from parquet.`/x/y`", "select * from parquet.`/x/y`"),
        ("select * from spark_catalog.default.x", "select * from spark_catalog.default.x"),
        ("select transform(xs, x -> x + 1) from v", "select transform(xs, x -> x + 1) from v"),
    ],
)
def test_only_references_to_the_lakes_tables_change(lake: Lake, text: str, template: str) -> None:
    assert rewritten(lake, text).template == template


def test_every_spelling_of_time_travel_reads_the_same_snapshot(lake: Lake) -> None:
    first = lake.table("sales.orders").snapshots[0]
    spellings = [
        f"version as of {first.snapshot_id}",
        f"for version as of '{first.snapshot_id}'",
        f"FOR SYSTEM_VERSION AS OF {first.snapshot_id}",
        "VERSION AS OF 'first'",
        f"timestamp as of '{first.timestamp_ms}'",
        f"for system_time as of {first.timestamp_ms}",
    ]
    for spelling in spellings:
        found = rewritten(lake, f"select * from sales.orders {spelling} o where id > 0")
        assert found.template == "select * from {esker_0} o where id > 0"
        scan = only_scan(found)
        assert scan.resolved.snapshot == first, spelling
        assert scan.count() == 1


def test_a_quoted_number_is_a_snapshot_before_it_is_a_name(lake: Lake) -> None:
    table = lake.table("sales.orders")
    first, second = table.snapshots[0], table.snapshots[1]
    table.tag(str(first.snapshot_id), second.snapshot_id)
    table.tag("2026", first.snapshot_id)
    for spelling, snapshot in ((first.snapshot_id, first), (second.snapshot_id, second), ("2026", first)):
        scan = only_scan(rewritten(lake, f"select * from sales.orders version as of '{spelling}'"))
        assert scan.resolved.snapshot == snapshot, spelling
    with pytest.raises(NoSuchSnapshot):
        rewritten(lake, "select * from sales.orders version as of '2027'")


def test_the_suffixes_of_iceberg_name_versions_too(lake: Lake) -> None:
    first = lake.table("sales.orders").snapshots[0]
    for suffix in ("tag_first", f"snapshot_id_{first.snapshot_id}", f"at_timestamp_{first.timestamp_ms}"):
        scan = only_scan(rewritten(lake, f"select * from sales.orders.{suffix}"))
        assert scan.resolved.snapshot == first, suffix
    assert only_scan(rewritten(lake, "select * from sales.orders.branch_work")).count() == 2
    with pytest.raises(NoSuchSnapshot, match="no branch or tag 'nope'"):
        rewritten(lake, "select * from sales.orders.branch_nope")
    with pytest.raises(InvalidInput, match="at two versions"):
        rewritten(lake, "select * from sales.orders.tag_first version as of 5")


def test_two_versions_of_a_table_are_two_frames_and_one_version_is_one(lake: Lake) -> None:
    text = "select * from sales.orders a, sales.orders b, sales.orders version as of 'first' c"
    found = rewritten(lake, text)
    assert found.template == "select * from {esker_0} a, {esker_0} b, {esker_1} c"
    assert [len(rows.plan().tasks) for rows in found.frames.values()] == [2, 1]  # type: ignore[union-attr]


def test_metadata_tables_are_read_at_their_version(lake: Lake) -> None:
    first = lake.table("sales.orders").snapshots[0].snapshot_id
    found = rewritten(
        lake, "select * from sales.orders.files f join sales.orders.Manifests version as of 'first' m on true"
    )
    assert found.template == "select * from {esker_0} f join {esker_1} m on true"
    assert [(r.name, r.snapshot_id) for r in found.frames.values() if isinstance(r, MetadataRows)] == [
        ("files", None),
        ("manifests", first),
    ]
    with pytest.raises(InvalidInput, match=r"cannot read sales\.orders\.snapshots as of a version"):
        rewritten(lake, "select * from sales.orders.snapshots version as of 'first'")


def test_names_of_one_part_are_looked_for_in_the_namespace_in_use(lake: Lake) -> None:
    assert rewritten(lake, "select * from orders").frames == {}
    used = {"current": ("sales",)}
    assert rewritten(lake, "select * from Orders", **used).template == "select * from {esker_0} AS Orders"
    assert rewritten(lake, "select * from orders.files", **used).template == "select * from {esker_0} AS files"
    assert rewritten(lake, "select * from a.b.deep", **used).template == "select * from {esker_0} AS deep"


def test_common_table_expressions_and_temporary_views_hide_tables(lake: Lake) -> None:
    used = {"current": ("sales",)}
    text = "with orders as (select * from orders) select * from orders"
    assert rewritten(lake, text, **used).template == (
        "with orders as (select * from {esker_0} AS orders) select * from orders"
    )
    text = "with x as (select 1), orders as (select 2) select * from (select * from orders), x"
    assert rewritten(lake, text, **used).frames == {}
    text = "with orders as (select 1) select * from sales.orders"
    assert len(rewritten(lake, text, **used).frames) == 1
    assert rewritten(lake, "select * from orders", **used, spark=FakeSpark(views=["orders"])).frames == {}


def test_a_slip_in_a_tables_name_is_told_before_spark_is_asked(lake: Lake) -> None:
    with pytest.raises(NoSuchTable, match=r"did you mean sales\.orders"):
        rewritten(lake, "select * from sales.ordrs")


def test_a_query_that_cannot_be_read_is_refused_with_its_place_if_it_names_a_lake_table(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="line 2, column 8: something is missing here"):
        rewritten(lake, "select * from sales.orders\n where group by id")
    assert rewritten(lake, "select where {group}").template == "select where {{group}}"


def test_deep_nesting_is_refused_and_not_a_crash(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="nested too deeply"):
        rewritten(lake, "select " + "(" * 2_000 + "1" + ")" * 2_000 + " from sales.orders")


def test_changes_are_a_feed_that_conditions_on_the_tables_columns_prune(lake: Lake) -> None:
    text = "select * from sales.orders.Changes c where id = 2 and c._change_type = 'INSERT'"
    found = rewritten(lake, text)
    assert found.template == text.replace("sales.orders.Changes", "{esker_0}")
    (feed,) = found.frames.values()
    assert isinstance(feed, ChangeScan)
    assert [row["id"] for row in feed.to_arrow().to_pylist()] == [2]
    (whole,) = rewritten(lake, "select * from sales.orders.changes").frames.values()
    assert isinstance(whole, ChangeScan)
    assert (len(feed.plan().tasks), len(whole.plan().tasks)) == (1, 2)
    two = rewritten(lake, "select 1 from sales.orders.changes a where id = 1 union select 2 from sales.orders.changes")
    assert len(two.frames) == 2
    with pytest.raises(InvalidInput, match=r"sales.orders.changes as of a version"):
        rewritten(lake, "select * from sales.orders.changes version as of 'first'")
