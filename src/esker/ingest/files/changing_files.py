"""Log files that change between two looks: they grow, and log rotation renames them.

A look costs only what is new. A file of the same name, device and inode that is longer than at the last look has grown
if its first bytes, and the bytes right before the old end, are the same. Then only the new bytes are hashed, and
requests are searched from the last known one on. Otherwise, and in every new run, a file is read from its start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from esker.ingest.files.source_files import Found, Measured, Progress, SourceFile, holds_still, is_not_there, measure
from esker.otlp.source.framing import Begin, begin_of, ends_in_mid_request
from esker.storage.failures import naming_failures

# ---------------------------------------------------------------- names that log rotation gives


_PACKED = re.compile(r"\.(gz|zst|zstd)$")
_DIGITS = r"\d+(?:[-_.:T]\d+)*Z?"  # a number, a date, a moment
_BEHIND = re.compile(rf"^(?P<origin>.+?)[-_.](?:{_DIGITS}|old|bak|prev)$")  # app.log.1, app.log-20240131
_WITHIN = re.compile(rf"^(?P<front>.+?)[-_.]{_DIGITS}(?P<ending>\.[A-Za-z]\w*)$")  # app-2024-01-31T12-00-00.000.log
_NUMBER = re.compile(r"^(?P<origin>.+)\.(?P<number>\d{1,3})$")


def copied_from(path: Path) -> list[Path]:
    """The paths whose content rotation may have copied or compressed to ``path``: in the same directory, or in the one
    above it, as with ``olddir``."""
    names = list(dict.fromkeys(_origins(path.name)))
    return [folder / name for folder in (path.parent, path.parent.parent) for name in names]


def shifted_from(path: Path) -> list[Path]:
    """The paths that had a lower number before rotation renamed and compressed them: ``app.log.1`` for
    ``app.log.2.gz``. Only for an original that no longer exists: two numbered files are two files."""
    found = _NUMBER.match(_PACKED.sub("", path.name))
    if found is None:
        return []
    return [path.parent / f"{found['origin']}.{number}" for number in reversed(range(int(found["number"])))]


def rotated_first(paths: Iterable[Path]) -> list[Path]:
    """The paths in their order, except that rotated parts of a file, the oldest first, are right before the file."""
    families: dict[Path, list[Path]] = {}
    for path in paths:
        families.setdefault(_base(path), []).append(path)
    ordered = []
    for base, family in families.items():
        ordered += sorted(family, key=lambda path: (path == base, -_number(path)))
    return ordered


def _base(path: Path) -> Path:
    plain = _PACKED.sub("", path.name)
    found = _BEHIND.match(plain)
    return path.parent / (found["origin"] if found else plain)


def _number(path: Path) -> int:
    found = _NUMBER.match(_PACKED.sub("", path.name))
    return int(found["number"]) if found else 0


def _origins(name: str) -> Iterator[str]:
    plain = _PACKED.sub("", name)
    if plain != name:
        yield plain
    for form in (_BEHIND, _WITHIN):
        if found := form.match(plain):
            yield "".join(found.groupdict().values())


# ---------------------------------------------------------------- files that grow


_MOST = 10_000  # files that are remembered; others are read from their start
_THREADS = min(4, os.cpu_count() or 1)  # that read files ahead; hashing releases Python's lock
_SMALL = 1 << 20  # bytes; a smaller file is read faster than a thread is started


@dataclass(frozen=True, slots=True)
class _Kept:
    identity: str
    progress: Progress
    begin: Begin | None


class GrowingFiles:
    """What is known of files from the last look."""

    def __init__(self) -> None:
        self._kept: dict[Path, _Kept] = {}
        self._ahead: dict[Found, Future[Measured | None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "esker-read-ahead")  # no thread is started before it is needed

    def look_at(self, there: Mapping[Path, Found]) -> None:
        """Begin a look: forget files that are gone."""
        self._kept = {path: kept for path, kept in self._kept.items() if path in there}
        self._ahead = {found: ahead for found, ahead in self._ahead.items() if there.get(found.path) == found}

    @property
    def has_room_ahead(self) -> bool:
        """Whether one more file may be read ahead."""
        return len(self._ahead) < 2 * _THREADS

    def may_read_ahead(self, found: Found) -> bool:
        """Whether a file is large enough, and neither read nor being read."""
        return found.size >= _SMALL and found.path not in self._kept and found not in self._ahead

    def read_ahead(self, found: Found) -> None:
        """Begin to read an unknown file in a thread."""
        self._ahead[found] = self._threads.submit(measure, found)

    def measure(self, found: Found, marks: Iterable[int], *, unpack: bool) -> Measured | None:
        """Like ``source_files.measure``."""
        marks = tuple(marks)
        if (ahead := self._ahead.pop(found, None)) is not None and not marks and not unpack:
            return self._remembered(found, ahead.result(), None)
        kept = self._still(found)
        if kept is not None and kept.progress.size == found.size:  # written to, but not longer
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
        """Where to begin reading a measured file for what is after a place. None: at its start."""
        path = Path(source.path)
        kept = self._kept.get(path)
        with naming_failures("read", path), path.open("rb") as file:
            begin = begin_of(file, at, size=source.size, known=None if kept is None else kept.begin)
        if kept is not None:
            self._kept[path] = _Kept(kept.identity, kept.progress, begin)
        return begin

    def is_cut(self, found: Found) -> bool:
        """Whether a file that was written to recently may end in the middle of its last line or frame."""
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
