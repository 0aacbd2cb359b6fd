"""Esker on what Iceberg's own writer wrote: every type and transform, every kind of delete, branches, the past."""

from __future__ import annotations

import pytest
from jvm_peer import assert_equal_rows, esker_rows
from jvm_samples import EVERY_TYPE, METADATA_TABLES, every_type

import esker

FORMATS = ["parquet", "orc", "avro"]
TERMS = (
    "region",
    "bucket(3, id)",
    "truncate(2, region)",
    "truncate(10, amount)",
    "years(ts)",
    "months(ts)",
    "days(ts)",
    "hours(ts)",
)
ORDERS = """SELECT id, element_at(array('eu', 'us', NULL), CAST(id % 3 + 1 AS INT)) AS region,
  CAST(id * 1.01 AS DECIMAL(12,2)) AS amount, timestamp_seconds(1790000000 + id * 20000) AS ts,
  CASE WHEN id % 5 = 0 THEN double('NaN') ELSE id / 4 END AS score, map('k', id) AS tags,
  named_struct('x', CAST(id AS INT), 'y', array(id, NULL)) AS place FROM range({first}, {last})"""


def orders(first: int, count: int) -> str:
    """A query for orders of those ids."""
    return ORDERS.format(first=first, last=first + count)


def assert_every_snapshot_is_the_same(shared, table: str = "t") -> None:
    for snapshot in shared.table(table).snapshots:
        shared.assert_same(table, version=str(snapshot.snapshot_id))


@pytest.mark.parametrize(
    ("version", "format_"), [(1, "parquet"), (2, "parquet"), (2, "orc"), (2, "avro"), (3, "parquet")]
)
def test_every_type_is_read_from_every_format(sqlite, version: int, format_: str) -> None:
    sqlite.lake.create_table(sqlite.name("ours"), EVERY_TYPE).append(every_type())
    # pyarrow cannot hold the times of one row; that of the other, in the last second before 1970, ORC moves for both
    kept = "id NOT IN (1, 2)" if format_ == "orc" else "true"
    sqlite.run(
        "CREATE TABLE {t} USING iceberg TBLPROPERTIES"
        f" ('format-version'='{version}', 'write.format.default'='{format_}') AS SELECT * FROM {{ours}} WHERE {kept}"
    )
    expected = [row for row in esker_rows(every_type()) if format_ != "orc" or row["id"] not in (1, 2)]
    assert_equal_rows(sqlite.assert_same("t"), expected)
    assert set(sqlite.table("t").inspect.files()["file_format"].to_pylist()) == {format_.upper()}
    assert sqlite.assert_same("t", where="large > 0 AND text IS NOT NULL")
    assert sqlite.assert_same("t", where="place.at.x = 1 OR day = DATE '0001-01-03'")


def test_orc_timestamps_that_pyarrow_cannot_count_are_refused(sqlite) -> None:
    sqlite.run(
        "CREATE TABLE {t} USING iceberg TBLPROPERTIES ('write.format.default'='orc')"
        " AS SELECT TIMESTAMP_NTZ '9999-12-31 23:59:00' AS ts"
    )
    with pytest.raises(esker.Unsupported, match="timestamps that do not fit 64-bit nanoseconds"):
        sqlite.table("t").scan().to_arrow()


@pytest.mark.parametrize("format_", FORMATS)
def test_every_transform_is_read_and_pruned(sqlite, format_: str) -> None:
    wheres = ("region = 'us' AND id > 3", "ts >= TIMESTAMP '2026-09-22 10:00:00' AND amount < 7.5", "region IS NULL")
    for n, term in enumerate(TERMS if format_ == "parquet" else TERMS[:2]):
        sqlite.run(
            f"CREATE TABLE {{t{n}}} USING iceberg PARTITIONED BY ({term})"
            f" TBLPROPERTIES ('write.format.default'='{format_}') AS {orders(0, 9)}"
        )
        assert len(sqlite.assert_same(f"t{n}")) == 9
        for where in wheres:
            assert sqlite.assert_same(f"t{n}", where=where)


@pytest.mark.parametrize(
    ("mode", "version", "format_"),
    [
        ("copy-on-write", 2, "parquet"),
        ("copy-on-write", 3, "parquet"),
        *(("merge-on-read", version, format_) for version in (2, 3) for format_ in FORMATS),
    ],
)
def test_rows_deleted_updated_and_merged_are_seen_so(sqlite, mode: str, version: int, format_: str) -> None:
    modes = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
    sqlite.run(
        "CREATE TABLE {t} USING iceberg PARTITIONED BY (region) TBLPROPERTIES"
        f" ('format-version'='{version}', 'write.format.default'='{format_}', {modes}) AS {orders(0, 40)}",
        "DELETE FROM {t} WHERE id % 10 = 3 OR id = 0",
        "UPDATE {t} SET amount = amount + 1, region = 'mx' WHERE id BETWEEN 10 AND 14",
        f"MERGE INTO {{t}} USING ({orders(35, 10)}) s ON {{t}}.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET amount = 0 WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE id % 10 = 7",
    )
    assert_every_snapshot_is_the_same(sqlite)
    assert len(sqlite.assert_same("t")) == sqlite.table("t").scan().count() == 34
    for where in ("region = 'mx' AND id = 11", "amount = 0 OR NOT region = 'eu'"):
        assert sqlite.assert_same("t", where=where)
    deletes = sqlite.table("t").inspect.delete_files()
    assert (deletes.num_rows > 0) == (mode == "merge-on-read")
    if deletes.num_rows:
        assert set(deletes["file_format"].to_pylist()) == {"PUFFIN" if version == 3 else format_.upper()}


def test_v3_rows_keep_their_ids(shared) -> None:
    shared.run(
        "CREATE TABLE {t} (id bigint, name string) USING iceberg TBLPROPERTIES ('format-version'='3',"
        " 'write.update.mode'='merge-on-read')",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE {t} SET name = 'z' WHERE id = 2",
        "INSERT INTO {t} VALUES (4, 'd')",
        "DELETE FROM {t} WHERE id = 1",
    )
    columns = ["id", "name", "_row_id", "_last_updated_sequence_number"]
    theirs = shared.sql(f"SELECT {', '.join(columns)} FROM {{t}}").dicts()
    assert_equal_rows(esker_rows(shared.table("t").scan(columns=columns).to_arrow()), theirs)
    assert len(theirs) == 3


def test_branches_and_tags_are_read_by_name(shared) -> None:
    shared.run(
        f"CREATE TABLE {{t}} USING iceberg AS {orders(0, 5)}",
        "ALTER TABLE {t} CREATE TAG first RETAIN 5 DAYS",
        "ALTER TABLE {t} CREATE BRANCH audit WITH SNAPSHOT RETENTION 3 SNAPSHOTS",
        f"INSERT INTO {{t}}.branch_audit {orders(10, 5)}",
        "DELETE FROM {t}.branch_audit WHERE id = 1",
        f"INSERT INTO {{t}} {orders(20, 1)}",
    )
    assert len(shared.assert_same("t")) == 6
    assert len(shared.assert_same("t", version="first")) == 5
    assert len(shared.assert_same("t", version="audit")) == 9
    refs = shared.table("t").refs
    assert refs["first"].max_ref_age_ms == 5 * 86_400_000
    assert refs["audit"].min_snapshots_to_keep == 3
    assert_every_snapshot_is_the_same(shared)


def test_an_evolved_table_reads_as_it_is_now(shared) -> None:
    shared.run(
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (days(ts)) AS {orders(0, 6)}",
        "ALTER TABLE {t} ADD COLUMNS (note string COMMENT 'free text' AFTER id, place.z date)",
        "ALTER TABLE {t} ALTER COLUMN place.x TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN amount TYPE decimal(18,2)",
        "ALTER TABLE {t} RENAME COLUMN score TO grade",
        "ALTER TABLE {t} ALTER COLUMN region FIRST",
        "ALTER TABLE {t} REPLACE PARTITION FIELD ts_day WITH hours(ts)",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        "ALTER TABLE {t} WRITE ORDERED BY region DESC NULLS LAST, id",
        "INSERT INTO {t} SELECT region, id, 'n', amount, ts, score, tags,"
        f" named_struct('x', 1L + id, 'y', array(id), 'z', DATE '2026-11-15') FROM ({orders(10, 6)})",
        "ALTER TABLE {t} DROP COLUMN grade",
        "ALTER TABLE {t} DROP PARTITION FIELD bucket(2, id)",
        "INSERT INTO {t} SELECT region, id, 'm', amount, ts, tags, place FROM {t} WHERE id = 11",
    )
    assert len(shared.assert_same("t")) == 13
    for where in (
        "id = 11",
        "ts < TIMESTAMP '2026-09-22 00:00:00'",
        "note IS NULL AND region = 'eu'",
        "place.z IS NOT NULL",
    ):
        assert shared.assert_same("t", where=where)
    assert_every_snapshot_is_the_same(shared)


def test_replaced_and_overwritten_tables_are_read(shared) -> None:
    shared.run(
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (region) AS {orders(0, 9)}",
        f"INSERT OVERWRITE {{t}} {orders(100, 2)}",
        "CREATE OR REPLACE TABLE {t} USING iceberg PARTITIONED BY (bucket(2, id)) AS SELECT id, 1 AS one FROM range(5)",
        "TRUNCATE TABLE {t}",
        "INSERT INTO {t} VALUES (7, 7)",
    )
    assert shared.assert_same("t") == [{"id": 7, "one": 7}]
    assert_every_snapshot_is_the_same(shared)


def test_a_variant_is_read_as_the_binary_that_java_wrote(sqlite) -> None:
    from pyspark.sql.types import VariantVal

    sqlite.run(
        "CREATE TABLE {t} (id bigint, v variant) USING iceberg TBLPROPERTIES ('format-version'='3')",
        """INSERT INTO {t} SELECT 1, parse_json('{{"a": [1, "two"], "b": null}}')""",
    )
    ((_, theirs),) = sqlite.sql("SELECT * FROM {t}").rows
    (ours,) = sqlite.table("t").scan().to_arrow()["v"].to_pylist()
    assert VariantVal(ours["value"], ours["metadata"]).toPython() == theirs == {"a": [1, "two"], "b": None}


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_tables_say_what_java_s_say(shared, version: int) -> None:
    shared.run(
        "CREATE TABLE {t} USING iceberg PARTITIONED BY (region, days(ts))"
        f" TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read') AS {orders(0, 7)}",
        "DELETE FROM {t} WHERE id = 3",
        "DELETE FROM {t} WHERE id IN (0, 4)",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        f"INSERT INTO {{t}} {orders(10, 3)}",
        "ALTER TABLE {t} CREATE TAG kept RETAIN 5 DAYS",
    )
    table = shared.table("t")
    for name in METADATA_TABLES:
        theirs = shared.sql(f"SELECT * FROM {{t}}.{name}")
        ours = getattr(table.inspect, name)()
        assert ours.column_names == [column for column, _ in theirs.columns], name
        assert_equal_rows(esker_rows(ours), theirs.dicts())
