"""Files that grow while a run looks at them again and again: a look costs what is new, not what is there.

A file of the same name, device and inode that is longer than at the last look has grown if its first bytes, and those
right before its old end, are as they were. Then only the new bytes are hashed, and requests are looked for from the
last known one on. In any other case, and in every new run, a file is read from its start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from esker.ingest.sources import Found, Measured, Progress, SourceFile, holds_still, is_not_there, measure
from esker.otlp.begin import Begin, begin_of, ends_in_mid_request
from esker.storage.failures import naming_failures

_MOST = 10_000  # files that are remembered; others are read from their start
_THREADS = min(4, os.cpu_count() or 1)  # that read files ahead; hashing leaves Python's lock to others
_SMALL = 1 << 20  # bytes; a file of less is read sooner than a thread is asked


@dataclass(frozen=True, slots=True)
class _Kept:
    identity: str
    progress: Progress
    begin: Begin | None


class GrowingFiles:
    """What is known of files from the last look at them."""

    def __init__(self) -> None:
        self._kept: dict[Path, _Kept] = {}
        self._ahead: dict[Found, Future[Measured | None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "esker-read-ahead")  # none is started before one is needed

    def look_at(self, there: Mapping[Path, Found]) -> None:
        """Begin a look: files that are gone are forgotten."""
        self._kept = {path: kept for path, kept in self._kept.items() if path in there}
        self._ahead = {found: ahead for found, ahead in self._ahead.items() if there.get(found.path) == found}

    @property
    def has_room_ahead(self) -> bool:
        """Whether one more file may be read ahead."""
        return len(self._ahead) < 2 * _THREADS

    def may_read_ahead(self, found: Found) -> bool:
        """Whether a file is worth it, and neither read already nor being read."""
        return found.size >= _SMALL and found.path not in self._kept and found not in self._ahead

    def read_ahead(self, found: Found) -> None:
        """Begin to read a file of which nothing is known, beside what the caller does."""
        self._ahead[found] = self._threads.submit(measure, found)

    def measure(self, found: Found, marks: Iterable[int], *, unpack: bool) -> Measured | None:
        """As ``sources.measure``."""
        marks = tuple(marks)
        if (ahead := self._ahead.pop(found, None)) is not None and not marks and not unpack:
            return self._remembered(found, ahead.result(), None)
        kept = self._still(found)
        if kept is not None and kept.progress.size == found.size:  # written to, and no longer
            kept = None
        measured = measure(found, marks, unpack=unpack, before=None if kept is None else kept.progress)
        return self._remembered(found, measured, None if kept is None else kept.begin)

    def _remembered(self, found: Found, measured: Measured | None, begin: Begin | None) -> Measured | None:
        self._kept.pop(found.path, None)
        if measured is not None and measured.progress is not None:
            self._kept[found.path] = _Kept(found.identity, measured.progress, begin)
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return measured

    def begin(self, source: SourceFile, at: int) -> Begin | None:
        """From where a file that was measured is to be read for what is behind a place. None: from its start."""
        path = Path(source.path)
        kept = self._kept.get(path)
        with naming_failures("read", path), path.open("rb") as file:
            begin = begin_of(file, at, size=source.size, known=None if kept is None else kept.begin)
        if kept is not None:
            self._kept[path] = _Kept(kept.identity, kept.progress, begin)
        return begin

    def is_cut(self, found: Found) -> bool:
        """Whether a file that was written to lately may end in the middle of its last line or frame."""
        if not found.size:
            return False
        kept = self._still(found)
        try:
            with found.path.open("rb") as file:
                return ends_in_mid_request(file, found.size, known=None if kept is None else kept.begin)
        except OSError as error:
            return is_not_there(error, found.path)

    def _still(self, found: Found) -> _Kept | None:
        kept = self._kept.get(found.path)
        if kept is None or kept.identity != found.identity or kept.progress.size > found.size:
            return None
        return kept if holds_still(found.path, kept.progress) else None
