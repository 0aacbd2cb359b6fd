"""What an entry leaves to its manifest: sequence numbers, snapshot ids, row ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_makers import (
    ADDED,
    DELETED,
    EXISTING,
    a_delete,
    a_file,
    a_manifest,
    kept,
    read_entries,
    removed,
    rewritten,
    without_fields,
)

from esker.errors import Corrupt
from esker.iceberg.manifests.manifest import (
    Rows,
    inherit_file_sequence_numbers,
    inherit_first_row_ids,
    inherit_sequence_numbers,
    inherit_snapshot_ids,
)
from esker.tree.manifest import EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile


def without_numbers(data: bytes) -> bytes:
    return rewritten(data, record=lambda row: {**row, "sequence_number": None, "file_sequence_number": None})


def test_b1_only_added_files_inherit_the_manifests_number() -> None:
    read = read_entries(a_manifest([a_file("a"), kept(a_file("b"), number=2), removed(a_file("c"), number=3)]))
    assert read.sequence_number.tolist() == [7, 2, 3]
    assert read.file_sequence_number.to_pylist() == [7, 2, 3]


def test_b1_an_added_file_keeps_a_number_of_its_own() -> None:
    row, data = a_manifest([a_file()])
    data = rewritten(data, record=lambda r: {**r, "sequence_number": 3})
    read = read_entries((row, data))
    assert read.sequence_number.tolist() == [3]
    assert read.file_sequence_number.to_pylist() == [7]


def test_b1_an_existing_data_file_without_a_number_is_older_than_any_count() -> None:
    row, data = a_manifest([kept(a_file("b")), removed(a_file("c"))])
    read = read_entries((row, without_numbers(data)))
    assert read.sequence_number.tolist() == [0, 0]
    assert read.file_sequence_number.to_pylist() == [None, None]


def test_b1_an_existing_delete_file_without_a_number_is_corrupt() -> None:
    row, data = a_manifest([kept(a_delete())], content=ManifestContent.DELETES)
    with pytest.raises(Corrupt, match=r"m\.avro is corrupt: an existing delete file has no sequence number"):
        read_entries((row, without_numbers(data)))


def test_b1_a_removed_delete_file_without_a_number_does_not_matter() -> None:
    row, data = a_manifest([removed(a_delete())], content=ManifestContent.DELETES)
    assert read_entries((row, without_numbers(data))).sequence_number.tolist() == [0]


def test_b2_the_data_number_and_the_file_number_are_apart() -> None:
    file = replace(a_file(), sequence_number=3, file_sequence_number=6)
    read = read_entries(a_manifest([ManifestEntry(data_file=file, status=EXISTING, snapshot_id=5)]))
    assert (read.sequence_number.tolist(), read.file_sequence_number.to_pylist()) == ([3], [6])


def test_b3_new_files_are_written_without_numbers_and_follow_a_retry() -> None:
    row, data = a_manifest([a_file(sequence_number=99)], sequence_number=7)
    assert read_entries((replace(row, sequence_number=8), data)).sequence_number.tolist() == [8]


def test_b4_a_v1_manifest_has_no_numbers_and_reads_as_zero() -> None:
    entries = [ManifestEntry(data_file=a_file(str(status)), status=status, snapshot_id=1) for status in EntryStatus]
    row, data = a_manifest(entries, version=1)
    read = read_entries((replace(row, sequence_number=12), data))
    assert read.sequence_number.tolist() == [0, 0, 0]
    assert read.file_sequence_number.to_pylist() == [0, 0, 0]


def test_b4_a_v1_manifest_is_known_without_its_header() -> None:
    row, data = a_manifest([a_file()], version=1)
    read = read_entries((replace(row, sequence_number=12), rewritten(data, header=lambda _: {})))
    assert read.sequence_number.tolist() == [0]


def test_b4_zero_is_a_number_and_not_absent() -> None:
    read = read_entries(a_manifest([kept(a_file(), number=0)]))
    assert read.sequence_number.tolist() == [0]
    assert read.file_sequence_number.to_pylist() == [0]


def test_b4_a_manifest_numbered_zero_gives_zero_to_all() -> None:
    row, data = a_manifest([a_file("a"), kept(a_file("b"))], sequence_number=0)
    read = read_entries((row, without_numbers(data)))
    assert read.sequence_number.tolist() == [0, 0]
    assert read.file_sequence_number.to_pylist() == [0, 0]


def test_b4_a_v2_manifest_without_the_column_inherits() -> None:
    row, data = a_manifest([a_file()])
    bent = rewritten(data, schema=lambda s: without_fields(s, "sequence_number", "file_sequence_number"))
    assert read_entries((row, bent)).sequence_number.tolist() == [7]


def test_b5_a_removed_entry_names_the_snapshot_that_removed_it() -> None:
    read = read_entries(a_manifest([kept(a_file("a"), snapshot_id=5), removed(a_file("b"), snapshot_id=77)]))
    assert read.snapshot_id.to_pylist() == [5, 77]


def test_b5_an_entry_without_a_snapshot_takes_the_manifests() -> None:
    row, data = a_manifest([a_file()])
    assert read_entries((row, data)).snapshot_id.to_pylist() == [77]
    assert read_entries((replace(row, added_snapshot_id=None), data)).snapshot_id.to_pylist() == [None]


def test_b6_a_path_removed_in_one_manifest_and_added_in_another_is_told_apart() -> None:
    read = read_entries(a_manifest([removed(a_file("a"))], path="m0"), a_manifest([a_file("a")], path="m1"))
    assert read.path.to_pylist() == ["a", "a"]
    assert read.is_live.tolist() == [False, True]


def first_row_ids(entries: list[Any], **changes: Any) -> list[int | None]:
    read = read_entries(a_manifest(entries, version=3, **changes))
    return [file.first_row_id for file in read.data_files()]


def test_i4_the_specs_example() -> None:
    entries = [kept(a_file("old", record_count=25, first_row_id=800)), a_file("a", record_count=50), a_file("b")]
    assert first_row_ids(entries, first_row_id=1000) == [800, 1000, 1050]


def test_i4_removed_files_consume_nothing() -> None:
    entries = [a_file("a", record_count=5), removed(a_file("b", record_count=100)), a_file("c")]
    assert first_row_ids(entries, first_row_id=10) == [10, None, 15]


def test_i4_existing_files_without_an_id_are_given_one() -> None:
    assert first_row_ids([kept(a_file("a", record_count=5)), a_file("b")], first_row_id=0) == [0, 5]


def test_i4_each_manifest_counts_for_itself() -> None:
    read = read_entries(
        a_manifest([a_file("a", record_count=3)], version=3, path="m0", first_row_id=100),
        a_manifest([], version=3, path="m1", first_row_id=400),
        a_manifest([a_file("b", record_count=4), a_file("c")], version=3, path="m2", first_row_id=500),
    )
    assert [file.first_row_id for file in read.data_files()] == [100, 500, 504]


def test_i4_a_v2_manifest_takes_part_once_it_is_assigned() -> None:
    read = read_entries(a_manifest([a_file("a", record_count=3), a_file("b")], first_row_id=100))
    assert read.rest["first_row_id"].to_pylist() == [100, 103]


def test_i8_without_an_id_on_the_manifest_there_is_none() -> None:
    assert first_row_ids([a_file("a"), a_file("b")]) == [None, None]
    assert "first_row_id" not in read_entries(a_manifest([a_file()], version=3)).rest


def test_i2_delete_files_have_no_row_ids() -> None:
    read = read_entries(a_manifest([a_delete()], version=3, content=ManifestContent.DELETES, first_row_id=5))
    assert "first_row_id" not in read.rest


ROW = st.tuples(
    st.sampled_from(list(EntryStatus)),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 999),
    st.integers(0, 50),
)
MANIFEST = st.tuples(
    st.integers(0, 9), st.none() | st.integers(1, 9), st.none() | st.integers(0, 999), st.integers(1, 3), st.lists(ROW)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(MANIFEST, min_size=1, max_size=4))
def test_columns_inherit_as_rows_would_one_by_one(given_manifests: list[Any]) -> None:
    manifests = tuple(
        ManifestFile(path=f"m{at}", length=0, spec_id=0, sequence_number=n, added_snapshot_id=s, first_row_id=r)
        for at, (n, s, r, _, _) in enumerate(given_manifests)
    )
    counts = np.array([len(m[-1]) for m in given_manifests])
    flat = [row for m in given_manifests for row in m[-1]]
    rows = Rows(
        manifests,
        np.repeat(np.arange(len(manifests)), counts),
        np.cumsum(counts) - counts,
        np.array([row[0] for row in flat], np.int8),
    )
    versions = [m[3] for m in given_manifests]
    columns = [pa.array([row[at] for row in flat], pa.int64()) for at in range(1, 5)]
    record_count = np.array([row[5] for row in flat], np.int64)
    found = zip(
        inherit_sequence_numbers(rows, columns[0], versions).tolist(),
        inherit_file_sequence_numbers(rows, columns[1], versions).to_pylist(),
        inherit_snapshot_ids(rows, columns[2]).to_pylist(),
        inherit_first_row_ids(rows, columns[3], record_count).to_pylist(),
        strict=True,
    )
    assert list(found) == [row for given_one in given_manifests for row in _one_by_one(given_one)]


def _one_by_one(given_one: Any) -> list[tuple[int | None, ...]]:
    number, snapshot, next_row_id, version, entries = given_one
    number = number if version > 1 else 0
    expected = []
    for status, data_number, file_number, snapshot_id, first_row_id, count in entries:
        if data_number is None:
            data_number = number if status is ADDED else 0
        if file_number is None and (status is ADDED or number == 0):
            file_number = number
        if snapshot_id is None:
            snapshot_id = snapshot
        if first_row_id is None and next_row_id is not None and status is not DELETED:
            first_row_id = next_row_id
            next_row_id += count
        expected.append((data_number, file_number, snapshot_id, first_row_id))
    return expected
