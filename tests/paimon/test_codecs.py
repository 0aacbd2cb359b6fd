"""Paimon's files of metadata: what Esker writes reads back, the real tables read, and harm is named."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus import corpus_root, found_corpus, of_each
from pyarrow import orc

from esker.errors import Corrupt, Unsupported
from esker.paimon.manifests.index_manifest import VECTORS, decode_index_manifest, encode_index_manifest
from esker.paimon.manifests.live_files import live_entries, live_files
from esker.paimon.manifests.manifest import (
    MEMBERS,
    FileEntry,
    FileMeta,
    Kind,
    encode_manifest,
    entries_of,
    read_manifests,
)
from esker.paimon.manifests.manifest_list import decode_manifest_list, encode_manifest_list
from esker.paimon.manifests.statistics import shortened_maximum, shortened_minimum
from esker.paimon.metadata.snapshot import BATCH, decode_snapshot, encode_snapshot
from esker.paimon.metadata.table_schema import TableSchema, decode_schema, encode_schema
from esker.paimon.metadata.types import DataField, decode_type, encode_type
from esker.paimon.rows.binary_row import NO_FIELDS, decode_row, encode_row
from esker.paimon.rows.bucket import bucket_numbers
from esker.paimon.rows.deletion_vector import decode_vector, decode_vector_positions, encode_vector_file
from esker.paimon.rows.partition_path import java_double, other_partition_paths, partition_path


def every_table() -> list[str]:
    root = found_corpus()
    tables = () if root is None else (root / "paimon").glob("*.db/*")
    return sorted(f"{table.parent.name}/{table.name}" for table in tables)


each_table = of_each("name", every_table(), ids=str)


def read(folder: Path, *names: str) -> list[tuple[str, bytes]]:
    return [(name, (folder / "manifest" / name).read_bytes()) for name in names]


# ---------------------------------------------------------------- The real tables


@each_table
def test_every_file_of_metadata_reads_and_is_written_back_the_same(name: str) -> None:
    table = corpus_root() / "paimon" / name
    schemas = [decode_schema(file.name, file.read_bytes()) for file in (table / "schema").glob("schema-*")]
    for schema in schemas:
        assert decode_schema("again", encode_schema(schema)) == schema
        assert [field.name for field in schema.model] == list(schema.by_name)
    by_id = {schema.id: schema for schema in schemas}
    for file in (table / "snapshot").glob("snapshot-*"):
        snapshot = decode_snapshot(file.name, file.read_bytes())
        assert decode_snapshot("again", encode_snapshot(snapshot)) == snapshot
        manifests = decode_manifest_list(read(table, *snapshot.manifest_lists))
        assert decode_manifest_list([("again", encode_manifest_list(manifests))]) == manifests
        rows = read_manifests(read(table, *(manifest.name for manifest in manifests)))
        entries = list(entries_of(rows))
        assert list(entries_of(read_manifests([("again", encode_manifest(entries))]))) == entries
        live = live_files(entries)
        assert list(entries_of(live_entries(rows))) == live
        assert sum(entry.file.rows for entry in live) == snapshot.total_record_count
        kinds = [field.type for field in by_id[snapshot.schema_id].partition_fields]
        assert all(encode_row(kinds, decode_row(entry.partition, kinds)) == entry.partition for entry in entries)
        if snapshot.index_manifest:
            [(_, data)] = read(table, snapshot.index_manifest)
            indexes = decode_index_manifest(snapshot.index_manifest, data)
            assert decode_index_manifest("again", encode_index_manifest(indexes)) == indexes


@of_each("name", ["py.db/append_bucketed", "spark.db/s_bucketed"], ids=str)
def test_rows_are_in_the_buckets_that_other_writers_chose(name: str) -> None:
    import pyarrow.parquet as pq

    table = corpus_root() / "paimon" / name
    schema = decode_schema("schema", (table / "schema" / "schema-0").read_bytes())
    types = [field.type for field in schema.bucket_fields]
    files = list(table.rglob("*.parquet"))
    assert files
    for file in files:
        rows = pq.read_table(file, partitioning=None)
        found = bucket_numbers(types, [rows[field.name] for field in schema.bucket_fields], schema.bucket)
        assert set(found.tolist()) == {int(file.parent.name.removeprefix("bucket-"))}


def test_the_vectors_of_paimons_own_tests_read() -> None:
    folder = corpus_root() / "paimon" / "dv_fixtures"
    for name in ("dvindex-32", "dvindex-64"):
        data = (folder / name).read_bytes()
        first = int.from_bytes(data[1:5], "big")
        assert list(decode_vector(name, data[1:])) == [2, 3]
        assert list(decode_vector(name, data[1 + first + 8 :])) == [1]


# ---------------------------------------------------------------- Types and schemas


@pytest.mark.parametrize(
    "text",
    ["BIGINT NOT NULL", "DECIMAL(10, 2)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "STRING", "VARCHAR(20)", "BYTES"],
)
def test_a_type_reads_back(text: str) -> None:
    assert encode_type(decode_type(text)) == text


def test_a_nested_type_reads_back() -> None:
    given = {
        "type": "MAP NOT NULL",
        "key": "STRING NOT NULL",
        "value": {"type": "ROW", "fields": [{"id": 4, "name": "a", "type": {"type": "ARRAY", "element": "INT"}}]},
    }
    assert encode_type(decode_type(given)) == given


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="GEOMETRY"):
        decode_type("GEOMETRY")


def test_a_schema_without_its_key_column_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="'k' is no column"):
        decode_schema("schema-0", encode_schema(TableSchema(id=0, fields=(), highest_field_id=0, primary_keys=("k",))))


def test_the_identifier_of_a_batch_commit_stays_exact() -> None:
    data = (
        b'{"version":3,"id":1,"schemaId":0,"baseManifestList":"b","deltaManifestList":"d","commitUser":"u",'
        b'"commitIdentifier":9223372036854775807,"commitKind":"APPEND","timeMillis":5,"logOffsets":{},"new":1}'
    )
    snapshot = decode_snapshot("snapshot-1", data)
    assert snapshot.commit_identifier == BATCH
    assert b"9223372036854775807" in encode_snapshot(snapshot)
    with pytest.raises(Corrupt, match="commitIdentifier is no whole number"):
        decode_snapshot("snapshot-1", data.replace(b"9223372036854775807", b"9.2e18"))


# ---------------------------------------------------------------- Manifests


def entry(name: str, kind: Kind = Kind.ADD, level: int = 0, **facts: object) -> FileEntry:
    file = FileMeta(name=name, size=1, rows=1, level=level, **facts)  # type: ignore[arg-type]
    return FileEntry(kind=kind, partition=NO_FIELDS, bucket=0, total_buckets=1, file=file)


def live_names(*entries: FileEntry) -> list[tuple[str, int]]:
    found = live_files(entries)
    assert list(entries_of(live_entries(read_manifests([("m", encode_manifest(entries))])))) == found
    return [(one.file.name, one.file.level) for one in found]


def test_a_delete_cancels_the_add_of_the_same_file_wherever_it_is() -> None:
    gone = entry("a", Kind.DELETE)
    assert live_names(entry("a"), entry("b"), gone) == [("b", 0)]
    assert live_names(gone, entry("b"), entry("a")) == [("b", 0)]


def test_a_file_that_moves_to_another_level_stays() -> None:
    assert live_names(entry("a"), entry("a", Kind.DELETE), entry("a", level=5)) == [("a", 5)]


def test_a_file_that_is_added_twice_is_one_file() -> None:
    assert live_names(entry("a"), entry("a"), entry("a", embedded_index=b"x")) == [("a", 0), ("a", 0)]


def test_a_delete_without_its_add_is_no_file() -> None:
    assert live_names(entry("a", Kind.DELETE), entry("b")) == [("b", 0)]


def test_a_manifest_of_another_version_is_refused() -> None:
    from esker.paimon.manifests.manifest import SCHEMA
    from esker.paimon.manifests.records import write_records

    [record] = read_manifests([("m", encode_manifest([entry("a")]))]).to_pylist()
    inner = {key.removeprefix("_FILE."): value for key, value in record.items() if key.startswith("_FILE.")}
    outer = {key: value for key, value in record.items() if not key.startswith(("_FILE.", "file"))}
    data = write_records(SCHEMA, [{"_VERSION": 3, **outer, "_FILE": inner}])
    with pytest.raises(Unsupported, match="version 3"):
        read_manifests([("m", data)])


@pytest.mark.parametrize(
    ("form", "write"), [("ORC", orc.write_table), ("Parquet", pq.write_table)], ids=["orc", "parquet"]
)
def test_a_manifest_in_columns_reads_like_one_in_avro(form: str, write: Any) -> None:
    entries = [entry("a"), entry("b", Kind.DELETE, value_stats_columns=("x", "y"), creation_ms=1700000000000)]
    table = read_manifests([("m", encode_manifest(entries))])
    inner = [member for member in MEMBERS if member.path.startswith("_FILE.")]
    file = pa.StructArray.from_arrays(
        [table[member.path].combine_chunks() for member in inner], names=[member.name for member in inner]
    )
    outer = [member.path for member in MEMBERS if "." not in member.path and member.path != "_VERSION"]
    columns = {"_VERSION": pa.array(np.full(2, 2), pa.int32()), **{path: table[path] for path in outer}, "_FILE": file}
    out = io.BytesIO()
    write(pa.table(columns), out)
    assert list(entries_of(read_manifests([("m", out.getvalue())]))) == entries
    with pytest.raises(Corrupt, match=f"it is no {form} file"):
        read_manifests([("m", out.getvalue()[:-20])])


def test_a_cut_manifest_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="manifest-1"):
        read_manifests([("manifest-1", encode_manifest([entry("a")])[:-20])])


# ---------------------------------------------------------------- Vectors, directories, bounds


@pytest.mark.parametrize("wide", [False, True])
def test_vectors_read_back_by_their_ranges(wide: bool) -> None:
    data, ranges = encode_vector_file({"a": [1, 5, 70000], "b": []}, wide=wide)
    assert [one.cardinality for one in ranges] == [3, 0]
    for one, positions in zip(ranges, ([1, 5, 70000], []), strict=True):
        blob = data[one.offset : one.offset + one.length + 8]
        assert list(decode_vector("f", blob, cardinality=one.cardinality)) == positions
        assert decode_vector_positions("f", blob).tolist() == positions


def test_a_vector_with_another_checksum_is_corrupt() -> None:
    data, _ = encode_vector_file({"a": [1, 5]})
    with pytest.raises(Corrupt, match="CRC"):
        decode_vector("f", data[1:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Corrupt, match="counts 3"):
        decode_vector("f", data[1:], cardinality=3)


def directory(kind: str, value: object, **options: str) -> str:
    fields = [DataField(id=0, name="p", type=decode_type(kind))]
    return partition_path(fields, [value], {name.replace("_", "."): text for name, text in options.items()})


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        ("STRING", "a/b=c:%", "p=a%2Fb%3Dc%3A%25/"),
        ("STRING", "ü x", "p=ü x/"),
        ("STRING", " ", "p=__DEFAULT_PARTITION__/"),
        ("STRING", None, "p=__DEFAULT_PARTITION__/"),
        ("DATE", 20455, "p=20455/"),
        ("BOOLEAN", True, "p=true/"),
        ("DOUBLE", 1e20, "p=1.0E20/"),
        ("TIMESTAMP(6)", 1767323045000000, "p=2026-01-02T03%3A04%3A05/"),
        ("TIMESTAMP(6)", 1767323040000000, "p=2026-01-02T03%3A04/"),
        ("TIMESTAMP(6)", 1767323045120000, "p=2026-01-02T03%3A04%3A05.120/"),
    ],
)
def test_directories_are_spelled_as_java_spells_them(kind: str, value: object, path: str) -> None:
    assert directory(kind, value) == path


def test_a_date_without_the_legacy_name_is_its_text() -> None:
    fields = [DataField(id=0, name="p", type=decode_type("DATE"))]
    assert partition_path(fields, [20455], {"partition.legacy-name": "false"}) == "p=2026-01-02/"
    assert other_partition_paths(fields, [20455], {}) == ("p=2026-01-02/",)


def test_doubles_are_spelled_as_java_spells_them() -> None:
    found = [java_double(np.float64(value)) for value in (1.5, 1e7, 1e-3, 1e-4, 123456.789, -0.0, 1e20)]
    assert found == ["1.5", "1.0E7", "0.001", "1.0E-4", "123456.789", "-0.0", "1.0E20"]


def test_bounds_of_long_texts_stay_bounds() -> None:
    text = "a" * 15 + "\ud7ff" + "z"
    shorter = shortened_maximum(text)
    assert shorter is not None
    assert shortened_minimum(text) <= text <= shorter
    assert len(shorter) == 16
    assert shortened_maximum("\U0010ffff" * 17) is None


def test_index_manifests_read_back() -> None:
    from esker.paimon.manifests.index_manifest import IndexEntry

    data, ranges = encode_vector_file({"a": [1]})
    given = IndexEntry(
        partition=NO_FIELDS, bucket=3, index_type=VECTORS, name="i", size=len(data), rows=1, ranges=ranges
    )
    assert decode_index_manifest("m", encode_index_manifest([given, replace(given, ranges=None)])) == (
        given,
        replace(given, ranges=None),
    )
