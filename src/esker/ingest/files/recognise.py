"""Decides whether a file has something new, and from where on. Files may be renamed, copied, truncated and compressed
while they are ingested.

What was read is identified by its content: a file continues from a position only if it begins with every byte that was
read up to there. The device, inode and name of a file select the contents to compare it with. If in doubt, the file is
read: a duplicated record is better than a lost one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.changing_files import GrowingFiles, copied_from, rotated_first, shifted_from
from esker.ingest.files.seen_files import Seen
from esker.ingest.files.source_files import Found, Measured, SourceFile, begins_with

_WINDOW = 8  # files that are looked at ahead
_EVIDENCE = 1 << 10  # bytes; headers are shorter


@dataclass(frozen=True, slots=True)
class Known:
    """All of a file was read before."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A content that a file may continue."""

    seen: Seen
    track: int  # that the file goes on with


class _ToPlan:
    """Files with something new that are not planned yet, in order, indexed by what they are compared by."""

    def __init__(self) -> None:
        self._all: list[tuple[SourceFile, Seen]] = []
        self._by_identity: dict[str | None, Seen] = {}
        self._by_path: dict[str, list[int]] = {}
        self._by_track: dict[int, list[int]] = {}

    def add(self, source: SourceFile, seen: Seen) -> None:
        """Add a file."""
        at = len(self._all)
        self._all.append((source, seen))
        self._by_identity[seen.identity] = seen
        self._by_path.setdefault(seen.path, []).append(at)
        self._by_track.setdefault(seen.track, []).append(at)

    def without(self, sources: Iterable[SourceFile]) -> _ToPlan:
        """The files without these."""
        chosen, left = set(sources), _ToPlan()
        for source, seen in self._all:
            if source not in chosen:
                left.add(source, seen)
        return left

    def newest_by_identity(self, identity: str) -> Seen | None:
        """The last file with this device and inode."""
        return self._by_identity.get(identity)

    def newest_of_track(self, track: int) -> Seen | None:
        """The last file with this content."""
        found = self._by_track.get(track)
        return self._all[found[-1]][1] if found else None

    def at(self, paths: Iterable[str], tracks: Iterable[int]) -> list[Seen]:
        """The files at one of the paths, or with one of the contents, in order."""
        found = {at for path in paths for at in self._by_path.get(path, ())}
        found.update(at for track in tracks for at in self._by_track.get(track, ()))
        return [self._all[at][1] for at in sorted(found)]


class Recognition:
    """Compares files with what a checkpoint has read, and with what is about to be planned."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._to_plan = _ToPlan()
        self._look: dict[Path, Found] = {}
        self._paths: dict[str, set[Path]] = {}
        self._growing = GrowingFiles()

    def is_cut(self, found: Found) -> bool:
        """Whether a file that was written to recently may end in the middle of its last line or frame."""
        return self._growing.is_cut(found)

    def look_at(self, found: Iterable[Found], *, known: Iterable[Found] = ()) -> list[Found]:
        """Begin a look at files, each once, and rotated parts of a file before the file itself. Files that are
        ``known`` exist and are not checked."""
        self._to_plan = _ToPlan()  # what an earlier look left, because a batch failed, was never planned
        new = {one.path: one for one in found}
        self._look = {one.path: one for one in known} | new
        self._growing.look_at(self._look)
        self._paths = {}
        for one in self._look.values():
            self._paths.setdefault(one.identity, set()).add(one.path)
        return [new[path] for path in rotated_first(new)]

    def planned(self, sources: Sequence[SourceFile]) -> None:
        """Remove these files: they are recorded now."""
        self._to_plan = self._to_plan.without(sources)

    def each(self, found: Sequence[Found], is_wanted: Callable[[Found], bool]) -> Iterator[Found]:
        """The files of a look in order, for ``of``. Threads read ahead large files that are wanted and unknown."""
        upcoming = 0
        for at, one in enumerate(found):
            upcoming = max(upcoming, at)
            while upcoming < min(len(found), at + _WINDOW) and self._growing.has_room_ahead:
                ahead = found[upcoming]
                if self._growing.may_read_ahead(ahead) and is_wanted(ahead) and self._is_unknown(ahead):
                    self._growing.read_ahead(ahead)
                upcoming += 1
            yield one

    def _is_unknown(self, found: Found) -> bool:
        return self._checkpoint.unchanged(found) is None and not self._candidates(found)

    def of(self, found: Found) -> SourceFile | Known | None:
        """What to read of a file; None if that is not certain yet. Raises ``StorageFailed`` if it cannot be read."""
        if (same := self._checkpoint.unchanged(found)) is not None:
            if same.identity is None or not self._is_at(same.path, found.identity):
                self._checkpoint.move(same, found)
            return Known()
        candidates = self._candidates(found)
        marks = {mark for one in candidates for mark in (one.seen.length, one.seen.size)}
        has_origin = bool(candidates) or any(path in self._look for path in copied_from(found.path))
        measured = self._growing.measure(found, marks, unpack=has_origin)
        if measured is None:
            return None
        source = _source(found, measured)
        if (same := self._checkpoint.exactly(source)) is not None and not self._is_elsewhere(same, found):
            self._checkpoint.move(same, found)
            return Known()
        for one in candidates:
            if _begins_packed_with(measured, one.seen):
                return self._going_on(source, one, packed=measured.length is not None)
            if _begins_with(measured, one.seen):
                return self._going_on(source, one, packed=False)
        origin = self._origin_of_copy(source)
        return self._new(source, None) if origin is None else self._copy(source, origin)

    def _going_on(self, source: SourceFile, before: _Candidate, *, packed: bool) -> SourceFile | Known:
        """A file that begins with what was read before."""
        seen = before.seen
        if packed and source.size > seen.size:  # a compressed file grew: where its new content begins is not known
            return self._new(replace(source, start=seen.size, length=None, content=None), before.track)
        if not packed and source.end > seen.length:
            begin = None if source.length is not None else self._growing.begin(source, seen.length)
            return self._new(replace(source, start=seen.length, begin=begin), before.track)
        self._recognise(source, seen)
        return Known()

    def _copy(self, source: SourceFile, origin: Found) -> Known | None:
        """A file that is a copy of the beginning of another: nothing is read, because the other is."""
        seen = self._checkpoint.unchanged(origin)
        if seen is None or seen.length < source.end:
            return None
        self._recognise(source, seen)
        return Known()

    def _recognise(self, source: SourceFile, seen: Seen) -> None:
        """Record that a batch has read all of a file under another name. From now on the two may differ."""
        if seen.seq >= 0:  # what is not planned yet has no batch
            track = self._checkpoint.new_track()
            self._checkpoint.recognise(replace(source, start=source.end, track=track), seen.batch)

    def _new(self, source: SourceFile, track: int | None) -> SourceFile:
        track = self._checkpoint.new_track() if track is None else track
        source = replace(source, track=track)
        self._to_plan.add(source, _to_be_seen(source, track))
        return source

    # ---- what to compare with ----

    def _candidates(self, found: Found) -> list[_Candidate]:
        """Contents that the file may begin with: the best evidence first, and for the same evidence the longest."""
        same_file = self._same_file(found)
        by_name = self._same_name(found) + self._rotated(found)
        by_name.sort(key=lambda one: -one.seen.length)
        return [one for one in same_file + by_name if one.seen.length > 0]

    def _same_file(self, found: Found) -> list[_Candidate]:
        """The newest state of this device and inode. The inode of a deleted file is given to new files: if the names do
        not match, a large part of the content must."""
        own = self._to_plan.newest_by_identity(found.identity) or self._checkpoint.newest_by_identity(found.identity)
        if own is None:
            return []
        whole = self._newest(own)
        is_related = any(
            self._is_at(path, found.identity) or names_agree(path, found.path) for path in (own.path, whole.path)
        )
        return [_Candidate(whole, whole.track)] if is_related or is_evidence(whole, found.size) else []

    def _same_name(self, found: Found) -> list[_Candidate]:
        """The content that was seen last under this name, unless its file has another name now."""
        rows = [one for one in self._tracks_at([found.path]) if one.path == str(found.path)]
        newest = max(rows, key=lambda one: one.seq if one.seq >= 0 else float("inf"), default=None)
        if newest is None or self._is_elsewhere(newest, found):
            return []
        return [_Candidate(newest, newest.track)]

    def _rotated(self, found: Found) -> list[_Candidate]:
        """Contents whose names rotation changes to this name."""
        copied, shifted = copied_from(found.path), shifted_from(found.path)
        return [
            _Candidate(one, one.track)
            for one in self._tracks_at([*copied, *shifted])
            if Path(one.path) in copied or (Path(one.path) in shifted and not _is_still_there(one))
        ]

    def _tracks_at(self, paths: Sequence[Path]) -> list[Seen]:
        names = {str(path) for path in paths}
        tracks = {one.track: one for one in self._checkpoint.tracks_at(names)} if names else {}
        tracks |= {seen.track: seen for seen in self._to_plan.at(names, tracks)}
        return list(tracks.values())

    def _newest(self, seen: Seen) -> Seen:
        to_plan = self._to_plan.newest_of_track(seen.track)
        return to_plan or self._checkpoint.newest_of_track(seen.track) or seen

    def _is_elsewhere(self, seen: Seen, found: Found) -> bool:
        """Whether the file with that content exists under another name: then this one is another file."""
        if seen.identity is None or seen.identity == found.identity:
            return False
        others = self._paths.get(seen.identity, set()) - {found.path}
        return any(begins_with(path, seen.size, seen.digest) for path in others)

    def _is_at(self, path: str, identity: str) -> bool:
        return Path(path) in self._paths.get(identity, set())

    def _origin_of_copy(self, source: SourceFile) -> Found | None:
        """The file that rotation is copying or has copied, as long as it has everything that the copy has."""
        for path in copied_from(Path(source.path)):
            origin = self._look.get(path)
            if origin is None or not 0 < source.end <= origin.size:
                continue
            if begins_with(path, source.end, source.content or source.digest):
                return origin
        return None


def names_agree(before: str, now: Path) -> bool:
    """Whether rotation may have given a file this name, or the file kept its name."""
    return Path(before) in (now, *copied_from(now), *shifted_from(now))


def is_evidence(seen: Seen, size: int) -> bool:
    """Whether a content is too long for a coincidence, and a file of this size has more than it."""
    return _EVIDENCE <= seen.length < size


def _source(found: Found, measured: Measured) -> SourceFile:
    return SourceFile(
        path=str(found.path),
        size=found.size,
        modified_ns=found.modified_ns,
        digest=measured.digest,
        identity=found.identity or None,
        length=measured.length,
        content=measured.content,
        head=measured.head,
    )


def _to_be_seen(source: SourceFile, track: int) -> Seen:
    return Seen(
        seq=-1,
        track=track,
        path=source.path,
        identity=source.identity,
        size=source.size,
        digest=source.digest,
        modified_ns=source.modified_ns,
        start=source.start,
        length=source.end,
        content=source.content or source.digest,
        head=source.head,
        batch=-1,
    )


def _begins_packed_with(measured: Measured, seen: Seen) -> bool:
    """Whether a file begins with the compressed bytes that another had."""
    return measured.marks.get(seen.size) == seen.digest


def _begins_with(measured: Measured, seen: Seen) -> bool:
    """Whether a file, decompressed, begins with everything that was read of a content."""
    marks = measured.marks if measured.length is None else measured.content_marks
    return marks.get(seen.length) == seen.content


def _is_still_there(seen: Seen) -> bool:
    """Whether a content is where it was seen last."""
    return begins_with(Path(seen.path), seen.size, seen.digest)
