"""A cache of decoded manifests: in memory for this process, and in a place that later processes share.

Manifests never change. A key has the store, the file's location and length, the table and the snapshot that added the
manifest, and for files on this machine what the file system says. So a file that was replaced has another key. The
cache is bounded, and shared by all tables of the process. Nothing is wrong if it is empty.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from esker.iceberg.manifests.slab import Slab, SlabHead, body_bytes, head_bytes, parse_head, parse_slab
from esker.ports.decoded_files import DecodedFiles
from esker.tree.manifest_list import ManifestFile

WORTH_ROWS, WORTH_MANIFESTS = 1024, 16
"""A slab with fewer files and fewer manifests is not stored: to open many small ones takes as long as to decode."""
WAITING = 64 << 20
"""Slabs of so many bytes wait to be stored until the plan has ended. More are stored at once, so memory is bounded."""
_REST = 0.03  # seconds
_LISTS = 16
_MOST_METRICS = 16  # columns whose statistics are kept together


@dataclass(frozen=True, slots=True)
class Found:
    """Where a manifest is."""

    slab: Slab
    at: int

    def follows(self, first: Found, count: int) -> bool:
        """Whether this is the next manifest after ``count`` of the same slab, from ``first`` on."""
        return self.slab is first.slab and self.at == first.at + count


class ManifestCache:
    """Slabs of at most ``memory`` bytes together, those that were used last. ``files`` keeps them across processes."""

    def __init__(self, memory: int, files: DecodedFiles | None = None) -> None:
        self._memory = memory
        self._files = files
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._slabs: OrderedDict[int, Slab] = OrderedDict()
        self._places: dict[tuple[str, bytes], Found] = {}
        self._bytes = 0
        self._lists: OrderedDict[bytes, Sequence[ManifestFile]] = OrderedDict()
        self._waiting: list[tuple[Slab, str]] = []
        self._waiting_bytes = 0  # also of slabs that the writer has not finished
        self._writer: tuple[int, ThreadPoolExecutor] | None = None

    def __reduce__(self) -> tuple[type[ManifestCache], tuple[int, DecodedFiles | None]]:
        """For another process, which begins with an empty memory."""
        return ManifestCache, (self._memory, self._files)

    @property
    def held_bytes(self) -> int:
        """How many bytes are in memory."""
        return self._bytes

    def clear(self) -> None:
        """Forget what is in memory. What is stored stays."""
        self.flush()
        self._begin()

    def listed(self, data: bytes, decode: Callable[[], Sequence[ManifestFile]]) -> Sequence[ManifestFile]:
        """The rows of a manifest list with this content, decoded once."""
        key = hashlib.blake2b(data, digest_size=16).digest()
        with self._lock:
            if (known := self._lists.get(key)) is not None:
                self._lists.move_to_end(key)
                return known
        rows = decode()
        with self._lock:
            self._lists[key] = rows
            while len(self._lists) > _LISTS:
                self._lists.popitem(last=False)
        return rows

    def find(
        self, keys: Sequence[bytes | None], spec: str, metrics: frozenset[int], folder: str | None
    ) -> list[Found | None]:
        """Where each manifest is, with the statistics of these columns at least. None for those that are missing.

        ``folder`` is the stored folder to look in; None for manifests that are not stored.
        """
        found = self._in_memory(keys, spec, metrics)
        missing = {key for key, place in zip(keys, found, strict=True) if key is not None and place is None}
        if missing and folder is not None and self._load(missing, spec, metrics, folder):
            return self._in_memory(keys, spec, metrics)
        return found

    def _in_memory(self, keys: Sequence[bytes | None], spec: str, metrics: frozenset[int]) -> list[Found | None]:
        with self._lock:
            found = [None if key is None else self._places.get((spec, key)) for key in keys]
            for slab in {id(place.slab) for place in found if place is not None}:
                if slab in self._slabs:
                    self._slabs.move_to_end(slab)
        return [None if place is None or not metrics <= place.slab.metrics else place for place in found]

    def metrics_of(self, keys: Sequence[bytes], spec: str, metrics: frozenset[int]) -> frozenset[int]:
        """The columns to decode: those asked for, and those that are known of the same manifests. So queries on
        several columns do not push each other out."""
        with self._lock:
            known = [place.slab.metrics for key in keys[:1] if (place := self._places.get((spec, key)))]
        wanted = metrics.union(*known)
        return wanted if len(wanted) <= _MOST_METRICS else metrics

    def add(self, slab: Slab, folder: str | None) -> None:
        """Keep a slab. If it is worth it, it is stored in the folder after `store_waiting`. Older slabs may go."""
        self._keep(slab)
        worth = slab.columns.batch.num_rows >= WORTH_ROWS or len(slab.keys) >= WORTH_MANIFESTS
        if self._files is None or folder is None or not worth:
            return
        with self._lock:
            waits = self._waiting_bytes + slab.weight <= WAITING
            if waits:
                self._waiting.append((slab, folder))
                self._waiting_bytes += slab.weight
        if not waits:
            self._store(slab, folder)

    def store_waiting(self) -> None:
        """Store what waits, in another thread. A plan calls it when it has its entries: two threads decode, and a third
        would take their time."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if waiting:
            with suppress(RuntimeError):  # the interpreter ends: no thread starts any more
                self._background().submit(self._store_all, waiting)

    def flush(self) -> None:
        """Wait until everything is stored."""
        self.store_waiting()
        if self._writer is not None and self._writer[0] == os.getpid():
            self._writer[1].submit(int).result()

    def _keep(self, slab: Slab) -> None:
        if slab.weight > self._memory:
            return
        with self._lock:
            self._slabs[id(slab)] = slab
            self._bytes += slab.weight
            for at, key in enumerate(slab.keys):
                self._places[slab.spec, key] = Found(slab, at)
            while self._bytes > self._memory:
                _, old = self._slabs.popitem(last=False)
                self._bytes -= old.weight
                for key in old.keys:
                    place = self._places.get((old.spec, key))
                    if place is not None and place.slab is old:
                        del self._places[old.spec, key]

    def _load(self, missing: set[bytes], spec: str, metrics: frozenset[int], folder: str) -> bool:
        """Load the stored slabs that have some of the missing manifests. Returns whether there was one."""
        if self._files is None:
            return False
        any_found = False
        for name, data in self._files.heads(folder).items():
            head = parse_head(data)
            if head is None or head.spec != spec or not metrics <= head.metrics or missing.isdisjoint(head.keys):
                continue
            slab = self._loaded(folder, name, head)
            if slab is not None:
                self._keep(slab)
                missing -= set(slab.keys)
                any_found = True
        return any_found

    def _loaded(self, folder: str, name: str, head: SlabHead) -> Slab | None:
        assert self._files is not None
        read = self._files.read(folder, name)
        slab = None if read is None or parse_head(read[0]) != head else parse_slab(head, read[1])
        if slab is None and read is not None:
            self._files.discard(folder, name)
        return slab

    def _store_all(self, waiting: list[tuple[Slab, str]]) -> None:
        threading.Event().wait(_REST)  # the plan is about to end: first come those who wait for it
        for slab, folder in waiting:
            try:
                self._store(slab, folder)
            finally:
                with self._lock:
                    self._waiting_bytes -= slab.weight

    def _store(self, slab: Slab, folder: str) -> None:
        assert self._files is not None
        self._files.write(folder, head_bytes(slab), body_bytes(slab))

    def _background(self) -> ThreadPoolExecutor:
        """The thread that stores: a plan does not wait for it. A forked process needs its own."""
        with self._lock:
            if self._writer is None or self._writer[0] != os.getpid():
                self._writer = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="esker-manifest-cache")
            return self._writer[1]
