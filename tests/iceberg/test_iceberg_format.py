"""The format as the read path sees it: manifests of a snapshot, entries of manifests, over a storage."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from manifest_makers import BY_REGION, UNPARTITIONED, a_delete, a_file, a_manifest, kept, rewritten, table_of

from esker.errors import Corrupt, NoSuchFile, Unsupported
from esker.iceberg import format as format_module
from esker.iceberg.format import IcebergFormat
from esker.iceberg.manifests.manifest_list import encode_manifest_list
from esker.model.partition_and_sort import PartitionSpec
from esker.ports.table_format import EntryColumns, TableFormat
from esker.storage.memory import MemoryStorage
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot

TABLE = table_of(UNPARTITIONED, BY_REGION)


class CountingStorage(MemoryStorage):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def read(self, location: str) -> bytes:
        self.reads[location] += 1
        return super().read(location)


def stored(storage: MemoryStorage, number: int, *, files: int = 2, spec: PartitionSpec = UNPARTITIONED) -> ManifestFile:
    partition = ("eu",) * len(spec.fields)
    row, data = a_manifest(
        [a_file(f"f{number}-{at}", spec_id=spec.spec_id, partition=partition) for at in range(files)],
        spec=spec,
        path=f"mem://t/metadata/m{number:04}.avro",
    )
    storage.write_new(row.path, data)
    return row


def paths(format_: IcebergFormat, manifests: list[ManifestFile]) -> list[str]:
    return [path for batch in format_.entries(TABLE, manifests, EntryColumns()) for path in batch.path.to_pylist()]


def test_it_is_a_table_format() -> None:
    checked: TableFormat = IcebergFormat(MemoryStorage())
    assert checked is not None


def test_a_snapshots_manifests_come_from_its_list_in_order() -> None:
    storage = CountingStorage()
    manifests = [stored(storage, number) for number in range(3)]
    storage.write_new("mem://t/list.avro", encode_manifest_list(manifests, snapshot_id=1, sequence_number=7))
    snapshot = Snapshot(snapshot_id=1, timestamp_ms=0, manifest_list="mem://t/list.avro")
    assert IcebergFormat(storage).manifests(TABLE, snapshot) == tuple(manifests)
    assert storage.reads == {"mem://t/list.avro": 1}


def test_manifests_named_inline_have_unknown_counts_and_their_headers_spec() -> None:
    storage = MemoryStorage()
    row, data = a_manifest(
        [a_file("a", spec_id=3, partition=("eu",))], spec=BY_REGION, version=1, path="mem://t/i0.avro"
    )
    storage.write_new(row.path, data)
    storage.write_new("mem://t/i1.avro", rewritten(a_manifest([a_file("b")], version=1)[1], header=lambda _: {}))
    snapshot = Snapshot(snapshot_id=5, timestamp_ms=0, manifests=("mem://t/i0.avro", "mem://t/i1.avro"))
    format_ = IcebergFormat(storage)
    manifests = format_.manifests(TABLE, snapshot)
    assert [(m.path, m.spec_id, m.added_files, m.added_snapshot_id) for m in manifests] == [
        ("mem://t/i0.avro", 3, None, 5),
        ("mem://t/i1.avro", 0, None, 5),
    ]
    assert all(manifest.may_hold_live_files for manifest in manifests)
    assert paths(format_, list(manifests)) == ["a", "b"]


def test_a_snapshot_with_neither_list_nor_manifests_is_empty() -> None:
    assert IcebergFormat(MemoryStorage()).manifests(TABLE, Snapshot(snapshot_id=5, timestamp_ms=0)) == ()


def test_an_encrypted_snapshot_is_refused_by_name() -> None:
    snapshot = Snapshot(snapshot_id=5, timestamp_ms=0, manifest_list="mem://t/l.avro", key_id="k1")
    with pytest.raises(Unsupported, match="cannot read snapshot 5: its manifest list is encrypted") as caught:
        IcebergFormat(MemoryStorage()).manifests(TABLE, snapshot)
    assert caught.value.feature == "table encryption"


def test_a_missing_list_is_named() -> None:
    snapshot = Snapshot(snapshot_id=5, timestamp_ms=0, manifest_list="mem://t/gone.avro")
    with pytest.raises(NoSuchFile, match=r"its manifest list mem://t/gone\.avro is missing"):
        IcebergFormat(MemoryStorage()).manifests(TABLE, snapshot)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_missing_manifest_is_named(threads: int) -> None:
    storage = MemoryStorage()
    manifests = [stored(storage, number) for number in range(200)]
    storage.delete(manifests[150].path)
    with pytest.raises(NoSuchFile, match=r"its manifest mem://t/metadata/m0150\.avro is missing") as caught:
        paths(IcebergFormat(storage, threads=threads), manifests)
    assert caught.value.file == "mem://t/metadata/m0150.avro"


def test_a_damaged_manifest_is_named() -> None:
    storage = MemoryStorage()
    manifests = [stored(storage, number) for number in range(200)]
    data = storage.read(manifests[150].path)
    storage.delete(manifests[150].path)
    storage.write_new(manifests[150].path, data[:-20])
    with pytest.raises(Corrupt, match=r"m0150\.avro is corrupt"):
        paths(IcebergFormat(storage, threads=2), manifests)


@pytest.mark.parametrize("length", [0, 1, -5, 1 << 40])
def test_a_wrong_length_in_the_list_is_no_failure(length: int) -> None:
    storage = MemoryStorage()
    manifests = [replace(stored(storage, number), length=length) for number in range(3)]
    assert len(paths(IcebergFormat(storage), manifests)) == 6


@pytest.mark.parametrize("threads", [1, 4])
def test_each_manifest_is_opened_once_and_order_is_kept(threads: int) -> None:
    storage = CountingStorage()
    manifests = [stored(storage, number) for number in range(300)]
    found = paths(IcebergFormat(storage, threads=threads), manifests)
    assert found == [f"f{number}-{at}" for number in range(300) for at in range(2)]
    assert set(storage.reads.values()) == {1}
    assert len(storage.reads) == 300


def test_a_batch_has_one_spec_and_one_content_kind() -> None:
    storage = MemoryStorage()
    row, data = a_manifest([a_delete()], content=ManifestContent.DELETES, path="mem://t/metadata/d.avro")
    storage.write_new(row.path, data)
    manifests = [stored(storage, 0), stored(storage, 1, spec=BY_REGION), row, stored(storage, 2), stored(storage, 3)]
    batches = list(IcebergFormat(storage).entries(TABLE, manifests, EntryColumns()))
    assert [[m.path[-7:] for m in batch.manifests] for batch in batches] == [
        ["00.avro"],
        ["01.avro"],
        ["a/d.avro"[-7:]],
        ["02.avro", "03.avro"],
    ]
    for batch in batches:
        assert len({(m.spec_id, m.content) for m in batch.manifests}) == 1
        assert all(a <= b for a, b in pairwise(batch.manifest_index.tolist()))


def test_reading_ahead_is_bounded_and_stops_with_its_reader() -> None:
    storage = CountingStorage()
    manifests = [stored(storage, number, files=1) for number in range(64 * 12)]
    entries = IcebergFormat(storage, threads=2).entries(TABLE, manifests, EntryColumns())
    next(entries)
    entries.close()  # type: ignore[attr-defined]
    assert len(storage.reads) <= 64 * 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("esker-manifests")]


def test_nothing_is_read_before_it_is_asked_for() -> None:
    storage = CountingStorage()
    manifests = [stored(storage, number) for number in range(3)]
    IcebergFormat(storage).entries(TABLE, manifests, EntryColumns())
    assert not storage.reads


def test_large_manifests_are_decoded_before_the_next_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_module, "BYTES_AT_ONCE", 10_000)
    storage = CountingStorage()
    manifests = [replace(stored(storage, number, files=40), length=0) for number in range(20)]
    entries = IcebergFormat(storage, threads=1).entries(TABLE, manifests, EntryColumns())
    first = next(entries)
    assert len(storage.reads) == len(first.manifests) < 20
    assert len(first.manifests) + sum(len(batch.manifests) for batch in entries) == 20


def test_few_manifests_are_divided_among_the_threads() -> None:
    storage = CountingStorage()
    manifests = [stored(storage, number) for number in range(300)]
    for count, threads, sizes in (
        (10, 2, [10]),
        (30, 2, [16, 14]),
        (100, 2, [50, 50]),
        (100, 1, [64, 36]),
        (300, 2, [64, 64, 64, 64, 44]),
    ):
        entries = IcebergFormat(storage, threads=threads).entries(TABLE, manifests[:count], EntryColumns())
        assert [len(batch.manifests) for batch in entries] == sizes


def test_no_manifests_have_no_entries() -> None:
    assert list(IcebergFormat(MemoryStorage()).entries(TABLE, [], EntryColumns())) == []


def test_an_encrypted_manifest_among_others_is_refused_by_name() -> None:
    storage = MemoryStorage()
    manifests = [stored(storage, 0), replace(stored(storage, 1), key_metadata=b"key")]
    with pytest.raises(Unsupported, match=r"cannot read manifest mem://t/metadata/m0001\.avro: it is encrypted"):
        paths(IcebergFormat(storage), manifests)


def test_reading_manifests_imports_no_pandas(tmp_path: Path) -> None:
    """Several functions of pyarrow do, and it takes longer than a plan."""
    row, data = a_manifest(
        [
            a_file("a", spec_id=3, partition=("eu",), split_offsets=(4, 8)),
            kept(a_file("b", spec_id=3, partition=(None,))),
        ],
        spec=BY_REGION,
        path="m.avro",
    )
    (tmp_path / "m.avro").write_bytes(data)
    (tmp_path / "list.avro").write_bytes(encode_manifest_list([row], snapshot_id=1, sequence_number=7))
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from manifest_makers import BY_REGION, table_of
from esker.iceberg.format import IcebergFormat
from esker.ports.table_format import EntryColumns
from esker.storage.local import LocalStorage
from esker.tree.snapshot import Snapshot

format_, table = IcebergFormat(LocalStorage()), table_of(BY_REGION)
manifests = format_.manifests(table, Snapshot(snapshot_id=1, timestamp_ms=0, manifest_list="list.avro"))
[entries] = format_.entries(table, manifests, EntryColumns(metrics=(1,)))
print(len(entries.take([1])), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]
