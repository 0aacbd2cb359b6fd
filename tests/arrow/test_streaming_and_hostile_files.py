"""Memory stays at a row group, reading stops where it may, and files that make no sense are named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_tables import Files, batches, column, metadata, no_mapping, read, schema, task

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.read import parquet_file
from esker.arrow.read.parquet_file import ParquetFile
from esker.errors import Corrupt, EskerError, NoSuchFile, Unsupported
from esker.model.predicates.predicate import Compare, Op
from esker.model.types import INT, LONG, STRING, ListType
from esker.ports.engine import ReadRequest
from esker.storage.local import LocalStorage
from esker.tree.data_file import DataFile

A = column(1, "a", LONG)
WIDE = schema(A, column(2, "pad", STRING))


def wide_file(files: Files, rows: int, row_group_size: int) -> DataFile:
    table = pa.table({"a": range(rows), "pad": [f"{n:>100}" for n in range(rows)]}, schema=to_arrow_schema(WIDE))
    return files.parquet(table, row_group_size=row_group_size)


def test_a_scan_holds_a_few_row_groups_and_never_the_table() -> None:
    files = Files()
    group = 20_000
    data_files = [wide_file(files, 10 * group, group) for _ in range(3)]
    start, peak, rows = pa.total_allocated_bytes(), 0, 0
    for batch in batches(files, metadata(WIDE), map(task, data_files)):
        rows += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - start)
    assert rows == 30 * group
    assert peak < 4 * group * 110


def test_wide_rows_come_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "BATCH_BYTES", 1 << 20)
    files = Files()
    pads = [random.Random(n).randbytes(5000).hex() for n in range(400)]
    table = pa.table({"a": range(400), "pad": pads}, schema=to_arrow_schema(WIDE))
    data_file = files.parquet(table, row_group_size=200)
    sizes = [(batch.num_rows, batch.nbytes) for batch in batches(files, metadata(WIDE), [task(data_file)])]
    assert sum(rows for rows, _ in sizes) == 400
    assert max(size for _, size in sizes) < 2 << 20


def test_the_limit_stops_reading_inside_and_between_files() -> None:
    files = Files()
    data_files = [wide_file(files, 3000, 1000) for _ in range(3)]
    touched: list[str] = []

    def tasks() -> Any:
        for data_file in data_files:
            touched.append(data_file.path)
            yield task(data_file)

    got = pa.Table.from_batches(batches(files, metadata(WIDE), tasks(), limit=3500))
    assert got["a"].to_pylist() == [*range(3000), *range(500)]
    assert len(touched) == 2
    assert list(batches(files, metadata(WIDE), tasks(), limit=0)) == []
    assert read(files, metadata(WIDE), task(data_files[0]), limit=9999).num_rows == 3000


def test_row_groups_that_cannot_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    data_file = wide_file(files, 10_000, 1000)
    groups: list[int] = []
    real = ParquetFile._batches

    def spied(self: Any, group: int, *rest: Any) -> Any:
        groups.append(group)
        return real(self, group, *rest)

    monkeypatch.setattr(ParquetFile, "_batches", spied)
    where = Compare(A, Op.EQ, 4321)
    assert read(files, metadata(WIDE), task(data_file, where=where))["a"].to_pylist() == [4321]
    assert groups == [4]


def test_only_the_leaves_asked_for_are_read() -> None:
    files = Files()
    data_file = wide_file(files, 10_000, 10_000)
    start = pa.total_allocated_bytes()
    [batch] = batches(files, metadata(WIDE), [task(data_file)], projection=schema(A))
    assert pa.total_allocated_bytes() - start < 10_000 * 30
    assert batch.num_rows == 10_000


def test_rows_without_columns_are_counted() -> None:
    files = Files()
    data_file = wide_file(files, 100, 30)
    deletes = files.position_deletes([(data_file.path, 7)])
    got = batches(files, metadata(WIDE), [task(data_file, deletes)], projection=schema())
    assert sum(batch.num_rows for batch in got) == 99


def test_local_files_are_read_natively(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": range(3)}, schema=to_arrow_schema([A])), path)
    engine = ArrowEngine(LocalStorage(), parse_name_mapping=no_mapping)
    data_file = DataFile(path=str(path), file_format="PARQUET", record_count=3, file_size=-1)
    of = metadata(schema(A))
    request = ReadRequest(metadata=of, tasks=[task(data_file)], row_schema=of.schema, projection=of.schema)
    assert pa.Table.from_batches(engine.read(request))["a"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"ORC", b"\xff" * 5000])
def test_bytes_that_are_no_data_file_are_corrupt(format: str, data: bytes) -> None:
    files = Files()
    with pytest.raises(Corrupt, match=rf"^mem:/t/data/00001.{format} is corrupt: .") as info:
        read(files, metadata(schema(A)), task(files.put(data, format, 1)))
    assert info.value.file == f"mem:/t/data/00001.{format}"


def test_a_file_that_is_gone_is_said_to_be_gone() -> None:
    missing = DataFile(path="mem:/t/none.parquet", file_format="parquet", record_count=1, file_size=1)
    with pytest.raises(NoSuchFile, match=r"none\.parquet"):
        read(Files(), metadata(schema(A)), task(missing))


def test_a_format_nobody_reads_is_unsupported_by_name() -> None:
    files = Files()
    with pytest.raises(Unsupported, match="no reader for 'lance' files") as info:
        read(files, metadata(schema(A)), task(files.put(b"", "lance", 1)))
    assert info.value.feature == "lance"


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_an_encrypted_file_is_unsupported_by_name(format: str) -> None:
    files = Files()
    with pytest.raises(Unsupported, match="it is encrypted") as info:
        read(files, metadata(schema(A)), task(files.put(b"AGS1" + b"\xa7" * 99, format, 1, key_metadata=b"key")))
    assert info.value.feature == "encryption"


def test_a_parquet_file_with_an_encrypted_footer_is_unsupported_by_name() -> None:
    files = Files()
    with pytest.raises(Unsupported, match="it is encrypted"):
        read(files, metadata(schema(A)), task(files.put(b"PARE" + b"\0" * 20 + b"PARE", "parquet", 1)))


def test_a_column_of_another_kind_is_corrupt_and_named() -> None:
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}])
    as_list = metadata(schema(column(1, "a", ListType(element_id=2, element=INT))))
    with pytest.raises(Corrupt, match="column 'a' is int32, which cannot be read as list<int>"):
        read(files, as_list, task(data_file))


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_damaged_file_gives_rows_or_an_error_of_ours(format: str) -> None:
    files = Files()
    rows = [{"a": n, "pad": str(n)} for n in range(300)]
    whole = files.storage.read(files.rows(WIDE, rows, format=format).path)
    chance = random.Random(7)
    for _ in range(60):
        hurt = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        size = len(hurt) if chance.random() < 0.7 else chance.randrange(len(hurt))
        data_file = files.put(bytes(hurt[:size]), format, 300)
        try:
            list(batches(files, metadata(WIDE), [task(data_file, where=Compare(A, Op.GT, 5))]))
        except EskerError:
            continue
