"""The reader of the Iceberg format: a snapshot's manifests, and their entries."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby

from esker import avro
from esker.errors import NoSuchFile, Unsupported
from esker.iceberg.manifests.cached_entries import CachedEntries, Job
from esker.iceberg.manifests.manifest import decode_manifests
from esker.iceberg.manifests.manifest_cache import ManifestCache
from esker.iceberg.manifests.manifest_list import decode_manifest_list
from esker.iceberg.metadata.partition_and_sort import spec_id_of_header
from esker.ports.storage import Storage, parallel_reads
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

FEWEST_AT_ONCE = 16
MANIFESTS_AT_ONCE = 64
MANIFESTS_IN_A_WINDOW = 1024
BYTES_AT_ONCE = 16 << 20
"""A chunk ends at the first of the two limits. Larger chunks decode faster; several have to fit in memory. A few
manifests are divided among the threads."""


class IcebergFormat:
    """Reads manifest lists and manifests of Iceberg tables v1 to v3 from a storage."""

    def __init__(self, storage: Storage, *, threads: int | None = None, cache: ManifestCache | None = None) -> None:
        self._storage = storage
        self._cache = cache
        self._threads = threads or min(os.cpu_count() or 1, 8)

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The snapshot's manifests in order, from its list, or inline as early v1 writers wrote them."""
        if snapshot.key_id is not None:
            raise Unsupported(
                f"cannot read snapshot {snapshot.snapshot_id}: its manifest list is encrypted",
                feature="table encryption",
            )
        if snapshot.manifest_list is None:
            return tuple(self._inline(location, snapshot) for location in snapshot.manifests)
        location = snapshot.manifest_list
        data = self._read(location, "manifest list")
        if self._cache is None:
            return decode_manifest_list(location, data)
        return self._cache.listed(data, lambda: decode_manifest_list(location, data))

    def for_workers(self) -> IcebergFormat | None:
        """A copy for Spark's workers: each has one thread, and keeps nothing. None if they cannot reach the files."""
        return IcebergFormat(self._storage, threads=1) if self._storage.is_shared else None

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        """The entries of the manifests, in order, in batches of one spec and one content kind."""
        if self._cache is None or columns.full_metrics or columns.fresh or not columns.rest:
            jobs = [partial(self._decode, metadata, chunk, columns) for chunk in self._chunks(manifests)]
            yield from self._in_turn(jobs)
            return
        cached = CachedEntries(self._cache, self._storage, self._held, metadata, columns)
        try:
            for window in _windows(manifests):
                yield from self._in_turn(list(cached.jobs(window, self._chunks)))
        finally:
            self._cache.store_waiting()

    def _chunks(self, manifests: Sequence[ManifestFile]) -> Iterator[Sequence[ManifestFile]]:
        share = -(-len(manifests) // self._threads)
        return _chunks(manifests, most=min(max(share, FEWEST_AT_ONCE), MANIFESTS_AT_ONCE))

    def _in_turn(self, jobs: Sequence[Job]) -> Iterator[Entries]:
        """The entries of each job in order, with a few jobs done ahead. If the caller stops early, waiting jobs are
        cancelled.

        If each thread has one job, the first is done here: the caller would only wait for it.
        """
        if len(jobs) < 2 or self._threads < 2:
            for job in jobs:
                yield from job()
            return
        few = len(jobs) <= self._threads
        pool = ThreadPoolExecutor(len(jobs) - 1 if few else self._threads, thread_name_prefix="esker-manifests")
        try:
            waiting: deque[Future[list[Entries]]] = deque()
            if few:
                waiting.extend(pool.submit(_finished, job) for job in jobs[1:])
                yield from jobs[0]()
            for job in () if few else jobs:
                waiting.append(pool.submit(_finished, job))
                if len(waiting) > self._threads:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _decode(
        self, metadata: TableMetadata, chunk: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        for held in self._held(chunk):
            yield from decode_manifests(held, metadata, columns)

    def _held(self, chunk: Sequence[ManifestFile]) -> Iterator[list[tuple[ManifestFile, bytes]]]:
        """Read each manifest once. They are decoded when enough bytes are read, because a listed length may be
        wrong."""
        held: list[tuple[ManifestFile, bytes]] = []
        size = 0
        for manifest, data in zip(chunk, self._read_all([manifest.path for manifest in chunk]), strict=True):
            held.append((manifest, data))
            size += len(data)
            if size >= BYTES_AT_ONCE:
                yield held
                held, size = [], 0
        if held:
            yield held

    def _read_all(self, locations: Sequence[str]) -> Iterator[bytes]:
        """Manifests in their order. Where each request takes long, a few are under way at a time."""
        at_once = min(parallel_reads(self._storage), len(locations))
        if at_once < 2:
            yield from (self._read(location, "manifest") for location in locations)
            return
        with ThreadPoolExecutor(at_once, thread_name_prefix="esker-reads") as pool:
            waiting: deque[Future[bytes]] = deque()
            try:
                for location in locations:
                    waiting.append(pool.submit(self._read, location, "manifest"))
                    if len(waiting) >= at_once:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for late in waiting:
                    late.cancel()

    def _inline(self, location: str, snapshot: Snapshot) -> ManifestFile:
        """A manifest that is in no list. Its header has the spec; its counts are unknown."""
        data = self._read(location, "manifest")
        header = avro.read_header(data, file=location)
        return ManifestFile(
            path=location,
            length=len(data),
            spec_id=spec_id_of_header(header.metadata),
            added_snapshot_id=snapshot.snapshot_id,
        )

    def _read(self, location: str, what: str) -> bytes:
        try:
            return self._storage.read(location)
        except NoSuchFile as error:
            raise NoSuchFile(f"cannot read the table: its {what} {location} is missing", file=location) from error


def _finished(job: Job) -> list[Entries]:
    return list(job())


def _windows(manifests: Sequence[ManifestFile]) -> Iterator[Sequence[ManifestFile]]:
    """Neighbours with one spec and one content kind, so few that what the cache has of them fits in memory."""
    for _, alike in groupby(manifests, key=lambda manifest: (manifest.spec_id, manifest.content)):
        rest = list(alike)
        for at in range(0, len(rest), MANIFESTS_IN_A_WINDOW):
            yield rest[at : at + MANIFESTS_IN_A_WINDOW]


def _chunks(manifests: Sequence[ManifestFile], *, most: int) -> Iterator[Sequence[ManifestFile]]:
    """Chunks of neighbours with one spec and one content kind, of at most so many, limited in listed length."""
    for _, alike in groupby(manifests, key=lambda manifest: (manifest.spec_id, manifest.content)):
        chunk: list[ManifestFile] = []
        size = 0
        for manifest in alike:
            chunk.append(manifest)
            size += max(manifest.length, 0)
            if len(chunk) >= most or size >= BYTES_AT_ONCE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk
