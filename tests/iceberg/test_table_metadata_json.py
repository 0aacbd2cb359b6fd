"""Table metadata in JSON: the rules of each version, and what breaks them (checklist D, T17)."""

from __future__ import annotations

import gzip
import random
from typing import Any

import msgspec
import pytest
from hostile import fine_or_named

from esker.errors import Corrupt, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.model.types import LONG
from esker.tree.snapshot import RefKind, SnapshotRef
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": True, "type": "long"}]}
COMMON = {"location": "s3://b/t", "last-updated-ms": 1602638573590, "last-column-id": 1}
V1 = {"format-version": 1, **COMMON, "schema": SCHEMA, "partition-spec": []}
V2 = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    **COMMON,
    "last-sequence-number": 34,
    "schemas": [{**SCHEMA, "schema-id": 0}],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
}
V3 = {**V2, "format-version": 3, "next-row-id": 0}
SNAPSHOT = {"snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 5, "manifest-list": "l.avro", "summary": {}}
WITH_SNAPSHOT = {**V2, "snapshots": [SNAPSHOT], "current-snapshot-id": 7}


def decoded(document: Any) -> TableMetadata:
    return decode_table_metadata("v7.metadata.json", msgspec.json.encode(document))


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def look_at_everything(metadata: TableMetadata) -> None:
    for history in (metadata.snapshots, metadata.snapshot_log, metadata.metadata_log):
        list(history)
    list(metadata.statistics)
    list(metadata.partition_statistics)
    assert metadata.schema is not None
    assert metadata.spec is not None
    assert metadata.sort_order is not None
    assert metadata.any_field_by_id is not None


@pytest.mark.parametrize("version", [4, 42])
def test_d1_a_version_above_the_known_ones_is_unsupported_and_named(version: int) -> None:
    message = f"cannot read v7.metadata.json: it has format version {version}, the newest known is 3"
    with pytest.raises(Unsupported, match=message) as caught:
        decoded({**V2, "format-version": version})
    assert caught.value.feature == f"format version {version}"


def test_d2_minus_one_null_and_absent_all_mean_no_snapshot() -> None:
    for document in ({**V2, "current-snapshot-id": -1}, {**V2, "current-snapshot-id": None}, V2):
        metadata = decoded(document)
        assert metadata.current_snapshot_id is None
        assert metadata.current_snapshot is None
        assert metadata.refs == {}


def test_d2_main_is_there_even_where_nobody_wrote_it() -> None:
    main = SnapshotRef(snapshot_id=7, kind=RefKind.BRANCH)
    tag = {"snapshot-id": 7, "type": "tag", "max-ref-age-ms": 10}
    assert decoded(WITH_SNAPSHOT).refs == {"main": main}
    with_tag = decoded({**WITH_SNAPSHOT, "refs": {"t": tag}})
    assert with_tag.refs == {"main": main, "t": SnapshotRef(snapshot_id=7, kind=RefKind.TAG, max_ref_age_ms=10)}
    assert with_tag.current_snapshot == with_tag.snapshot(7)


@pytest.mark.parametrize(
    ("current", "ref", "reason"),
    [
        (7, {"snapshot-id": 8, "type": "branch"}, "branch main is at 8, while the current snapshot is 7"),
        (-1, {"snapshot-id": 7, "type": "branch"}, "branch main is at 7, while the current snapshot is no snapshot"),
        (7, {"snapshot-id": 7, "type": "tag"}, "main must be a branch, not a tag"),
        (7, "x", "ref 'main' must be a JSON object, not 'x'"),
    ],
)
def test_d2_a_main_that_disagrees_with_the_current_snapshot_is_corrupt(current: int, ref: Any, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decoded({**WITH_SNAPSHOT, "current-snapshot-id": current, "refs": {"main": ref}})


def test_d6_v1_reads_from_schema_and_partition_spec_alone() -> None:
    field = {"name": "x_b", "transform": "bucket[4]", "source-id": 1}
    metadata = decoded({**V1, "partition-spec": [field]})
    assert [str(column) for column in metadata.schema] == ["1: x: required long"]
    assert [str(part) for part in metadata.spec.fields] == ["1000: x_b: bucket[4](1)"]
    assert (metadata.uuid, metadata.last_sequence_number, metadata.next_row_id) == (None, 0, None)
    assert (metadata.last_partition_id, metadata.current_schema_id, metadata.default_spec_id) == (1000, 0, 0)
    assert metadata.sort_order.is_unsorted


def test_d6_v2_ignores_the_fields_of_v1() -> None:
    other = {"type": "struct", "fields": []}
    metadata = decoded({**V2, "schema": other, "partition-spec": "nonsense"})
    assert len(metadata.schema.fields) == 1


def test_v1_with_schemas_but_no_current_id_takes_the_one_that_schema_repeats() -> None:
    wider = {"type": "struct", "schema-id": 4, "fields": [*SCHEMA["fields"], {**SCHEMA["fields"][0], "id": 2}]}
    metadata = decoded({**V1, "schemas": [wider, {**SCHEMA, "schema-id": 3}]})
    assert metadata.current_schema_id == 3
    metadata = decoded({**V1, "schemas": [wider]})
    assert [schema.schema_id for schema in metadata.schemas] == [4, 0]
    assert len(metadata.schema.fields) == 1


@pytest.mark.parametrize("magic_only", [False, True])
def test_d9_gzip_is_known_by_its_magic_whatever_the_name(magic_only: bool) -> None:
    packed = gzip.compress(msgspec.json.encode(V2))
    name = "v1.metadata.json" if magic_only else "v1.gz.metadata.json"
    assert decode_table_metadata(name, packed).location == "s3://b/t"
    assert decode_table_metadata("v1.metadata.json.gz", packed[:] + gzip.compress(b"\n")).location == "s3://b/t"


def test_d9_a_broken_or_endless_gzip_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(msgspec.json.encode(V2))
    with pytest.raises(Corrupt, match=r"v1.gz.metadata.json is corrupt: the file cannot be decompressed as gzip"):
        decode_table_metadata("v1.gz.metadata.json", packed[:-20])
    with pytest.raises(Corrupt, match="cannot be decompressed as gzip"):
        decode_table_metadata("m", b"\x1f\x8b" + b"x" * 50)
    monkeypatch.setattr("esker.iceberg.metadata.table_metadata.LARGEST_DOCUMENT", 1000)
    with pytest.raises(Corrupt, match="the file decompresses to more than 1,000 bytes"):
        decode_table_metadata("m", gzip.compress(b" " * 10_000_000))


def test_d11_unknown_fields_do_not_disturb_and_are_kept() -> None:
    metadata = decoded({**V2, "colour": {"deep": [1, 2]}, "statistics-files": []})
    assert bytes(metadata.origin.fields["colour"]) == b'{"deep":[1,2]}'
    assert metadata.origin.format_version == 2


def test_d12_log_times_that_step_back_do_not_stop_a_reader() -> None:
    log = [{"snapshot-id": 7, "timestamp-ms": 1602638573591}, {"snapshot-id": 7, "timestamp-ms": 5}]
    metadata = decoded({**WITH_SNAPSHOT, "snapshot-log": log, "metadata-log": []})
    assert [entry.timestamp_ms for entry in metadata.snapshot_log] == [1602638573591, 5]


def test_t17_a_last_sequence_number_that_was_left_out_is_that_of_the_newest_snapshot() -> None:
    """DuckDB's COPY leaves it out."""
    assert decoded(without(WITH_SNAPSHOT, "last-sequence-number")).last_sequence_number == max(
        snapshot["sequence-number"] for snapshot in WITH_SNAPSHOT["snapshots"]
    )
    assert decoded(without(V2, "last-sequence-number")).last_sequence_number == 0


@pytest.mark.parametrize("version", [2, 3])
def test_t17_each_field_that_a_version_requires_is_demanded_by_name(version: int) -> None:
    document = V2 if version == 2 else V3
    look_at_everything(decoded(document))
    always = {"format-version", "location", "last-updated-ms", "last-column-id"}
    for name in document.keys() - {"last-sequence-number"}:
        expected = f"'{name}' is missing" if name in always else f"format version {version} requires .*'{name}'"
        with pytest.raises(Corrupt, match=expected):
            decoded(without(document, name))
        with pytest.raises(Corrupt, match=expected):
            decoded({**document, name: None})


@pytest.mark.parametrize("name", list(V1))
def test_t17_v1_requires_less(name: str) -> None:
    look_at_everything(decoded(V1))
    with pytest.raises(Corrupt, match=f"'{name}' is missing"):
        decoded(without(V1, name))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({**V2, "format-version": 0}, "'format-version' must be at least 1, not 0"),
        ({**V2, "format-version": "2"}, "'format-version' must be a whole number, not '2'"),
        ({**V2, "location": 5}, "'location' must be a string, not 5"),
        ({**V2, "current-schema-id": 9}, "the current schema 9 is not among its schemas"),
        ({**V2, "default-spec-id": 9}, "the default partition spec 9 is not among its partition specs"),
        ({**V2, "default-sort-order-id": 9}, "the default sort order 9 is not among its sort orders"),
        ({**V2, "current-snapshot-id": 9}, "the current snapshot 9 is not among its snapshots"),
        ({**V2, "last-sequence-number": -1}, "'last-sequence-number' must be at least 0, not -1"),
        ({**V2, "properties": []}, "'properties' must be a JSON object, not an array"),
        ({**V2, "properties": {"a": {}}}, "'properties': the value of 'a' must be a string"),
        ({**V2, "refs": []}, "'refs' must be a JSON object, not an array"),
        ({**V2, "snapshots": {}}, "'snapshots' is not as expected: Expected `array"),
        ({**V2, "schemas": {}}, "'schemas' must be an array, not an object"),
        ({**V2, "schemas": [5]}, "schema 0 must be a JSON object, not 5"),
        ({**V2, "partition-specs": [{}]}, "partition spec 0: 'spec-id' is missing"),
        ({**V2, "sort-orders": [{}]}, "sort order 0: 'fields' is missing"),
        ({**V3, "next-row-id": -1}, "'next-row-id' must be at least 0, not -1"),
        ({**V3, "encryption-keys": [1]}, "encryption key 0 must be a JSON object, not 1"),
        ([], "table metadata is not as expected: Expected `object`, got `array`"),
        (None, "table metadata is not as expected: Expected `object`, got `null`"),
    ],
)
def test_t17_what_breaks_a_rule_is_refused_with_the_reason(document: Any, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason) as caught:
        decoded(document)
    assert caught.value.file == "v7.metadata.json"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b'{"format-version": 2,', "table metadata is not valid JSON"),
        (b'{"format-version": 2} {}', "table metadata is not valid JSON: .*trailing characters"),
        (b'{"a":' * 100_000, "table metadata is nested too deeply"),
        (b"PAR1", "table metadata is not valid JSON"),
        (b'{"format-version": 2, "location": "\xff"}', "'location' is not valid JSON: .*can't decode byte 0xff"),
        (b'{"format-version": 2, "schemas": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply|requires"),
        (b'{"format-version": ' + b"9" * 5000 + b"}", "out of range"),
    ],
)
def test_what_is_no_json_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_table_metadata("m.json", content)


def test_a_sort_order_zero_needs_no_entry() -> None:
    assert decoded({**V2, "sort-orders": []}).sort_order.is_unsorted


def test_partition_specs_without_a_default_take_the_newest() -> None:
    specs = [{"spec-id": 1, "fields": []}, {"spec-id": 2, "fields": []}]
    assert decoded({**without(V1, "partition-spec"), "partition-specs": specs}).default_spec_id == 2


def test_properties_that_are_numbers_are_taken_as_their_text() -> None:
    assert decoded({**V2, "properties": {"a": 5, "b": "x", "c": None}}).properties == {"a": "5", "b": "x"}


def test_statistics_files_are_read() -> None:
    blob = {"type": "ndv", "snapshot-id": 7, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
    sizes = {"file-size-in-bytes": 413, "file-footer-size-in-bytes": 42}
    entry = {"snapshot-id": 7, "statistics-path": "s.puffin", **sizes, "blob-metadata": [blob]}
    part = {"snapshot-id": 7, "statistics-path": "p.parquet", "file-size-in-bytes": 43}
    metadata = decoded({**WITH_SNAPSHOT, "statistics": [entry], "partition-statistics": [part]})
    expected = StatisticsFile(snapshot_id=7, path="s.puffin", file_size=413, footer_size=42, blobs=(blob,))
    assert list(metadata.statistics) == [expected]
    assert list(metadata.partition_statistics) == [
        PartitionStatisticsFile(snapshot_id=7, path="p.parquet", file_size=43)
    ]
    broken = decoded({**WITH_SNAPSHOT, "statistics": [without(entry, "statistics-path")]})
    with pytest.raises(Corrupt, match="an entry of 'statistics': 'statistics-path' is missing"):
        list(broken.statistics)


def test_a_long_history_is_not_decoded_on_loading() -> None:
    snapshots = [{**SNAPSHOT, "snapshot-id": number} for number in range(5000)]
    metadata = decoded({**V2, "snapshots": snapshots, "current-snapshot-id": 4999})
    assert len(metadata.snapshots) == 5000
    assert metadata.current_snapshot is not None
    assert len(metadata.snapshots._decoded) == 1  # type: ignore[attr-defined]  # that laziness is what is tested


def test_the_model_has_the_schema_it_was_given() -> None:
    (field,) = decoded(V2).schema.fields
    assert (field.id, field.name, field.type, field.required) == (1, "x", LONG, True)


MUTATIONS = (b"", b"null", b"-1", b"[]", b"{}", b'"', b"{", b"]", b"9" * 30, b"\xff", b"\\u0000", b"true", b"1e400")


def test_mutated_and_cut_metadata_decodes_or_is_named() -> None:
    document = {
        **WITH_SNAPSHOT,
        "properties": {"a": "b"},
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": 7, "timestamp-ms": 5}],
        "metadata-log": [{"metadata-file": "m", "timestamp-ms": 5}],
    }
    content = msgspec.json.encode(document)
    chance = random.Random(11)
    for _ in range(1500):
        at = chance.randrange(len(content))
        broken = content[:at] + chance.choice(MUTATIONS) + content[at + chance.randint(0, 12) :]
        broken = broken[: chance.randint(0, len(broken))] if chance.random() < 0.1 else broken
        with fine_or_named("m.json"):
            look_at_everything(decode_table_metadata("m.json", broken))


def test_metadata_with_one_value_swapped_for_another_kind_decodes_or_is_named() -> None:
    wrong: list[Any] = [None, -1, 2**70, 1.5, True, "", "x", [], {}, [None], [{}], {"a": None}, [[]]]

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path, *(place for key, inner in pairs for place in places(inner, (*path, key)))]

    for document in ({**V1, "snapshots": [SNAPSHOT]}, {**V3, "snapshots": [SNAPSHOT], "current-snapshot-id": 7}):
        for path in places(document)[1:]:
            for value in wrong:
                changed = msgspec.json.decode(msgspec.json.encode(document))
                target = changed
                for key in path[:-1]:
                    target = target[key]
                target[path[-1]] = value
                with fine_or_named("m.json"):
                    look_at_everything(decode_table_metadata("m.json", msgspec.json.encode(changed)))
