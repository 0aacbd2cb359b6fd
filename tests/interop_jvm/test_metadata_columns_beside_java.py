"""Metadata columns and ``t.changes`` of Iceberg's own Spark runtime beside Esker's, over tables of both."""

from __future__ import annotations

import pytest
from jvm_peer import assert_equal_rows, esker_rows
from jvm_samples import ORDERS, orders

PLACES = ("_file", "_pos", "_spec_id", "_partition")
LINEAGE = ("_row_id", "_last_updated_sequence_number")


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_columns_are_java_s_over_specs_and_deletes(sqlite, write, version: int) -> None:
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, format_version=version, properties=modes)
    write(table, orders(0, 12))
    sqlite.run(
        "ALTER TABLE {t} ADD PARTITION FIELD region",
        "INSERT INTO {t} SELECT id + 100, region, amount, ts FROM {t} WHERE id < 6",
        "ALTER TABLE {t} ADD PARTITION FIELD days(ts)",
        "INSERT INTO {t} SELECT id + 100, region, amount, ts FROM {t} WHERE id BETWEEN 100 AND 103",
        "ALTER TABLE {t} DROP PARTITION FIELD region",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id) AS shard",
        "INSERT INTO {t} SELECT id + 100, region, amount, ts FROM {t} WHERE id = 200",
        "DELETE FROM {t} WHERE id IN (2, 101)",
        "UPDATE {t} SET amount = -1 WHERE id IN (5, 202)",
    )
    columns = (*PLACES, *LINEAGE) if version == 3 else PLACES
    theirs = sqlite.sql(f"SELECT id, {', '.join(columns)} FROM {{t}}").dicts()
    ours = esker_rows(sqlite.table("t").scan(columns=["id", *columns]).to_arrow())
    assert_equal_rows(ours, theirs)
    assert len({row["_spec_id"] for row in ours}) > 2


def test_the_partition_of_a_table_that_never_had_one_is_java_s(sqlite, write) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS)
    write(table, orders(0, 2))
    theirs = sqlite.sql("SELECT id, _partition, _deleted FROM {t}").dicts()
    assert_equal_rows(esker_rows(table.scan(columns=["id", "_partition", "_deleted"]).to_arrow()), theirs)


def test_the_changes_of_a_table_are_java_s(sqlite, write) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, partition_by=["region"])
    write(table, orders(0, 9))
    write(table, orders(50, 5))
    sqlite.run("DELETE FROM {t} WHERE region = 'eu'", "INSERT INTO {t} SELECT id + 70, region, amount, ts FROM {t}")
    columns = ("id", "_change_type", "_change_ordinal", "_commit_snapshot_id")
    theirs = sqlite.sql(f"SELECT {', '.join(columns)} FROM {{t}}.changes").dicts()
    feed = esker_rows(sqlite.table("t").scan_changes(None, columns=["id"]).to_arrow())
    assert_equal_rows([{**row, "_change_type": row["_change_type"].upper()} for row in feed], theirs)
    assert len(feed) > 20


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_java_s_where_a_query_names_deleted(sqlite, write, version: int) -> None:
    modes = {"write.delete.mode": "merge-on-read"}
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, format_version=version, properties=modes)
    write(table, orders(0, 9))
    sqlite.run("DELETE FROM {t} WHERE id IN (2, 5)", "DELETE FROM {t} WHERE id = 7")
    theirs = sqlite.sql("SELECT id, _pos, _deleted FROM {t}").dicts()
    ours = esker_rows(sqlite.table("t").scan(columns=["id", "_pos", "_deleted"]).to_arrow())
    assert_equal_rows(ours, theirs)
    assert [row["id"] for row in ours if row["_deleted"]] == [2, 5, 7]
