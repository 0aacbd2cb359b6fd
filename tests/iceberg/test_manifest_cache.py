"""The cache of decoded manifests: the same entries as without it, bounded, and never of another file."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from manifest_makers import BY_REGION, UNPARTITIONED, a_file, a_manifest, table_of

from esker.errors import Corrupt, InvalidInput, NoSuchFile
from esker.iceberg.format import IcebergFormat
from esker.iceberg.manifests import cached_entries, manifest_cache
from esker.iceberg.manifests.manifest_cache import ManifestCache
from esker.ports.storage import file_tags
from esker.ports.table_format import EntryColumns
from esker.storage.cache_folder import CacheFolder, cache_folder
from esker.storage.local import LocalStorage
from esker.storage.memory import MemoryStorage
from esker.storage.relocated import RelocatedStorage
from esker.tree.data_file import Metrics
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile

TABLE = table_of(UNPARTITIONED, BY_REGION)
MEMORY = 64 << 20


class Counting(LocalStorage):
    """Counts what is read."""

    reads = 0

    def read(self, location: str) -> bytes:
        type(self).reads += 1
        return super().read(location)


@pytest.fixture(autouse=True)
def count_from_zero() -> None:
    Counting.reads = 0


@pytest.fixture
def worth_storing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store slabs of any size."""
    monkeypatch.setattr(manifest_cache, "WORTH_MANIFESTS", 1)


def written(folder: Path, number: int, *, name: str = "f", files: int = 3, partitioned: bool = False) -> ManifestFile:
    """A manifest in a folder: its files have statistics of two columns."""
    spec = BY_REGION if partitioned else UNPARTITIONED
    metrics = Metrics(
        value_counts={1: 10, 2: 10}, null_counts={1: number, 2: 0}, lower_bounds={1: bytes([number] * 4), 2: b"\1" * 4}
    )
    listed = [
        a_file(f"{name}{number}-{at}", spec_id=spec.spec_id, partition=("eu",) * len(spec.fields), metrics=metrics)
        for at in range(files)
    ]
    row, data = a_manifest(listed, spec=spec, path=str(folder / f"m{number:04}.avro"))
    folder.mkdir(parents=True, exist_ok=True)
    Path(row.path).write_bytes(data)
    return row


def told(batches: Iterator[Entries]) -> list[Any]:
    """Everything that entries have, row by row."""
    rows = []
    for entries in batches:
        for row in range(len(entries)):
            metrics = {
                id_: (m.lower[row].as_py(), m.upper[row].as_py(), m.value_count[row].as_py(), m.null_count[row].as_py())
                for id_, m in entries.metrics.items()
            }
            status, manifest = int(entries.status[row]), entries.manifest_of(row)
            rows.append((entries.data_file(row), metrics, status, manifest))
    return rows


def asked(format_: IcebergFormat, manifests: list[ManifestFile], *metrics: int) -> list[Any]:
    return told(format_.entries(TABLE, manifests, EntryColumns(metrics=metrics)))


def plain(manifests: list[ManifestFile], *metrics: int) -> list[Any]:
    return asked(IcebergFormat(LocalStorage()), manifests, *metrics)


def test_a_second_question_reads_no_manifest(tmp_path: Path) -> None:
    manifests = [written(tmp_path, n, partitioned=n > 3) for n in range(6)]
    format_ = IcebergFormat(Counting(), cache=ManifestCache(MEMORY))
    assert asked(format_, manifests, 1) == plain(manifests, 1)
    assert Counting.reads == 6
    for some in (manifests, manifests[1:3], manifests[::-1], [manifests[5]], []):
        assert asked(format_, some, 1) == plain(some, 1)
        assert asked(format_, some) == plain(some)
    assert Counting.reads == 6


def test_another_column_is_decoded_together_with_the_known_ones(tmp_path: Path) -> None:
    manifests = [written(tmp_path, n) for n in range(4)]
    format_ = IcebergFormat(Counting(), cache=ManifestCache(MEMORY))
    for metrics, reads in (((1,), 4), ((2,), 8), ((1,), 8), ((1, 2), 8), ((), 8)):
        assert asked(format_, manifests, *metrics) == plain(manifests, *metrics)
        assert Counting.reads == reads


def test_a_new_manifest_is_read_alone(tmp_path: Path) -> None:
    manifests = [written(tmp_path, n) for n in range(4)]
    format_ = IcebergFormat(Counting(), cache=ManifestCache(MEMORY))
    asked(format_, manifests)
    later = [written(tmp_path, 9), *manifests[:2], *manifests[3:]]
    assert asked(format_, later) == plain(later)
    assert Counting.reads == 5


def test_manifests_of_appends_one_by_one_become_one_batch(tmp_path: Path) -> None:
    cache = ManifestCache(MEMORY)
    manifests: list[ManifestFile] = []
    for n in range(3 * cached_entries._MANY):
        manifests.insert(0, written(tmp_path, n))
        format_ = IcebergFormat(LocalStorage(), cache=cache)
        batches = list(format_.entries(TABLE, manifests, EntryColumns(metrics=(1,))))
        assert len(batches) <= 2 * cached_entries._MANY
        assert told(iter(batches)) == plain(manifests, 1)


def test_what_a_list_says_is_inherited_each_time(tmp_path: Path) -> None:
    """The same manifest may be listed with another sequence number."""
    [manifest] = [written(tmp_path, 1)]
    format_ = IcebergFormat(LocalStorage(), cache=ManifestCache(MEMORY))
    for row in (manifest, replace(manifest, sequence_number=99, added_snapshot_id=5), manifest):
        assert asked(format_, [row]) == plain([row])


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    manifest = written(tmp_path, 1)
    format_ = IcebergFormat(LocalStorage(), cache=ManifestCache(MEMORY))
    before = asked(format_, [manifest])
    os.utime(manifest.path, ns=(1, 1))
    written(tmp_path, 1, name="g")
    assert asked(format_, [manifest]) == plain([manifest]) != before
    Path(manifest.path).unlink()
    with pytest.raises(NoSuchFile):
        asked(format_, [manifest])


class Names(MemoryStorage):
    """A store that has no more to say about an object than its name, as object stores."""

    tags_last = True  # type: ignore[assignment]

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        return [f"object:{location}" for location in locations]


@pytest.mark.parametrize("new", ["table", "snapshot"])
def test_a_table_made_again_at_the_same_place_is_another_table(new: str, tmp_path: Path, worth_storing: None) -> None:
    """Its manifests may have the same names and lengths."""
    place = "mem://t/metadata/m.avro"
    first, data = a_manifest([a_file("old")], path=place)
    second, other = a_manifest([a_file("new")], path=place)
    assert len(data) == len(other)
    tables = {"table": replace(TABLE, uuid=str(uuid4())), "snapshot": TABLE}
    rows = {"table": second, "snapshot": replace(second, added_snapshot_id=987)}
    cache = ManifestCache(MEMORY, CacheFolder(tmp_path, 1 << 30))
    asked_first = told(IcebergFormat(_with(place, data), cache=cache).entries(TABLE, [first], EntryColumns()))
    cache.flush()
    for seen_by in (cache, ManifestCache(MEMORY, CacheFolder(tmp_path, 1 << 30))):
        format_ = IcebergFormat(_with(place, other), cache=seen_by)
        assert [row[0].path for row in told(format_.entries(TABLE, [first], EntryColumns()))] == ["old"]
        assert [row[0].path for row in told(format_.entries(tables[new], [rows[new]], EntryColumns()))] == ["new"]
    assert asked_first[0][0].path == "old"


def _with(place: str, data: bytes) -> MemoryStorage:
    storage = Names()
    storage.write_new(place, data)
    return storage


def test_a_length_that_differs_is_another_file() -> None:
    storage = MemoryStorage()
    row, data = a_manifest([a_file("a")], path="mem://t/m.avro")
    storage.write_new(row.path, data)
    cache = ManifestCache(MEMORY)
    format_ = IcebergFormat(storage, cache=cache)
    asked(format_, [row])
    before = cache.held_bytes
    asked(format_, [replace(row, length=row.length + 1)])
    assert cache.held_bytes > before


def test_two_stores_with_the_same_location_are_not_mixed(tmp_path: Path) -> None:
    cache = ManifestCache(MEMORY, CacheFolder(tmp_path / "cache", 1 << 30))
    found = []
    for name in ("one", "two"):
        storage = MemoryStorage()
        row, data = a_manifest([a_file(name)], path="mem://t/metadata/m.avro")
        storage.write_new(row.path, data)
        [[file, *_]] = asked(IcebergFormat(storage, cache=cache), [row])
        found.append(file.path)
    assert [path.rpartition("/")[2] for path in found] == ["one", "two"]


def test_objects_in_memory_are_never_stored(tmp_path: Path, worth_storing: None) -> None:
    cache = ManifestCache(MEMORY, CacheFolder(tmp_path / "cache", 1 << 30))
    storage = MemoryStorage()
    row, data = a_manifest([a_file("a")], path="mem://t/metadata/m.avro")
    storage.write_new(row.path, data)
    asked(IcebergFormat(storage, cache=cache), [row])
    cache.flush()
    assert not (tmp_path / "cache").exists()


def test_the_fence_of_a_storage_holds_for_what_is_cached(tmp_path: Path) -> None:
    manifest = written(tmp_path / "inside", 1)
    cache = ManifestCache(MEMORY)
    asked(IcebergFormat(LocalStorage(), cache=cache), [manifest])
    with pytest.raises(InvalidInput):
        asked(IcebergFormat(LocalStorage(roots=[tmp_path / "other"]), cache=cache), [manifest])


def test_a_moved_table_is_known_by_where_it_is(tmp_path: Path) -> None:
    manifest = written(tmp_path / "new" / "metadata", 1)
    recorded = replace(manifest, path="s3://bucket/t/metadata/m0001.avro")
    storage = RelocatedStorage(LocalStorage(), recorded="s3://bucket/t", actual=str(tmp_path / "new"))
    assert file_tags(storage, [recorded.path]) == file_tags(LocalStorage(), [manifest.path]) != [None]
    assert file_tags(storage, ["s3://bucket/elsewhere/m.avro"]) == [None]


def test_a_manifest_that_is_corrupt_is_refused_each_time(tmp_path: Path) -> None:
    manifest = written(tmp_path, 1)
    Path(manifest.path).write_bytes(Path(manifest.path).read_bytes()[:-5])
    format_ = IcebergFormat(LocalStorage(), cache=ManifestCache(MEMORY))
    for _ in range(2):
        with pytest.raises(Corrupt):
            asked(format_, [manifest])


def test_a_question_may_insist_on_the_files(tmp_path: Path) -> None:
    manifest = written(tmp_path, 1)
    format_ = IcebergFormat(Counting(), cache=ManifestCache(MEMORY))
    for _ in range(3):
        list(format_.entries(TABLE, [manifest], EntryColumns(fresh=True)))
    assert Counting.reads == 3


def test_the_memory_is_bounded(tmp_path: Path) -> None:
    cache = ManifestCache(12_000)
    format_ = IcebergFormat(LocalStorage(), cache=cache)
    for n in range(30):
        some = [written(tmp_path, n)]
        assert asked(format_, some, 1) == plain(some, 1)
        assert 0 < cache.held_bytes <= 12_000
    assert len(cache._places) == sum(len(slab.keys) for slab in cache._slabs.values()) < 30


# ---------------------------------------------------------------- Across processes


def stored_entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.entry"))


def test_a_later_process_reads_no_manifest(tmp_path: Path, worth_storing: None) -> None:
    manifests = [written(tmp_path / "t", n, partitioned=n > 3) for n in range(6)]
    folder = CacheFolder(tmp_path / "cache", 1 << 30)
    first = ManifestCache(MEMORY, folder)
    asked(IcebergFormat(Counting(), cache=first), manifests, 1)
    first.flush()
    assert Counting.reads == 6
    later = IcebergFormat(Counting(), cache=pickle.loads(pickle.dumps(first)))
    for some in (manifests[2:3], manifests, manifests[::-1]):
        assert asked(later, some, 1) == plain(some, 1)
    assert Counting.reads == 6
    assert asked(later, manifests, 2) == plain(manifests, 2)
    assert Counting.reads == 12
    assert oct((tmp_path / "cache").stat().st_mode & 0o777) == "0o700"


class Watched(CacheFolder):
    """Counts what is written."""

    writes = 0

    def write(self, folder: str, head: bytes, body: bytes) -> None:
        type(self).writes += 1
        super().write(folder, head, body)


@pytest.mark.parametrize(("bound", "meanwhile"), [(manifest_cache.WAITING, 0), (0, 3)])
def test_a_plan_stores_after_its_last_entries_unless_too_many_wait(
    bound: int, meanwhile: int, tmp_path: Path, worth_storing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "writes", 0)
    monkeypatch.setattr(manifest_cache, "WAITING", bound)
    manifests = [written(tmp_path / "t", n) for n in range(48)]
    cache = ManifestCache(MEMORY, Watched(tmp_path / "cache", 1 << 30))
    batches = IcebergFormat(LocalStorage(), threads=3, cache=cache).entries(TABLE, manifests, EntryColumns())
    for _ in range(3):
        next(batches)
    assert Watched.writes == meanwhile
    assert next(batches, None) is None
    cache.flush()
    assert Watched.writes == 3
    assert cache._waiting_bytes == 0


def test_a_plan_that_ends_early_stores_what_it_has(
    tmp_path: Path, worth_storing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "writes", 0)
    manifests = [written(tmp_path / "t", n) for n in range(3)]
    cache = ManifestCache(MEMORY, Watched(tmp_path / "cache", 1 << 30))
    batches = IcebergFormat(LocalStorage(), cache=cache).entries(TABLE, manifests, EntryColumns())
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert cache._writer is not None  # not only by the flush
    cache.flush()
    assert Watched.writes == 1


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "another file", "another head"])
def test_a_damaged_entry_is_ignored_and_replaced(how: str, tmp_path: Path, worth_storing: None) -> None:
    manifests = [written(tmp_path / "t", n) for n in range(3)]
    place = tmp_path / "cache"
    folder = CacheFolder(place, 1 << 30)
    cache = ManifestCache(MEMORY, folder)
    asked(IcebergFormat(LocalStorage(), cache=cache), manifests, 1)
    cache.flush()
    [entry] = stored_entries(place)
    good = entry.read_bytes()
    spoilt = {
        "cut": good[:-7],
        "flipped": good[:-60] + bytes([good[-60] ^ 1]) + good[-59:],
        "empty": b"",
        "another file": b"PAR1" + good[4:],
        "another head": good.replace(b'"version": 1', b'"version": 7'),
    }[how]
    entry.write_bytes(spoilt)
    cache = ManifestCache(MEMORY, CacheFolder(place, 1 << 30))
    assert asked(IcebergFormat(Counting(), cache=cache), manifests, 1) == plain(manifests, 1)
    assert Counting.reads == 3
    cache.flush()
    assert any(
        one.read_bytes()[20:] == good[20:] or len(one.read_bytes()) == len(good) for one in stored_entries(place)
    )
    again = ManifestCache(MEMORY, CacheFolder(place, 1 << 30))
    assert asked(IcebergFormat(Counting(), cache=again), manifests, 1) == plain(manifests, 1)
    assert Counting.reads == 3


def test_every_byte_of_an_entry_may_be_wrong(tmp_path: Path, worth_storing: None) -> None:
    manifests = [written(tmp_path / "t", 1)]
    place = tmp_path / "cache"
    cache = ManifestCache(MEMORY, CacheFolder(place, 1 << 30))
    expected = asked(IcebergFormat(LocalStorage(), cache=cache), manifests, 1)
    cache.flush()
    [entry] = stored_entries(place)
    good = entry.read_bytes()
    for at in range(0, len(good), 97):
        entry.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        later = ManifestCache(MEMORY, CacheFolder(place, 0))  # which stores nothing itself
        assert asked(IcebergFormat(LocalStorage(), cache=later), manifests, 1) == expected


def test_the_folder_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 10_000)
    for n in range(8):
        folder.write("t", b"%d" % n, bytes(3000))
        for age, entry in enumerate(sorted(stored_entries(tmp_path), key=lambda e: e.stat().st_mtime_ns)):
            os.utime(entry, ns=(n * 10 + age, n * 10 + age))
    assert sorted(folder.heads("t").values()) == [b"5", b"6", b"7"]
    folder.write("t", b"too large", bytes(20_000))
    assert len(stored_entries(tmp_path)) == 3


def test_a_folder_that_cannot_be_used_is_no_failure(tmp_path: Path, worth_storing: None) -> None:
    (tmp_path / "file").write_text("in the way")
    manifests = [written(tmp_path / "t", n) for n in range(3)]
    cache = ManifestCache(MEMORY, CacheFolder(tmp_path / "file" / "cache", 1 << 30))
    assert asked(IcebergFormat(LocalStorage(), cache=cache), manifests) == plain(manifests)
    cache.flush()


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CacheFolder(tmp_path, 1 << 30)
    folder.write("t", b"head", b"body")
    assert len(folder.heads("t")) == 1
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert CacheFolder(tmp_path, 1 << 30).heads("t") == {}
    folder.write("u", b"head", b"body")
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("place", ["", "t"])
def test_a_folder_that_others_can_write_to_is_not_used(place: str, tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path / "cache", 1 << 30)
    folder.write("t", b"head", b"body")
    assert len(folder.heads("t")) == 1
    (tmp_path / "cache" / place).chmod(0o770)
    assert CacheFolder(tmp_path / "cache", 1 << 30).heads("t") == {}
    folder.write("t", b"another", b"body")
    assert len(stored_entries(tmp_path / "cache")) == 1


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 1 << 30)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        folder.write("t", b"head", bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "t").iterdir()) == []
    folder.write("t", b"head", bytes(20_000))
    assert len(folder.heads("t")) == 1


def test_the_environment_moves_the_folder_or_switches_it_off(tmp_path: Path) -> None:
    def place(**environ: str) -> str | None:
        folder = cache_folder(environ)
        return None if folder is None else str(folder._root)

    assert place(HOME="/home/a") == "/home/a/.cache/esker/manifests"
    assert place(HOME="/home/a", XDG_CACHE_HOME="/cache") == "/cache/esker/manifests"
    assert place(HOME="/home/a", XDG_CACHE_HOME="relative") == "/home/a/.cache/esker/manifests"
    assert place(HOME="/home/a", ESKER_MANIFEST_CACHE="/there") == "/there"
    assert place(HOME="/home/a", ESKER_MANIFEST_CACHE="off") is None
    assert place(HOME="/home/a", ESKER_MANIFEST_CACHE_MB="0") is None
    assert place() is None


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.iceberg import test_manifest_cache as tests
from esker.iceberg.manifests import manifest_cache
manifest_cache.WORTH_MANIFESTS = 1
where = Path({where!r})
manifests = [tests.a_manifest([tests.a_file("x")], path=str(where / "t" / f"m{{n:04}}.avro"))[0] for n in range(20)]
manifests = [tests.replace(m, length=(where / "t" / f"m{{n:04}}.avro").stat().st_size) for n, m in enumerate(manifests)]
for turn in range(6):
    cache = tests.ManifestCache(tests.MEMORY, tests.CacheFolder(where / "cache", 60_000))
    format_ = tests.IcebergFormat(tests.Counting(), cache=cache)
    some = manifests[turn : turn + 12]
    assert [row[0].path for row in tests.asked(format_, some, 1)] == [row[0].path for row in tests.plain(some, 1)]
    cache.flush()
print(tests.Counting.reads)
"""


@pytest.mark.slow
def test_two_processes_share_one_folder(tmp_path: Path) -> None:
    """Both write, read and remove entries at the same time, in a folder that is too small for all of them."""
    for n in range(20):
        written(tmp_path / "t", n, files=1)
    script = SCRIPT.format(path=sys.path, where=str(tmp_path))
    root = Path(__file__).resolve().parents[2]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    reads = 0
    for process in both:
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        reads += int(out)
    assert 17 <= reads <= 144  # each manifest was read by one of them at least
    assert sum(entry.stat().st_size for entry in (tmp_path / "cache").glob("*/*")) <= 120_000
