"""Columns by id: evolution, what fills a column that a file lacks, and files whose writer left no ids."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_tables import Files, column, metadata, read, schema, task, with_id_key

from esker.arrow.arrow_types import FIELD_ID, to_arrow_schema
from esker.arrow.read.file_columns import file_columns
from esker.arrow.read.project import Origin, project
from esker.errors import Corrupt
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.predicates.predicate import Compare, IsNull, Op
from esker.model.schema import MappedField, Schema
from esker.model.transform import IdentityTransform, parse_transform
from esker.model.types import (
    DATE,
    INT,
    LONG,
    STRING,
    UNKNOWN,
    VARIANT,
    FixedType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)

BY_REGION = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_id=2, field_id=1000, name="region", transform=IdentityTransform()),)
)


def without_ids(of: Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=with_id_key(to_arrow_schema(of), None))


def test_columns_are_found_by_id_after_rename_and_reorder() -> None:
    old = schema(column(1, "a", INT), column(2, "b", STRING))
    new = schema(column(2, "a", STRING), column(1, "was_a", INT))
    files = Files()
    data_file = files.rows(old, [{"a": 1, "b": "x"}])
    assert read(files, metadata(old, new), task(data_file)).to_pylist() == [{"a": "x", "was_a": 1}]


def test_a_dropped_and_added_again_column_does_not_show_old_values() -> None:
    old, new = schema(column(1, "a", INT)), schema(column(2, "a", INT))
    files = Files()
    assert read(files, metadata(old, new), task(files.rows(old, [{"a": 1}]))).to_pylist() == [{"a": None}]


def test_fields_move_inside_structs_lists_and_maps_by_id() -> None:
    def nested(*members: Any) -> Schema:
        struct = StructType(members)
        return schema(
            column(1, "s", struct),
            column(2, "l", ListType(element_id=3, element=StructType(_shifted(members, 10)))),
            column(4, "m", MapType(key_id=5, key=STRING, value_id=6, value=StructType(_shifted(members, 20)))),
        )

    old = nested(column(100, "x", INT), column(101, "y", STRING))
    new = nested(column(101, "why", STRING), column(102, "z", INT, initial_default=7))
    files = Files()
    part = {"x": 1, "y": "a"}
    data_file = files.rows(old, [{"s": part, "l": [part, None], "m": [("k", part)]}, {"s": None, "l": [], "m": None}])
    moved = {"why": "a", "z": 7}
    assert read(files, metadata(old, new), task(data_file)).to_pylist() == [
        {"s": moved, "l": [moved, None], "m": [("k", moved)]},
        {"s": None, "l": [], "m": None},
    ]


def _shifted(members: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    from dataclasses import replace

    return tuple(replace(m, id=m.id + by) for m in members)


def test_e1_an_absent_column_is_the_identity_partition_value_before_its_default() -> None:
    old = schema(column(1, "a", INT))
    new = schema(column(1, "a", INT), column(2, "region", STRING, initial_default="nowhere"))
    files = Files()
    there = files.rows(old, [{"a": 1}], spec_id=1, partition=("emea",))
    null = files.rows(old, [{"a": 2}], spec_id=1, partition=(None,))
    elsewhere = files.rows(old, [{"a": 3}])
    of = metadata(old, new, specs=(PartitionSpec(), BY_REGION))
    got = read(files, of, task(there), task(null), task(elsewhere))
    assert got["region"].to_pylist() == ["emea", None, "nowhere"]


def test_e1_a_column_in_the_file_comes_before_the_partition_value() -> None:
    both = schema(column(1, "a", INT), column(2, "region", STRING))
    files = Files()
    data_file = files.rows(both, [{"a": 1, "region": "file"}], spec_id=1, partition=("partition",))
    of = metadata(both, specs=(PartitionSpec(), BY_REGION))
    assert read(files, of, task(data_file))["region"].to_pylist() == ["file"]


def test_e1_a_mapped_name_yields_to_the_partition_value_and_precedes_the_default() -> None:
    both = schema(column(1, "a", INT, initial_default=5), column(2, "region", STRING))
    files = Files()
    table = without_ids(both, [{"a": 1, "region": "file"}])
    data_file = files.parquet(table, spec_id=1, partition=("partition",))
    mapping = (MappedField(names=("a",), field_id=1), MappedField(names=("region",), field_id=2))
    got = read(files, metadata(both, specs=(PartitionSpec(), BY_REGION)), task(data_file), mapping=mapping)
    assert got.to_pylist() == [{"a": 1, "region": "partition"}]


def test_e1_only_identity_partitions_give_values() -> None:
    of = schema(column(1, "a", INT), column(2, "day", DATE))
    field = PartitionField(source_id=2, field_id=1000, name="d", transform=parse_transform("year"))
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}], spec_id=1, partition=(50,))
    got = read(files, metadata(of, specs=(PartitionSpec(), PartitionSpec(spec_id=1, fields=(field,)))), task(data_file))
    assert got["day"].to_pylist() == [None]


def test_e1_a_required_column_that_nothing_fills_is_an_error_that_names_it() -> None:
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}])
    of = metadata(schema(column(1, "a", INT), column(2, "b", INT, required=True)))
    with pytest.raises(Corrupt, match=r"00001.parquet is corrupt: it does not have the required column 'b'"):
        read(files, of, task(data_file))


def test_e2_a_dot_in_a_mapped_name_is_part_of_the_name() -> None:
    of = schema(column(1, "dotted", INT), column(2, "a", StructType((column(3, "b", INT),))), column(4, "other", INT))
    table = pa.table(
        [pa.array([1], pa.int32()), pa.array([{"b": 2}], pa.struct([("b", pa.int32())])), pa.array([9], pa.int32())],
        names=["a.b", "a", "unmapped"],
    )
    mapping = (
        MappedField(names=("dotted", "a.b"), field_id=1),
        MappedField(names=("a",), field_id=2, fields=(MappedField(names=("b",), field_id=3),)),
    )
    files = Files()
    expected = [{"dotted": 1, "a": {"b": 2}, "other": None}]
    assert read(files, metadata(of), task(files.parquet(table)), mapping=mapping).to_pylist() == expected
    assert read(files, metadata(of), task(files.orc(table)), mapping=mapping).to_pylist() == expected


def test_e2_lists_and_maps_are_mapped_by_the_names_of_the_spec_whatever_the_file_calls_them() -> None:
    of = schema(
        column(1, "l", ListType(element_id=2, element=StructType((column(3, "x", INT),)))),
        column(4, "m", MapType(key_id=5, key=STRING, value_id=6, value=LONG)),
    )
    list_type = pa.list_(pa.field("array", pa.struct([("x", pa.int32())])))
    table = pa.table(
        {"l": pa.array([[{"x": 1}]], list_type), "m": pa.array([[("k", 2)]], pa.map_(pa.string(), pa.int32()))}
    )
    mapping = (
        MappedField(
            names=("l",),
            field_id=1,
            fields=(MappedField(names=("element",), field_id=2, fields=(MappedField(names=("x",), field_id=3),)),),
        ),
        MappedField(
            names=("m",),
            field_id=4,
            fields=(MappedField(names=("key",), field_id=5), MappedField(names=("value",), field_id=6)),
        ),
    )
    files = Files()
    expected = [{"l": [{"x": 1}], "m": [("k", 2)]}]
    assert read(files, metadata(of), task(files.parquet(table)), mapping=mapping).to_pylist() == expected


def test_a_mapping_numbered_for_another_schema_gives_way_to_the_names_of_this_one() -> None:
    of = schema(column(1, "s", StructType((column(3, "x", INT),))), column(2, "y", INT))
    table = without_ids(of, [{"s": {"x": 1}, "y": 2}])
    depth_first = (  # as Hive numbers when it migrates a table, while the schema is numbered level by level
        MappedField(names=("s",), field_id=1, fields=(MappedField(names=("x",), field_id=2),)),
        MappedField(names=("y",), field_id=3),
    )
    files = Files()
    got = read(files, metadata(of), task(files.orc(table)), mapping=depth_first)
    assert got.to_pylist() == [{"s": {"x": 1}, "y": 2}]


def test_without_ids_or_mapping_parquet_goes_by_position_and_orc_by_name() -> None:
    of = schema(column(1, "a", INT), column(2, "b", INT))
    table = pa.table({"b": pa.array([1], pa.int32()), "a": pa.array([2], pa.int32())})
    files = Files()
    assert read(files, metadata(of), task(files.parquet(table))).to_pylist() == [{"a": 1, "b": 2}]
    assert read(files, metadata(of), task(files.orc(table))).to_pylist() == [{"a": 2, "b": 1}]


def test_e4_an_absent_column_reads_as_its_initial_default_never_its_write_default() -> None:
    of = schema(column(1, "a", INT), column(2, "b", DATE, initial_default=1, write_default=2))
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}, {"a": 2}])
    assert read(files, metadata(of), task(data_file))["b"].to_pylist() == [dt.date(1970, 1, 2)] * 2


def test_e4_a_null_in_the_file_stays_null_whatever_the_default() -> None:
    of = schema(column(1, "a", INT, initial_default=5))
    files = Files()
    assert read(files, metadata(of), task(files.rows(of, [{"a": None}])))["a"].to_pylist() == [None]


def test_e5_a_struct_of_defaults_is_filled_by_its_members() -> None:
    inner = StructType((column(3, "x", INT, initial_default=-1), column(4, "y", STRING)))
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}])
    with_default = metadata(schema(column(2, "s", inner, initial_default=())))
    without = metadata(schema(column(2, "s", inner)))
    assert read(files, with_default, task(data_file)).to_pylist() == [{"s": {"x": -1, "y": None}}]
    assert read(files, without, task(data_file)).to_pylist() == [{"s": None}]


def test_e5_a_present_struct_takes_the_default_of_a_member_it_lacks() -> None:
    old = schema(column(2, "s", StructType((column(3, "x", INT),))))
    new = schema(column(2, "s", StructType((column(3, "x", INT), column(4, "y", STRING, initial_default="d")))))
    files = Files()
    data_file = files.rows(old, [{"s": {"x": 1}}, {"s": None}])
    assert read(files, metadata(old, new), task(data_file)).to_pylist() == [{"s": {"x": 1, "y": "d"}}, {"s": None}]


def test_e5_only_new_members_asked_for_still_show_which_structs_are_null() -> None:
    old = schema(column(2, "s", StructType((column(3, "x", INT),))))
    new = schema(column(2, "s", StructType((column(4, "y", INT, initial_default=1),))))
    files = Files()
    data_file = files.rows(old, [{"s": {"x": 1}}, {"s": None}])
    assert read(files, metadata(old, new), task(data_file)).to_pylist() == [{"s": {"y": 1}}, {"s": None}]


def test_defaults_of_nested_types_are_read_whole() -> None:
    of = schema(
        column(2, "l", ListType(element_id=3, element=INT), initial_default=(1, None)),
        column(4, "m", MapType(key_id=5, key=STRING, value_id=6, value=DATE), initial_default=(("k", 0),)),
        column(7, "f", FixedType(2), initial_default=b"ab"),
    )
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}, {"a": 1}])
    expected = {"l": [1, None], "m": [("k", dt.date(1970, 1, 1))], "f": b"ab"}
    assert read(files, metadata(of), task(data_file)).to_pylist() == [expected, expected]


def test_e9_a_partition_column_that_is_in_the_file_needs_no_partition_value() -> None:
    both = schema(column(1, "a", INT), column(2, "region", STRING))
    files = Files()
    data_file = files.rows(both, [{"a": 1, "region": "x"}], spec_id=1, partition=("x",))
    got = read(files, metadata(both, specs=(PartitionSpec(), BY_REGION)), task(data_file))
    assert got.to_pylist() == [{"a": 1, "region": "x"}]


def test_e11_an_unknown_column_is_null_whatever_the_file_holds_under_its_id() -> None:
    of = schema(column(1, "a", UNKNOWN), column(2, "b", INT))
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT), column(2, "b", INT)), [{"a": 1, "b": 2}])
    got = read(files, metadata(of), task(data_file))
    assert got.schema.field("a").type == pa.null()
    assert got.to_pylist() == [{"a": None, "b": 2}]


def test_n5_a_filter_sees_the_default_of_a_column_that_the_file_lacks() -> None:
    b = column(2, "b", INT, initial_default=5)
    of = schema(column(1, "a", INT), b, column(3, "c", INT))
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}])
    counts = {
        where: read(files, metadata(of), task(data_file, where=where), projection=schema(of.fields[0])).num_rows
        for where in (
            Compare(b, Op.EQ, 5),
            Compare(b, Op.GT, 5),
            IsNull(of.fields[2]),
            Compare(of.fields[2], Op.EQ, 5),
        )
    }
    assert list(counts.values()) == [1, 0, 1, 0]


def test_columns_only_the_filter_needs_are_not_handed_out() -> None:
    of = schema(column(1, "a", INT), column(2, "s", StructType((column(3, "x", INT), column(4, "y", INT)))))
    files = Files()
    rows = [{"a": 1, "s": {"x": 1, "y": 5}}, {"a": 2, "s": None}, {"a": 3, "s": {"x": 2, "y": 6}}]
    where = Compare(of.by_id[4], Op.GE, 6)
    got = read(files, metadata(of), task(files.rows(of, rows), where=where), projection=schema(of.fields[0]))
    assert got.to_pylist() == [{"a": 3}]


def test_variant_and_geometry_come_as_their_binaries() -> None:
    of = schema(column(1, "v", VARIANT), column(2, "g", GeometryType()))
    wkb = b"\x01\x01"
    rows = [{"v": {"metadata": b"\x01\x00\x00", "value": b"\x00"}, "g": wkb}, {"v": None, "g": None}]
    files = Files()
    assert read(files, metadata(of), task(files.rows(of, rows))).to_pylist() == rows


def test_lists_kept_in_arrows_other_forms_are_lists() -> None:
    of = schema(*(column(id_, name, ListType(element_id=id_ + 10, element=LONG)) for id_, name in ((1, "a"), (2, "b"))))
    ids = [{FIELD_ID: b"1"}, {FIELD_ID: b"2"}]
    kinds = pa.large_list(pa.int32()), pa.list_(pa.int32(), 2)
    fields = [pa.field(n, k, metadata=i) for n, k, i in zip("ab", kinds, ids, strict=True)]
    table = pa.table([pa.array([[1], None], kinds[0]), pa.array([[1, 2], [3, 4]], kinds[1])], schema=pa.schema(fields))
    out = io.BytesIO()
    pq.write_table(table, out)  # with Arrow's schema inside, so that its types come back
    files = Files()
    got = read(files, metadata(of), task(files.put(out.getvalue(), "parquet", 2)))
    assert got.to_pylist() == [{"a": [1], "b": [1, 2]}, {"a": None, "b": [3, 4]}]


def test_a_slice_projects_to_the_slice_of_the_projection() -> None:
    of = schema(
        column(1, "l", ListType(element_id=2, element=StructType((column(3, "x", LONG), column(4, "y", INT))))),
        column(5, "m", MapType(key_id=6, key=STRING, value_id=7, value=LONG)),
        column(8, "s", StructType((column(9, "l", ListType(element_id=10, element=LONG)),))),
    )
    rows = [
        {"l": None if n % 4 == 3 else [{"x": n, "y": None}] * (n % 3), "m": [(str(n), n)], "s": {"l": [n] * (n % 2)}}
        for n in range(9)
    ]
    rows[4]["s"] = None
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(of))
    columns = file_columns(batch.schema, FIELD_ID)
    for start in range(9):
        for length in range(9 - start):
            part = batch.slice(start, length)
            for wanted, held, array in zip(of, columns, part.columns, strict=True):
                made = project(wanted, (held, array), length, Origin(file="f"))
                made.validate(full=True)
                assert made.to_pylist() == array.to_pylist()
