"""Data files as they are written: Parquet's types, ids on every node, sizes, order, and nothing left of a failure."""

from __future__ import annotations

import io
import math
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import PRIMITIVES, held_values, stored, table_of, write

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.value_arrays import array_of, held_array
from esker.arrow.write.arrow_writer import ArrowWriter, Limits
from esker.errors import AlreadyExists, EskerError, InvalidInput, Unsupported
from esker.model.partition_and_sort import SortField
from esker.model.transform import IDENTITY, BucketTransform, TruncateTransform
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)
from esker.ports.engine import WriteRequest
from esker.storage.local import LocalStorage
from esker.storage.memory import MemoryStorage

ID = Field(id=1, name="id", type=LONG, required=True)


def parquet_schema(written: Any) -> str:
    return re.sub(r" +", " ", str(written.parquet().schema))


@given(st.data())
def test_rows_come_back_as_they_went(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3))
    fields = [Field(id=at, name=f"c{at}", type=type_) for at, type_ in enumerate(types, 1)]
    rows = data.draw(st.integers(0, 8))
    columns = {
        f.name: array_of(f.type, data.draw(st.lists(st.none() | held_values(f.type), min_size=rows, max_size=rows)))
        for f in fields
    }
    written = write(table_of(*fields), pa.table(columns))
    assert sum(file.record_count for file in written.files) == rows
    assert len(written.files) == (1 if rows else 0)
    if rows:
        found = pq.ParquetFile(io.BytesIO(written.storage.read(written.files[0].path))).read()
        for field in fields:
            back = held_array(found[field.name].combine_chunks(), field.type).to_pylist()
            assert repr(back) == repr(held_array(columns[field.name], field.type).to_pylist())
        assert written.files[0].file_size == len(written.storage.read(written.files[0].path))


def test_t14_types_and_field_ids_stand_on_every_node() -> None:
    inner = StructType((Field(id=21, name="x", type=INT, required=True), Field(id=22, name="y", type=UUID)))
    fields = (
        Field(id=1, name="d9", type=DecimalType(9, 2)),
        Field(id=2, name="d18", type=DecimalType(18, 2)),
        Field(id=3, name="d38", type=DecimalType(38, 2)),
        Field(id=4, name="date", type=DATE),
        Field(id=5, name="time", type=TIME),
        Field(id=6, name="s", type=STRING, required=True),
        Field(id=7, name="u", type=UUID),
        Field(id=8, name="f", type=FixedType(3)),
        Field(id=9, name="b", type=BINARY),
        Field(id=10, name="l", type=ListType(element_id=11, element=LONG, element_required=True)),
        Field(id=12, name="m", type=MapType(key_id=13, key=STRING, value_id=14, value=inner)),
        Field(id=15, name="g", type=GeometryType()),
        Field(id=16, name="h", type=GeographyType()),
    )
    found = parquet_schema(write(table_of(*fields), {"s": ["a"]}))
    for node in (
        "optional int32 field_id=1 d9 (Decimal(precision=9, scale=2))",
        "optional int64 field_id=2 d18 (Decimal(precision=18, scale=2))",
        "optional fixed_len_byte_array(16) field_id=3 d38 (Decimal(precision=38, scale=2))",
        "optional int32 field_id=4 date (Date)",
        "optional int64 field_id=5 time (Time(isAdjustedToUTC=false, timeUnit=microseconds))",
        "required binary field_id=6 s (String)",
        "optional fixed_len_byte_array(16) field_id=7 u (UUID)",
        "optional fixed_len_byte_array(3) field_id=8 f;",
        "optional binary field_id=9 b;",
        "optional group field_id=10 l (List) {",
        "required int64 field_id=11 element;",
        "optional group field_id=12 m (Map) {",
        "required binary field_id=13 key (String)",
        "optional group field_id=14 value {",
        "required int32 field_id=21 x;",
        "optional fixed_len_byte_array(16) field_id=22 y (UUID)",
        "optional binary field_id=15 g (Geometry(crs=))",
        "optional binary field_id=16 h (Geography(crs=, algorithm=spherical))",
    ):
        assert node in found, node
    assert "int96" not in found.lower()


def test_e10_timestamps_say_whether_they_are_instants() -> None:
    types = {"ts": TIMESTAMP, "tz": TIMESTAMPTZ, "tn": TIMESTAMP_NS, "tzn": TIMESTAMPTZ_NS}
    fields = [Field(id=at, name=name, type=type_) for at, (name, type_) in enumerate(types.items(), 1)]
    found = parquet_schema(write(table_of(ID, *fields[1:]), {"id": [1]})) + parquet_schema(
        write(table_of(*fields), pa.table({"ts": pa.array([1], pa.timestamp("us"))}))
    )
    assert "ts (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds" in found
    assert "tz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds" in found
    assert "tn (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds" in found
    assert "tzn (Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds" in found


def test_e9_partition_columns_are_in_the_file() -> None:
    metadata = table_of(ID, Field(id=2, name="p", type=STRING), partition=[(2, IDENTITY)])
    written = write(metadata, {"id": [1, 2], "p": ["a", "b"]})
    assert sorted(written.rows(), key=str) == [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]
    assert [file.partition for file in written.files] == [("a",), ("b",)]


def test_e11_unknown_columns_have_no_place_in_the_file_at_any_depth() -> None:
    inner = StructType((Field(id=4, name="u", type=UNKNOWN), Field(id=5, name="x", type=INT)))
    metadata = table_of(
        ID,
        Field(id=2, name="gone", type=UNKNOWN),
        Field(id=3, name="s", type=inner),
        Field(id=6, name="l", type=ListType(element_id=7, element=inner)),
        Field(id=8, name="m", type=MapType(key_id=9, key=STRING, value_id=10, value=inner)),
    )
    rows = [{"id": 1, "s": {"x": 5}, "l": [{"x": 6}], "m": {"k": {"x": 7}}}, {"id": 2, "s": None, "l": None, "m": None}]
    written = write(metadata, rows)
    assert written.rows() == [
        {"id": 1, "s": {"x": 5}, "l": [{"x": 6}], "m": [("k", {"x": 7})]},
        {"id": 2, "s": None, "l": None, "m": None},
    ]
    assert 2 not in written.files[0].metrics.value_counts  # type: ignore[union-attr]
    with pytest.raises(Unsupported, match=r"cannot write column 's': .*a struct without members"):
        write(table_of(ID, Field(id=3, name="s", type=StructType(inner.fields[:1]))), {"id": [1]})


def test_i7_lineage_columns_travel_with_rewritten_rows() -> None:
    metadata = table_of(ID)
    fields = (
        *metadata.schema.fields,
        Field(id=2147483540, name="_row_id", type=LONG),
        Field(id=2147483539, name="_last_updated_sequence_number", type=LONG),
    )
    batch = pa.record_batch([[1, 2], [100, None], [7, None]], schema=to_arrow_schema(fields))
    written = write(metadata, pa.RecordBatchReader.from_batches(batch.schema, [batch]), fitted=True)
    found = parquet_schema(written)
    assert "optional int64 field_id=2147483540 _row_id" in found
    assert "optional int64 field_id=2147483539 _last_updated_sequence_number" in found
    assert written.rows()[0] == {"id": 1, "_row_id": 100, "_last_updated_sequence_number": 7}
    assert set(written.files[0].metrics.value_counts) == {1}  # type: ignore[union-attr]
    assert written.files[0].first_row_id is None


def test_lineage_columns_that_a_user_makes_up_are_unknown_columns() -> None:
    with pytest.raises(InvalidInput, match="the data has a column '_row_id' that the table does not have"):
        write(table_of(ID), {"id": [1], "_row_id": [5]})


def test_rows_that_were_not_fitted_are_refused() -> None:
    batch = pa.record_batch({"id": pa.array([1], pa.int32())})
    with pytest.raises(InvalidInput, match="column 'id' is int32, not int64; fit them first"):
        write(table_of(ID), pa.RecordBatchReader.from_batches(batch.schema, [batch]), fitted=True)


def test_nulls_below_a_null_struct_may_be_in_required_members() -> None:
    deep = StructType((Field(id=4, name="y", type=STRING, required=True),))
    inner = StructType(
        (Field(id=3, name="d", type=deep, required=True), Field(id=5, name="u", type=UUID, required=True))
    )
    metadata = table_of(ID, Field(id=2, name="s", type=inner))
    row = {"id": 1, "s": {"d": {"y": "a"}, "u": b"u" * 16}}
    assert [r["s"] and r["s"]["d"] for r in write(metadata, [row, {"id": 2, "s": None}]).rows()] == [{"y": "a"}, None]
    nothing = write(metadata, [{"id": 1, "s": None}])
    assert nothing.rows() == [{"id": 1, "s": None}]


def test_files_are_sized_by_compressed_bytes() -> None:
    metadata = table_of(
        ID, Field(id=2, name="noise", type=BINARY), properties={"write.target-file-size-bytes": str(200_000)}
    )
    noise = random.Random(5)
    rows = 20_000
    data = pa.table({"id": range(rows), "noise": pa.array([noise.randbytes(100) for _ in range(rows)])})
    written = write(metadata, data)
    sizes = [file.file_size for file in written.files]
    assert sum(file.record_count for file in written.files) == rows
    assert 8 <= len(sizes) <= 14  # about 2.1 MB
    assert all(150_000 < size < 260_000 for size in sizes[:-1])
    assert [row["id"] for row in written.rows()] == list(range(rows))


def test_what_shrinks_well_still_fills_its_files() -> None:
    metadata = table_of(ID, Field(id=2, name="s", type=STRING), properties={"write.target-file-size-bytes": "100000"})
    rows = 400_000
    data = pa.table({"id": range(rows), "s": pa.array(["the same again and again"] * rows)})
    sizes = [file.file_size for file in write(metadata, data).files]
    assert all(60_000 < size < 150_000 for size in sizes[1:-1])


def test_row_groups_stay_below_their_limits() -> None:
    metadata = table_of(ID, properties={"write.parquet.row-group-size-bytes": "20000"})
    footer = write(metadata, {"id": list(range(100_000))}).parquet().metadata
    assert footer.num_row_groups > 5


def test_every_file_of_a_sorted_table_is_in_order() -> None:
    keys = [
        SortField(source_id=2, transform=TruncateTransform(10), descending=True, nulls_last=True),
        SortField(source_id=3, transform=IDENTITY),
    ]
    fields = (ID, Field(id=2, name="n", type=INT), Field(id=3, name="x", type=DOUBLE))
    metadata = table_of(*fields, sort=keys, partition=[(1, BucketTransform(2))])
    values = [(5, 1.0), (17, float("nan")), (12, 0.0), (11, -0.0), (None, 3.0), (19, None), (-1, 2.0), (3, 0.5)]
    rows = [{"id": at, "n": n, "x": x} for at, (n, x) in enumerate(values * 20)]
    written = write(metadata, rows)
    assert {file.sort_order_id for file in written.files} == {7}

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        n, x = row["n"], row["x"]
        first = (n is None, 0 if n is None else -(n // 10))
        if x is None:
            return (*first, False)
        return (*first, True, x != x, x if x == x else 0, math.copysign(1, x))

    for at in range(len(written.files)):
        found = written.parquet(at).read().to_pylist()
        places = [place(row) for row in found]
        assert places == sorted(places)


def test_a_sorted_table_larger_than_the_buffer_has_more_files_each_in_order() -> None:
    metadata = table_of(ID, sort=[SortField(source_id=1, transform=IDENTITY)])
    numbers = [(at * 7919) % 50_000 for at in range(50_000)]
    written = write(metadata, {"id": numbers}, limits=Limits(buffer_bytes=100_000))
    assert len(written.files) > 3
    for at in range(len(written.files)):
        found = written.parquet(at).read()["id"].to_pylist()
        assert found == sorted(found)
    assert sorted(row["id"] for row in written.rows()) == sorted(numbers)


def test_an_unknown_sort_key_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"cannot write with the sort key 'id 9': the column does not exist any more"
    ):
        write(table_of(ID, sort=[SortField(source_id=9, transform=IDENTITY)]), {"id": [1]})


def test_many_partitions_keep_few_files_open_and_lose_nothing() -> None:
    metadata = table_of(ID, partition=[(1, BucketTransform(40))])
    storage = Watched()
    written = write(
        metadata, {"id": list(range(20_000))}, storage=storage, limits=Limits(buffer_bytes=50_000, open_files=5)
    )
    assert storage.most_open <= 5
    assert len(written.files) > 40
    assert sorted(row["id"] for row in written.rows()) == list(range(20_000))
    assert len({file.path for file in written.files}) == len(written.files)


def test_input_larger_than_the_buffer_passes_in_bounded_memory() -> None:
    metadata = table_of(ID, Field(id=2, name="s", type=STRING), partition=[(1, BucketTransform(4))])
    rows, batches = 20_000, 60

    def stream() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            ids = range(number * rows, (number + 1) * rows)
            yield pa.record_batch({"id": pa.array(ids), "s": pa.array([f"{i:040d}" for i in ids])})

    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    before = pa.total_allocated_bytes()
    peaks: list[int] = []

    class Sink(MemoryStorage):
        def write_new(self, location: str, data: bytes) -> None:
            peaks.append(pa.total_allocated_bytes() - before)

    writer = ArrowWriter(Sink(), limits=Limits(buffer_bytes=4 << 20))
    reader = writer.fit(metadata, metadata.schema, pa.RecordBatchReader.from_batches(schema, stream()))
    total = 0
    for file in writer.write(WriteRequest(metadata=metadata, schema=metadata.schema, data=reader, operation_id="op")):
        total += file.record_count
        peaks.append(pa.total_allocated_bytes() - before)
    assert total == rows * batches  # 60 MB have passed
    assert max(peaks) < 24 << 20


def test_a_failure_leaves_no_file_at_all() -> None:
    metadata = table_of(ID, partition=[(1, BucketTransform(3))], properties={"write.target-file-size-bytes": "2000"})
    storage = MemoryStorage()

    def stream() -> Iterator[pa.RecordBatch]:
        for _ in range(20):
            yield pa.record_batch({"id": pa.array(range(1000))})
        yield pa.record_batch({"id": pa.array([1, None])})

    writer = ArrowWriter(storage)
    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), stream())
    fitted = writer.fit(metadata, metadata.schema, reader)
    request = WriteRequest(metadata=metadata, schema=metadata.schema, data=fitted, operation_id="op")
    seen = []
    with pytest.raises(InvalidInput, match="column 'id' does not fit in row 20001"):
        seen.extend(writer.write(request))
    assert stored(storage) == []


def test_f41_a_full_disk_is_an_error_of_ours_and_leaves_nothing(tmp_path: Path) -> None:
    class Full(LocalStorage):
        @contextmanager
        def open_new(self, location: str) -> Iterator[Any]:
            with super().open_new(location) as file:
                yield FullFile(file)

    class FullFile(io.RawIOBase):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def writable(self) -> bool:
            return True

        def tell(self) -> int:
            return int(self.inner.tell())

        def write(self, data: Any) -> int:
            if self.inner.tell() > 100:
                raise OSError(28, "No space left on device")
            return int(self.inner.write(data))

    metadata = table_of(ID, location=str(tmp_path / "t"))
    with pytest.raises(EskerError, match=r"cannot create .*parquet: No space left on device"):
        write(metadata, {"id": list(range(1000))}, storage=Full())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_caller_who_stops_early_keeps_what_it_was_told_of() -> None:
    metadata = table_of(ID, partition=[(1, IDENTITY)])
    storage = MemoryStorage()
    writer = ArrowWriter(storage)
    reader = writer.fit(metadata, metadata.schema, {"id": [1, 2, 3]})
    files = writer.write(WriteRequest(metadata=metadata, schema=metadata.schema, data=reader, operation_id="op"))
    first = next(files)
    files.close()  # type: ignore[attr-defined]
    assert stored(storage) == [first.path]


def test_one_operation_may_write_several_times() -> None:
    metadata, storage = table_of(ID), MemoryStorage()
    writer = ArrowWriter(storage)
    for number in range(3):
        reader = writer.fit(metadata, metadata.schema, {"id": [number]})
        list(writer.write(WriteRequest(metadata=metadata, schema=metadata.schema, data=reader, operation_id="op")))
    assert stored(storage) == [f"mem:/t/data/00000-{call}-op-00001.parquet" for call in range(3)]


def test_a_taken_name_is_never_overwritten() -> None:
    storage = MemoryStorage()
    storage.write_new("mem:/t/data/00000-0-op-00001.parquet", b"theirs")
    with pytest.raises(AlreadyExists, match=r"cannot create mem:/t/data/00000-0-op-00001\.parquet"):
        write(table_of(ID), {"id": [1]}, storage=storage)
    assert storage.read("mem:/t/data/00000-0-op-00001.parquet") == b"theirs"


def test_an_operation_id_cannot_lead_elsewhere() -> None:
    metadata, writer = table_of(ID), ArrowWriter(MemoryStorage())
    reader = writer.fit(metadata, metadata.schema, {"id": [1]})
    with pytest.raises(InvalidInput, match=r"'\.\./x': it cannot be part of a file name"):
        writer.write(WriteRequest(metadata=metadata, schema=metadata.schema, data=reader, operation_id="../x"))


class Watched(MemoryStorage):
    """Counts how many files are open at once."""

    def __init__(self) -> None:
        super().__init__()
        self.open_now = self.most_open = 0

    @contextmanager
    def open_new(self, location: str) -> Iterator[Any]:
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            with super().open_new(location) as file:
                yield file
        finally:
            self.open_now -= 1
