"""Manifests: what a reader must take from them, whoever wrote them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hostile import fine_or_named
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_makers import (
    ADDED,
    BY_REGION,
    DELETED,
    EXISTING,
    UNPARTITIONED,
    a_delete,
    a_file,
    a_manifest,
    kept,
    read_entries,
    removed,
    rewritten,
    table_of,
    without_fields,
    without_ids,
)

from esker.errors import Corrupt, Unsupported
from esker.iceberg.manifests.manifest import decode_manifests
from esker.model.partition_and_sort import PartitionSpec
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile, FileContent, Metrics
from esker.tree.manifest import ManifestEntry
from esker.tree.manifest_list import ManifestContent

METRICS = Metrics(
    column_sizes={1: 40, 2: 50},
    value_counts={1: 10, 2: 10},
    null_counts={1: 0, 2: 3},
    nan_counts={1: 0},
    lower_bounds={1: b"\x01" + bytes(7), 2: b"a"},
    upper_bounds={1: b"\x09" + bytes(7), 2: b"z"},
)


def data_file_field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    [data_file] = [field for field in schema["fields"] if field["name"] == "data_file"]
    [found] = [field for field in data_file["type"]["fields"] if field["name"] == name]
    return found


def in_file(**changes: Any) -> Any:
    return lambda row: {**row, "data_file": {**row["data_file"], **changes}}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_reads_back_as_it_was_written(version: int) -> None:
    file = a_file(
        spec_id=3,
        partition=("eu",),
        metrics=METRICS,
        key_metadata=b"k",
        split_offsets=(4, 900),
        sort_order_id=1,
    )
    read = read_entries(
        a_manifest([file], spec=BY_REGION, version=version), table=table_of(BY_REGION), full_metrics=True
    )
    number = 7 if version > 1 else 0
    assert list(read.data_files()) == [
        replace(file, sequence_number=number, file_sequence_number=number, snapshot_id=77)
    ]


def test_a_deletion_vector_reads_back_as_it_was_written() -> None:
    vector = a_delete(
        "mem://t/data/v.puffin",
        file_format="puffin",
        record_count=3,
        referenced_data_file="mem://t/data/a.parquet",
        content_offset=4,
        content_size=46,
    )
    [read] = read_entries(a_manifest([vector], content=ManifestContent.DELETES, version=3)).data_files()
    assert read == replace(vector, sequence_number=7, file_sequence_number=7, snapshot_id=77)
    assert read.is_deletion_vector


def test_an_equality_delete_keeps_its_ids() -> None:
    delete = a_delete(content=FileContent.EQUALITY_DELETES, equality_ids=(2, 1), sort_order_id=0)
    [read] = read_entries(a_manifest([delete], content=ManifestContent.DELETES)).data_files()
    assert (read.content, read.equality_ids, read.sort_order_id) == (FileContent.EQUALITY_DELETES, (2, 1), 0)


def test_a_column_that_is_null_throughout_is_left_out() -> None:
    assert read_entries(a_manifest([a_file(split_offsets=(4,))])).rest.keys() == {"split_offsets"}


def test_nothing_is_decoded_that_was_not_asked_for() -> None:
    read = read_entries(a_manifest([a_file(metrics=METRICS, split_offsets=(4,))]), rest=False)
    assert (dict(read.metrics), dict(read.rest), read.full_metrics) == ({}, {}, None)


def test_a_manifest_without_entries_is_an_empty_batch() -> None:
    read = read_entries(a_manifest([], spec=BY_REGION), table=table_of(BY_REGION), metrics=(1,), full_metrics=True)
    assert len(read) == 0
    assert len(read.partition) == 1


def test_rows_of_many_manifests_know_where_they_are_from() -> None:
    read = read_entries(
        a_manifest([a_file("a"), a_file("b")], path="m0"),
        a_manifest([], path="m1"),
        a_manifest([a_file("c")], path="m2", sequence_number=9),
    )
    assert [read.manifest_of(row).path for row in range(3)] == ["m0", "m0", "m2"]
    assert read.sequence_number.tolist() == [7, 7, 9]


@pytest.mark.parametrize("full_metrics", [False, True])
def test_a7_a_manifest_without_ids_is_read_by_names(full_metrics: bool) -> None:
    file = a_file(spec_id=3, partition=("eu",), metrics=METRICS, split_offsets=(4,))
    row, data = a_manifest([file], spec=BY_REGION)
    columns = EntryColumns(metrics=(2,), full_metrics=full_metrics)
    [bare] = decode_manifests([(row, rewritten(data, schema=without_ids))], table_of(BY_REGION), columns)
    [whole] = decode_manifests([(row, data)], table_of(BY_REGION), columns)
    assert list(bare.data_files()) == list(whole.data_files())
    assert bare.metrics[2] == whole.metrics[2]
    assert bare.metrics[2].upper.to_pylist() == [b"z"]


def test_a7_ids_decide_where_names_mislead() -> None:
    def swapped(schema: dict[str, Any]) -> dict[str, Any]:
        bent = copy.deepcopy(schema)
        count, size = data_file_field(bent, "record_count"), data_file_field(bent, "file_size_in_bytes")
        count["name"], size["name"] = size["name"], count["name"]
        return bent

    row, data = a_manifest([a_file(record_count=10, file_size=1000)])
    swap = in_file(record_count=1000, file_size_in_bytes=10)
    [read] = read_entries((row, rewritten(data, schema=swapped, record=swap))).data_files()
    assert (read.record_count, read.file_size) == (10, 1000)


@pytest.mark.parametrize(
    "missing", ["snapshot_id", "file_sequence_number", "content", "split_offsets", "nan_value_counts", "lower_bounds"]
)
def test_a8_what_a_writer_left_out_is_unknown_not_an_error(missing: str) -> None:
    row, data = a_manifest([a_file(metrics=METRICS, split_offsets=(4,))])
    bent = rewritten(data, schema=lambda s: without_fields(s, missing))
    read = read_entries((row, bent), metrics=(1,))
    assert read.content.tolist() == [0]
    assert read.snapshot_id.to_pylist() == [77]
    if missing == "lower_bounds":
        assert read.metrics[1].lower.to_pylist() == [None]


@pytest.mark.parametrize("missing", ["file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_a8_what_every_version_has_must_be_there(missing: str) -> None:
    row, data = a_manifest([a_file()])
    with pytest.raises(Corrupt, match=rf"m\.avro is corrupt: its schema has no field \d+ \({missing}\)"):
        read_entries((row, rewritten(data, schema=lambda s: without_fields(s, missing))))


def test_a8_a_v2_table_reads_v1_and_v2_manifests_side_by_side() -> None:
    old, new = a_manifest([a_file("old")], version=1, path="m0"), a_manifest([a_file("new")], path="m1")
    batches = list(decode_manifests([old, new], table_of(), EntryColumns()))
    assert [(b.path.to_pylist(), b.sequence_number.tolist()) for b in batches] == [(["old"], [0]), (["new"], [7])]


@pytest.mark.parametrize("written", ["PARQUET", "parquet", "Parquet"])
def test_a9_the_case_of_a_file_format_does_not_matter(written: str) -> None:
    row, data = a_manifest([a_file()])
    read = read_entries((row, rewritten(data, record=in_file(file_format=written))))
    assert read.file_format.to_pylist() == ["parquet"]


def test_b7_a_data_manifest_cannot_list_deletes() -> None:
    row, data = a_manifest([a_delete()], content=ManifestContent.DELETES)
    with pytest.raises(Corrupt, match=r"m\.avro is corrupt: a data manifest lists a delete file"):
        read_entries((replace(row, content=ManifestContent.DATA), data))


def test_b7_a_delete_manifest_cannot_list_data() -> None:
    row, data = a_manifest([a_file()])
    with pytest.raises(Corrupt, match=r"m\.avro is corrupt: a delete manifest lists a data file"):
        read_entries((replace(row, content=ManifestContent.DELETES), data))


def test_g5_statistics_belong_to_one_file() -> None:
    files = [
        a_file("a", metrics=replace(METRICS, lower_bounds={2: b"a"})),
        a_file("b", metrics=replace(METRICS, lower_bounds={2: b"q"}, null_counts={2: 0})),
        a_file("c", metrics=replace(METRICS, lower_bounds={}, null_counts={})),
        a_file("d"),
    ]
    read = read_entries(a_manifest(files), metrics=(2, 99))
    assert read.metrics[2].lower.to_pylist() == [b"a", b"q", None, None]
    assert read.metrics[2].null_count.to_pylist() == [3, 0, None, None]
    assert read.metrics[2].value_count.to_pylist() == [10, 10, 10, None]
    assert read.metrics[99].upper.to_pylist() == [None] * 4


def test_g5_a_count_below_zero_is_unknown() -> None:
    file = a_file(metrics=replace(METRICS, null_counts={1: 0, 2: -1}))
    read = read_entries(a_manifest([file, a_file("b", metrics=METRICS)]), metrics=(2,))
    assert read.metrics[2].null_count.to_pylist() == [None, 3]


def test_g8_a_delete_file_without_statistics_says_nothing() -> None:
    read = read_entries(a_manifest([a_delete()], content=ManifestContent.DELETES), metrics=(1,))
    assert read.metrics[1].lower.to_pylist() == [None]
    assert read.metrics[1].value_count.to_pylist() == [None]


def test_g8_statistics_of_a_delete_file_are_its_own() -> None:
    read = read_entries(a_manifest([a_delete(metrics=METRICS)], content=ManifestContent.DELETES), metrics=(1,))
    assert read.metrics[1].null_count.to_pylist() == [0]


@pytest.mark.parametrize(
    ("offsets", "read_as"), [((4, 9), (4, 9)), ((9, 4), ()), ((4, 4), ()), ((-1, 4), ()), ((4,), (4,)), ((), ())]
)
def test_g9_split_offsets_that_do_not_ascend_are_ignored(offsets: tuple[int, ...], read_as: tuple[int, ...]) -> None:
    files = [a_file("a", split_offsets=(100, 200)), a_file("b", split_offsets=offsets), a_file("c", split_offsets=(1,))]
    read = read_entries(a_manifest(files))
    assert [file.split_offsets for file in read.data_files()] == [(100, 200), read_as, (1,)]


def test_h11_a_sort_order_on_position_deletes_is_ignored() -> None:
    deletes = [
        a_delete("p"),
        a_delete("e", content=FileContent.EQUALITY_DELETES, equality_ids=(1,), sort_order_id=4),
    ]
    row, data = a_manifest(deletes, content=ManifestContent.DELETES)
    read = read_entries((row, rewritten(data, record=in_file(sort_order_id=4))))
    assert [file.sort_order_id for file in read.data_files()] == [None, 4]


@pytest.mark.parametrize("full_metrics", [False, True])
def test_native_maps_with_text_keys_are_read_too(full_metrics: bool) -> None:
    def native(schema: dict[str, Any]) -> dict[str, Any]:
        bent = copy.deepcopy(schema)
        data_file_field(bent, "null_value_counts")["type"] = ["null", {"type": "map", "values": "long"}]
        return bent

    row, data = a_manifest([a_file(metrics=METRICS)])
    bent = rewritten(data, schema=native, record=in_file(null_value_counts={"1": 0, "2": 3}))
    read = read_entries((row, bent), metrics=(2,), full_metrics=full_metrics)
    assert read.metrics[2].null_count.to_pylist() == [3]
    assert read.data_file(0).metrics == (METRICS if full_metrics else None)


def test_native_maps_whose_keys_are_no_ids_are_corrupt() -> None:
    def native(schema: dict[str, Any]) -> dict[str, Any]:
        bent = copy.deepcopy(schema)
        data_file_field(bent, "null_value_counts")["type"] = ["null", {"type": "map", "values": "long"}]
        return bent

    row, data = a_manifest([a_file(metrics=METRICS)])
    bent = rewritten(data, schema=native, record=in_file(null_value_counts={"id": 0}))
    with pytest.raises(Corrupt, match=r"field 110 \(null_value_counts\) has keys that are not field ids"):
        read_entries((row, bent), metrics=(2,))


def test_c5_a_spec_the_table_does_not_have_comes_from_the_header() -> None:
    file = a_file(spec_id=3, partition=("eu",))
    read = read_entries(a_manifest([file], spec=BY_REGION), table=table_of(UNPARTITIONED))
    assert read.spec == BY_REGION
    assert read.partition_tuple(0) == ("eu",)


def test_a5_a_whole_spec_object_in_the_header_is_understood() -> None:
    row, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    whole = rewritten(
        data, header=lambda h: {**h, "partition-spec": f'{{"spec-id": 3, "fields": {h["partition-spec"]}}}'}
    )
    assert read_entries((row, whole), table=table_of(UNPARTITIONED)).spec == BY_REGION


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({}, "its partition spec 3 is not in the table's metadata, and its header has none"),
        ({"partition-spec": "{"}, "its partition-spec is not valid JSON"),
        ({"partition-spec": "7"}, "its partition-spec is neither a list of fields nor an object"),
    ],
)
def test_c5_a_spec_that_nobody_describes_is_corrupt(header: dict[str, str], reason: str) -> None:
    row, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    with pytest.raises(Corrupt, match=rf"m\.avro is corrupt: {reason}"):
        read_entries((row, rewritten(data, header=lambda _: header)), table=table_of(UNPARTITIONED))


def test_the_header_is_not_asked_when_the_table_knows_the_spec() -> None:
    row, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    bent = rewritten(data, header=lambda _: {"schema": "{", "partition-spec": "{", "partition-spec-id": "x"})
    assert read_entries((row, bent), table=table_of(BY_REGION)).partition_tuple(0) == ("eu",)


def test_an_encrypted_manifest_is_refused_by_name() -> None:
    row, data = a_manifest([a_file()], key_metadata=b"wrapped key")
    with pytest.raises(Unsupported, match=r"cannot read manifest mem://t/metadata/m\.avro: it is encrypted") as caught:
        read_entries((row, data))
    assert caught.value.feature == "table encryption"


def bent_record(change: Any, nullable: tuple[str, ...] = ()) -> bytes:
    def loosened(schema: dict[str, Any]) -> dict[str, Any]:
        bent = copy.deepcopy(schema)
        for name in nullable:
            field = data_file_field(bent, name) if name != "status" else bent["fields"][0]
            field["type"] = ["null", field["type"]]
        return bent

    return rewritten(a_manifest([a_file()])[1], schema=loosened, record=change)


@pytest.mark.parametrize(
    ("change", "nullable", "reason"),
    [
        (lambda row: {**row, "status": 3}, (), "an entry has no status, or one that is not 0, 1 or 2"),
        (lambda row: {**row, "status": 257}, (), "an entry has no status, or one that is not 0, 1 or 2"),
        (lambda row: {**row, "status": None}, ("status",), "an entry has no status, or one that is not 0, 1 or 2"),
        (lambda row: {**row, "sequence_number": -5}, (), "a sequence number is negative: -5"),
        (in_file(content=3), (), "a file's content is not 0, 1 or 2"),
        (in_file(content=256), (), "a file's content is not 0, 1 or 2"),
        (in_file(record_count=-1), (), "a file's record_count is missing, negative or absurd"),
        (in_file(record_count=1 << 60), (), "a file's record_count is missing, negative or absurd"),
        (in_file(record_count=None), ("record_count",), "a file's record_count is missing, negative or absurd"),
        (in_file(file_size_in_bytes=-1), (), "a file's file_size_in_bytes is missing, negative or absurd"),
        (in_file(file_path=""), (), "an entry has no file_path"),
        (in_file(file_path=None), ("file_path",), "an entry has no file_path"),
        (in_file(file_format=""), (), "an entry has no file_format"),
    ],
)
def test_an_entry_that_cannot_be_is_corrupt(change: Any, nullable: tuple[str, ...], reason: str) -> None:
    good = a_manifest([a_file("x")], path="good.avro")
    row, _ = a_manifest([a_file()], path="bad.avro")
    with pytest.raises(Corrupt, match=f"bad.avro is corrupt: {reason}"):
        list(decode_manifests([good, (row, bent_record(change, nullable))], table_of(), EntryColumns()))


def test_a_data_file_that_is_no_record_is_corrupt() -> None:
    def flat(schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "fields": [*schema["fields"][:-1], {"name": "data_file", "type": "long", "field-id": 2}]}

    row, data = a_manifest([a_file()])
    bent = rewritten(data, schema=flat, record=lambda r: {**r, "data_file": 1})
    with pytest.raises(Corrupt, match=r"field 2 \(data_file\) is int64 where a record belongs"):
        read_entries((row, bent))


def test_bounds_that_are_no_map_are_corrupt() -> None:
    def flat(schema: dict[str, Any]) -> dict[str, Any]:
        bent = copy.deepcopy(schema)
        data_file_field(bent, "lower_bounds")["type"] = ["null", "long"]
        return bent

    row, data = a_manifest([a_file()])
    bent = rewritten(data, schema=flat, record=in_file(lower_bounds=5))
    with pytest.raises(Corrupt, match=r"lower_bounds"):
        read_entries((row, bent), full_metrics=True)
    with pytest.raises(Corrupt, match=r"lower_bounds"):
        read_entries((row, bent), metrics=(1,))


def entries_to_write() -> st.SearchStrategy[list[ManifestEntry]]:
    file = st.builds(
        a_file,
        path=st.text(min_size=1, max_size=8),
        record_count=st.integers(0, 1000),
        split_offsets=st.lists(st.integers(0, 99), max_size=3, unique=True).map(lambda o: tuple(sorted(o))),
        sort_order_id=st.none() | st.integers(0, 9),
        metrics=st.builds(
            Metrics,
            column_sizes=st.dictionaries(st.integers(1, 5), st.integers(0, 99), max_size=3),
            value_counts=st.dictionaries(st.integers(1, 5), st.integers(0, 99), max_size=3),
            null_counts=st.dictionaries(st.integers(1, 5), st.integers(0, 99), max_size=3),
            nan_counts=st.dictionaries(st.integers(1, 5), st.integers(0, 99), max_size=3),
            lower_bounds=st.dictionaries(st.integers(1, 5), st.binary(max_size=4), max_size=3),
            upper_bounds=st.dictionaries(st.integers(1, 5), st.binary(max_size=4), max_size=3),
        ),
    )
    entry = st.one_of(file.map(lambda f: ManifestEntry(data_file=f)), file.map(kept), file.map(removed))
    return st.lists(entry, max_size=6, unique_by=lambda e: e.data_file.path)


@settings(max_examples=60, deadline=None)
@given(st.lists(entries_to_write(), min_size=1, max_size=3), st.booleans())
def test_what_is_read_is_what_was_written(manifests: list[list[ManifestEntry]], bare: bool) -> None:
    made = [a_manifest(entries, path=f"m{at}", sequence_number=at + 3) for at, entries in enumerate(manifests)]
    if bare:
        made = [(row, rewritten(data, schema=without_ids, codec="null")) for row, data in made]
    read = read_entries(*made, full_metrics=True, metrics=(1, 4))
    expected = [
        replace(
            entry.data_file,
            snapshot_id=77 if entry.snapshot_id is None else entry.snapshot_id,
            sequence_number=at + 3 if entry.status is ADDED else entry.data_file.sequence_number,
            file_sequence_number=at + 3 if entry.status is ADDED else entry.data_file.file_sequence_number,
        )
        for at, entries in enumerate(manifests)
        for entry in entries
    ]
    assert list(read.data_files()) == expected
    assert read.status.tolist() == [entry.status for entries in manifests for entry in entries]
    for id_, metrics in read.metrics.items():
        assert metrics.lower.to_pylist() == [_known(file).lower_bounds.get(id_) for file in expected]
        assert metrics.nan_count.to_pylist() == [_known(file).nan_counts.get(id_) for file in expected]


def _known(file: DataFile) -> Metrics:
    assert file.metrics is not None
    return file.metrics


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_manifest_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    row, whole = a_manifest([a_file("a", metrics=METRICS), kept(a_file("b", split_offsets=(4, 8)))])
    whole = rewritten(whole, codec="null") if data.draw(st.booleans()) else whole
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    damaged = data.draw(st.sampled_from([whole[:at], flipped, whole + whole[at:]]))
    with fine_or_named(row.path):
        read_entries((row, damaged), full_metrics=True, metrics=(1,))


def test_statuses_say_what_is_live() -> None:
    read = read_entries(a_manifest([a_file("a"), kept(a_file("b")), removed(a_file("c"))]))
    assert read.status.tolist() == [ADDED, EXISTING, DELETED]
    assert np.array_equal(read.is_live, [True, True, False])


def test_a_manifest_of_an_unknown_spec_still_groups_by_the_listed_id() -> None:
    read = read_entries(a_manifest([a_file(spec_id=9)], spec=PartitionSpec(spec_id=9)))
    assert read.spec.spec_id == 9
