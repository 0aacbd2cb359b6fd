"""A scan streams: what it holds is bounded by a few row groups, not by the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_maker import TableMaker

import esker
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.storage.local import LocalStorage

SCHEMA = Schema(fields=(Field(id=1, name="id", type=LONG), Field(id=2, name="text", type=STRING)))
FILES, GROUPS, ROWS, WIDTH = 6, 10, 10_000, 200
GROUP_BYTES = ROWS * (8 + 4 + WIDTH)
TABLE_BYTES = FILES * GROUPS * GROUP_BYTES


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """127 MB of rows in 60 row groups, a few of them deleted by every kind of delete."""
    place = tmp_path_factory.mktemp("stream") / "t"
    maker = TableMaker(SCHEMA, location=str(place), storage=LocalStorage(), format_version=3)
    fields = [pa.field(f.name, {"id": pa.int64(), "text": pa.string()}[f.name]) for f in SCHEMA]
    fields = [f.with_metadata({"PARQUET:field_id": str(at + 1)}) for at, f in enumerate(fields)]
    words = pa.array([f"{n:0{WIDTH}}" for n in range(ROWS)])
    files = []
    for at in range(FILES):
        ids = pa.array(np.arange(at * GROUPS * ROWS, (at + 1) * GROUPS * ROWS))
        table = pa.table([ids, pa.chunked_array([words] * GROUPS)], schema=pa.schema(fields))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=ROWS, use_dictionary=False, store_schema=False)
        files.append(maker.put(sink.getvalue().to_pybytes(), "parquet", table.num_rows))
    maker.manifest(files)
    maker.manifest([maker.position_deletes([(files[0].path, n) for n in range(0, 1000, 2)])])
    maker.manifest([maker.vector(range(0, GROUPS * ROWS, 3), files[1])])
    keys = Schema(fields=SCHEMA.fields[:1])
    first = 2 * GROUPS * ROWS
    maker.manifest([maker.equality_deletes(keys, [{"id": first + n} for n in range(500)])], sequence_number=2)
    maker.save()
    return place


GONE = 500 + -(-GROUPS * ROWS // 3) + 500


def peak_while(reader: pa.RecordBatchReader) -> tuple[int, int]:
    """Rows, and the most memory that Arrow held above what it held before."""
    before, peak, rows = pa.total_allocated_bytes(), 0, 0
    for batch in reader:
        rows += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
    return rows, peak


def test_a_whole_scan_holds_a_few_row_groups(place: Path) -> None:
    rows, peak = peak_while(esker.open_table(place).scan().to_batches())
    assert rows == FILES * GROUPS * ROWS - GONE
    assert peak < 8 * GROUP_BYTES < TABLE_BYTES / 7


def test_a_filtered_scan_holds_a_few_row_groups(place: Path) -> None:
    where = f"text LIKE '%7' AND id >= {GROUPS * ROWS * 3}"
    rows, peak = peak_while(esker.open_table(place).scan(where, columns=["id"]).to_batches())
    assert rows == 3 * GROUPS * ROWS // 10
    assert peak < 8 * GROUP_BYTES


def test_a_count_that_must_read_holds_a_few_row_groups(place: Path) -> None:
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    assert esker.open_table(place).scan().count() == FILES * GROUPS * ROWS - GONE
    assert pool.bytes_allocated() - before < GROUP_BYTES


def test_a_stream_left_early_lets_go_of_everything(place: Path) -> None:
    before = pa.total_allocated_bytes()
    reader = esker.open_table(place).scan().to_batches()
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    del reader
    assert pa.total_allocated_bytes() - before < GROUP_BYTES


def test_the_order_of_rows_is_that_of_the_files(place: Path) -> None:
    ids = esker.open_table(place).scan(columns=["id"]).to_arrow().column("id").to_numpy()
    assert (np.diff(ids) > 0).all()
