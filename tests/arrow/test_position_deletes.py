"""Rows deleted by their position: delete files and deletion vectors."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_tables import Files, batches, column, metadata, no_mapping, read, schema, task

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.deletes import delete_store
from esker.errors import Corrupt
from esker.iceberg.deletion_vector import encode_deletion_vector
from esker.model.file_paths import same_file
from esker.model.types import INT
from esker.tree.data_file import DataFile, FileContent

A = column(1, "a", INT)
TABLE = metadata(schema(A))


def numbers(files: Files, count: int = 10, **facts: Any) -> DataFile:
    return files.rows(schema(A), [{"a": n} for n in range(count)], **facts)


def left(files: Files, data_file: DataFile, *deletes: DataFile) -> list[int]:
    return read(files, TABLE, task(data_file, *deletes))["a"].to_pylist()


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_deleted_positions_are_gone_whatever_their_order_and_however_often_named(format: str) -> None:
    files = Files()
    data_file = numbers(files, row_group_size=3)
    deletes = files.position_deletes([(data_file.path, at) for at in (9, 0, 4, 4, 99)], format=format)
    assert left(files, data_file, deletes) == [1, 2, 3, 5, 6, 7, 8]


def test_several_delete_files_and_a_vector_add_up() -> None:
    files = Files()
    data_file = numbers(files)
    first, second = (files.position_deletes([(data_file.path, at)]) for at in (0, 1))
    assert left(files, data_file, first, second, files.vector([8, 9], data_file.path)) == [2, 3, 4, 5, 6, 7]


def test_deletes_written_by_avro_are_read() -> None:
    files = Files()
    data_file = numbers(files, 3)
    record = {
        "type": "record",
        "name": "deletes",
        "fields": [
            {"name": "file_path", "type": "string", "field-id": 2147483546},
            {"name": "pos", "type": "long", "field-id": 2147483545},
        ],
    }
    rows = [{"file_path": data_file.path, "pos": 1}]
    deletes = files.avro(record, rows, content=FileContent.POSITION_DELETES)
    assert left(files, data_file, deletes) == [0, 2]


def test_delete_columns_without_ids_are_known_by_their_names() -> None:
    files = Files()
    data_file = numbers(files, 3)
    table = pa.table({"pos": [0], "row": [1], "file_path": [data_file.path]})
    assert left(files, data_file, files.parquet(table, content=FileContent.POSITION_DELETES)) == [1, 2]


def test_h5_only_rows_naming_the_file_apply() -> None:
    files = Files()
    data_file = numbers(files, 3)
    others = [(data_file.path + "x", 0), ("/elsewhere" + data_file.path[4:], 1), ("mem://host2/t/other", 2)]
    assert left(files, data_file, files.position_deletes([*others, (data_file.path, 2)])) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("file:/t/x", "file:///t/x", True),
        ("/t/x", "hdfs://host:8020/t/x", True),
        ("s3a://b/t/x", "s3://b/t/x", True),
        ("s3://b/t/x", "s3://c/t/x", False),
        ("s3://b/t/x", "gs://b/t/x", False),
        ("/t/x", "/t/y", False),
        ("t/x", "/t/x", False),
        ("t:x", "x", False),
    ],
)
def test_h5_a_scheme_or_host_left_out_is_the_same_file_and_a_different_one_is_not(
    one: str, other: str, same: bool
) -> None:
    assert same_file(one, other) is same_file(other, one) is same


def test_h5_deletes_under_two_spellings_of_a_file_both_apply() -> None:
    files = Files()
    data_file = numbers(files, 4, path="/t/x.parquet")
    pairs = [("hdfs://host/t/x.parquet", 3), ("/t/x.parquet", 0), ("hdfs://host/t/y.parquet", 1)]
    assert left(files, data_file, files.position_deletes(pairs)) == [1, 2]


def test_rows_with_a_null_path_delete_nothing() -> None:
    files = Files()
    data_file = numbers(files, 3)
    deletes = files.position_deletes([(None, 0), (None, None), (data_file.path, 1)])
    assert left(files, data_file, deletes) == [0, 2]


def test_h9_a_vector_is_read_from_inside_its_puffin_frame() -> None:
    files = Files()
    data_file = numbers(files, row_group_size=4)
    assert left(files, data_file, files.vector([0, 3, 5], data_file.path)) == [1, 2, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"content_offset": None}, "does not record where the deletion vector is"),
        ({"content_offset": -1}, "puts a deletion vector of"),
        ({"content_size": 1 << 40}, "puts a deletion vector of"),
        ({"content_size": 1000}, "bytes before the deletion vector at 4 does"),
        ({"content_offset": 5}, "deletion vector"),
        ({"record_count": 7}, "holds 2 positions, its manifest entry counts 7"),
    ],
)
def test_h9_a_vector_that_is_not_where_or_what_its_entry_says_is_corrupt(change: dict[str, Any], why: str) -> None:
    from dataclasses import replace

    files = Files()
    data_file = numbers(files)
    vector = replace(files.vector([0, 3], data_file.path), **change)
    with pytest.raises(Corrupt, match=why):
        left(files, data_file, vector)


def test_a_vector_of_a_few_bytes_that_deletes_billions_of_rows_costs_no_memory() -> None:
    from pyroaring import BitMap64

    everything = BitMap64(range(1 << 34))
    everything.discard(2)
    blob = encode_deletion_vector(everything)
    files = Files()
    vector = files.put(
        blob, "puffin", len(everything), content=FileContent.POSITION_DELETES, content_offset=0, content_size=len(blob)
    )
    assert left(files, numbers(files), vector) == [2]


def test_h11_the_sort_order_of_a_delete_file_means_nothing() -> None:
    from dataclasses import replace

    files = Files()
    data_file = numbers(files, 3)
    deletes = replace(files.position_deletes([(data_file.path, 1)]), sort_order_id=17)
    assert left(files, data_file, deletes) == [0, 2]


@pytest.mark.parametrize(
    ("pos", "why"), [(None, "a deleted position is null"), (-1, "a deleted position is negative: -1")]
)
def test_h12_a_null_or_negative_position_is_corrupt(pos: int | None, why: str) -> None:
    files = Files()
    data_file = numbers(files, 3)
    with pytest.raises(Corrupt, match=rf"00002.parquet is corrupt: {why}"):
        left(files, data_file, files.position_deletes([(data_file.path, 0), (data_file.path, pos)]))


def test_a_delete_file_without_its_columns_is_corrupt() -> None:
    files = Files()
    data_file = numbers(files, 3)
    with pytest.raises(Corrupt, match="needs a column 'file_path', this one does not have it"):
        left(files, data_file, numbers(files, content=FileContent.POSITION_DELETES))


def test_a_delete_file_shared_by_many_data_files_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    data_files = [numbers(files, 3) for _ in range(5)]
    deletes = files.position_deletes([(f.path, 1) for f in data_files])
    opened: list[str] = []
    real = files.storage.open
    monkeypatch.setattr(files.storage, "open", lambda location: (opened.append(location), real(location))[1])
    got = read(files, TABLE, *(task(f, deletes) for f in data_files))
    assert got["a"].to_pylist() == [0, 2] * 5
    assert opened.count(deletes.path) == 1


@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_a_spent_budget_forgets_deletes_but_never_fails_to_apply_them(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_store, "BUDGET", budget)
    files = Files()
    data_files = [numbers(files, 3) for _ in range(3)]
    deletes = [files.position_deletes([(f.path, at) for f in data_files]) for at in (0, 2)]
    got = read(files, TABLE, *(task(f, *deletes) for f in data_files))
    assert got["a"].to_pylist() == [1, 1, 1]


def test_a_very_large_delete_file_is_searched_rather_than_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_store, "LARGE", 2)
    files = Files()
    data_files = [numbers(files, 3) for _ in range(3)]
    deletes = files.position_deletes([(f.path, 1) for f in data_files])
    got = read(files, TABLE, *(task(f, deletes) for f in data_files))
    assert got["a"].to_pylist() == [0, 2] * 3


def test_deletes_can_be_listed_for_inspection() -> None:
    files = Files()
    engine = ArrowEngine(files.storage, parse_name_mapping=no_mapping)
    from_file = files.position_deletes([("b", 1), (None, 7), ("a", 0)])
    rows = [row for batch in engine.position_deletes(from_file) for row in batch.to_pylist()]
    assert rows == [{"file_path": "b", "pos": 1}, {"file_path": "a", "pos": 0}]
    vector = files.vector([5, 1], "d.parquet")
    rows = [row for batch in engine.position_deletes(vector) for row in batch.to_pylist()]
    assert rows == [{"file_path": "d.parquet", "pos": 1}, {"file_path": "d.parquet", "pos": 5}]


def test_a_fully_deleted_file_gives_no_batch() -> None:
    files = Files()
    data_file = numbers(files, 3)
    assert list(batches(files, TABLE, [task(data_file, files.vector(range(3), data_file.path))])) == []


def test_a_dictionary_encoded_path_column_reads_as_text() -> None:
    files = Files()
    data_file = numbers(files, 3)
    table = pa.table({"file_path": pa.array([data_file.path]).dictionary_encode(), "pos": [2]})
    out = io.BytesIO()
    pq.write_table(table, out)  # with Arrow's own schema inside, so that the dictionary comes back
    deletes = files.put(out.getvalue(), "parquet", 1, content=FileContent.POSITION_DELETES)
    assert left(files, data_file, deletes) == [0, 1]
