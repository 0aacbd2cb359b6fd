"""What Iceberg's own writer wrote, read by plain Spark through Esker: its own readers, no jar."""

from __future__ import annotations

from typing import Any

import pytest
from jvm_peer import assert_equal_rows, esker_rows
from jvm_samples import EVERY_TYPE, every_type
from jvm_writers import spark

from esker.spark.expressions.arrow_frames import gathered

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

TERMS = ("region", "bucket(3, id)", "truncate(2, region)", "years(ts)", "months(ts)", "days(ts)", "hours(ts)")
ORDERS = """SELECT id, element_at(array('eu', 'us', NULL), CAST(id % 3 + 1 AS INT)) AS region,
  CAST(id * 1.01 AS DECIMAL(12,2)) AS amount, timestamp_seconds(1790000000 + id * 20000) AS ts,
  CASE WHEN id % 5 = 0 THEN double('NaN') ELSE id / 4 END AS score, map('k', id) AS tags,
  named_struct('x', CAST(id AS INT), 'y', array(id, NULL)) AS place FROM range({first}, {last})"""


def orders(first: int, count: int) -> str:
    """A query for orders of those ids."""
    return ORDERS.format(first=first, last=first + count)


def assert_same(shared, name: str, where: str | None = None, **how: Any) -> list[dict[str, Any]]:
    """Spark through Esker reads what Java reads; ``how`` chooses a snapshot as a scan does."""
    version = next(iter(how.values()), None)
    travel = "" if version is None else f" VERSION AS OF {version!r}"
    clause = "" if where is None else f" WHERE {where}"
    theirs = shared.sql(f"SELECT * FROM {{{name}}}{travel}{clause}").dicts()
    ours = esker_rows(gathered(shared.table(name).scan(where, **how).to_spark(spark())))
    assert_equal_rows(ours, theirs)
    return ours


@pytest.mark.parametrize(("version", "format_"), [(1, "parquet"), (2, "orc"), (2, "avro"), (3, "parquet")])
def test_every_type_is_read_from_every_format(sqlite, version: int, format_: str) -> None:
    sqlite.lake.create_table(sqlite.name("ours"), EVERY_TYPE).append(every_type())
    kept = "id NOT IN (1, 2)" if format_ == "orc" else "true"  # times that ORC's reader in pyarrow cannot hold
    sqlite.run(
        "CREATE TABLE {t} USING iceberg TBLPROPERTIES"
        f" ('format-version'='{version}', 'write.format.default'='{format_}') AS SELECT * FROM {{ours}} WHERE {kept}"
    )
    assert assert_same(sqlite, "t")
    assert assert_same(sqlite, "t", "large > 0 AND text IS NOT NULL")


def test_every_transform_is_read_and_pruned(sqlite) -> None:
    for n, term in enumerate(TERMS):
        sqlite.run(f"CREATE TABLE {{t{n}}} USING iceberg PARTITIONED BY ({term}) AS {orders(0, 9)}")
        assert len(assert_same(sqlite, f"t{n}")) == 9
        assert assert_same(sqlite, f"t{n}", "region = 'us' AND id > 3")
        assert assert_same(sqlite, f"t{n}", "ts >= TIMESTAMP '2026-09-22 10:00:00Z' AND amount < 7.5")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_deleted_updated_and_merged_are_seen_so(sqlite, mode: str, version: int) -> None:
    modes = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
    sqlite.run(
        "CREATE TABLE {t} USING iceberg PARTITIONED BY (region) TBLPROPERTIES"
        f" ('format-version'='{version}', {modes}) AS {orders(0, 40)}",
        "DELETE FROM {t} WHERE id % 10 = 3 OR id = 0",
        "UPDATE {t} SET amount = amount + 1, region = 'mx' WHERE id BETWEEN 10 AND 14",
        f"MERGE INTO {{t}} USING ({orders(35, 10)}) s ON {{t}}.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET amount = 0 WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE id % 10 = 7",
    )
    table = sqlite.table("t")
    assert (table.inspect.delete_files().num_rows > 0) == (mode == "merge-on-read")
    assert len(assert_same(sqlite, "t")) == 34
    assert assert_same(sqlite, "t", "region = 'mx' AND id = 11")
    for snapshot in table.snapshots:
        assert_same(sqlite, "t", snapshot_id=snapshot.snapshot_id)


def test_branches_and_tags_are_read_by_name(sqlite) -> None:
    sqlite.run(
        f"CREATE TABLE {{t}} USING iceberg AS {orders(0, 5)}",
        "ALTER TABLE {t} CREATE TAG first",
        "ALTER TABLE {t} CREATE BRANCH audit",
        f"INSERT INTO {{t}}.branch_audit {orders(10, 5)}",
        "DELETE FROM {t}.branch_audit WHERE id = 1",
        f"INSERT INTO {{t}} {orders(20, 1)}",
    )
    assert len(assert_same(sqlite, "t")) == 6
    assert len(assert_same(sqlite, "t", ref="first")) == 5
    assert len(assert_same(sqlite, "t", ref="audit")) == 9


def test_an_evolved_table_reads_as_it_is_now(sqlite) -> None:
    sqlite.run(
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (days(ts)) AS {orders(0, 6)}",
        "ALTER TABLE {t} ADD COLUMNS (note string AFTER id, place.z date)",
        "ALTER TABLE {t} ALTER COLUMN place.x TYPE bigint",
        "ALTER TABLE {t} RENAME COLUMN score TO grade",
        "ALTER TABLE {t} REPLACE PARTITION FIELD ts_day WITH hours(ts)",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        "INSERT INTO {t} SELECT id, 'n', region, amount, ts, score, tags,"
        f" named_struct('x', 1L + id, 'y', array(id), 'z', DATE '2026-11-15') FROM ({orders(10, 6)})",
        "ALTER TABLE {t} DROP COLUMN grade",
        "INSERT INTO {t} SELECT id, 'm', region, amount, ts, tags, place FROM {t} WHERE id = 11",
    )
    assert len(assert_same(sqlite, "t")) == 13
    for where in ("id = 11", "note IS NULL AND region = 'eu'", "place.z IS NOT NULL"):
        assert assert_same(sqlite, "t", where)
    for snapshot in sqlite.table("t").snapshots:
        assert_same(sqlite, "t", snapshot_id=snapshot.snapshot_id)


def test_row_ids_are_java_s(sqlite) -> None:
    sqlite.run(
        "CREATE TABLE {t} (id bigint, name string) USING iceberg TBLPROPERTIES ('format-version'='3',"
        " 'write.update.mode'='merge-on-read')",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE {t} SET name = 'z' WHERE id = 2",
        "DELETE FROM {t} WHERE id = 1",
    )
    columns = ["id", "name", "_row_id", "_last_updated_sequence_number"]
    theirs = sqlite.sql(f"SELECT {', '.join(columns)} FROM {{t}}").dicts()
    found = gathered(sqlite.table("t").scan(columns=columns).to_spark(spark()))
    assert_equal_rows(esker_rows(found), theirs)


def test_a_variant_is_read(sqlite) -> None:
    sqlite.run(
        "CREATE TABLE {t} (id bigint, v variant) USING iceberg TBLPROPERTIES ('format-version'='3')",
        """INSERT INTO {t} SELECT 1, parse_json('{{"a": [1, "two"], "b": null}}')""",
    )
    ((_, theirs),) = sqlite.sql("SELECT * FROM {t}").rows
    ((found,),) = sqlite.table("t").scan(columns=["v"]).to_spark(spark()).collect()
    assert found.toPython() == theirs
