"""Views in one JDBC catalog, made, read, replaced and dropped by Esker and by Iceberg's own runtime."""

from __future__ import annotations

import pyarrow as pa
import pytest
from jvm_peer import Refused
from sql_lakes import only_scan, rewritten

from esker.errors import AlreadyExists, NoSuchView

ROWS = pa.table({"id": [1, 2, 3], "region": ["eu", "us", "eu"]})


@pytest.fixture
def orders(viewed):
    """A table of three rows in a catalog that keeps views, shared with Java."""
    viewed.lake.create_table(viewed.name("orders"), "id bigint, region string").append(ROWS)
    return viewed


def views_seen_by_java(orders) -> list[str]:
    """Those of the namespace; Spark lists the session's own, which other tests leave, with them."""
    listed = orders.sql("SHOW VIEWS IN {catalog}.{namespace}").dicts()
    return [row["viewName"] for row in listed if not row["isTemporary"]]


def test_java_reads_a_view_that_esker_made(orders) -> None:
    orders.lake.create_view(
        orders.name("europe"),
        "SELECT id, region FROM orders WHERE region = 'eu'",
        schema="key bigint comment 'as in the shop', region string",
        comment="from Europe",
    )
    assert sorted(orders.sql("SELECT key FROM {europe}").rows) == [(1,), (3,)]
    (key, region) = orders.sql("DESCRIBE {europe}").dicts()
    assert (key["col_name"], key["data_type"], key["comment"]) == ("key", "bigint", "as in the shop")
    assert region["col_name"] == "region"
    assert views_seen_by_java(orders) == ["europe"]
    assert ("Comment", "from Europe", "") in orders.sql("DESCRIBE EXTENDED {europe}").rows
    assert [row["tableName"] for row in orders.sql("SHOW TABLES IN {catalog}.{namespace}").dicts()] == ["orders"]


def test_esker_reads_a_view_that_java_made(orders) -> None:
    orders.run(
        "USE {catalog}.{namespace}",
        "CREATE VIEW {europe} (key COMMENT 'as in the shop', region) COMMENT 'from Europe' TBLPROPERTIES ('a' = 'b')"
        " AS SELECT id, region FROM orders WHERE region = 'eu'",
        "CREATE VIEW {named} AS SELECT o.id, e.region FROM {orders} o JOIN {europe} e ON o.id = e.key",
        "USE spark_catalog.default",
    )
    lake = orders.lake
    assert lake.views(orders.namespace) == [orders.name("europe"), orders.name("named")]
    view = lake.view(orders.name("europe"))
    assert view.sql == "SELECT id, region FROM orders WHERE region = 'eu'"
    assert [(field.name, str(field.type), field.doc) for field in view.schema.fields] == [
        ("key", "long", "as in the shop"),
        ("region", "string", None),
    ]
    assert (view.comment, view.properties["a"], view.dialects) == ("from Europe", "b", ("spark",))
    assert view.current_version.default_namespace == (orders.namespace,)
    assert view.query_columns == ("id", "region")
    scan = only_scan(rewritten(lake, f"SELECT key FROM {orders.name('europe')} WHERE key > 1"))
    assert scan.count() == 1
    assert len(rewritten(lake, f"SELECT * FROM {orders.name('named')}").frames) == 2  # one pruned, one whole


def test_each_replaces_what_the_other_made(orders) -> None:
    lake, name = orders.lake, orders.name("v")
    orders.run("USE {catalog}.{namespace}", "CREATE VIEW {v} AS SELECT id FROM orders")
    lake.create_view(name, "SELECT id AS ours FROM orders WHERE id > 2", schema="ours bigint", replace=True)
    assert orders.sql("SELECT ours FROM {v}").rows == [(3,)]
    orders.run("CREATE OR REPLACE VIEW {v} AS SELECT region AS theirs FROM orders WHERE id = 2")
    view = lake.view(name)
    assert [version.version_id for version in view.versions] == [1, 2, 3]
    assert [entry.version_id for entry in view.history] == [1, 2, 3]
    assert [field.name for field in view.schema.fields] == ["theirs"]
    assert only_scan(rewritten(lake, f"SELECT * FROM {name}")).count() == 1
    view.set_properties({"by": "us"})
    orders.run("ALTER VIEW {v} SET TBLPROPERTIES ('also' = 'them')", "USE spark_catalog.default")
    assert {key: lake.view(name).properties[key] for key in ("by", "also")} == {"by": "us", "also": "them"}
    assert lake.view(name).uuid == view.uuid


def test_a_name_is_one_thing_to_both(orders) -> None:
    lake = orders.lake
    lake.create_view(orders.name("ours"), "SELECT 1 AS a", schema="a int")
    orders.run("CREATE VIEW {theirs} AS SELECT 2 AS a")
    for statement in ("CREATE TABLE {ours} (a int) USING iceberg", "CREATE VIEW {ours} AS SELECT 3 AS a"):
        with pytest.raises(Refused, match=r"(?i)already exists"):
            orders.run(statement)
    with pytest.raises(AlreadyExists, match="a view of that name exists"):
        lake.create_table(orders.name("theirs"), "a int")
    lake.rename_view(orders.name("ours"), orders.name("moved"))
    assert orders.sql("SELECT * FROM {moved}").rows == [(1,)]
    orders.run("ALTER VIEW {theirs} RENAME TO {gone}")
    assert lake.views(orders.namespace) == [orders.name("gone"), orders.name("moved")]
    lake.drop_view(orders.name("gone"))
    orders.run("DROP VIEW {moved}")
    with pytest.raises(NoSuchView, match="no view"):
        lake.view(orders.name("moved"))
    assert views_seen_by_java(orders) == []
