"""Iceberg's own reader on what plain Spark wrote through Esker: SQL, overwrites and deletes, nested and partitioned."""

from __future__ import annotations

from typing import Any

import pytest
from jvm_samples import EVERY_TYPE, ORDERS, SPARK_TYPES, every_type, orders
from jvm_writers import spark

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def session() -> Any:
    """Plain Spark, started before the lake asks for one."""
    return spark()


def said(shared, text: str) -> None:
    """A statement for Esker's SQL; ``{t}`` stands for the table ``t``."""
    names = {name: shared.name(name) for name in ("t", "u", "v")}
    shared.lake.sql(text.format_map(names))


@pytest.mark.parametrize("version", [2, 3])
def test_tables_made_and_changed_in_sql(sqlite, session, version: int) -> None:
    sqlite.lake.create_table(sqlite.name("u"), EVERY_TYPE).append(every_type())
    said(
        sqlite,
        "CREATE TABLE {t} USING iceberg PARTITIONED BY (bucket(3, id), truncate(2, text))"
        f" TBLPROPERTIES ('format-version'='{version}') AS SELECT * FROM {{u}}",
    )
    assert sqlite.sql("SELECT * FROM {t}").columns == SPARK_TYPES
    sqlite.assert_holds("t", every_type())
    said(sqlite, "INSERT INTO {t} SELECT * FROM {u} WHERE id < 2")
    assert len(sqlite.assert_same("t")) == every_type().num_rows + 2
    said(sqlite, "DELETE FROM {t} WHERE id = 1 OR text = ''")
    said(sqlite, "INSERT OVERWRITE {t} SELECT * FROM {u} WHERE id = 2")
    assert sqlite.assert_same("t")
    for snapshot in sqlite.table("t").snapshots:
        sqlite.assert_same("t", version=str(snapshot.snapshot_id))


def test_frames_that_overwrite(sqlite, session) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, partition_by=["region", "day(ts)"])
    table.append(session.createDataFrame(orders(0, 40)))
    table.overwrite(session.createDataFrame(orders(100, 5)), "region = 'us'")
    assert len(sqlite.assert_same("t")) == table.scan().count()
    table.overwrite_partitions(session.createDataFrame(orders(200, 6)))
    table.delete("id IN (203, 30) OR amount < 5")
    assert len(sqlite.assert_same("t")) == table.scan().count()
    for where in ("region = 'us'", "region IS NULL", "id >= 100 AND amount < 2500"):
        sqlite.assert_same("t", where=where)
    for snapshot in table.snapshots:
        sqlite.assert_same("t", version=str(snapshot.snapshot_id))


def test_several_frames_in_one_snapshot_and_on_a_branch(shared, session) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["bucket(4, id)"], format_version=3)
    with table.transaction() as tx:
        tx.append(session.createDataFrame(orders(0, 10)))
        tx.append(orders(10, 10))
        tx.delete("id IN (3, 13)")
    table.branch("audit")
    table.append(session.createDataFrame(orders(50, 5)), ref="audit")
    assert len(shared.assert_same("t")) == 18
    assert len(shared.assert_same("t", version="audit")) == 23


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_changed_by_esker_are_java_s(sqlite, session, version: int, mode: str) -> None:
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = sqlite.lake.create_table(
        sqlite.name("t"), ORDERS, partition_by=["region"], format_version=version, properties=modes
    )
    table.append(session.createDataFrame(orders(0, 40)))
    table.delete("id IN (3, 4, 17) OR id = 30")
    table.update({"amount": "amount + 1", "region": "'mx'"}, "id >= 10 AND id < 15")
    table.upsert(orders(35, 10), on=["id"])
    assert (table.inspect.delete_files().num_rows > 0) == (mode == "merge-on-read")
    rows = sqlite.assert_same("t")
    assert len(rows) == 41
    assert len(sqlite.assert_same("t", where="region = 'mx' AND id = 11")) == 1
    for snapshot in table.snapshots:
        sqlite.assert_same("t", version=str(snapshot.snapshot_id))
    if version == 3:
        ids = sqlite.sql("SELECT _row_id FROM {t}").rows
        assert len(set(ids)) == len(rows)
