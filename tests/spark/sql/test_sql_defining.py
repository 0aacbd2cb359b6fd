"""Statements that define: comments, namespaces, required columns, tables like others. No Spark is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_lakes import read_in

import esker
from esker.errors import AlreadyExists, Conflict, EskerError, InvalidInput, NoSuchNamespace, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.spark.sql.queries.query_frames import Answer
from esker.spark.sql.run_statement import SqlRunner


def no_spark() -> Any:
    raise AssertionError("nothing here needs Spark")


@pytest.fixture
def lake() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("sales", {"owner": "me"})
    lake.create_table("sales.orders", "id bigint, day date, home struct<city: string>", partition_by=["day"]).append(
        [{"id": 1, "day": None, "home": {"city": "a"}}, {"id": 2, "day": None, "home": {"city": "b"}}]
    )
    return lake


@pytest.fixture
def do(lake: Lake) -> Any:
    runner = SqlRunner(lake, no_spark)
    return runner.do


@pytest.mark.parametrize("word", ["NAMESPACE", "SCHEMA", "DATABASE"])
def test_a_namespace_gets_properties_a_comment_and_a_location(lake: Lake, do: Any, word: str) -> None:
    do(f"ALTER {word} sales SET PROPERTIES ('a' = '1', b.c = 2)")
    do(f"ALTER {word} lake.sales SET DBPROPERTIES ('a' = '3')")
    do(f"COMMENT ON {word} sales IS 'what we sell'")
    do(f"ALTER {word} sales SET LOCATION 'memory://warehouse/there'")
    assert lake.namespace_properties("sales") == {
        "owner": "me",
        "a": "3",
        "b.c": "2",
        "comment": "what we sell",
        "location": "memory://warehouse/there",
    }
    do(f"ALTER {word} sales UNSET PROPERTIES ('a', 'never-set')")
    do(f"ALTER {word} sales UNSET DBPROPERTIES (b.c)")
    do(f"COMMENT ON {word} sales IS NULL")
    assert lake.namespace_properties("sales") == {"owner": "me", "location": "memory://warehouse/there"}
    assert lake.create_table("sales.more", "id int").location == "memory://warehouse/there/more"


def test_a_namespace_is_described_with_what_was_set(do: Any) -> None:
    do("ALTER NAMESPACE sales SET PROPERTIES ('a' = '1')")
    do("COMMENT ON NAMESPACE sales IS 'what we sell'")
    said = do("DESCRIBE NAMESPACE EXTENDED sales")
    assert isinstance(said, Answer)
    assert list(said.rows) == [
        ("Namespace Name", "sales"),
        ("Comment", "what we sell"),
        ("Properties", "((a,1), (owner,me))"),
    ]


def test_a_namespace_that_is_not_there_gets_no_properties(lake: Lake) -> None:
    with pytest.raises(NoSuchNamespace, match=r"no namespace nowhere.*the catalog has sales"):
        lake.set_namespace_properties("nowhere", {"a": "b"})


def test_a_setting_is_not_both_set_and_removed(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="cannot both set and remove the property 'a'"):
        lake.set_namespace_properties("sales", {"a": "b"}, ["a"])


def test_tables_and_columns_get_comments_and_lose_them(lake: Lake, do: Any) -> None:
    do("COMMENT ON TABLE sales.orders IS 'what was ordered'")
    do("COMMENT ON COLUMN sales.orders.id IS 'its number'")
    do("COMMENT ON COLUMN lake.sales.orders.home.city IS 'where to'")
    table = lake.table("sales.orders")
    assert table.properties["comment"] == "what was ordered"
    assert (table.schema.find("id").doc, table.schema.find("home.city").doc) == ("its number", "where to")
    do("COMMENT ON TABLE sales.orders IS NULL")
    do("COMMENT ON COLUMN sales.orders.id IS NULL")
    table.refresh()
    assert "comment" not in table.properties
    assert (table.schema.find("id").doc, table.schema.find("home.city").doc) == (None, "where to")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comment on view sales.v is 'x'", "line 1, column 12: expected NAMESPACE, SCHEMA, DATABASE, TABLE or COLUMN"),
        ("comment on table sales.orders 'x'", "line 1, column 31: expected IS"),
        ("comment on table sales.orders is 5", "line 1, column 34: expected the comment, or NULL, in quotes"),
        ("comment on column id is 'x'", "line 1, column 19: expected a table and its column"),
        ("comment on namespace sales is 'x' 'y' z", "line 1, column 39: did not expect 'z'"),
        ("alter namespace sales rename to x", "line 1, column 23: expected SET PROPERTIES"),
        ("alter namespace sales set owner user me", "line 1, column 27: expected SET PROPERTIES"),
        ("alter table sales.orders set place 'x'", "line 1, column 30: expected TBLPROPERTIES, LOCATION"),
        ("create table sales.new like sales.orders comment 'x'", "column 42: expected USING, TBLPROPERTIES or LOC"),
        ("create table sales.new like sales.orders as select 1", "column 42: expected USING, TBLPROPERTIES or LOC"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(lake: Lake, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_in(lake, text)


@pytest.mark.parametrize(
    ("text", "feature", "place"),
    [
        ("alter table sales.orders add partition (id = 1)", "ADD PARTITION", "line 1, column 26"),
        ("alter table sales.orders add if not exists partition (id = 1)", "ADD PARTITION", "line 1, column 26"),
        ("alter table sales.orders drop partition (id = 1)", "DROP PARTITION", "line 1, column 26"),
        ("alter table sales.orders drop if exists partition (id = 1)", "DROP PARTITION", "line 1, column 26"),
        ("alter table sales.orders recover partitions", "RECOVER PARTITIONS", "line 1, column 26"),
        (
            "alter table sales.orders partition (id = 1) rename to partition (id = 2)",
            "ALTER TABLE … PARTITION",
            "line 1, column 26",
        ),
        ("truncate table sales.orders partition (id)", "TRUNCATE … PARTITION without a value", "line 1, column 39"),
    ],
)
def test_partitions_are_not_managed_by_themselves(lake: Lake, text: str, feature: str, place: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        read_in(lake, text)
    assert (refusal.value.feature, refusal.value.place) == (feature, place)


def test_a_namespace_with_tables_stays_whatever_is_said_of_a_cascade(lake: Lake, do: Any) -> None:
    with pytest.raises(InvalidInput, match=r"cannot drop namespace sales: it holds sales\.orders"):
        do("DROP NAMESPACE sales CASCADE")
    assert lake.tables("sales") == ["sales.orders"]
    lake.create_namespace("empty")
    do("DROP SCHEMA empty CASCADE")
    assert lake.namespaces() == ["sales"]


def test_a_column_without_null_may_be_made_required(lake: Lake, do: Any) -> None:
    do("ALTER TABLE sales.orders ALTER COLUMN id SET NOT NULL")
    do("ALTER TABLE sales.orders ALTER COLUMN id SET NOT NULL")
    table = lake.table("sales.orders")
    assert table.schema.find("id").required
    assert table.to_arrow().num_rows == 2
    do("ALTER TABLE sales.orders ALTER COLUMN home.city SET NOT NULL")
    assert lake.table("sales.orders").schema.find("home.city").required
    do("ALTER TABLE sales.orders ALTER COLUMN id DROP NOT NULL")
    assert not lake.table("sales.orders").schema.find("id").required


def test_a_column_with_null_stays_optional_on_whatever_branch_the_null_is(lake: Lake, do: Any) -> None:
    with pytest.raises(InvalidInput, match="a row has null in it; find such rows by WHERE day IS NULL"):
        do("ALTER TABLE sales.orders ALTER COLUMN day SET NOT NULL")
    table = lake.table("sales.orders")
    table.branch("trial")
    table.append([{"id": None, "day": None, "home": None}], ref="trial")
    with pytest.raises(InvalidInput, match="a row on branch 'trial' has null in it"):
        do("ALTER TABLE sales.orders ALTER COLUMN id SET NOT NULL")
    assert not lake.table("sales.orders").schema.find("id").required


def test_a_null_that_only_rows_show_is_found_and_a_deleted_one_forgotten(lake: Lake, do: Any) -> None:
    lake.create_table("sales.plain", "id bigint, note string", properties={"write.metadata.metrics.default": "none"})
    table = lake.table("sales.plain")
    table.append([{"id": 1, "note": None}, {"id": 2, "note": "x"}])
    with pytest.raises(InvalidInput, match="a row has null in it"):
        do("ALTER TABLE sales.plain ALTER COLUMN note SET NOT NULL")
    table.delete("note is null")
    do("ALTER TABLE sales.plain ALTER COLUMN note SET NOT NULL")
    assert lake.table("sales.plain").schema.find("note").required


def test_rows_that_come_between_the_look_and_the_commit_are_a_conflict(lake: Lake) -> None:
    table = lake.table("sales.orders")
    change = table.alter()
    change.make_required("id")
    lake.table("sales.orders").append([{"id": None, "day": None, "home": None}])
    with pytest.raises(Conflict, match="another writer has changed branch 'main' in the meantime"):
        change.commit()
    assert not lake.table("sales.orders").schema.find("id").required


def test_an_empty_table_takes_any_required_column(lake: Lake) -> None:
    table = lake.create_table("sales.none", "id bigint, tags array<struct<a: int>>")
    with table.alter() as change:
        change.make_required("id")
        with pytest.raises(InvalidInput, match="it is inside a list or map"):
            change.make_required("tags.element.a")
        change.add_column("more", "int")
        with pytest.raises(InvalidInput, match="in the alteration that adds it"):
            change.make_required("more")
    assert table.schema.find("id").required


def test_a_table_moves_for_files_to_come(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint")
    table.append([{"id": 1}])
    do = SqlRunner(lake, no_spark).do
    there = f"{tmp_path}/warehouse/elsewhere"
    do(f"ALTER TABLE sales.orders SET LOCATION '{there}'")
    table.refresh().append([{"id": 2}])
    assert table.location == there
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 2]
    assert sum(path.startswith(there) for path in table.inspect.files().column("file_path").to_pylist()) == 1
    lake.create_table("sales.other", "id bigint").append([{"id": 3}])
    with pytest.raises(InvalidInput, match="it has files"):
        do(f"ALTER TABLE sales.orders SET LOCATION '{lake.table('sales.other').location}'")
    with pytest.raises(InvalidInput, match="it leads outside"):
        do(f"ALTER TABLE sales.orders SET LOCATION '{tmp_path}/outside'")
    assert lake.table("sales.orders").location == there


def test_a_table_of_a_directory_catalog_stays_where_it_is(tmp_path: Path) -> None:
    lake = esker.connect(f"file://{tmp_path}/warehouse")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint")
    with pytest.raises(EskerError, match="cannot"):
        SqlRunner(lake, no_spark).do(f"ALTER TABLE sales.orders SET LOCATION '{tmp_path}/warehouse/x'")
    with pytest.raises(Unsupported, match="a folder has no properties"):
        SqlRunner(lake, no_spark).do("COMMENT ON NAMESPACE sales IS 'x'")


def test_a_table_is_made_like_another(lake: Lake, do: Any) -> None:
    lake.create_table(
        "sales.model",
        "id bigint not null comment 'its number', ts timestamp, region string not null default 'x'",
        partition_by=["day(ts)", "bucket(4, id)", "region"],
        sort_by=["ts desc nulls first", "id"],
        properties={
            "write.distribution-mode": "hash",
            "comment": "a model",
            "write.data.path": "memory://warehouse/x",
            "esker.applied.app": "5",
        },
        format_version=3,
        identifier_fields=["id"],
    )
    do("CREATE TABLE sales.new LIKE sales.model")
    do("CREATE TABLE IF NOT EXISTS sales.new LIKE sales.model")
    do("CREATE TABLE sales.newer LIKE sales.model USING iceberg TBLPROPERTIES ('write.distribution-mode' = 'none')")
    model, new = lake.table("sales.model"), lake.table("sales.new")
    assert new.schema.fields == model.schema.fields
    assert new.schema.identifier_field_ids == model.schema.identifier_field_ids
    assert new.spec.fields == model.spec.fields
    assert new.sort_order.fields == model.sort_order.fields
    assert new.format_version == 3
    assert dict(new.properties) == {"write.distribution-mode": "hash"}
    assert new.location != model.location
    assert lake.table("sales.newer").properties["write.distribution-mode"] == "none"
    with pytest.raises(AlreadyExists):
        do("CREATE TABLE sales.new LIKE sales.model")
    with pytest.raises(NoSuchTable):
        do("CREATE TABLE sales.x LIKE sales.nothing")
    with pytest.raises(InvalidInput, match="LIKE works only for a new table"):
        do("CREATE OR REPLACE TABLE sales.new LIKE sales.model")


def test_a_partition_is_truncated_by_the_values_of_its_columns(lake: Lake) -> None:
    table = lake.create_table("sales.parts", "id bigint, region string, n int", partition_by=["region", "n"])
    table.append(
        [{"id": 1, "region": "a", "n": 1}, {"id": 2, "region": "a", "n": 2}, {"id": 3, "region": None, "n": 1}]
    )
    do = SqlRunner(lake, InUtc).do
    do("TRUNCATE TABLE sales.parts PARTITION (region = 'a', n = 1)")
    assert sorted(table.refresh().to_arrow().column("id").to_pylist()) == [2, 3]
    do("TRUNCATE TABLE sales.parts PARTITION (REGION = NULL)")
    assert table.refresh().to_arrow().column("id").to_pylist() == [2]
    with pytest.raises(InvalidInput, match=r"columns that sales\.parts is partitioned by as they are: region, n"):
        do("TRUNCATE TABLE sales.parts PARTITION (id = 2)")


class InUtc:
    """A session that is asked for its zone alone."""

    class conf:  # noqa: N801  # PySpark's name
        @staticmethod
        def get(key: str, default: Any = None) -> Any:
            return default
