"""Manifests and lists that other engines wrote, against fastavro's reading and their projects' own."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from corpus import corpus_root
from manifest_makers import read_entries, table_of

from esker.errors import NoSuchFile, Unsupported
from esker.iceberg.format import IcebergFormat
from esker.iceberg.manifests.manifest_list import decode_manifest_list
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import IDENTITY
from esker.ports.table_format import EntryColumns
from esker.storage.memory import MemoryStorage
from esker.tree.data_file import Metrics
from esker.tree.manifest_list import ManifestContent, ManifestFile

MAPS = {
    "column_sizes": "column_sizes",
    "value_counts": "value_counts",
    "null_value_counts": "null_counts",
    "nan_value_counts": "nan_counts",
    "lower_bounds": "lower_bounds",
    "upper_bounds": "upper_bounds",
}
OLD = {
    "added": "added_data_files_count",
    "existing": "existing_data_files_count",
    "deleted": "deleted_data_files_count",
}


@cache
def containers(kind: str) -> list[Path]:
    """Every readable Avro file of the corpus whose schema has the field that makes it of that kind."""
    found = []
    for path in sorted(corpus_root().rglob("*.avro")):
        try:
            schema = json.loads(fastavro.reader(io.BytesIO(path.read_bytes())).metadata["avro.schema"])
        except (ValueError, IndexError, KeyError):
            continue  # broken on purpose, or encrypted
        if any(field["name"] == kind for field in schema.get("fields", [])):
            found.append(path)
    return found


def held(value: Any) -> Any:
    """What fastavro makes of logical types, back in held form."""
    match value:
        case dt.datetime():
            naive = value.replace(tzinfo=None)
            return (naive - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case dt.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case UUID():
            return value.bytes
        case _:
            return value


def spec_of(schema: dict[str, Any]) -> PartitionSpec:
    """A spec with the members that the manifest declares, of sources nobody knows."""
    [data_file] = [field["type"] for field in schema["fields"] if field["name"] == "data_file"]
    [partition] = [field["type"] for field in data_file["fields"] if field["name"] == "partition"]
    fields = tuple(
        PartitionField(source_id=-1, field_id=field["field-id"], name=field["name"], transform=IDENTITY)
        for field in partition["fields"]
    )
    return PartitionSpec(spec_id=42, fields=fields)


@pytest.mark.slow
def test_every_manifest_reads_as_fastavro_reads_it() -> None:
    paths = containers("data_file")
    assert len(paths) > 200
    for path in paths:
        data = path.read_bytes()
        reader = fastavro.reader(io.BytesIO(data))
        rows: list[Any] = list(reader)
        spec = spec_of(json.loads(reader.metadata["avro.schema"]))
        content = ManifestContent(any(row["data_file"].get("content") for row in rows))
        manifest = ManifestFile(path=str(path), length=0, spec_id=42, content=content, sequence_number=1)
        read = read_entries((manifest, data), table=table_of(spec), full_metrics=True, metrics=(1, 2, 3))
        assert read.status.tolist() == [row["status"] for row in rows]
        for at, row in enumerate(rows):
            file, written = read.data_file(at), row["data_file"]
            assert (file.path, file.record_count) == (written["file_path"], written["record_count"])
            assert file.file_size == written["file_size_in_bytes"]
            assert file.file_format == written["file_format"].lower()
            assert list(file.equality_ids) == (written.get("equality_ids") or [])
            assert file.referenced_data_file == written.get("referenced_data_file")
            assert file.content_offset == written.get("content_offset")
            assert _plain(file.partition) == _plain(tuple(map(held, written["partition"].values())))
            _same_metrics(file.metrics, written)
            for id_, metrics in read.metrics.items():
                assert metrics.lower[at].as_py() == _pairs(written, "lower_bounds").get(id_)
                assert metrics.null_count[at].as_py() == _pairs(written, "null_value_counts").get(id_)


def _plain(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(value) if isinstance(value, Decimal) else value for value in partition)


def _pairs(written: dict[str, Any], name: str) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in written.get(name) or []}


def _same_metrics(metrics: Metrics | None, written: dict[str, Any]) -> None:
    assert metrics is not None
    for name, attribute in MAPS.items():
        assert getattr(metrics, attribute) == _pairs(written, name)


def once(rows: list[Any]) -> list[Any]:
    """The rows without those that repeat one before: a list of Java's has such."""
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


def test_every_manifest_list_reads_as_fastavro_reads_it() -> None:
    paths = containers("manifest_path")
    assert len(paths) > 200
    for path in paths:
        rows = once(list(fastavro.reader(io.BytesIO(path.read_bytes()))))
        manifests = decode_manifest_list(str(path), path.read_bytes())
        assert [m.path for m in manifests] == [row["manifest_path"] for row in rows]
        for manifest, row in zip(manifests, rows, strict=True):
            assert manifest.length == row["manifest_length"]
            assert manifest.content == row.get("content", 0)
            assert manifest.sequence_number == row.get("sequence_number", 0)
            assert manifest.added_files == row.get("added_files_count", row.get("added_data_files_count"))
            assert manifest.existing_files == row.get("existing_files_count", row.get("existing_data_files_count"))
            assert manifest.deleted_files == row.get("deleted_files_count", row.get("deleted_data_files_count"))
            assert manifest.existing_rows == row.get("existing_rows_count")
            assert manifest.first_row_id == row.get("first_row_id")
            summaries = row.get("partitions")
            assert (manifest.partitions is None) == (summaries is None)
            for summary, written in zip(manifest.partitions or (), summaries or (), strict=True):
                assert summary.contains_null == written["contains_null"]
                assert (summary.lower_bound, summary.upper_bound) == (written["lower_bound"], written["upper_bound"])


class FilesByName(MemoryStorage):
    """A table's files by their last name, wherever it was written."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._paths = {path.name: path for path in directory.rglob("*") if path.is_file()}

    def read(self, location: str) -> bytes:
        path = self._paths.get(location.rpartition("/")[2])
        return super().read(location) if path is None else path.read_bytes()


def tables() -> list[dict[str, Any]]:
    index = json.loads((corpus_root() / "iceberg" / "index.json").read_text())
    return index if isinstance(index, list) else index["tables"]


def test_every_snapshot_whose_metadata_is_there_reads_down_to_its_files() -> None:
    read = 0
    for table in tables():
        directory = corpus_root() / "iceberg" / table["id"]
        path = directory / table["current_metadata"]
        metadata = decode_table_metadata(str(path), path.read_bytes())
        format_ = IcebergFormat(FilesByName(directory))
        for snapshot in metadata.snapshots:
            try:
                manifests = format_.manifests(metadata, snapshot)
                batches = list(format_.entries(metadata, manifests, EntryColumns()))
            except NoSuchFile:
                continue  # upstream never committed it
            live = sum(int(batch.is_live.sum()) for batch in batches)
            listed = [manifest.live_files for manifest in manifests]
            if None not in listed:
                assert live == sum(count or 0 for count in listed), (table["id"], snapshot.snapshot_id)
            read += 1
    assert read > 150


def fixtures() -> Path:
    return corpus_root() / "fixtures"


def test_icebirds_manifest_reads_as_icebird_decodes_it() -> None:
    [path] = (fixtures() / "icebird-manifest-decodes").glob("*-m0.avro")
    [expected] = json.loads(path.with_suffix(".json").read_text())
    manifest = ManifestFile(path=path.name, length=0, spec_id=0, sequence_number=1, added_snapshot_id=9)
    [file] = read_entries((manifest, path.read_bytes()), full_metrics=True).data_files()
    written = expected["data_file"]
    assert file.path == written["file_path"]
    assert (file.record_count, file.file_size) == (written["record_count"], written["file_size_in_bytes"])
    assert file.file_format == written["file_format"].lower()
    assert file.metrics is not None
    for name, attribute in MAPS.items():
        pairs = {pair["key"]: pair["value"] for pair in written.get(name, [])}
        as_bytes = {key: bytes(value) if isinstance(value, list) else value for key, value in pairs.items()}
        assert getattr(file.metrics, attribute) == as_bytes
    assert file.sequence_number == expected.get("sequence_number", 1)


def test_icebirds_list_reads_as_icebird_decodes_it() -> None:
    [path] = (fixtures() / "icebird-manifest-decodes").glob("snap-*.avro")
    [expected] = json.loads(path.with_suffix(".json").read_text())
    [manifest] = decode_manifest_list(path.name, path.read_bytes())
    assert manifest.path == expected["manifest_path"]
    assert (manifest.length, manifest.spec_id) == (expected["manifest_length"], expected["partition_spec_id"])
    assert (manifest.added_files, manifest.added_rows) == (
        expected["added_data_files_count"],
        expected["added_rows_count"],
    )
    assert (manifest.sequence_number, manifest.min_sequence_number) == (1, 1)
    assert manifest.partitions == ()
    assert float(manifest.added_snapshot_id or 0) == float(expected["added_snapshot_id"])


@pytest.mark.parametrize("name", ["manifest-list-v2-1.avro", "manifest-list-v2-2.avro"])
def test_iceberg_rusts_lists_read(name: str) -> None:
    path = fixtures() / "iceberg-rust-manifest-lists" / name
    manifests = decode_manifest_list(name, path.read_bytes())
    rows: list[Any] = list(fastavro.reader(io.BytesIO(path.read_bytes())))
    assert [m.path for m in manifests] == [row["manifest_path"] for row in rows]


def test_iceberg_rusts_encrypted_list_is_refused_by_name() -> None:
    path = fixtures() / "iceberg-rust-manifest-lists" / "manifest-list-v3-encrypted.avro"
    with pytest.raises(Unsupported, match=r"cannot read manifest-list-v3-encrypted\.avro: it is encrypted"):
        decode_manifest_list(path.name, path.read_bytes())
