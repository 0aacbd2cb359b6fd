"""Iceberg's own reader on what Esker wrote: the same rows, the same partitions, the same statistics."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jvm_peer import assert_equal_rows, esker_rows, sql_literal
from jvm_samples import EVERY_TYPE, METADATA_TABLES, ORDERS, SPARK_TYPES, every_type, orders
from jvm_writers import every_writer

# column: its type and five values
SOURCES: dict[str, tuple[str, list[Any]]] = {
    "i": ("int", [7, -7, 0, 2**31 - 1, None]),
    "l": ("bigint", [34, -1, 0, -(2**62), None]),
    "p": ("decimal(9,2)", [Decimal("10.65"), Decimal("-0.01"), Decimal("0.00"), Decimal("-9999999.99"), None]),
    "d": ("date", [date(2026, 11, 15), date(1969, 12, 31), date(1970, 1, 1), date(1, 1, 3), None]),
    "t": (
        "timestamp",
        [datetime(2026, 11, 15, 23, 59), datetime(1969, 12, 31, 23), datetime(1970, 1, 1), datetime(1, 1, 3), None],
    ),
    "n": ("timestamp_ntz", [datetime(2026, 11, 15), datetime(1969, 12, 31, 23, 30), *[datetime(1900, 2, 1)] * 2, None]),
    "s": ("string", ["a/b=c?#% &", "", "ångström", "𝄞𝄞𝄞𝄞", None]),
    "b": ("binary", [b"\x00\xff\x01\x02", b"", b"\xff" * 9, b"\x00", None]),
    "f": ("boolean", [True, False, True, False, None]),
}

# the term on a column, Java's own function for it, the columns it can take
TRANSFORMS = {
    "identity": ("{}", "{}", "ilpdtnsbf"),
    "bucket": ("bucket(5, {})", "system.bucket(5, {})", "ilpdtnsb"),
    "truncate": ("truncate(3, {})", "system.truncate(3, {})", "ilpsb"),
    "year": ("year({})", "system.years({})", "dtn"),
    "month": ("month({})", "system.months({})", "dtn"),
    "day": ("day({})", "system.days({})", "dtn"),
    "hour": ("hour({})", "system.hours({})", "tn"),
}


@every_writer
def test_every_type_comes_back_as_written(shared, write) -> None:
    for version in (1, 2, 3):
        table = shared.lake.create_table(shared.name(f"v{version}"), EVERY_TYPE, format_version=version)
        write(table, every_type())
        assert shared.sql(f"SELECT * FROM {{v{version}}}").columns == SPARK_TYPES
        shared.assert_holds(f"v{version}", every_type())


def test_uuids_are_text_to_java(sqlite) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), "id uuid, n int")
    table.append(pa.table({"id": pa.array([b"\x01" * 16, b"\xff" * 16], pa.uuid()), "n": pa.array([1, 2], pa.int32())}))
    assert sqlite.assert_same("t")[0]["id"] == "01010101-0101-0101-0101-010101010101"


@every_writer
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_java_agrees_on_every_row_s_partition(sqlite, write, transform: str) -> None:
    term, function, columns = TRANSFORMS[transform]
    ddl = ", ".join(f"{name} {type_}" for name, (type_, _) in SOURCES.items())
    table = sqlite.lake.create_table(sqlite.name("t"), ddl, partition_by=[term.format(name) for name in columns])
    types = table.scan().to_arrow().schema
    data = pa.table({name: pa.array(values, types.field(name).type) for name, (_, values) in SOURCES.items()})
    write(table, data)
    sqlite.assert_holds("t", data)
    wrong = {}
    for column, field in zip(columns, table.spec.fields, strict=True):
        said = function.format(column) if transform == "identity" else f"{sqlite.catalog}.{function.format(column)}"
        wrong[field.name] = f"count_if(NOT (_partition.`{field.name}` <=> {said})) AS `{field.name}`"
    (found,) = sqlite.sql(f"SELECT {', '.join(wrong.values())} FROM {{t}}").dicts()
    assert found == dict.fromkeys(wrong, 0)
    for column in columns:
        value = sql_literal(SOURCES[column][1][0], zoned=column == "t")
        assert sqlite.assert_same("t", where=f"{column} = {value}")
    assert len(sqlite.assert_same("t", where=f"{columns[0]} IS NULL")) == 1


@every_writer
def test_statistics_are_those_java_keeps_of_the_same_rows(sqlite, write) -> None:
    table = sqlite.lake.create_table(sqlite.name("ours"), EVERY_TYPE)
    write(table, every_type())
    sqlite.run("CREATE TABLE {theirs} USING iceberg AS SELECT * FROM {ours}")
    ours, theirs = (
        sqlite.sql(f"SELECT readable_metrics, record_count FROM {{{name}}}.files").dicts()
        for name in ("ours", "theirs")
    )
    assert len(ours) == len(theirs) == 1
    for found in (*ours, *theirs):
        for metrics in found["readable_metrics"].values():
            del metrics["column_size"]
    assert_equal_rows(ours, theirs)


@every_writer
def test_names_that_avro_cannot_hold_are_found_by_id(sqlite, write) -> None:
    names = ["a b", "ä-ö", "1st", "x.y", "select"]
    columns = ", ".join(f"`{name}` string" for name in names)
    table = sqlite.lake.create_table(sqlite.name("t"), columns, partition_by=[f"`{name}`" for name in names[:3]])
    data = pa.table({name: [name, None, "v"] for name in names})
    write(table, data)
    sqlite.assert_holds("t", data)
    assert len(sqlite.assert_same("t", where="`ä-ö` = 'v'")) == 1


@every_writer
def test_an_evolved_table_reads_as_it_is_now(shared, write) -> None:
    table = shared.lake.create_table(
        shared.name("t"),
        "id int, price float, cost decimal(5,2), gone string, place struct<x: int, y: int>, xs array<struct<a: int>>",
        partition_by=["truncate(2, gone)"],
    )
    write(table, _before_evolution(1))
    with table.alter() as change:
        change.rename_column("id", "key")
        change.widen_column("key", "bigint")
        change.widen_column("price", "double")
        change.widen_column("cost", "decimal(12,2)")
        change.add_column("note", "string", after="key")
        change.add_column("place.z", "string")
        change.rename_column("place.x", "east")
        change.drop_column("place.y")
        change.add_column("xs.element.b", "date")
        change.drop_partition("truncate(2, gone)")
        change.add_partition("bucket(3, key)")
        change.set_sort_order("key desc")
    write(table, _after_evolution(10))
    with table.alter() as change:
        change.drop_column("gone")
        change.add_column("gone", "bigint")  # the old name, another column
    write(table, _after_evolution(20).drop_columns(["gone"]))
    assert len(shared.assert_same("t")) == 9
    assert len(shared.assert_same("t", where="key = 1")) == 1
    assert len(shared.assert_same("t", where="note IS NULL")) == 3
    assert len(shared.assert_same("t", where="price > 9.5 AND gone IS NULL")) == 6
    assert shared.assert_same("t", where="key = 2")[0]["place"] == {"east": 2, "z": None}
    for snapshot in table.snapshots:
        shared.assert_same("t", version=str(snapshot.snapshot_id))


def _before_evolution(first: int) -> pa.Table:
    ids = range(first, first + 3)
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "price": pa.array([n + 0.5 for n in ids], pa.float32()),
            "cost": pa.array([Decimal(n) for n in ids], pa.decimal128(5, 2)),
            "gone": [f"gone {n}" for n in ids],
            "place": [{"x": n, "y": -n} for n in ids],
            "xs": [[{"a": n}] for n in ids],
        }
    ).cast(
        pa.schema(
            [
                ("id", pa.int32()),
                ("price", pa.float32()),
                ("cost", pa.decimal128(5, 2)),
                ("gone", pa.string()),
                ("place", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
                ("xs", pa.list_(pa.struct([("a", pa.int32())]))),
            ]
        )
    )


def _after_evolution(first: int) -> pa.Table:
    ids = range(first, first + 3)
    return pa.table(
        {
            "key": pa.array([n + 2**40 for n in ids], pa.int64()),
            "note": [f"note {n}" for n in ids],
            "price": pa.array([n + 0.1 for n in ids], pa.float64()),
            "cost": pa.array([Decimal(n * 10**6) for n in ids], pa.decimal128(12, 2)),
            "gone": [f"gone {n}" for n in ids],
            "place": pa.array(
                [{"east": n, "z": "z"} for n in ids], pa.struct([("east", pa.int32()), ("z", pa.string())])
            ),
            "xs": pa.array(
                [[{"a": n, "b": date(2026, 1, 1)}] for n in ids],
                pa.list_(pa.struct([("a", pa.int32()), ("b", pa.date32())])),
            ),
        }
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_deleted_and_overwritten_rows_are_gone_and_the_past_is_kept(sqlite, write, version: int) -> None:
    table = sqlite.lake.create_table(
        sqlite.name("t"), ORDERS, partition_by=["region", "day(ts)"], format_version=version
    )
    write(table, orders(0, 30))
    write(table, orders(30, 30))
    table.delete("region = 'eu' AND id < 20")
    table.delete("id IN (25, 26, 27) OR amount = 31.03")
    table.overwrite(orders(100, 5), "region = 'us'")
    table.overwrite_partitions(orders(200, 3))
    with table.transaction() as tx:
        tx.delete("id > 200")
        tx.append(orders(300, 4))
    assert len(sqlite.assert_same("t")) == len(table.scan().to_arrow())
    for where in ("region = 'us'", "region IS NULL", "id >= 100 AND amount < 2500", "ts < '2026-09-22'"):
        sqlite.assert_same("t", where=where)
    for snapshot in table.snapshots:
        sqlite.assert_same("t", version=str(snapshot.snapshot_id))
    summaries = dict(sqlite.sql("SELECT snapshot_id, summary['total-records'] FROM {t}.snapshots").rows)
    for id_, total in summaries.items():
        assert sqlite.sql(f"SELECT count(*) FROM {{t}} VERSION AS OF {id_}").value() == int(total)


def test_branches_and_tags_are_read_by_name(shared, write) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["bucket(2, id)"])
    write(table, orders(0, 5))
    table.tag("first")
    table.branch("audit", min_snapshots_to_keep=2)
    table.append(orders(10, 5), ref="audit")
    write(table, orders(20, 1))
    assert len(shared.assert_same("t")) == 6
    assert len(shared.assert_same("t", version="first")) == 5
    assert len(shared.assert_same("t", version="audit")) == 10
    refs = shared.sql("SELECT name, type, min_snapshots_to_keep FROM {t}.refs").rows
    assert sorted(refs) == [("audit", "BRANCH", 2), ("first", "TAG", None), ("main", "BRANCH", None)]
    table.rollback(snapshot_id=table.refs["first"].snapshot_id)
    table.fast_forward("main", "audit")
    assert len(shared.assert_same("t")) == 10


def test_files_taken_in_are_read_by_the_name_mapping(shared) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["bucket(4, id)", "region"])
    names = [{"field-id": field.id, "names": [field.name]} for field in table.schema.fields]
    with table.alter() as change:
        change.set_properties({"schema.name-mapping.default": json.dumps(names)})
    paths = []
    for n in range(3):
        paths.append(f"{table.location}/{n}.parquet")
        pq.write_table(orders(n, 1), paths[-1])
    table.add_files(paths)
    shared.assert_holds("t", orders(0, 3))
    assert len(shared.assert_same("t", where="id = 1")) == 1
    assert (
        shared.sql("SELECT count(*) FROM {t} WHERE _partition.id_bucket <> {catalog}.system.bucket(4, id)").value() == 0
    )


def test_metadata_tables_say_what_java_s_say(shared, write) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["region", "day(ts)"])
    write(table, orders(0, 7))
    table.delete("id = 3")
    with table.alter() as change:
        change.add_partition("bucket(2, id)")
        change.set_sort_order("id desc")
    write(table, orders(10, 3))
    table.tag("kept", max_ref_age_ms=86_400_000)
    for name in METADATA_TABLES:
        theirs = shared.sql(f"SELECT * FROM {{t}}.{name}")
        ours = getattr(table.inspect, name)()
        assert ours.column_names == [column for column, _ in theirs.columns], name
        assert_equal_rows(esker_rows(ours), theirs.dicts())


@pytest.mark.parametrize(
    "properties",
    [
        *({"write.parquet.compression-codec": codec} for codec in ("zstd", "snappy", "gzip", "lz4", "uncompressed")),
        {"write.metadata.compression-codec": "gzip"},
        {"write.object-storage.enabled": "true"},
        {"write.parquet.bloom-filter-enabled.column.region": "true", "write.parquet.page-row-limit": "2"},
        {"write.target-file-size-bytes": "2000", "write.parquet.row-group-size-bytes": "1000"},
        {"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.id": "full"},
        {"commit.manifest.min-count-to-merge": "2", "commit.manifest.target-size-bytes": "20000"},
    ],
    ids=lambda properties: " ".join(f"{key}={value}" for key, value in properties.items()),
)
def test_files_written_by_any_setting_are_read(sqlite, write, properties: dict[str, str]) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, partition_by=["region"], properties=properties)
    for first in (0, 20, 40):
        write(table, orders(first, 20))
    sqlite.assert_holds("t", orders(0, 60))
    assert len(sqlite.assert_same("t", where="region = 'us' AND id < 30")) == 10


@every_writer
def test_v3_defaults_and_row_ids_are_java_s(shared, write) -> None:
    table = shared.lake.create_table(shared.name("t"), "id bigint", format_version=3)
    write(table, pa.table({"id": [1, 2, 3]}))
    with table.alter() as change:
        change.add_column("kind", "string", default="none")
        change.add_column("day", "date", default=date(2026, 11, 15))
    write(table, pa.table({"id": [4, 5]}))
    with table.alter() as change:
        change.set_default("kind", "later")
    write(table, pa.table({"id": [6]}))
    table.delete("id = 2")
    assert [row["kind"] for row in sorted(shared.assert_same("t"), key=lambda row: row["id"])] == ["none"] * 4 + [
        "later"
    ]
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    theirs = shared.sql(f"SELECT {', '.join(columns)} FROM {{t}}").dicts()
    assert_equal_rows(esker_rows(table.scan(columns=columns).to_arrow()), theirs)


def test_an_upgraded_table_is_read_at_every_version(shared, write) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["region"], format_version=1)
    for version in (1, 2, 3):
        if version > 1:
            with table.alter() as change:
                change.upgrade_format(version)
        write(table, orders(version * 10, 5))
        table.delete(f"id = {version * 10 + 1}")
        shared.assert_same("t")
        shared.sql(f"INSERT INTO {{t}} SELECT id + 100, region, amount, ts FROM {{t}} WHERE id = {version * 10}")
        table.refresh()
    assert len(shared.assert_same("t")) == 15
