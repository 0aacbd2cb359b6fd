"""Variants on their way into data files: marked as Parquet wants them, and never anything but variants."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import table_of, write

from esker.arrow.arrow_types import to_arrow
from esker.arrow.equal_rows import key_schema
from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.arrow.parquet_footer import annotated
from esker.arrow.variant_arrays import first_unsound
from esker.errors import InvalidInput
from esker.model.types import INT, LONG, STRING, VARIANT, Field, ListType, MapType, StructType
from esker.model.variant import decode, encode

ID = Field(id=1, name="id", type=LONG, required=True)
V = Field(id=2, name="v", type=VARIANT)
NESTED = (
    ID,
    V,
    Field(id=3, name="l", type=ListType(element_id=4, element=VARIANT)),
    Field(id=5, name="m", type=MapType(key_id=6, key=STRING, value_id=7, value=VARIANT)),
    Field(
        id=8,
        name="s.t",
        type=StructType((Field(id=9, name="a", type=INT), Field(id=10, name="x", type=VARIANT, required=True))),
    ),
    Field(id=11, name="r", type=VARIANT, required=True),
)
ROWS = [
    {"id": 1, "v": {"a": [1, "x"]}, "l": [1, None, "s"], "m": {"k": {"z": 1}}, "s.t": {"a": 1, "x": True}, "r": 1},
    {"id": 2, "v": None, "l": None, "m": None, "s.t": None, "r": 0},
    {"id": 3, "v": "text", "l": [], "m": {}, "s.t": {"a": None, "x": 2.5}, "r": {"q": [{}]}},
]


def shown(value: Any) -> Any:
    """What a row holds, with its variants read."""
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return decode(value["metadata"], value["value"])
    if isinstance(value, dict):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    return tuple(map(shown, value)) if isinstance(value, tuple) else value


def variants(*values: Any) -> pa.Array:
    """An array of variants; None is null."""
    made = [None if value is None else dict(zip(("metadata", "value"), encode(value), strict=True)) for value in values]
    return pa.array(made, to_arrow(VARIANT))


def raw(metadata: bytes | None, value: bytes | None) -> pa.Table:
    """A row of these two binaries after a sound one."""
    type_ = pa.struct([("value", pa.large_binary()), ("metadata", pa.binary())])
    sound = dict(zip(("metadata", "value"), encode(1), strict=True))
    return pa.table({"id": [1, 2], "v": pa.array([sound, {"metadata": metadata, "value": value}], type_)})


def test_variants_at_every_depth_are_marked_and_come_back() -> None:
    written = write(table_of(*NESTED), ROWS)
    maps = [row if row["m"] is None else {**row, "m": list(row["m"].items())} for row in ROWS]  # type: ignore[union-attr]
    assert [shown(row) for row in written.rows()] == maps
    schema = re.sub(r" +", " ", str(written.parquet().schema))
    assert schema.count("(Variant(1))") == 5
    assert "optional group field_id=2 v (Variant(1)) {\n required binary field_id=-1 metadata;" in schema
    assert "required group field_id=10 x (Variant(1))" in schema


def test_only_counts_and_sizes_are_kept_of_a_variant() -> None:
    file = write(table_of(*NESTED), ROWS).files[0]
    assert file.metrics is not None
    assert dict(file.metrics.value_counts) == {1: 3, 2: 3, 9: 3, 10: 3, 11: 3}
    assert dict(file.metrics.null_counts) == {1: 0, 2: 1, 9: 2, 10: 1, 11: 0}
    assert set(file.metrics.lower_bounds) == set(file.metrics.upper_bounds) == {1, 9}
    assert file.metrics.column_sizes.keys() == {1, 2, 4, 6, 7, 9, 10, 11}


def test_parquet_keeps_no_order_of_a_variants_bytes() -> None:
    parquet = write(table_of(*NESTED), ROWS).parquet()
    chunks = [parquet.metadata.row_group(0).column(at) for at in range(parquet.metadata.num_columns)]
    kept = {chunk.path_in_schema for chunk in chunks if chunk.is_stats_set}
    assert kept == {"id", "m.key_value.key", "s.t.a"}


def test_duckdb_takes_them_for_variants(tmp_path: Any) -> None:
    written = write(table_of(ID, V), [{"id": 1, "v": {"a": [1, "x", 2.5]}}, {"id": 2, "v": None}])
    path = tmp_path / "file.parquet"
    path.write_bytes(written.storage.read(written.files[0].path))
    with duckdb.connect() as connection:
        rows = connection.sql(f"select typeof(v), v.a[2]::varchar, v.a[3]::double from '{path}' order by id").fetchall()
    assert rows == [("VARIANT", "x", 2.5), ("VARIANT", None, None)]


@given(
    st.lists(
        st.none() | st.integers() | st.text(st.characters(codec="utf-8")) | st.dictionaries(st.just("a"), st.binary())
    )
)
def test_every_sound_variant_is_taken(values: list[Any]) -> None:
    values = [value for value in values if not isinstance(value, int) or abs(value) < 1 << 63]
    data = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": variants(*values)})
    written = write(table_of(ID, V), data.slice(1) if values else data)
    assert [shown(row)["v"] for row in (written.rows() if written.files else [])] == values[1:]


@pytest.mark.parametrize(
    ("metadata", "value", "why"),
    [
        (None, b"\0", "a variant has no metadata"),
        (b"\x01\0\0", None, "a variant has no value"),
        (b"", b"\0", "its bytes are not a variant: its metadata is not of version 1"),
        (b"\x01\x02\0", b"\0", "its bytes are not a variant: its metadata ends too early"),
        (b"\x01\x01\0\x01\xff", b"\0", "its bytes are not a variant: one of its keys is not UTF-8"),
        (b"\x01\0\0", b"", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x18\0", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x09a", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x40\xff\xff\xff\xff", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x03\x02\0\x01", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x42\xff\xff\xff\xff\0", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\x03\x01\0\x05\0", "its bytes are not a variant: it ends too early"),
        (b"\x01\0\0", b"\xfc", "its bytes are not a variant: there is no primitive of kind 63"),
    ],
)
def test_bytes_that_are_no_variant_are_refused_with_their_row(
    metadata: bytes | None, value: bytes | None, why: str
) -> None:
    with pytest.raises(InvalidInput, match=f"column 'v' does not fit in row 1: {why}"):
        write(table_of(ID, V), raw(metadata, value))


@given(st.binary(min_size=0, max_size=12))
def test_what_can_be_read_is_never_refused(value: bytes) -> None:
    metadata = encode({"a": 1})[0]
    try:
        decode(metadata, value)
    except InvalidInput:
        return
    held = pa.array([value], pa.binary())
    trailing = first_unsound(pa.array([metadata], pa.binary()), held)
    assert trailing is None


@pytest.mark.parametrize("data", [{"v": ["text"]}, {"v": [{"metadata": "a", "value": "b"}]}, {"v": [{"value": b"\0"}]}])
def test_what_is_no_pair_of_binaries_is_refused_from_arrow(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="which is written as a struct of the binaries metadata and value"):
        write(table_of(ID, V), pa.table({"id": [1], **data}))


def test_a_value_of_python_that_no_variant_holds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot make a variant of a set"):
        write(table_of(ID, V), [{"id": 1, "v": {"a": {1}}}])


def test_a_variant_is_no_key_and_has_no_bloom_filter() -> None:
    table = table_of(ID, V, properties={"write.parquet.bloom-filter-enabled.column.v": "true"})
    with pytest.raises(InvalidInput, match="cannot use 'v' as part of a key: values of type variant are not compared"):
        key_schema(table.schema, ["v"])
    with pytest.raises(InvalidInput, match=r"bloom-filter-enabled\.column\.v: a variant has no bloom filter"):
        write(table, [{"id": 1, "v": 1}])


def test_a_footer_without_such_groups_is_left_alone() -> None:
    written = write(table_of(ID), [{"id": 1}])
    data = written.storage.read(written.files[0].path)
    with pytest.raises(ValueError, match="has no groups"):
        annotated(data, [("v",)])
    with pytest.raises(ValueError, match="are not the end of a Parquet file"):
        annotated(data[:-1], [("v",)])
    assert annotated(data, []) == data


def test_a_struct_that_says_it_is_a_variant_makes_a_column_of_them() -> None:
    said = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}
    named = pa.field("v", to_arrow(VARIANT), metadata=said)
    plain = pa.field("s", to_arrow(VARIANT))
    nested = pa.field("l", pa.list_(pa.field("item", to_arrow(VARIANT), metadata=said)))
    found = schema_from_arrow(pa.schema([named, plain, nested]))
    assert found.find("v").type == VARIANT
    assert isinstance(found.find("s").type, StructType)
    assert str(found.find("l").type) == "list<variant>"
