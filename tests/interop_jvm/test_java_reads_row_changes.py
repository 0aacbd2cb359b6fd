"""Iceberg's own reader on tables whose rows Esker changed on Spark: merges, updates, deletes, by either mode."""

from __future__ import annotations

import pyarrow as pa
import pytest
from jvm_samples import EVERY_TYPE, ORDERS, every_type, orders
from jvm_writers import spark

MODES = ("copy-on-write", "merge-on-read")
LINEAGE = "id, _row_id, _last_updated_sequence_number"

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.parametrize("mode", MODES),
    pytest.mark.parametrize("version", [2, 3]),
]


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}


def test_rows_after_merges_updates_and_deletes_are_the_same_to_java(sqlite, version: int, mode: str) -> None:
    table = sqlite.lake.create_table(
        sqlite.name("t"), ORDERS, format_version=version, partition_by=["region"], properties=_modes(mode)
    )
    for first in (0, 20):
        table.append(orders(first, 20))
    source = spark().createDataFrame(orders(15, 12)).selectExpr("id", "'eu' AS region", "amount + 1 AS amount", "ts")
    merge = table.merge(source, "t.id = s.id").when_matched_delete("t.id % 5 = 0").when_matched_update("*")
    merge.when_not_matched_by_source_update({"amount": "t.amount * 2"}, "t.id > 35").commit()
    sqlite.assert_same("t")
    table.update({"region": "upper(region)"}, "id < 4")
    table.delete("id % 7 = 3")
    table.upsert(spark().createDataFrame(orders(38, 6)), on=["id"])
    rows = sqlite.assert_same("t")
    ids = {row["id"] for row in rows}
    assert ids == {n for n in range(40) if n not in (15, 20, 25) and n % 7 != 3} | set(range(38, 44))
    assert len(sqlite.assert_same("t", where="region = 'EU'")) == 1
    if mode == "merge-on-read":
        (found,) = sqlite.sql("SELECT count(*) AS n FROM {t}.delete_files").dicts()
        assert found["n"] > 0
    if version == 3:
        ours = table.scan(columns=[name.strip() for name in LINEAGE.split(",")]).to_arrow().to_pylist()
        theirs = sqlite.sql(f"SELECT {LINEAGE} FROM {{t}}").dicts()
        assert sorted(ours, key=lambda row: row["id"]) == sorted(theirs, key=lambda row: row["id"])


def test_java_changes_rows_that_esker_changed_and_the_other_way_round(sqlite, version: int, mode: str) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, format_version=version, properties=_modes(mode))
    table.append(orders(0, 20))
    table.update({"amount": "amount + length(region)"}, "id % 2 = 0")
    sqlite.run("DELETE FROM {t} WHERE id % 4 = 1", "UPDATE {t} SET region = 'java' WHERE id IN (2, 3)")
    table.refresh()
    source = spark().createDataFrame([(2, "x"), (4, "y"), (50, "z")], "id bigint, region string")
    merge = table.merge(source, "t.id = s.id").when_matched_update({"region": "t.region || s.region"})
    merge.when_not_matched_insert({"id": "s.id", "region": "s.region"}).commit()
    rows = {row["id"]: row["region"] for row in sqlite.assert_same("t")}
    assert (rows[2], rows[3], rows[50]) == ("javax", "java", "z")
    assert len(rows) == 16


def test_values_of_every_type_survive_being_copied_and_merged(sqlite, version: int, mode: str) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), EVERY_TYPE, format_version=version, properties=_modes(mode))
    table.append(every_type())
    source = spark().createDataFrame(every_type(2))
    table.merge(source, "t.id = s.id").when_matched_update("*").when_not_matched_insert("*").commit()
    first, second = every_type(), every_type(2)
    sqlite.assert_holds("t", pa.concat_tables([first.slice(0, 2), second]))
