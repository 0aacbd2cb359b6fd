"""Views by SQL on Spark: made, read, changed and dropped, and what is refused of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from telemetry_tables import telemetry, telemetry_table

import esker
from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from esker.ingest.otlp.telemetry_tables import make_traces_view
from esker.lake import Lake
from esker.otlp.protocol.messages import Signal
from esker.otlp.schemas import Profile


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark)
    lake.create_namespace("sales")
    lake.create_namespace("other")
    orders = lake.create_table("sales.orders", "id bigint not null, region string, amount double")
    orders.append(pa.table({"id": [1, 2], "region": ["eu", "us"], "amount": [1.0, 2.0]}))
    orders.append(pa.table({"id": [3], "region": ["eu"], "amount": [3.0]}))
    return lake


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql(text).collect())


def test_a_view_is_made_with_the_columns_that_spark_says_and_read(lake: Lake) -> None:
    lake.sql("CREATE VIEW sales.europe AS SELECT id, amount * 2 AS twice FROM sales.orders WHERE region = 'eu'")
    view = lake.view("sales.europe")
    assert [(field.name, str(field.type), field.required) for field in view.schema.fields] == [
        ("id", "long", False),
        ("twice", "double", False),
    ]
    assert view.sql == "SELECT id, amount * 2 AS twice FROM sales.orders WHERE region = 'eu'"
    assert rows(lake, "SELECT * FROM sales.europe") == [(1, 2.0), (3, 6.0)]
    lake.table("sales.orders").append(pa.table({"id": [4], "region": ["eu"], "amount": [4.0]}))
    assert rows(lake, "SELECT e.id FROM sales.europe e WHERE twice > 6") == [(4,)]


def test_python_makes_one_too_and_spark_names_its_columns(lake: Lake) -> None:
    view = lake.create_view("sales.totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
    assert [str(field.type) for field in view.schema.fields] == ["string", "double"]
    assert rows(lake, "SELECT * FROM sales.totals") == [("eu", 4.0), ("us", 2.0)]
    with pytest.raises(AlreadyExists, match=r"cannot create view sales\.totals: a view of that name exists"):
        lake.create_view("sales.totals", "SELECT 1 AS a")
    lake.create_view("sales.totals", "SELECT 1 AS a", replace=True)
    assert rows(lake, "TABLE sales.totals") == [(1,)]
    assert len(lake.view("sales.totals").versions) == 2


def test_columns_have_the_names_and_comments_that_the_view_gives(lake: Lake) -> None:
    lake.sql(
        "CREATE VIEW sales.v (key COMMENT 'as in the shop', `the region`) COMMENT 'mine' TBLPROPERTIES ('a' = 'b') AS "
        "SELECT id, region FROM sales.orders"
    )
    view = lake.view("sales.v")
    assert [(field.name, field.doc) for field in view.schema.fields] == [
        ("key", "as in the shop"),
        ("the region", None),
    ]
    assert (view.comment, view.properties["a"], view.query_columns) == ("mine", "b", ("id", "region"))
    assert rows(lake, "SELECT key FROM sales.v WHERE `the region` = 'us'") == [(2,)]
    with pytest.raises(InvalidInput, match="cannot name 1 columns of 2 in the view"):
        lake.sql("CREATE VIEW sales.w (key) AS SELECT id, region FROM sales.orders")


def test_views_read_views_and_stand_beside_tables_and_sparks_own(lake: Lake, spark: Any) -> None:
    lake.sql("CREATE VIEW sales.europe AS SELECT * FROM sales.orders WHERE region = 'eu'")
    lake.sql("USE sales")
    lake.sql("CREATE VIEW other.big AS SELECT id AS k FROM europe WHERE amount > 1")
    assert lake.view("other.big").current_version.default_namespace == ("sales",)
    lake.sql("USE other")
    spark.sql("SELECT 3 AS k, 'three' AS word").createOrReplaceTempView("words")
    try:
        text = "SELECT w.word, o.region FROM big JOIN words w USING (k) JOIN sales.orders o ON o.id = big.k"
        assert rows(lake, text) == [("three", "eu")]
    finally:
        spark.catalog.dropTempView("words")
    inserted = lake.sql("INSERT INTO sales.orders SELECT k + 10, 'x', 0 FROM other.big")
    assert inserted.collect()[0].added_records == 1
    merged = "MERGE INTO sales.orders t USING other.big s ON t.id = s.k WHEN MATCHED THEN UPDATE SET region = 'merged'"
    lake.sql(merged)
    lake.sql("DELETE FROM sales.orders WHERE id IN (SELECT id FROM sales.europe)")
    assert rows(lake, "SELECT id, region FROM sales.orders") == [(2, "us"), (3, "merged"), (13, "x")]


def test_a_view_of_a_star_keeps_the_columns_that_it_had(lake: Lake) -> None:
    lake.sql("CREATE VIEW sales.everything AS SELECT * FROM sales.orders")
    with lake.table("sales.orders").alter() as change:
        change.add_column("later", "string", first=True)
    assert lake.sql("SELECT * FROM sales.everything").columns == ["id", "region", "amount"]
    assert rows(lake, "SELECT id FROM sales.everything WHERE region = 'us'") == [(2,)]


def test_statements_change_a_view(lake: Lake) -> None:
    lake.sql("CREATE VIEW sales.v AS SELECT 1 AS a")
    lake.sql("CREATE VIEW IF NOT EXISTS sales.v AS SELECT 2 AS a")
    assert rows(lake, "SELECT * FROM sales.v") == [(1,)]
    lake.sql("CREATE OR REPLACE VIEW sales.v AS SELECT 3 AS b")
    assert rows(lake, "SELECT b FROM sales.v") == [(3,)]
    lake.sql("ALTER VIEW sales.v AS SELECT 4 AS c")
    assert rows(lake, "SELECT c FROM sales.v") == [(4,)]
    lake.sql("ALTER VIEW sales.v SET TBLPROPERTIES ('k' = 'x', 'l' = 'y')")
    lake.sql("ALTER VIEW sales.v UNSET TBLPROPERTIES ('l')")
    assert lake.view("sales.v").properties["k"] == "x"
    assert "l" not in lake.view("sales.v").properties
    lake.sql("ALTER VIEW sales.v RENAME TO w")
    assert rows(lake, "SHOW VIEWS IN sales") == [("sales", "w", False)]
    assert rows(lake, "SHOW TABLES IN sales") == [("sales", "orders", False)]
    lake.sql("DROP VIEW sales.w")
    lake.sql("DROP VIEW IF EXISTS sales.w")
    assert rows(lake, "SHOW VIEWS") == []


def test_what_is_told_of_a_view_makes_it_once_more(lake: Lake) -> None:
    lake.sql(
        "CREATE VIEW sales.v (k COMMENT 'it''s', `odd name`) COMMENT 'mine' AS SELECT id, region FROM sales.orders"
    )
    assert rows(lake, "DESCRIBE sales.v") == [("k", "bigint", "it's"), ("odd name", "string", "")]
    location = lake.view("sales.v").location
    shown = f"'format-version' = '1', 'location' = '{location}', 'provider' = 'iceberg'"
    extended = {row[0]: row[1] for row in lake.sql("DESCRIBE EXTENDED sales.v").collect()}
    assert (extended["Type"], extended["View Text"]) == ("VIEW", "SELECT id, region FROM sales.orders")
    assert (extended["View Catalog and Namespace"], extended["View Properties"]) == ("lake.sales", f"[{shown}]")
    assert rows(lake, "SHOW COLUMNS IN sales.v") == [("k",), ("odd name",)]
    held = [("comment", "mine"), ("format-version", "1"), ("location", location), ("provider", "iceberg")]
    assert rows(lake, "SHOW TBLPROPERTIES sales.v") == held
    assert rows(lake, "SHOW TBLPROPERTIES sales.v (provider)") == [("provider", "iceberg")]
    said = "View lake.sales.v does not have property: no.such"
    assert rows(lake, "SHOW TBLPROPERTIES sales.v (no.such)") == [("no.such", said)]
    ((statement,),) = rows(lake, "SHOW CREATE TABLE sales.v")
    assert statement.startswith("CREATE VIEW lake.sales.v (\n  k COMMENT 'it\\'s',\n  `odd name`)\nCOMMENT 'mine'\n")
    assert statement.endswith("\nAS\nSELECT id, region FROM sales.orders\n")
    before = lake.view("sales.v")
    lake.sql("DROP VIEW sales.v")
    lake.sql(statement)
    after = lake.view("sales.v")
    assert (after.sql, after.schema, after.properties) == (before.sql, before.schema, before.properties)
    assert after.location == before.location
    lake.create_namespace("lake")  # lake.sales.v would be looked for in that namespace
    ((statement,),) = rows(lake, "SHOW CREATE TABLE sales.v")
    assert statement.startswith("CREATE VIEW sales.v (")


def test_properties_of_a_view_that_say_what_it_is_are_checked(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match=r"cannot create view sales\.v with provider 'hive': it is 'iceberg'"):
        lake.sql("CREATE VIEW sales.v TBLPROPERTIES ('provider' = 'hive') AS SELECT 1 AS a")
    with pytest.raises(InvalidInput, match=r"cannot create view sales\.v with format-version '2': it is '1'"):
        lake.sql("CREATE VIEW sales.v TBLPROPERTIES ('format-version' = '2') AS SELECT 1 AS a")
    lake.sql("CREATE VIEW sales.v AS SELECT 1 AS a")
    home = lake.view("sales.v").location
    lake.sql(f"CREATE VIEW sales.w TBLPROPERTIES ('location' = '{home}_of_another') AS SELECT 1 AS a")
    assert lake.view("sales.w").location == f"{home}_of_another"
    assert "location" not in lake.view("sales.w").properties
    with pytest.raises(InvalidInput, match=r"cannot move view sales\.v to"):
        lake.sql(f"CREATE OR REPLACE VIEW sales.v TBLPROPERTIES ('location' = '{home}_x') AS SELECT 2 AS a")
    with pytest.raises(InvalidInput):
        lake.sql("CREATE VIEW sales.x TBLPROPERTIES ('location' = '/elsewhere/x') AS SELECT 1 AS a")
    assert lake.views() == ["sales.v", "sales.w"]


def test_temporary_views_are_shown_beside_those_that_last(lake: Lake, spark: Any) -> None:
    lake.sql("CREATE VIEW sales.v AS SELECT 1 AS a")
    spark.range(1).createOrReplaceTempView("short_lived")
    try:
        for text in ("SHOW VIEWS", "SHOW VIEWS IN sales"):
            assert {("sales", "v", False), ("", "short_lived", True)} <= set(rows(lake, text))
        assert rows(lake, "SHOW VIEWS LIKE 'short*'") == [("", "short_lived", True)]
        assert rows(lake, "SHOW VIEWS IN lake LIKE 'v'") == []
    finally:
        spark.catalog.dropTempView("short_lived")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "INSERT INTO sales.v VALUES (1)",
            r"cannot use sales\.v \(at line 1, column 13\) as a table: sales\.v is a view",
        ),
        ("INSERT OVERWRITE sales.v SELECT 1", r"as a table: sales\.v is a view"),
        ("DELETE FROM sales.v", r"as a table: sales\.v is a view"),
        ("UPDATE sales.v SET id = 1", r"as a table: sales\.v is a view"),
        (
            "MERGE INTO sales.v USING sales.orders s ON 1 = 1 WHEN MATCHED THEN DELETE",
            r"as a table: sales\.v is a view",
        ),
        ("TRUNCATE TABLE sales.v", r"as a table: sales\.v is a view"),
        ("ALTER TABLE sales.v ADD COLUMN x int", r"as a table: sales\.v is a view"),
        ("DROP TABLE sales.v", r"as a table: sales\.v is a view.*DROP VIEW"),
        ("DROP TABLE IF EXISTS sales.v", r"as a table: sales\.v is a view.*DROP VIEW"),
        ("SELECT * FROM sales.v VERSION AS OF 1", r"cannot read sales\.v as of a version or a time"),
        ("CREATE TABLE sales.v (a int)", r"cannot create table sales\.v: a view of that name exists"),
        ("CREATE VIEW sales.v AS SELECT 1 AS a", r"cannot create view sales\.v: a view of that name exists"),
        ("CREATE OR REPLACE VIEW sales.orders AS SELECT 1 AS a", r"cannot create view sales\.orders: a table of that"),
        ("CREATE OR REPLACE VIEW sales.v AS SELECT * FROM sales.v", r"cannot make view sales\.v: .*it reads itself"),
        ("CREATE OR REPLACE VIEW sales.v AS SELECT * FROM other.w", r"sales\.v → other\.w → sales\.v"),
        ("ALTER VIEW sales.v RENAME TO orders", r"a table of that name exists"),
        ("DROP VIEW sales.orders", r"no view sales\.orders: it is a table"),
        ("DROP VIEW sales.gone", r"no view sales\.gone.*did you mean|no view sales\.gone.*sales has sales\.v"),
        ("ALTER VIEW sales.gone AS SELECT 1 AS a", r"no view sales\.gone"),
        (
            "CREATE VIEW sales.w AS SELECT * FROM gone",
            r"cannot make view sales\.w: there is no table or view sales\.gone",
        ),
        ("CREATE VIEW nowhere.w AS SELECT 1 AS a", r"no namespace nowhere"),
        ("CREATE VIEW sales.w AS DROP TABLE x", r"at line 1, column 24: expected a query, not 'DROP'"),
        ("CREATE VIEW sales.w AS SELECT 1 AS a, 2 AS a", r"column 'a' is there twice"),
        ("CREATE VIEW sales.w COMMENT 'x'", r"expected .*AS and a query"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS sales.w AS SELECT 1", r"the two exclude each other"),
        ("ALTER VIEW sales.v ADD COLUMN x int", r"expected SET TBLPROPERTIES"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_nothing_changes(lake: Lake, text: str, why: str) -> None:
    lake.sql("CREATE VIEW sales.v AS SELECT id FROM sales.orders")
    lake.sql("CREATE VIEW other.w AS SELECT id FROM sales.v")
    before = {name: lake.view(name).metadata_location for name in lake.views()}
    with pytest.raises(EskerError, match=why):
        lake.sql(text)
    assert {name: lake.view(name).metadata_location for name in lake.views()} == before
    assert lake.tables() == ["sales.orders"]


def test_a_view_that_lasts_reads_no_temporary_one(lake: Lake, spark: Any) -> None:
    spark.sql("SELECT 1 AS a").createOrReplaceTempView("fleeting")
    try:
        with pytest.raises(InvalidInput, match=r"cannot make view sales\.w: fleeting is a temporary view"):
            lake.sql("CREATE VIEW sales.w AS SELECT * FROM fleeting")
    finally:
        spark.catalog.dropTempView("fleeting")
    with pytest.raises(AnalysisException, match="nonsense"):
        lake.sql("CREATE VIEW sales.w AS SELECT nonsense FROM sales.orders")
    assert lake.views() == []


def test_a_view_is_opened_as_a_view_only(lake: Lake, spark: Any) -> None:
    lake.sql("CREATE VIEW sales.v AS SELECT id FROM sales.orders")
    with pytest.raises(
        NoSuchTable, match=r"no table sales\.v: it is a view; lake\.sql reads it and lake\.view opens it$"
    ):
        lake.table("sales.v")
    with pytest.raises(NoSuchView, match=r"no view sales\.orders: it is a table; lake\.table opens it$"):
        lake.view("sales.orders")
    with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
        lake.views("nowhere")
    esker.spark.register(spark, lake)
    try:
        with pytest.raises(AnalysisException, match=r"no table sales\.v: it is a view; lake\.sql reads it"):
            spark.read.format("esker").load("sales.v").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


OLD_QUERY = """
    SELECT TraceId, SpanId, ParentSpanId, EventsTimestamp, EventsName, EventsAttributes, LinksTraceId, LinksSpanId,
           LinksTraceState, LinksAttributes, SpanAttributes['k'] AS k, size(EventsName) AS events
    FROM otel.otel_traces WHERE Duration >= 0 AND Timestamp > TIMESTAMP '1970-01-02'"""
BY_HAND = """
    SELECT lower(hex(TraceId)), lower(hex(SpanId)), lower(hex(ParentSpanId)), coalesce(Events.Timestamp, array()),
           coalesce(Events.Name, array()), coalesce(Events.Attributes, array()),
           transform(coalesce(Links.TraceId, array()), x -> lower(hex(x))),
           transform(coalesce(Links.SpanId, array()), x -> lower(hex(x))), coalesce(Links.TraceState, array()),
           coalesce(Links.Attributes, array()), SpanAttributes['k'], size(coalesce(Events, array()))
    FROM otel.spans WHERE Duration >= 0 AND Timestamp > TIMESTAMP '1970-01-02'"""


def test_an_old_query_of_traces_gives_what_one_written_for_spans_gives(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark)
    telemetry_table(lake, "spans", telemetry(Signal.TRACES)["spans"])
    make_traces_view(lake, Profile.MAP)
    old = sorted(map(repr, (tuple(row) for row in lake.sql(OLD_QUERY).collect())))
    assert old == sorted(map(repr, (tuple(row) for row in lake.sql(BY_HAND).collect())))
    assert len(old) > 5
    frame = lake.sql("SELECT * FROM otel.otel_traces")
    assert frame.columns == [field.name for field in lake.view("otel.otel_traces").schema.fields]
    widths = lake.sql("SELECT DISTINCT length(TraceId) FROM otel.otel_traces WHERE TraceId IS NOT NULL").collect()
    assert [row[0] for row in widths] == [32]
    checked = lake.create_view("otel.checked", lake.view("otel.otel_traces").sql)
    assert [str(field.type) for field in checked.schema.fields] == [
        str(field.type) for field in lake.view("otel.otel_traces").schema.fields
    ]
