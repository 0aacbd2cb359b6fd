"""Tables read by Spark: what evolution, partitions, deletes and odd files ask of a reader."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import unknown_groups
from spark_tables import agrees, on_disk
from table_maker import TableMaker

import esker
from esker.errors import InvalidInput
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
)


def column(id_: int, name: str, type_: Type, **more: Any) -> Field:
    return Field(id=id_, name=name, type=type_, **more)


def schema(*fields: Field, schema_id: int = 0) -> Schema:
    return Schema(fields=fields, schema_id=schema_id)


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": at, "name": f"n{at % 7}" if at % 5 else None} for at in range(start, start + count)]


PLAIN = schema(column(1, "id", LONG, required=True), column(2, "name", STRING))


@pytest.fixture
def plain(tmp_path: Path) -> Any:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(100)), maker.data_file(rows(100, 100))])
    return on_disk(maker, tmp_path)


def plan_of(frame: Any) -> str:
    return frame._jdf.queryExecution().toString()


def test_a_scan_gives_its_rows_in_a_frame(plain: Any, spark: Any) -> None:
    assert agrees(plain.scan(), spark) == 200
    assert agrees(plain.scan("id >= 150 AND name = 'n3'"), spark) > 0


def test_filters_and_columns_reach_sparks_reader(plain: Any, spark: Any) -> None:
    frame = plain.scan("id >= 50", columns=["id"]).to_spark(spark)
    assert "PushedFilters: [IsNotNull(id), GreaterThanOrEqual(id,50)]" in plan_of(frame)
    assert "ReadSchema: struct<id:bigint>" in plan_of(frame)
    later = plain.scan().to_spark(spark).filter("id = 7").select("name")
    assert "EqualTo(id,7)" in plan_of(later)
    assert "ReadSchema: struct<id:bigint,name:string>" in plan_of(later)
    only = plain.scan().to_spark(spark).select("name")
    assert "ReadSchema: struct<name:string>" in plan_of(only)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_both_zeros_are_found_by_either(tmp_path: Path, spark: Any, file_format: str) -> None:
    maker = TableMaker(schema(column(1, "x", DOUBLE), column(2, "y", FLOAT)))
    values = [[-0.0, -0.0], [0.0, 0.0], [-0.0, 1.0], [-1.0, 0.0], [-1.0, 1.0]]
    maker.manifest([maker.data_file([{"x": x, "y": x} for x in xs], file_format=file_format) for xs in values])
    table = on_disk(maker, tmp_path)
    expected = {
        "= {}": 6,
        "IN ({}, 1, 7)": 8,
        ">= {}": 8,
        "> {}": 2,
        "<= {}": 8,
        "< {}": 2,
        "<> {}": 4,
        "NOT IN ({}, 7)": 4,
    }
    for term, count in expected.items():
        for zero in ("0.0D", "-0.0D"):
            for name in ("x", "y"):
                where = f"{name} {term.format(zero)}"
                assert (where, agrees(table.scan(where), spark)) == (where, count)


def test_what_the_plan_leaves_out_is_not_handed_to_spark(tmp_path: Path, spark: Any) -> None:
    by_name = PartitionSpec(
        spec_id=0, fields=(PartitionField(source_id=2, field_id=1000, name="name", transform=IDENTITY),)
    )
    maker = TableMaker(PLAIN, specs=[by_name])
    files = [maker.data_file([{"id": at, "name": name}], partition=(name,)) for at, name in enumerate("abc")]
    maker.manifest(files)
    scan = on_disk(maker, tmp_path).scan("name = 'b'")
    assert len(scan.to_spark(spark).inputFiles()) == 1
    assert agrees(scan, spark) == 1


def test_a_limit_is_kept(plain: Any, spark: Any) -> None:
    assert plain.scan(limit=7).to_spark(spark).count() == 7
    assert plain.scan(limit=0).to_spark(spark).count() == 0


def test_an_empty_plan_is_an_empty_frame_of_the_right_columns(plain: Any, spark: Any) -> None:
    frame = plain.scan("id > 1000").to_spark(spark)
    assert frame.count() == 0
    assert frame.schema.simpleString() == "struct<id:bigint,name:string>"


def test_later_commits_do_not_change_a_frame(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"file://{tmp_path}", spark=spark)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append(pa.table({"id": [1, 2, 3]}))
    frame = table.scan().to_spark()
    table.append(pa.table({"id": [4]}))
    table.delete("id = 1")
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3]
    assert sorted(row.id for row in table.scan().to_spark().collect()) == [2, 3, 4]
    both = frame.join(table.scan().to_spark(), "id")  # one session's scans of one table are not taken for each other
    assert sorted(row.id for row in both.collect()) == [2, 3]


def test_the_users_settings_cannot_bend_a_read(plain: Any, spark: Any) -> None:
    frame = plain.scan().to_spark(spark)
    spark.conf.set("spark.sql.parquet.fieldId.read.ignoreMissing", "true")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert frame.count() == 200
        assert agrees(plain.scan(), spark) == 200
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.ignoreMissing")
        spark.conf.unset("spark.sql.caseSensitive")


# ---------------------------------------------------------------- evolution


def test_columns_are_found_by_id_through_every_change(tmp_path: Path, spark: Any) -> None:
    address = StructType((column(4, "street", STRING), column(5, "zip", INT)))
    maker = TableMaker(schema(column(1, "a", INT), column(2, "b", STRING), column(3, "address", address)))
    maker.manifest([maker.data_file([{"a": 1, "b": "x", "address": {"street": "s", "zip": 9}}, {"a": 2}])])
    moved = StructType((column(5, "postcode", LONG), column(4, "road", STRING), column(7, "house", STRING)))
    maker.evolve(
        schema(
            column(3, "place", moved),
            column(2, "B", STRING),
            column(1, "number", LONG),
            column(6, "more", DOUBLE, initial_default=1.5),
            column(8, "tags", ListType(element_id=9, element=STRING)),
        )
    )
    maker.manifest(
        [maker.data_file([{"place": {"postcode": 8, "road": "r", "house": "h"}, "more": None, "number": 3}])]
    )
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 3
    assert agrees(table.scan("number > 1 AND more IS NULL"), spark) == 1
    assert agrees(table.scan("place.road = 's'", columns=["place.postcode", "more"]), spark) == 1


@pytest.mark.parametrize("where", ["x < 10", "x >= 5000", "y = 5001", "x IS NULL", "x IN (0, 5999)"])
def test_a_filter_on_names_that_changed_places_loses_no_row(where: str, tmp_path: Path, spark: Any) -> None:
    """Spark pushes filters down by name, also where it reads columns by id: see ``scan_names``."""
    maker = TableMaker(schema(column(1, "x", LONG), column(2, "y", LONG)))
    held = [{"x": at, "y": 5000 + at} for at in range(1000)]
    maker.manifest([maker.data_file(held, row_group_size=100)])
    maker.evolve(schema(column(2, "x", LONG), column(1, "y", LONG)))
    table = on_disk(maker, tmp_path)
    count = agrees(table.scan(where), spark)
    assert table.scan().to_spark(spark).filter(where).count() == count


@pytest.mark.parametrize("asked", ["s.x", "s.y", "l.x", "m['k'].y"])
def test_members_that_changed_names_are_found_when_only_some_are_asked_for(
    asked: str, tmp_path: Path, spark: Any
) -> None:
    """Spark's optimiser forgets the ids of members when it leaves some out: see ``scan_names``."""

    def of(shift: int, x: str, y: str) -> StructType:
        return StructType((column(shift + 1, x, LONG), column(shift + 2, y, LONG)))

    def holding(x: str, y: str) -> Schema:
        return schema(
            column(1, "s", of(10, x, y)),
            column(2, "l", ListType(element_id=20, element=of(20, x, y))),
            column(3, "m", MapType(key_id=30, key=STRING, value_id=31, value=of(31, x, y))),
        )

    maker = TableMaker(holding("x", "y"))
    maker.manifest(
        [maker.data_file([{"s": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4}], "m": [("k", {"x": 5, "y": 6})]}])]
    )
    maker.evolve(holding("y", "x"))
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(columns=["s", "l"]), spark) == 1
    [row] = table.scan().to_spark(spark).selectExpr(asked).collect()
    assert row[0] == {"s.x": 2, "s.y": 1, "l.x": [4], "m['k'].y": 5}[asked]


def test_a_column_made_again_under_its_old_name_is_another_column(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(schema(column(1, "k", LONG), column(2, "x", LONG)))
    maker.manifest([maker.data_file([{"k": at, "x": at} for at in range(100)])])
    maker.evolve(schema(column(1, "k", LONG)))
    maker.evolve(schema(column(1, "k", LONG), column(3, "X", LONG, initial_default=1000)))
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan("X = 1000"), spark) == 100
    assert table.scan().to_spark(spark).filter("X > 500").count() == 100


def test_names_that_differ_by_case_alone_can_be_read(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(schema(column(1, "a", LONG), column(2, "A", LONG), column(3, "_metadata", STRING)))
    maker.manifest([maker.data_file([{"a": 1, "A": 2, "_metadata": "mine"}])])
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 1


def test_every_type_comes_as_the_type_table_says(tmp_path: Path, spark: Any) -> None:
    fields = (
        column(1, "i", INT),
        column(2, "ts", TIMESTAMP),
        column(3, "tz", TIMESTAMPTZ),
        column(4, "d", DATE),
        column(5, "t", TIME),
        column(6, "u", UUID),
        column(7, "f", FixedType(4)),
        column(8, "b", BINARY),
        column(9, "dec", DecimalType(20, 3)),
        column(10, "us", ListType(element_id=11, element=UUID)),
        column(12, "m", MapType(key_id=13, key=STRING, value_id=14, value=DOUBLE)),
        column(15, "nothing", UnknownType()),
        column(16, "s", StructType((column(17, "u", UUID), column(18, "none", UnknownType())))),
    )
    maker = TableMaker(schema(*fields), format_version=3)
    stored = schema(*(f for f in fields[:10]))
    uuid = bytes(range(16))
    held = {"i": 1, "ts": -1, "tz": 1_700_000_000_000_001, "d": -719_000, "t": 86_399_999_999, "u": uuid, "f": b"abcd"}
    maker.manifest([maker.data_file([{**held, "b": b"", "us": [uuid, None]}, {}], schema=stored)])
    scan = on_disk(maker, tmp_path).scan()
    assert agrees(scan, spark) == 2
    kinds = dict(scan.to_spark(spark).dtypes)
    assert kinds == {
        "i": "int",
        "ts": "timestamp_ntz",
        "tz": "timestamp",
        "d": "date",
        "t": "time(6)",
        "u": "string",
        "f": "binary",
        "b": "binary",
        "dec": "decimal(20,3)",
        "us": "array<string>",
        "m": "map<string,double>",
        "nothing": "void",
        "s": "struct<u:string,none:void>",
    }


def test_nanoseconds_are_refused_by_name_before_a_file_is_opened(spark: Any) -> None:
    maker = TableMaker(schema(column(1, "id", LONG), column(2, "at", TIMESTAMP_NS)), format_version=3)
    maker.manifest([maker.data_file([{"id": 1, "at": 1}])])
    with pytest.raises(esker.Unsupported, match="cannot give column 'at' to Spark: its timestamps have microseconds"):
        maker.table().scan().to_spark(spark)
    assert maker.table().scan(columns=["id"]).to_spark(spark).count() == 1


def test_times_are_refused_where_the_session_takes_none(spark: Any) -> None:
    maker = TableMaker(schema(column(1, "t", TIME)))
    maker.manifest([maker.data_file([{"t": 1}])])
    spark.conf.set("spark.sql.timeType.enabled", "false")
    try:
        with pytest.raises(
            esker.Unsupported,
            match=r"cannot give column 't' to Spark: its type time is switched off in this session; run spark\.conf",
        ):
            maker.table().scan().to_spark(spark)
    finally:
        spark.conf.set("spark.sql.timeType.enabled", "true")


# ---------------------------------------------------------------- defaults, partitions, files without ids


def test_a_time_of_day_in_a_file_that_spark_has_no_reader_for_is_read(tmp_path: Path, spark: Any) -> None:
    inner = ListType(element_id=4, element=TIME)
    maker = TableMaker(schema(column(1, "id", LONG), column(2, "at", TIME), column(3, "all", inner)))
    data = [{"id": at, "at": at * 1_000_001, "all": [at, None]} for at in range(3)]
    maker.manifest([maker.data_file(data, file_format="avro"), maker.data_file([], file_format="avro")])
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 3


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_e4_a_missing_column_reads_as_its_default(file_format: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(schema(column(1, "id", LONG)), format_version=3)
    maker.manifest([maker.data_file([{"id": 1}, {"id": 2}], file_format=file_format)])
    inner = StructType((column(11, "deep", LONG, initial_default=7), column(12, "more", STRING)))
    maker.evolve(
        schema(
            column(1, "id", LONG),
            column(2, "i", INT, initial_default=-5),
            column(3, "s", STRING, initial_default='it\'s \\ "q"'),
            column(4, "b", BINARY, initial_default=b"\x00\xff"),
            column(5, "u", UUID, initial_default=bytes(16)),
            column(6, "ts", TIMESTAMP, initial_default=1_700_000_000_000_000),
            column(7, "tz", TIMESTAMPTZ, initial_default=1_700_000_000_000_000),
            column(8, "d", DATE, initial_default=19_000),
            column(9, "x", DOUBLE, initial_default=float("inf")),
            column(10, "st", inner, initial_default=()),
        )
    )
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 2
    assert agrees(table.scan("i = -5 AND s IS NOT NULL", columns=["id"]), spark) == 2
    assert agrees(table.scan("st.deep = 7", columns=["id", "st.deep"]), spark) == 2


@pytest.mark.parametrize(("precision", "digits"), [(9, 9), (18, 18), (19, 3), (38, 3), (38, 38)])
def test_e4_a_default_has_as_many_digits_as_a_decimal_may_have(
    precision: int, digits: int, tmp_path: Path, spark: Any
) -> None:
    """Spark's reader takes the default of a missing column for a long number."""
    maker = TableMaker(schema(column(1, "id", LONG)), format_version=3)
    maker.manifest([maker.data_file([{"id": 1}])])
    value = Decimal(f"{'9' * (digits - 2)}.99")
    maker.evolve(schema(column(1, "id", LONG), column(2, "d", DecimalType(precision, 2), initial_default=value)))
    maker.manifest([maker.data_file([{"id": 2, "d": Decimal("-1.25")}])])
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 2


def test_items_that_are_all_null_are_read(tmp_path: Path, spark: Any) -> None:
    """Their dictionary is empty, and Spark's compiled functions of arrays look into it."""
    doubles, keys = ListType(element_id=10, element=DOUBLE), ListType(element_id=11, element=UUID)
    values = MapType(key_id=12, key=STRING, value_id=13, value=UUID)
    maker = TableMaker(
        schema(column(1, "id", LONG), column(2, "l", doubles), column(3, "u", keys), column(4, "m", values)),
        format_version=3,
    )
    first = maker.data_file([{"id": 1, "l": [None], "u": [None, None], "m": [("k", None)]}])
    maker.manifest([first])
    maker.manifest([maker.data_file([{"id": 2, "l": [None, None], "u": None, "m": None}])])
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 2


def test_e5_a_member_that_a_file_lacks_takes_its_own_default(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(schema(column(1, "s", StructType((column(2, "a", LONG),)))), format_version=3)
    maker.manifest([maker.data_file([{"s": {"a": 1}}, {"s": None}])])
    maker.evolve(schema(column(1, "s", StructType((column(2, "a", LONG), column(3, "b", LONG, initial_default=9))))))
    maker.manifest([maker.data_file([{"s": {"a": 2, "b": None}}])])
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 3


@pytest.mark.parametrize("with_ids", [True, False])
def test_e1_a_column_left_out_of_files_is_its_partitions_value(with_ids: bool, tmp_path: Path, spark: Any) -> None:
    by_name = PartitionSpec(
        spec_id=0, fields=(PartitionField(source_id=2, field_id=1000, name="name", transform=IDENTITY),)
    )
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]
    maker = TableMaker(
        PLAIN,
        specs=[by_name],
        properties={} if with_ids else {"schema.name-mapping.default": json.dumps(mapping)},
    )
    bare = schema(column(1, "id", LONG))
    made = [
        maker.data_file([{"id": at}], schema=bare, partition=(name,))
        if with_ids
        else without_ids(maker, pa.table({"id": [at]}), partition=(name,))
        for at, name in enumerate(["a", "b", None])
    ]
    maker.manifest(made)
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 3
    assert agrees(table.scan("name = 'b'"), spark) == 1
    assert agrees(table.scan("name IS NULL OR id = 0", columns=["name", "_file"]), spark) == 2


def without_ids(maker: TableMaker, table: pa.Table, **facts: Any) -> Any:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False)
    return maker.put(out.getvalue(), "parquet", table.num_rows, **facts)


def test_files_without_ids_are_read_by_the_name_mapping_beside_others(tmp_path: Path, spark: Any) -> None:
    mapping = [
        {"field-id": 1, "names": ["id", "old.id"]},
        {"field-id": 2, "names": ["name"]},
        {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["inner"]}]},
    ]
    inner = StructType((column(4, "renamed", LONG), column(5, "new", STRING)))
    maker = TableMaker(
        schema(*PLAIN, column(3, "s", inner)), properties={"schema.name-mapping.default": json.dumps(mapping)}
    )
    old = pa.table({"name": ["x", "y"], "old.id": [1, 2], "s": [{"inner": 5}, None], "other": [0, 0]})
    maker.manifest([without_ids(maker, old), maker.data_file([{"id": 3, "s": {"renamed": 6, "new": "n"}}])])
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 3
    assert agrees(table.scan("s.renamed >= 5", columns=["s.renamed", "id"]), spark) == 2
    assert "FileScan parquet" in plan_of(table.scan().to_spark(spark))
    assert "MapInArrow" not in plan_of(table.scan().to_spark(spark))


def test_files_without_ids_or_mapping_go_by_position_and_never_read_as_nulls(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([without_ids(maker, pa.table({"some": [1, 2], "thing": ["a", "b"]}))])
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan("id = 2"), spark) == 1


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats_read_beside_parquet(file_format: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(20), file_format=file_format), maker.data_file(rows(20, 20))])
    maker.evolve(schema(column(2, "called", STRING), column(1, "id", LONG, required=True)))
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan("id BETWEEN 15 AND 25 AND called IS NOT NULL"), spark) == 8
    assert ("FileScan orc" in plan_of(table.scan().to_spark(spark))) == (file_format == "orc")


@pytest.mark.parametrize(
    "name", ["_hidden.parquet", ".dotted.parquet", "a %41+é.parquet", "a=1/{b,c}*[d]?.parquet", "x:y#z.parquet"]
)
def test_no_file_is_passed_over_for_its_name(name: str, route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    first = maker.data_file(rows(5), path=f"{maker.location}/data/{name}")
    maker.manifest([first, maker.data_file(rows(5, 5))])
    maker.snapshot()
    maker.manifest([maker.position_deletes([(first.path, 1)])])
    maker.snapshot()
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(columns=["id", "_file", "_pos"]), spark) == 9


def test_a_size_that_a_manifest_has_wrong_loses_no_row(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    data = maker.data_file(rows(5000), row_group_size=100)
    maker.manifest([replace(data, file_size=10)])
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 5000


def test_what_a_writer_noted_of_its_own_memory_does_not_keep_spark_from_a_file(tmp_path: Path, spark: Any) -> None:
    """Arrow's writers leave a schema of theirs in the footer, with types that Parquet does not have."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", allowed_roots=[tmp_path])
    lake.create_namespace("a")
    table = lake.create_table("a.t", "view string, bytes binary, word string, items array<string>, more array<int>")
    types = {
        "view": pa.string_view(),
        "bytes": pa.binary_view(),
        "word": pa.dictionary(pa.int32(), pa.large_string()),
        "items": pa.large_list(pa.string_view()),
        "more": pa.list_(pa.int32()),
    }
    values = {
        "view": ["a", None],
        "bytes": [b"b", b""],
        "word": ["x", "x"],
        "items": [["c", None], []],
        "more": [[1], None],
    }
    given = tmp_path / "given.parquet"
    pq.write_table(pa.table({name: pa.array(values[name], type_) for name, type_ in types.items()}), given)
    table.add_files([str(given)])
    frame = table.scan().to_spark(spark)
    assert [row.asDict() for row in frame.collect()] == table.scan().to_arrow().to_pylist()
    assert "MapInArrow" not in plan_of(frame)


def test_what_columns_were_read_with_leaves_no_trace_and_comments_stay(tmp_path: Path, spark: Any) -> None:
    fields = (column(1, "id", LONG, doc="the key"), column(2, "a `dotted.name`", STRING), column(3, "u", UUID))
    maker = TableMaker(schema(*fields))
    maker.manifest([maker.data_file([{"id": 1, "a `dotted.name`": "x", "u": bytes(16)}])])
    table = on_disk(maker, tmp_path)
    for columns in (["id", "a `dotted.name`"], ["id", "a `dotted.name`", "u"]):  # as they are; and with one made over
        frame = table.scan(columns=columns).to_spark(spark)
        assert [f.metadata for f in frame.schema] == [{"comment": "the key"}, *[{}] * (len(columns) - 1)]
        assert frame.columns == columns
        assert frame.collect()[0][1] == "x"


def test_groups_that_hive_annotates_as_unknown_are_read(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.t", unknown_groups.SCHEMA)
    given = Path(table.location) / "hive.parquet"
    given.write_bytes(unknown_groups.annotated("place"))
    table.add_files([str(given)])
    found = table.scan("id > 37").to_spark(spark).orderBy("id").collect()
    assert [(row.id, row.place.city, dict(row.tags)) for row in found] == [
        (38, "c38", {"a": 38}),
        (39, "c39", {"a": 39}),
    ]


def test_a_location_in_sql_outside_the_warehouse_is_refused(tmp_path: Path, spark: Any) -> None:
    place = f"{tmp_path}/outside/t"
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark)
    lake.create_namespace("a")
    for statement in ("create table a.t (id int) location '{}'", "create table a.t location '{}' as select 1 as id"):
        with pytest.raises(InvalidInput, match=rf"{place}.* allowed_roots="):
            lake.sql(statement.format(place))
    assert lake.tables("a") == []
    allowing = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark, allowed_roots=[tmp_path / "outside"])
    allowing.sql(f"create table a.t location '{place}' as select 1 as id")
    assert allowing.table("a.t").location == place
    assert [row.id for row in allowing.sql("select id from a.t").collect()] == [1]
