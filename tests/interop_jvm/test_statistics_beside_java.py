"""Statistics files of Esker and of Iceberg's own procedures: equal sketches, and counts that each continues."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from esker.arrow.statistics.arrow_statistics import ArrowStatistics
from esker.arrow.statistics.sketch_columns import column_hashes
from esker.iceberg.puffin import read_blob, read_footer
from esker.iceberg.theta_sketch import ThetaSketch, decode_theta_sketch
from esker.maintain.statistics.partition_counts import partition_statistics_schema
from esker.maintain.statistics.partition_statistics import read_partition_statistics
from esker.model.types import STRING
from esker.table import Table

COLUMNS = {
    "b": ("boolean", lambda n: n % 2 == 0),
    "i": ("int", lambda n: n - 100),
    "l": ("bigint", lambda n: (n - 100) * 10**12),
    "f": ("float", lambda n: n / 4 - 10),
    "d": ("double", lambda n: n / 3 - 10),
    "dec": ("decimal(9,2)", lambda n: Decimal(n - 100) / 4),
    "wide": ("decimal(38,4)", lambda n: Decimal((n - 100) * 10**25) / 10000),
    "day": ("date", lambda n: dt.date(1969, 10, 1) + dt.timedelta(n)),
    "ntz": ("timestamp_ntz", lambda n: dt.datetime(1969, 12, 31, 23) + dt.timedelta(seconds=n)),
    "tz": ("timestamp", lambda n: dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC) + dt.timedelta(minutes=n)),
    "s": ("string", lambda n: ("", "a", "é", "z" * 40)[n % 4] + "x" * (n % 35)),
    "bin": ("binary", lambda n: bytes([n % 256]) * (n % 30)),
}


def rows(table: Table, numbers: range) -> pa.Table:
    """Values of every type; every seventh is null."""
    values = {
        name: [None if n % 7 == at % 7 else make(n) for n in numbers]
        for at, (name, (_, make)) in enumerate(COLUMNS.items())
    }
    return pa.table(values, schema=table.scan().schema)


def sketches(table: Table) -> dict[int, bytes]:
    """The sketches of the current snapshot's statistics file, by field id."""
    (file,) = [one for one in table.metadata.statistics if one.snapshot_id == table.metadata.current_snapshot_id]
    content = table._workings.storage.read(file.path)

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    footer = read_footer(file.path, len(content), read)
    assert (file.footer_size, file.file_size) == (footer.size, len(content))
    return {blob.fields[0]: read_blob(file.path, blob, read) for blob in footer.blobs}


def partitions(table: Table) -> list[dict[str, Any]]:
    """The rows of the current snapshot's file. Java keeps rows of partitions that have no files any more."""
    (file,) = [f for f in table.metadata.partition_statistics if f.snapshot_id == table.metadata.current_snapshot_id]
    found = read_partition_statistics(table.metadata, table._workings.engine, file).to_pylist()
    return [row for row in found if any(row[name] for name in row if name.endswith("_count"))]


@pytest.mark.parametrize("version", [2, 3])
def test_j2_java_computes_the_same_sketches(sqlite, version: int) -> None:
    ddl = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    table = sqlite.lake.create_table(
        sqlite.name("t"), ddl, format_version=version, properties={"write.delete.mode": "merge-on-read"}
    )
    for start in (0, 100, 150):
        table.append(rows(table, range(start, start + 100)))
    table.delete("i = 3")
    table.compute_statistics()
    ours, told = sketches(table), table.distinct_values()
    assert told["b"] == 2
    assert told["l"] > 200
    ((path,),) = sqlite.sql("CALL {catalog}.system.compute_table_stats(table => '{namespace}.t')").rows
    table.refresh()
    assert [file.path.removeprefix("file:") for file in table.metadata.statistics] == [path.removeprefix("file:")]
    assert sketches(table) == ours, "byte for byte"
    assert table.distinct_values() == told


def test_estimates_agree_above_the_size_of_a_sketch(sqlite) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), "id bigint, s string")
    for start in range(0, 40_000, 10_000):
        ids = range(start, start + 10_000)
        table.append(pa.table({"id": ids, "s": [f"text {n % 6000}" for n in ids]}))
    table.compute_statistics()
    ours = table.distinct_values()
    sqlite.run("CALL {catalog}.system.compute_table_stats('{namespace}.t')")
    theirs = table.refresh().distinct_values()
    for name, exact in (("id", 40_000), ("s", 6_000)):
        assert abs(ours[name] - exact) < 0.05 * exact
        assert abs(theirs[name] - exact) < 0.05 * exact
        assert abs(ours[name] - theirs[name]) < 0.05 * exact
    assert {id_: decode_theta_sketch("f", blob).estimate for id_, blob in sketches(table).items()} == {
        1: theirs["id"],
        2: theirs["s"],
    }


def test_java_plans_with_the_distinct_values_that_esker_registered(shared) -> None:
    table = shared.lake.create_table(shared.name("t"), "id bigint, region string")
    table.append(pa.table({"id": range(1000), "region": [f"r{n % 3}" for n in range(1000)]}))

    def expected_rows() -> int | None:
        """How many rows of one region the optimiser expects."""
        plan = shared.sql("EXPLAIN COST SELECT id FROM {t} WHERE region = 'r1'").rows[0][0]
        found = re.search(r"Filter .*Statistics\(sizeInBytes=[^,)]+, rowCount=([0-9.E+]+)", plan)
        return None if found is None else round(float(found[1]))

    shared.run("SET spark.sql.cbo.enabled=true")
    try:
        before = expected_rows()
        table.compute_statistics()
        assert (before, expected_rows()) == (1000, 334)
    finally:
        shared.run("SET spark.sql.cbo.enabled=false")


@pytest.mark.parametrize("version", [2, 3])
def test_each_continues_the_partition_statistics_of_the_other(sqlite, version: int) -> None:
    table = sqlite.lake.create_table(
        sqlite.name("t"),
        "id bigint, region string, day date, amount decimal(9,2)",
        partition_by=["region", "day", "truncate(10, amount)"],
        format_version=version,
        properties={"write.delete.mode": "merge-on-read"},
    )

    def batch(start: int) -> pa.Table:
        numbers = range(start, start + 8)
        return pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "region": [None if n % 4 == 0 else f"r{n % 4}" for n in numbers],
                "day": pa.array([n % 2 for n in numbers], pa.int32()).cast(pa.date32()),
                "amount": pa.array([Decimal(n % 3) * 10 for n in numbers], pa.decimal128(9, 2)),
            }
        )

    table.append(batch(0))
    table.compute_partition_statistics()
    compute = "CALL {catalog}.system.compute_partition_stats(table => '{namespace}.t')"
    ((existing,),) = sqlite.sql(compute).rows
    assert existing == table.metadata.partition_statistics[0].path, "Java finds Esker's file"
    for turn in range(2):
        sqlite.run(f"INSERT INTO {{t}} SELECT id + {100 * turn + 100}, region, day, amount FROM {{t}}")
        table.refresh().append(batch(8 * turn + 8))
        sqlite.run(f"DELETE FROM {{t}} WHERE id IN ({turn}, {8 * turn + 9})", "DELETE FROM {t} WHERE region = 'r3'")
        ((path,),) = sqlite.sql(compute).rows
        theirs = partitions(table.refresh())
        assert path.removeprefix("file:") in {f.path.removeprefix("file:") for f in table.metadata.partition_statistics}
        table.compute_partition_statistics(incremental=False)
        assert partitions(table) == theirs, "Java's, from Esker's, are those of all manifests"
        sqlite.run(compute)  # Esker's are there, and are kept
        table.append(batch(8 * turn + 50))
        table.delete(f"id = {8 * turn + 51}")
        table.compute_partition_statistics()
        ours = partitions(table)
        table.compute_partition_statistics(incremental=False)
        assert partitions(table) == ours


def test_j3_java_computes_from_nothing_what_esker_computes(shared) -> None:
    table = shared.lake.create_table(shared.name("t"), "id bigint, region string", partition_by=["region"])
    table.append(pa.table({"id": [1, 2, 3], "region": ["a", "b", None]}))
    with table.alter() as change:
        change.add_partition("bucket(2, id)")
    table.append(pa.table({"id": [4, 5, 6], "region": ["a", "b", None]}))
    table.delete("region = 'b'")
    shared.run("CALL {catalog}.system.compute_partition_stats('{namespace}.t')")
    theirs = partitions(table.refresh())
    table.compute_partition_statistics(incremental=False)
    assert partitions(table) == theirs
    assert len(theirs) == 4


def test_the_differences_that_the_documentation_names(sqlite) -> None:
    """Java hashes a uuid as its text, drops the statistics of other columns, and keeps an old total of records."""
    table = sqlite.lake.create_table(
        sqlite.name("t"), "id bigint, u uuid, region string", partition_by=["region"], format_version=3
    )
    ids = pa.uuid().wrap_array(pa.array([bytes([n] * 16) for n in range(4)], pa.binary(16)))
    table.append(pa.table({"id": range(4), "u": ids, "region": ["a", "a", "b", "b"]}))
    table.compute_statistics()
    ours = sketches(table)
    sqlite.run("CALL {catalog}.system.compute_table_stats(table => '{namespace}.t', columns => array('u', 'region'))")
    theirs = sketches(table.refresh())
    assert table.distinct_values() == {"u": 4, "region": 2}
    assert theirs[3] == ours[3]
    as_text = [str(UUID(bytes=bytes([n] * 16))) for n in range(4)]
    assert theirs[2] == ThetaSketch.of(column_hashes(pa.array(as_text), STRING)).encode() != ours[2]

    file = table.compute_partition_statistics()
    assert file is not None
    rows = read_partition_statistics(table.metadata, table._workings.engine, file)
    at = rows.schema.get_field_index("total_record_count")
    storage = table._workings.storage
    storage.delete(file.path)
    changed = rows.set_column(at, rows.schema.field(at), pa.array([2, 2], pa.int64()))
    ArrowStatistics(storage, table._workings.engine).write_partitions(
        file.path, partition_statistics_schema(table.metadata), changed
    )
    sqlite.run("INSERT INTO {t} SELECT 9, u, region FROM {t} WHERE id = 0")
    sqlite.run("CALL {catalog}.system.compute_partition_stats('{namespace}.t')")
    (a, _) = partitions(table.refresh())
    assert (a["data_record_count"], a["total_record_count"]) == (3, 2), "so Esker writes no total"
