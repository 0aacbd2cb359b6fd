"""Statements as they are read: what they say, whose they are, and where they are refused."""

from __future__ import annotations

import pytest
from sql_lakes import FakeSpark, lake_of, read_in

from esker.errors import InvalidInput, Unsupported
from esker.lake import Lake
from esker.spark.sql.grammar import alter_statements as altered
from esker.spark.sql.grammar import statements as said
from esker.spark.sql.grammar.words import Span
from esker.tree.snapshot import RefKind


@pytest.fixture(scope="module")
def lake() -> Lake:
    return lake_of({"sales.orders": ("id bigint", (), ()), "a.b.deep": ("id bigint", (), ())})


def test_a_table_is_made_with_everything_that_was_said_of_it(lake: Lake) -> None:
    text = """CREATE TABLE IF NOT EXISTS sales.new (
        id bigint NOT NULL COMMENT 'the key', tags map<string, array<int>>, n int DEFAULT 5
    ) USING iceberg PARTITIONED BY (day(ts), bucket(16, id), truncate(4, name) AS t)
    TBLPROPERTIES ('a' = 'b', write.target-file-size-bytes = 5, 'on' = true) LOCATION '/x' COMMENT 'it''s new'"""
    found = read_in(lake, text)
    assert isinstance(found, said.CreateTable)
    assert found.name.parts == ("sales", "new")
    assert found.unless_there
    assert (found.columns or "").split() == text[text.index("(") + 1 : text.index(") USING")].split()
    assert found.partition_by == ("day(ts)", "bucket(16, id)", "truncate(4, name) AS t")
    assert found.properties == {"a": "b", "write.target-file-size-bytes": "5", "on": "true", "comment": "it's new"}
    assert found.location == "/x"


def test_columns_keep_their_place_in_the_statement(lake: Lake) -> None:
    found = read_in(lake, "create table sales.new (\n  id biggint)")
    assert isinstance(found, said.CreateTable)
    with pytest.raises(InvalidInput, match="line 2, column 6"):
        lake.create_table("sales.new", found.columns)


def test_a_table_from_a_query_keeps_the_query_in_its_place(lake: Lake) -> None:
    text = "create table sales.new partitioned by (x) as with c as (select 1 x) select * from c"
    found = read_in(lake, text)
    assert isinstance(found, said.CreateTable)
    assert found.query is not None
    assert found.query.text.strip() == "with c as (select 1 x) select * from c"
    assert len(found.query.text) == len(text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("create table sales.new using parquet as select 1", said.Query),
        ("create table sales.new (x int) using csv", said.Foreign),
        ("create table spark_catalog.default.new (x int)", said.Foreign),
        ("drop table default.new", said.Foreign),
        ("drop view sales", said.Foreign),
        ("alter table default.new set location 'x'", said.Foreign),
        ("insert into default.new select * from sales.orders", said.Query),
        ("insert overwrite directory '/x' select * from sales.orders", said.Query),
        ("show functions", said.Foreign),
        ("describe function abs", said.Foreign),
        ("set spark.sql.shuffle.partitions = 5", said.Foreign),
        ("set x = sales.orders", said.Foreign),
        ("use default", said.Foreign),
        ("use spark_catalog.default", said.Foreign),
        ("use catalog spark_catalog", said.Foreign),
        ("create function f as 'x'", said.Foreign),
        ("delete from default.new where x = 1", said.Foreign),
        ("create namespace spark_catalog.x", said.Foreign),
        ("create database new", said.CreateNamespace),
        ("select 1", said.Query),
        ("(select 1)", said.Query),
        ("values (1)", said.Query),
        ("table sales.orders", said.Query),
        ("explain extended select 1", said.Query),
        ("describe query select 1", said.Query),
        ("desc select 1", said.Query),
        ("describe sales.orders", said.DescribeTable),
        ("describe table formatted sales.orders id", said.DescribeTable),
        ("desc database extended sales", said.DescribeNamespace),
        ("show tables from a.b like 'd*'", said.ShowTables),
        ("show databases", said.ShowNamespaces),
        ("show create table sales.orders", said.ShowCreateTable),
        ("show tblproperties sales.orders ('x')", said.ShowProperties),
        ("show columns in orders in sales", said.ShowColumns),
        ("show partitions sales.orders", said.ShowPartitions),
        ("use a.b", said.UseNamespace),
        ("refresh table sales.orders", said.RefreshTable),
        ("truncate table sales.orders;", said.Delete),
        ("drop table nowhere.t", said.DropTable),
    ],
)
def test_first_words_and_names_tell_whose_a_statement_is(lake: Lake, text: str, statement: type) -> None:
    assert isinstance(read_in(lake, text), statement)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add column n int", altered.AddColumn(name="n", type="int")),
        ("add column if not exists n int", altered.AddColumn(name="n", type="int", unless_there=True)),
        (
            "add columns (s.m map<string, struct<a: int>> not null comment 'it' after b)",
            altered.AddColumn(name="s.m", type="map<string, struct<a: int>>", required=True, doc="it", after="b"),
        ),
        ("add column `a.b` int first", altered.AddColumn(name="`a.b`", type="int", first=True)),
        ("drop column n", altered.DropColumn("n")),
        ("drop column if exists n", altered.DropColumn("n", if_there=True)),
        ("rename column s.a to b", altered.RenameColumn("s.a", "b")),
        ("alter column n type decimal(10, 2)", altered.ChangeColumn(name="n", type="decimal(10, 2)")),
        ("alter column n comment 'x'", altered.ChangeColumn(name="n", doc="x")),
        ("alter n first", altered.ChangeColumn(name="n", first=True)),
        ("change column n after m", altered.ChangeColumn(name="n", after="m")),
        ("alter column n drop not null", altered.ChangeColumn(name="n", optional=True)),
        ("add partition field day(ts)", altered.AddPartition("day(ts)")),
        ("add partition field bucket(16, id) as shard", altered.AddPartition("bucket(16, id)", "shard")),
        ("drop partition field day(ts)", altered.DropPartition("day(ts)")),
        (
            "write ordered by x, bucket(4, id) desc",
            altered.WriteOrder(terms=("x", "bucket(4, id) desc"), distribution="range"),
        ),
        ("write locally ordered by x", altered.WriteOrder(terms=("x",), distribution=None)),
        ("write distributed by partition", altered.WriteOrder(terms=None, distribution="hash")),
        ("write distributed by partition locally ordered by x", altered.WriteOrder(terms=("x",), distribution="hash")),
        ("write unordered", altered.WriteOrder(terms=(), distribution="none")),
        ("set tblproperties ('a' = 'b', c = -5)", altered.SetProperties({"a": "b", "c": "-5"})),
        ("unset tblproperties if exists ('a', b.c)", altered.UnsetProperties(("a", "b.c"))),
        ("set identifier fields id, s.a", altered.IdentifierFields(("id", "s.a"), drop=False)),
        ("drop identifier fields id", altered.IdentifierFields(("id",), drop=True)),
    ],
)
def test_alter_table_says_one_change(lake: Lake, text: str, change: altered.Change) -> None:
    found = read_in(lake, f"alter table sales.orders {text}")
    assert isinstance(found, altered.AlterTable)
    assert found.changes == (change,)


def test_replacing_a_partition_field_drops_one_and_adds_one(lake: Lake) -> None:
    found = read_in(lake, "ALTER TABLE sales.orders REPLACE PARTITION FIELD day(ts) WITH hour(ts) AS h")
    assert isinstance(found, altered.AlterTable)
    assert found.changes == (altered.DropPartition("day(ts)"), altered.AddPartition("hour(ts)", "h"))


def test_a_default_is_a_literal_of_any_kind(lake: Lake) -> None:
    found = read_in(lake, "alter table sales.orders add column d date default date '2020-01-02' comment 'x'")
    assert isinstance(found, altered.AlterTable)
    (column,) = found.changes
    assert isinstance(column, altered.AddColumn)
    assert column.default is not None
    assert column.default.value == 18263
    with pytest.raises(InvalidInput, match="line 1, column 54: the function rand cannot be used"):
        read_in(lake, "alter table sales.orders alter column d set default (rand())")


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("create branch b", {"kind": RefKind.BRANCH, "ref": "b"}),
        ("create branch if not exists `b-1`", {"kind": RefKind.BRANCH, "ref": "b-1", "unless_there": True}),
        (
            "create or replace tag 't' as of version 5",
            {"kind": RefKind.TAG, "ref": "t", "replaces": True, "snapshot_id": 5},
        ),
        ("replace branch b", {"kind": RefKind.BRANCH, "ref": "b", "creates": False, "replaces": True}),
        ("create tag t retain 2 hours", {"kind": RefKind.TAG, "ref": "t", "max_ref_age_ms": 7_200_000}),
        (
            "create branch b retain 7 days with snapshot retention 3 snapshots 2 minutes",
            {
                "kind": RefKind.BRANCH,
                "ref": "b",
                "max_ref_age_ms": 604_800_000,
                "min_snapshots_to_keep": 3,
                "max_snapshot_age_ms": 120_000,
            },
        ),
        (
            "create branch b with snapshot retention 2 days",
            {"kind": RefKind.BRANCH, "ref": "b", "max_snapshot_age_ms": 172_800_000},
        ),
    ],
)
def test_branches_and_tags_are_said_as_iceberg_says_them(lake: Lake, text: str, ref: dict[str, object]) -> None:
    found = read_in(lake, f"alter table sales.orders {text}")
    assert isinstance(found, altered.SetRef)
    assert found == altered.SetRef(table=found.table, **ref)  # type: ignore[arg-type]


def test_a_dropped_ref_says_its_kind(lake: Lake) -> None:
    found = read_in(lake, "alter table sales.orders drop tag if exists t")
    assert found == altered.DropRef(table=found.table, kind=RefKind.TAG, ref="t", if_there=True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "insert"),
    [
        ("insert into sales.orders values (1)", {}),
        ("insert into table sales.orders (id) select 1", {"columns": ("id",)}),
        ("insert into sales.orders (select 1)", {}),
        ("insert into sales.orders (values (1))", {}),
        ("insert into sales.orders (`from`) select 1", {"columns": ("from",)}),
        ("insert into sales.orders by name select 1 id", {"by_name": True}),
        ("insert overwrite sales.orders select 1", {"overwrite": True}),
        (
            "insert overwrite table sales.orders partition (a = 'x', b) select 1",
            {"overwrite": True, "partition": {"a": "'x'", "b": None}},
        ),
    ],
)
def test_an_insert_says_where_its_columns_go(lake: Lake, text: str, insert: dict[str, object]) -> None:
    found = read_in(lake, text)
    assert isinstance(found, said.Insert)
    assert found == said.Insert(table=found.table, query=found.query, **insert)  # type: ignore[arg-type]


def test_common_table_expressions_before_an_insert_belong_to_its_query(lake: Lake) -> None:
    text = "with c as (select 1 as id) insert into sales.orders select * from c"
    found = read_in(lake, text)
    assert isinstance(found, said.Insert)
    assert " ".join(found.query.text.split()) == "with c as (select 1 as id) select * from c"
    assert found.query.body == Span(0, len(text))


def test_a_condition_to_replace_ends_where_the_query_begins(lake: Lake) -> None:
    found = read_in(lake, "insert into sales.orders replace where id > (1) and id < 5 select 1")
    assert isinstance(found, said.Insert)
    assert (found.replace_where or "").strip() == "id > (1) and id < 5"


def test_a_delete_keeps_its_alias_and_its_condition_in_place(lake: Lake) -> None:
    text = "delete from sales.orders as o where o.id = 5"
    found = read_in(lake, text)
    assert isinstance(found, said.Delete)
    assert (found.alias, (found.where or "").index("o.id")) == ("o", text.index("o.id"))


@pytest.mark.parametrize(
    ("text", "feature", "place"),
    [
        (
            "merge into sales.orders using x version as of 5 on true when matched then delete",
            "a version of a table behind USING",
            "line 1, column 33",
        ),
        ("analyze table sales.orders compute statistics", "ANALYZE TABLE", "line 1, column 15"),
        ("create view default.v as select * from sales.orders", "CREATE VIEW", "line 1, column 40"),
        ("from sales.orders insert into sales.orders select *", "a query before INSERT", "line 1, column 19"),
    ],
)
def test_what_is_not_done_is_refused_by_name_and_place(lake: Lake, text: str, feature: str, place: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        read_in(lake, text)
    assert (refusal.value.feature, refusal.value.place) == (feature, place)
    assert feature in refusal.value.message
    assert place in refusal.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("  -- only a comment", "it is empty"),
        ("select 'abc", "a quote or comment is not closed"),
        ("select 1; select 2", "line 1, column 11: give one statement at a time"),
        ("create table sales.new (id int", "expected the closing parenthesis at line 1, column 31"),
        ("create table sales.new", "line 1, column 23 .the end.: expected the columns, or AS and a query"),
        ("create table sales.new (id int) stored as orc", "line 1, column 33: expected PARTITIONED BY.*not 'stored'"),
        ("create table sales.new (id int) as select 1", "takes its columns from the query"),
        ("drop table sales.orders now", "line 1, column 25: did not expect 'now'"),
        ("alter table sales.orders", "line 1, column 25 .the end.: expected ADD, DROP"),
        ("alter table sales.orders\n frobnicate", "line 2, column 2: expected ADD, DROP.*not 'frobnicate'"),
        ("alter table sales.orders add partition field", "expected more at line 1, column 45"),
        ("alter table sales.orders write", "expected ORDERED BY"),
        (
            "alter table sales.orders create branch b retain 5 years",
            "line 1, column 51: expected DAYS, HOURS or MINUTES",
        ),
        ("alter table sales.orders set tblproperties ('a' = )", "line 1, column 51: expected the property's value"),
        ("insert sales.orders values (1)", "line 1, column 8: expected INTO, not 'sales'"),
        ("insert into sales.orders", "expected more at line 1, column 25"),
        ("delete sales.orders", "line 1, column 8: expected FROM"),
        ("delete from sales.orders o p", "line 1, column 28: expected WHERE, not 'p'"),
        ("show columns sales.orders", "line 1, column 14: expected IN and a table"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(lake: Lake, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_in(lake, text)


def test_names_of_one_part_are_the_lakes_once_a_namespace_is_in_use(lake: Lake) -> None:
    assert isinstance(read_in(lake, "drop table orders"), said.Foreign)
    assert isinstance(read_in(lake, "drop table orders", current=("sales",)), said.DropTable)
    views = FakeSpark(views=["orders"])
    assert isinstance(read_in(lake, "drop table orders", current=("sales",), spark=views), said.Foreign)


def test_spark_is_asked_only_about_names_that_the_lake_does_not_know(lake: Lake) -> None:
    spark = FakeSpark()
    read_in(lake, "drop table sales.orders", spark=spark)
    read_in(lake, "drop table sales.unknown", spark=spark)
    assert spark.asked == []
    read_in(lake, "drop table elsewhere.orders", spark=spark)
    assert spark.asked == ["elsewhere"]
