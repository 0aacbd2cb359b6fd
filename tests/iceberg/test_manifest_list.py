"""Manifest lists: what a reader must take from them, whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import pytest
from hostile import fine_or_named
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_makers import container, renamed_fields, rewritten, without_fields, without_ids, written_header

from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.iceberg.manifests.manifest_list import (
    COLUMNS,
    OLD_NAMES,
    assign_first_row_ids,
    decode_manifest_list,
    encode_manifest_list,
)
from esker.tree.manifest_list import FieldSummary, ListColumns, ManifestContent, ManifestFile, ManifestList

LIST = "mem://t/metadata/snap-1.avro"
SUMMARIES = (
    FieldSummary(
        contains_null=True, contains_nan=False, lower_bound=b"\x01\x00\x00\x00", upper_bound=b"\x09\x00\x00\x00"
    ),
    FieldSummary(contains_null=False, contains_nan=None),
)


def manifest(number: int = 0, **changes: object) -> ManifestFile:
    values = {
        "path": f"mem://t/metadata/m{number}.avro",
        "length": 5000 + number,
        "spec_id": 1,
        "sequence_number": 4,
        "min_sequence_number": 2,
        "added_snapshot_id": 11,
        "added_files": 1,
        "existing_files": 2,
        "deleted_files": 3,
        "added_rows": 10,
        "existing_rows": 20,
        "deleted_rows": 30,
        "partitions": SUMMARIES,
        **changes,
    }
    return ManifestFile(**values)  # type: ignore[arg-type]


def encoded(*manifests: ManifestFile, version: int = 2) -> bytes:
    return encode_manifest_list(manifests, snapshot_id=11, sequence_number=4, format_version=version)


def test_a_list_reads_back_as_it_was_written() -> None:
    manifests = (
        manifest(0),
        manifest(1, content=ManifestContent.DELETES, partitions=(), key_metadata=b"key"),
        manifest(2, partitions=None),
    )
    assert decode_manifest_list(LIST, encoded(*manifests)) == manifests


def test_a_v3_list_reads_back_with_its_row_ids() -> None:
    manifests = (manifest(0, first_row_id=0), manifest(1, content=ManifestContent.DELETES))
    assert decode_manifest_list(LIST, encoded(*manifests, version=3)) == manifests


BOUNDS = st.none() | st.binary(max_size=3)
A_SUMMARY = st.builds(
    FieldSummary,
    contains_null=st.booleans(),
    contains_nan=st.none() | st.booleans(),
    lower_bound=BOUNDS,
    upper_bound=BOUNDS,
)


@st.composite
def listed(draw: st.DrawFn) -> list[ManifestFile]:
    """Manifests with few values of each field, also such that no writer should write."""
    return [
        manifest(
            number,
            spec_id=draw(st.integers(0, 2)),
            content=draw(st.sampled_from(ManifestContent)),
            partitions=draw(st.none() | st.lists(A_SUMMARY, max_size=2).map(tuple)),
            added_files=draw(st.integers(-2, 3)),
            existing_files=draw(st.integers(-2, 3)),
        )
        for number in range(draw(st.integers(0, 5)))
    ]


@given(listed())
def test_the_columns_of_a_list_are_those_of_its_manifests(manifests: list[ManifestFile]) -> None:
    """Plans compare the columns, so a list that was read and a list of objects must say the same."""
    read = decode_manifest_list(LIST, encoded(*manifests))
    of_list, of_objects = ListColumns.of(read), ListColumns.of(tuple(read))
    for field in fields(ListColumns):
        one, other = getattr(of_list, field.name).tolist(), getattr(of_objects, field.name).tolist()
        assert one == other, field.name


@given(listed(), st.data())
def test_manifests_are_the_same_whatever_is_accessed_first(manifests: list[ManifestFile], data: st.DataObject) -> None:
    whole = tuple(decode_manifest_list(LIST, encoded(*manifests)))
    read = decode_manifest_list(LIST, encoded(*manifests))
    for row in data.draw(st.lists(st.integers(-len(whole), len(whole) - 1), max_size=4)) if whole else ():
        assert read[row] == whole[row]
        assert read[row] is read[row]
    assert read[1:3] == whole[1:3]
    assert read == whole
    assert hash(read) == hash(whole)


def test_only_the_manifests_that_are_accessed_are_made() -> None:
    made: list[int] = []
    manifests = tuple(map(manifest, range(5)))

    def make(rows: Sequence[int]) -> list[ManifestFile]:
        made.extend(rows)
        return [manifests[row] for row in rows]

    read = ManifestList(ListColumns.of(manifests), make)
    assert read.take([3, 1]) == (manifests[3], manifests[1])
    assert read[-2] is manifests[3]
    assert sorted(made) == [1, 3]


def test_an_empty_list_has_no_manifests() -> None:
    assert decode_manifest_list(LIST, encoded()) == ()


def test_a6_the_header_is_what_java_writes() -> None:
    data = encode_manifest_list([manifest()], snapshot_id=11, sequence_number=4)
    assert written_header(data) == {
        "snapshot-id": "11",
        "parent-snapshot-id": "null",
        "sequence-number": "4",
        "format-version": "2",
    }


def test_a6_an_absent_header_does_not_make_a_list_v1() -> None:
    bare = rewritten(encoded(manifest(content=ManifestContent.DELETES)), header=lambda _: {})
    [read] = decode_manifest_list(LIST, bare)
    assert (read.content, read.sequence_number) == (ManifestContent.DELETES, 4)


@pytest.mark.parametrize("keep_ids", [True, False])
def test_a7_counts_under_their_old_names_are_found(keep_ids: bool) -> None:
    new_names = {column.id: column.name for column in COLUMNS}
    old = {new_names[id_]: name for name, id_ in OLD_NAMES.items()}
    bent = rewritten(
        encoded(manifest()),
        schema=lambda s: renamed_fields(s if keep_ids else without_ids(s), old),
        record=lambda row: {old.get(key, key): value for key, value in row.items()},
    )
    assert decode_manifest_list(LIST, bent) == (manifest(),)


def test_a7_ids_decide_where_names_mislead() -> None:
    swapped = {"added_files_count": "deleted_files_count", "deleted_files_count": "added_files_count"}
    bent = rewritten(
        encoded(manifest()),
        schema=lambda s: renamed_fields(s, swapped),
        record=lambda row: {swapped.get(key, key): value for key, value in row.items()},
    )
    assert decode_manifest_list(LIST, bent) == (manifest(),)


def test_a7_a_list_without_ids_that_names_counts_both_ways_reads_once() -> None:
    def both(schema: dict) -> dict:
        bent = without_ids(schema)
        bent["fields"].insert(8, {"name": "added_data_files_count", "type": "int"})
        return bent

    bent = rewritten(encoded(manifest()), schema=both, record=lambda row: {**row, "added_data_files_count": 1})
    assert decode_manifest_list(LIST, bent) == (manifest(),)


@pytest.mark.parametrize(
    ("missing", "reads_as"),
    [
        ("content", {"content": ManifestContent.DATA}),
        ("sequence_number", {"sequence_number": 0}),
        ("min_sequence_number", {"min_sequence_number": 0}),
        ("added_snapshot_id", {"added_snapshot_id": None}),
        ("added_files_count", {"added_files": None}),
        ("added_rows_count", {"added_rows": None}),
        ("deleted_rows_count", {"deleted_rows": None}),
        ("partitions", {"partitions": None}),
        ("key_metadata", {"key_metadata": None}),
    ],
)
def test_a8_what_a_writer_left_out_is_unknown_not_an_error(missing: str, reads_as: dict[str, object]) -> None:
    bent = rewritten(encoded(manifest()), schema=lambda s: without_fields(s, missing))
    assert decode_manifest_list(LIST, bent) == (manifest(**reads_as),)


def test_b4_a_v1_list_has_no_sequence_numbers_and_reads_as_zero() -> None:
    [read] = decode_manifest_list(LIST, encoded(manifest(), version=1))
    assert (read.sequence_number, read.min_sequence_number, read.content) == (0, 0, ManifestContent.DATA)
    assert read.added_files == 1


def test_c1_a_null_count_means_perhaps_some() -> None:
    bare = manifest(added_files=None, existing_files=None, deleted_files=None, added_rows=None)
    [read] = decode_manifest_list(LIST, encoded(bare, version=1))
    assert read.added_files is None
    assert read.may_hold_live_files
    assert read.live_files is None


def test_c1_a_negative_count_means_perhaps_some() -> None:
    [read] = decode_manifest_list(LIST, encoded(manifest(added_files=-1, existing_files=0)))
    assert read.added_files is None
    assert read.may_hold_live_files


def test_c3_a_summary_that_does_not_deny_nulls_may_hold_some() -> None:
    def nullable(schema: dict) -> dict:
        for field in schema["fields"]:
            if field["name"] == "partitions":
                field["type"][1]["items"]["fields"][0]["type"] = ["null", "boolean"]
        return schema

    def unsaid(row: dict) -> dict:
        for summary in row["partitions"]:
            summary["contains_null"] = None
        return row

    [read] = decode_manifest_list(LIST, rewritten(encoded(manifest()), schema=nullable, record=unsaid))
    assert read.partitions is not None
    assert [summary.contains_null for summary in read.partitions] == [True, True]


def test_an_encrypted_manifest_can_be_listed() -> None:
    [read] = decode_manifest_list(LIST, encoded(manifest(key_metadata=b"wrapped key")))
    assert read.key_metadata == b"wrapped key"


def test_an_encrypted_list_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"cannot read mem://t/metadata/snap-1.avro: it is encrypted") as caught:
        decode_manifest_list(LIST, b"AGS1" + bytes(60))
    assert caught.value.feature == "table encryption"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"path": ""}, "row 0 names no manifest"),
        ({"sequence_number": -3}, "row 0 .* has a sequence_number of -3"),
        ({"content": 9}, "row 0 .* has an unknown content of 9"),
    ],
)
def test_a_row_that_cannot_be_is_corrupt(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(Corrupt, match=f"snap-1.avro is corrupt: {reason}"):
        decode_manifest_list(LIST, encoded(manifest(**changes)))


def test_a_list_without_paths_is_corrupt() -> None:
    bent = rewritten(encoded(manifest()), schema=lambda s: without_fields(s, "manifest_path"))
    with pytest.raises(Corrupt, match="row 0 names no manifest"):
        decode_manifest_list(LIST, bent)


def test_a_list_without_spec_ids_is_corrupt() -> None:
    bent = rewritten(encoded(manifest()), schema=lambda s: without_fields(s, "partition_spec_id"))
    with pytest.raises(Corrupt, match="has no partition_spec_id"):
        decode_manifest_list(LIST, bent)


def test_a_manifest_listed_twice_is_read_once() -> None:
    assert decode_manifest_list(LIST, encoded(manifest(0), manifest(1), manifest(0))) == (manifest(0), manifest(1))


def test_a_manifest_listed_twice_and_differently_is_corrupt() -> None:
    with pytest.raises(Corrupt, match=r"it lists mem://t/metadata/m0\.avro twice, with different values"):
        decode_manifest_list(LIST, encoded(manifest(), manifest(sequence_number=5)))


def test_a_field_of_the_wrong_kind_is_corrupt() -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "string", "field-id": 501},
        ],
    }
    data = container(schema, [{"manifest_path": "m.avro", "manifest_length": "12"}])
    with pytest.raises(Corrupt, match=r"field 501 \(manifest_length\) is string where int64 belongs"):
        decode_manifest_list(LIST, data)


def test_summaries_of_the_wrong_kind_are_corrupt() -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "partitions", "type": "long", "field-id": 507},
        ],
    }
    with pytest.raises(Corrupt, match=r"field 507 \(partitions\) is int64 where a list of records belongs"):
        decode_manifest_list(LIST, container(schema, [{"manifest_path": "m.avro", "partitions": 1}]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_list_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    whole = encoded(manifest(0), manifest(1))
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :], whole + whole[at:]])
    )
    with fine_or_named(LIST):
        decode_manifest_list(LIST, damaged)


def test_v1_refuses_a_delete_manifest() -> None:
    with pytest.raises(InvalidInput, match=r"cannot list mem://t/metadata/m0.avro in format version 1: .*deletes"):
        encoded(manifest(content=ManifestContent.DELETES), version=1)


def test_v2_refuses_counts_that_nobody_knows() -> None:
    with pytest.raises(InvalidInput, match="in format version 2: added_files_count is not known"):
        encoded(manifest(added_files=None))


def test_i2_row_ids_go_to_data_manifests_that_have_none() -> None:
    manifests = (manifest(0, first_row_id=50), manifest(1, content=ManifestContent.DELETES), manifest(2))
    assigned, after = assign_first_row_ids(manifests, 1000)
    assert [m.first_row_id for m in assigned] == [50, None, 1000]
    assert after == 1030


def test_i3_each_manifest_takes_ids_for_all_its_live_rows() -> None:
    sizes = [(100, 25), (0, 100), (125, 25)]
    manifests = [manifest(at, added_rows=a, existing_rows=e) for at, (a, e) in enumerate(sizes)]
    assigned, after = assign_first_row_ids(manifests, 1000)
    assert [m.first_row_id for m in assigned] == [1000, 1125, 1225]
    assert after == 1375


def test_i3_rows_that_nobody_counted_cannot_be_numbered() -> None:
    with pytest.raises(InvalidInput, match=r"cannot assign row ids: mem://t/metadata/m0.avro does not record"):
        assign_first_row_ids([manifest(existing_rows=None)], 0)
