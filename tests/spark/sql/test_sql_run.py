"""Statements done: what they leave in the lake, and what they answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchSnapshot, NoSuchTable
from esker.lake import Lake
from esker.metadata_tables.inspect import Inspect


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE sales")
    return lake


@pytest.fixture
def orders(lake: Lake) -> esker.Table:
    """Three rows in three partitions, two commits."""
    lake.sql(
        "CREATE TABLE sales.orders (id bigint NOT NULL, region string, amount decimal(10,2)) PARTITIONED BY (region)"
    )
    lake.sql("INSERT INTO sales.orders VALUES (1, 'eu', 1.5), (2, 'us', 2.5)")
    lake.sql("INSERT INTO sales.orders VALUES (3, 'asia', 3.5)")
    return lake.table("sales.orders")


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


# ---------------------------------------------------------------- reading


def test_queries_join_lake_tables_with_each_other_and_with_sparks_own(
    lake: Lake, orders: esker.Table, spark: Any
) -> None:
    spark.createDataFrame([("eu", "Europe"), ("us", "States")], "code string, name string").createOrReplaceTempView(
        "names"
    )
    try:
        text = """
            WITH big AS (SELECT * FROM sales.orders WHERE amount > 1)
            SELECT n.name, o.id, (SELECT max(id) FROM sales.orders) AS most, row_number() OVER (ORDER BY o.id DESC) AS n
            FROM big o JOIN names n ON n.code = o.region LEFT SEMI JOIN sales.orders z ON z.id = o.id
            UNION ALL SELECT 'files', count(*), 0, 0 FROM sales.orders.files
            ORDER BY id, name"""
        assert rows(lake, text) == [("Europe", 1, 3, 2), ("States", 2, 3, 1), ("files", 3, 0, 0)]
        assert [view.name for view in spark.catalog.listTables() if view.isTemporary] == ["names"]
    finally:
        spark.catalog.dropTempView("names")


def test_a_frame_stays_what_it_was_when_the_table_moves_on(lake: Lake, orders: esker.Table) -> None:
    frame = lake.sql("SELECT count(*) FROM sales.orders")
    orders.append(pa.table({"id": [9]}))
    assert frame.collect()[0][0] == 3
    assert rows(lake, "SELECT count(*) FROM sales.orders") == [(4,)]


def test_time_travel_reads_old_rows_in_the_sessions_zone(lake: Lake, orders: esker.Table) -> None:
    first, second = orders.snapshots
    orders.tag("one", first.snapshot_id)
    between = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC).astimezone().isoformat()
    for travel in (
        f"VERSION AS OF {first.snapshot_id}",
        "FOR SYSTEM_VERSION AS OF 'one'",
        f"TIMESTAMP AS OF '{between}'",
        f"FOR SYSTEM_TIME AS OF timestamp_millis({first.timestamp_ms})",
    ):
        assert rows(lake, f"SELECT count(*) FROM sales.orders {travel} AS o") == [(2,)], travel
    soon = "FOR SYSTEM_TIME AS OF current_timestamp() + INTERVAL 1 DAY"
    assert rows(lake, f"SELECT count(*) FROM sales.orders {soon}") == [(3,)]
    assert second.snapshot_id != first.snapshot_id
    with pytest.raises(NoSuchSnapshot, match="the table's history begins later"):
        lake.sql("SELECT * FROM sales.orders TIMESTAMP AS OF '2001-01-01'")
    with pytest.raises(InvalidInput, match="that is not a time"):
        lake.sql("SELECT * FROM sales.orders TIMESTAMP AS OF (NULL)")


@pytest.mark.parametrize("name", sorted(Inspect.tables))
def test_every_metadata_table_can_be_queried(lake: Lake, orders: esker.Table, name: str) -> None:
    expected = getattr(orders.inspect, name)()
    frame = lake.sql(f"SELECT * FROM sales.orders.{name}")
    assert frame.columns == expected.schema.names
    assert frame.count() == expected.num_rows


def test_metadata_tables_of_an_empty_table_are_empty(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales.empty (id bigint, tags map<string, string>)")
    for name in sorted(Inspect.tables - {"metadata_log_entries"}):
        assert rows(lake, f"SELECT * FROM sales.empty.{name}") == [], name


def test_a_condition_is_read_in_the_sessions_zone_and_prunes_by_it(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales.events (id int, ts timestamp) PARTITIONED BY (day(ts))")
    lake.sql(
        "INSERT INTO sales.events VALUES (1, timestamp '2026-01-01 23:30:00'), (2, timestamp '2026-01-02 00:30:00')"
    )
    assert rows(lake, "SELECT id FROM sales.events WHERE ts < '2026-01-02'") == [(1,)]
    assert rows(lake, "SELECT id FROM sales.events WHERE ts >= date '2026-01-02'") == [(2,)]
    held = lake.table("sales.events").scan("id = 1").to_arrow().column("ts").to_pylist()
    assert held == [datetime(2026, 1, 2, 7, 30, tzinfo=UTC)]


def test_explain_shows_sparks_plan_of_what_is_left(lake: Lake, orders: esker.Table) -> None:
    (plan,) = rows(lake, "EXPLAIN SELECT amount FROM sales.orders WHERE region = 'eu'")
    assert "== Physical Plan ==" in plan[0]
    assert "Scan parquet" in plan[0]


def test_what_names_no_lake_table_is_sparks(lake: Lake, spark: Any) -> None:
    assert rows(lake, "SELECT '{x}', 1 + 1") == [("{x}", 2)]
    assert rows(lake, "VALUES (1), (2)") == [(1,), (2,)]
    assert "abs" in {row[0] for row in rows(lake, "SHOW FUNCTIONS LIKE 'abs'")}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.sql("SELECT * FROM nowhere")


def test_views_over_lake_tables_keep_their_rows(lake: Lake, orders: esker.Table, spark: Any) -> None:
    lake.sql(
        "CREATE OR REPLACE TEMP VIEW europe (key, money) AS SELECT id, amount FROM sales.orders WHERE region = 'eu'"
    )
    try:
        assert rows(lake, "SELECT e.key, o.region FROM europe e JOIN sales.orders o ON o.id = e.key") == [(1, "eu")]
        assert spark.table("europe").columns == ["key", "money"]
    finally:
        spark.catalog.dropTempView("europe")


# ---------------------------------------------------------------- defining


def test_a_table_is_made_as_it_was_said(lake: Lake) -> None:
    lake.sql("""
        CREATE TABLE IF NOT EXISTS sales.all (
            id bigint NOT NULL COMMENT 'key', ts timestamp, name string, place struct<x: double, y: double>,
            n int DEFAULT 7
        ) USING iceberg PARTITIONED BY (day(ts), bucket(16, id), truncate(4, name))
        TBLPROPERTIES ('format-version' = '3', 'owner' = 'ann') COMMENT 'all of it'""")
    table = lake.table("sales.all")
    assert table.format_version == 3
    assert [str(field.transform) for field in table.spec.fields] == ["day", "bucket[16]", "truncate[4]"]
    assert table.properties == {"owner": "ann", "comment": "all of it"}
    assert table.schema.fields[0].required
    lake.sql("CREATE TABLE IF NOT EXISTS sales.all (other int)")
    with pytest.raises(AlreadyExists, match=r"sales\.all"):
        lake.sql("CREATE TABLE sales.all (other int)")
    (shown,) = rows(lake, "SHOW CREATE TABLE sales.all")
    lake.sql("DROP TABLE sales.all")
    lake.sql(shown[0])
    assert lake.table("sales.all").schema == table.schema
    assert lake.table("sales.all").spec == table.spec


def test_a_table_from_a_query_appears_with_its_rows_or_not_at_all(
    lake: Lake, orders: esker.Table, tmp_path: Path
) -> None:
    lake.sql(
        "CREATE TABLE sales.copy PARTITIONED BY (bucket(2, id)) AS SELECT id, upper(region) AS r FROM sales.orders"
    )
    copy = lake.table("sales.copy")
    assert rows(lake, "SELECT * FROM sales.copy ORDER BY id") == [(1, "EU"), (2, "US"), (3, "ASIA")]
    assert (len(copy.snapshots), copy.schema.fields[0].required) == (1, False)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        lake.sql("CREATE TABLE sales.failed AS SELECT CAST(region AS int) AS x FROM sales.orders")
    assert lake.tables("sales") == ["sales.copy", "sales.orders"]
    assert not list((tmp_path / "warehouse" / "sales").glob("failed/**/*.parquet"))
    lake.sql("CREATE TABLE IF NOT EXISTS sales.copy AS SELECT 1 AS other")
    with pytest.raises(AlreadyExists):
        lake.sql("CREATE TABLE sales.copy AS SELECT 1 AS other")
    assert lake.table("sales.copy").schema == copy.schema


def test_a_table_is_altered_in_all_its_parts(lake: Lake, orders: esker.Table) -> None:
    for clause in (
        "ADD COLUMNS (note string COMMENT 'free' AFTER id, place struct<x: int>)",
        "ADD COLUMN place.y int",
        "ADD COLUMN IF NOT EXISTS note string",
        "ALTER COLUMN place.x TYPE bigint",
        "ALTER COLUMN note COMMENT 'freer'",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN amount FIRST",
        "RENAME COLUMN note TO remark",
        "DROP COLUMN IF EXISTS nothing",
        "ADD PARTITION FIELD bucket(4, id) AS shard",
        "REPLACE PARTITION FIELD region WITH truncate(1, region)",
        "WRITE ORDERED BY id DESC NULLS LAST, amount",
        "SET TBLPROPERTIES ('owner' = 'ann', 'x' = 'y', 'format-version' = '3')",
        "UNSET TBLPROPERTIES ('x')",
    ):
        assert lake.sql(f"ALTER TABLE sales.orders {clause}").columns == []
    table = orders.refresh()
    assert [field.name for field in table.schema.fields] == ["amount", "id", "remark", "region", "place"]
    assert str(table.schema.find("place.x").type) == "long"
    assert table.schema.find("remark").doc == "freer"
    assert [field.name for field in table.spec.fields] == ["shard", "region_trunc_1"]
    assert [(field.descending, field.nulls_last) for field in table.sort_order.fields] == [(True, True), (False, False)]
    assert (table.format_version, table.properties["owner"], "x" in table.properties) == (3, "ann", False)
    assert rows(lake, "SELECT id, place FROM sales.orders WHERE id = 1") == [(1, None)]


def test_branches_and_tags_are_made_written_and_dropped(lake: Lake, orders: esker.Table) -> None:
    first = orders.snapshots[0].snapshot_id
    lake.sql(f"ALTER TABLE sales.orders CREATE TAG one AS OF VERSION {first} RETAIN 5 DAYS")
    lake.sql("ALTER TABLE sales.orders CREATE BRANCH IF NOT EXISTS work")
    lake.sql("INSERT INTO sales.orders.branch_work VALUES (4, 'eu', 4)")
    lake.sql("DELETE FROM sales.orders.branch_work WHERE region = 'us'")
    assert rows(lake, "SELECT id FROM sales.orders VERSION AS OF 'work' ORDER BY id") == [(1,), (3,), (4,)]
    assert rows(lake, "SELECT id FROM sales.orders ORDER BY id") == [(1,), (2,), (3,)]
    assert orders.refresh().refs["one"].max_ref_age_ms == 432_000_000
    with pytest.raises(AlreadyExists):
        lake.sql("ALTER TABLE sales.orders CREATE BRANCH work")
    with pytest.raises(InvalidInput, match="cannot drop tag 'work': it is a branch"):
        lake.sql("ALTER TABLE sales.orders DROP TAG work")
    lake.sql("ALTER TABLE sales.orders DROP BRANCH work")
    lake.sql("ALTER TABLE sales.orders DROP BRANCH IF EXISTS work")
    with pytest.raises(InvalidInput, match="cannot write to"):
        lake.sql("INSERT INTO sales.orders.files SELECT 1")


def test_namespaces_and_names_in_use(lake: Lake, orders: esker.Table) -> None:
    lake.sql("CREATE SCHEMA IF NOT EXISTS sales")
    lake.sql("CREATE DATABASE sales.europe COMMENT 'there'")
    assert rows(lake, "SHOW NAMESPACES") == [("sales",), ("sales.europe",)]
    assert rows(lake, "SHOW NAMESPACES IN sales") == [("sales.europe",)]
    assert rows(lake, "DESCRIBE NAMESPACE sales.europe") == [("Namespace Name", "sales.europe"), ("Comment", "there")]
    lake.sql("USE sales.europe")
    lake.sql("CREATE TABLE paris (id int)")
    lake.sql("INSERT INTO paris VALUES (1)")
    assert rows(lake, "SELECT p.id FROM Paris p, paris.files f") == [(1,)]
    assert rows(lake, "SHOW TABLES") == [("sales.europe", "paris", False)]
    lake.sql("ALTER TABLE paris RENAME TO berlin")
    lake.sql("DROP TABLE berlin PURGE")
    lake.sql("DROP TABLE IF EXISTS berlin")
    with pytest.raises(NoSuchTable, match=r"berlin"):
        lake.sql("DROP TABLE berlin")
    lake.sql("USE default")
    with pytest.raises(InvalidInput, match=r"write namespace\.paris, or USE a namespace"):
        lake.sql("CREATE TABLE paris (id int)")
    lake.sql("DROP NAMESPACE sales.europe")
    with pytest.raises(NoSuchNamespace):
        lake.sql("USE sales.europe")
    with pytest.raises(NoSuchNamespace):
        lake.sql("CREATE TABLE sales.europe.x AS SELECT 1 AS id")


def test_show_and_describe_answer_in_sparks_columns(lake: Lake, orders: esker.Table) -> None:
    assert rows(lake, "SHOW TABLES IN sales LIKE 'ord*|x'") == [("sales", "orders", False)]
    assert rows(lake, "SHOW COLUMNS IN sales.orders") == [("id",), ("region",), ("amount",)]
    assert sorted(rows(lake, "SHOW PARTITIONS sales.orders")) == [("region=asia",), ("region=eu",), ("region=us",)]
    assert rows(lake, "SHOW TBLPROPERTIES sales.orders ('format-version')") == [("format-version", "2")]
    assert rows(lake, "DESCRIBE sales.orders")[:4] == [
        ("id", "bigint", None),
        ("region", "string", None),
        ("amount", "decimal(10,2)", None),
        ("", "", ""),
    ]
    details = {name: value for name, value, _ in rows(lake, "DESCRIBE EXTENDED sales.orders")}
    assert (details["Name"], details["Part 0"], details["UUID"]) == ("sales.orders", "region", orders.uuid)
    assert rows(lake, "DESCRIBE sales.orders amount")[1] == ("data_type", "decimal(10,2)")


# ---------------------------------------------------------------- rows


def test_an_insert_answers_with_its_snapshot(lake: Lake, orders: esker.Table) -> None:
    ((operation, snapshot_id, added, updated, deleted),) = rows(
        lake, "INSERT INTO sales.orders VALUES (5, 'eu', 1), (6, 'eu', 1)"
    )
    snapshot = orders.refresh().current_snapshot
    assert snapshot is not None
    assert (operation, snapshot_id, added, updated, deleted) == ("append", snapshot.snapshot_id, 2, 0, 0)


def test_columns_go_by_place_by_list_or_by_name(lake: Lake, orders: esker.Table) -> None:
    lake.sql("DELETE FROM sales.orders")
    lake.sql("INSERT INTO sales.orders SELECT 1 AS x, 'a' AS x, 2 AS x")
    lake.sql("INSERT INTO sales.orders (Region, id) VALUES ('b', 2)")
    lake.sql("INSERT INTO sales.orders BY NAME SELECT 'c' AS region, 3 AS id")
    lake.sql("WITH c AS (SELECT 4 AS id) INSERT INTO sales.orders (id) SELECT * FROM c")
    assert rows(lake, "SELECT * FROM sales.orders ORDER BY id") == [
        (1, "a", Decimal("2.00")),
        (2, "b", None),
        (3, "c", None),
        (4, None, None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO sales.orders SELECT 1", "cannot write 1 columns into sales.orders: 3 are expected"),
        ("INSERT INTO sales.orders (id, id) VALUES (1, 2)", "cannot write column 'id' twice"),
        ("INSERT INTO sales.orders (id, nope) VALUES (1, 2)", "the table has no column 'nope'"),
        ("INSERT INTO sales.orders VALUES ('1', 'eu', 1)", "of type string into 'id' of type bigint"),
        ("INSERT INTO sales.orders VALUES (1, array('eu'), 1)", "of type array<string not null> into 'region'"),
        ("INSERT INTO sales.orders (region) VALUES ('eu')", "the required column 'id' is missing"),
        (
            "INSERT OVERWRITE sales.orders PARTITION (amount = 1) SELECT 1, 'eu'",
            "is partitioned by as they are: region",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    lake: Lake, orders: esker.Table, text: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        lake.sql(text)
    assert orders.refresh().scan().count() == 3


def test_insert_overwrite_replaces_what_its_mode_says(lake: Lake, orders: esker.Table, spark: Any) -> None:
    lake.sql(
        "INSERT OVERWRITE sales.orders PARTITION (region = 'eu') SELECT id + 10, amount FROM sales.orders WHERE id = 1"
    )
    assert rows(lake, "SELECT id, region FROM sales.orders ORDER BY id") == [(2, "us"), (3, "asia"), (11, "eu")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql("INSERT OVERWRITE TABLE sales.orders VALUES (20, 'us', 1)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(lake, "SELECT id, region FROM sales.orders ORDER BY id") == [(3, "asia"), (11, "eu"), (20, "us")]
    lake.sql("INSERT INTO sales.orders REPLACE WHERE id < 15 SELECT 12, 'eu', 0")
    assert rows(lake, "SELECT id, region FROM sales.orders ORDER BY id") == [(12, "eu"), (20, "us")]
    lake.sql("INSERT OVERWRITE sales.orders SELECT * FROM sales.orders WHERE id = 20")
    assert rows(lake, "SELECT id FROM sales.orders") == [(20,)]


def test_rows_are_deleted_by_a_condition_in_the_sessions_zone(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales.events (id int, ts timestamp, d date)")
    lake.sql("""INSERT INTO sales.events VALUES
        (1, timestamp '2026-01-01 23:30:00', date '2026-01-01'), (2, timestamp '2026-01-02 00:30:00', null)""")
    ((_, _, added, _, deleted),) = rows(lake, "DELETE FROM sales.events e WHERE e.ts >= '2026-01-02'")
    assert (added, deleted) == (0, 1)
    assert rows(lake, "SELECT id, d FROM sales.events") == [(1, date(2026, 1, 1))]
    with pytest.raises(
        InvalidInput, match=r"the condition, 'nosuch\(id\)' \(at line 1, column 32\), is not understood"
    ):
        lake.sql("DELETE FROM sales.events WHERE nosuch(id)")
    assert rows(lake, "SELECT id FROM sales.events") == [(1,)]
    lake.sql("TRUNCATE TABLE sales.events")
    assert rows(lake, "SELECT * FROM sales.events") == []


def test_rows_of_the_lake_go_into_sparks_own_tables(lake: Lake, orders: esker.Table, spark: Any) -> None:
    lake.sql("CREATE TABLE default.plain USING parquet AS SELECT id FROM sales.orders")
    try:
        lake.sql("INSERT INTO default.plain SELECT id + 10 FROM sales.orders")
        assert rows(lake, "SELECT count(*) FROM default.plain p LEFT JOIN sales.orders o ON o.id = p.id") == [(6,)]
    finally:
        spark.sql("DROP TABLE default.plain")


def test_a_metadata_table_is_described_by_its_own_columns(lake: Lake, orders: esker.Table) -> None:
    described = rows(lake, "DESCRIBE TABLE EXTENDED sales.orders.snapshots")
    assert [name for name, *_ in described][:3] == ["committed_at", "snapshot_id", "parent_id"]
    assert [type_ for _, type_, *_ in described][:3] == ["timestamp", "bigint", "bigint"]


def test_a_zone_that_is_not_set_is_that_of_the_jvm(spark: Any, tmp_path: Path) -> None:
    """Spark reads a timestamp without a zone in the zone of its JVM. Files must be pruned by the same moment."""
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    table = lake.create_table("a.t", "ts timestamp")
    table.append(pa.table({"ts": pa.array([datetime(2026, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))}))
    zones = spark._jvm.java.util.TimeZone
    before, zone = zones.getDefault(), spark.conf.get("spark.sql.session.timeZone")
    try:
        zones.setDefault(zones.getTimeZone("Pacific/Honolulu"))  # ten hours behind UTC
        spark.conf.unset("spark.sql.session.timeZone")
        assert lake.sql("SELECT * FROM a.t WHERE ts < TIMESTAMP '2026-01-01 00:00:00'").count() == 1
        assert lake.sql("SELECT * FROM a.t WHERE ts < '2026-01-01 00:00:00'").count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        zones.setDefault(before)
