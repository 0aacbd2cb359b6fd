"""The proof that no part of a file was read twice: what a batch read is compared with all that was read before.

This looks at what was done, not at how it was decided: at places in contents, and at the bytes of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.counts import DEAD_LETTER_TABLE
from esker.ingest.recognise import is_evidence, names_agree
from esker.ingest.rotation import copied_from
from esker.ingest.seen_files import Seen
from esker.ingest.sources import SourceFile, holds_first
from esker.lake import Lake
from esker.model.column import col


@dataclass(frozen=True, slots=True)
class ReadTwice:
    """Two files of which the same part was read, and how many rows are in the tables twice for it."""

    file: str
    earlier: str
    rows: int


def read_twice(lake: Lake, checkpoint: Checkpoint, source: SourceFile, batch: int) -> Iterator[ReadTwice]:
    """The parts of a file that another batch, or this one by another name, has read as well."""
    for whole in _related(checkpoint, source):
        if whole.track != source.track and not (_may_be_same(source, whole) and _is_same(source, whole)):
            continue
        for seen in checkpoint.read_between(whole.track, source.start, source.end):
            if (seen.batch, seen.path, seen.digest) == (batch, source.path, source.digest):
                continue
            inner = (seen.path, seen.batch) if seen.start >= source.start else (source.path, batch)
            yield ReadTwice(source.path, seen.path, max(1, _rows(lake, checkpoint, *inner)))


def _related(checkpoint: Checkpoint, source: SourceFile) -> list[Seen]:
    """All that was read of the contents that this file had, or that rotation may have copied to it."""
    paths = [source.path, *map(str, copied_from(Path(source.path)))]
    tracks = {one.track: one for one in checkpoint.tracks_at(paths)}
    for one in checkpoint.tracks_of(source.identity or ""):
        if names_agree(one.path, Path(source.path)) or is_evidence(one, source.end):
            tracks.setdefault(one.track, one)
    return list(tracks.values())


def _may_be_same(source: SourceFile, seen: Seen) -> bool:
    """Another file under a name that was given again is not a file that was read again."""
    if seen.path == source.path and None not in (seen.identity, source.identity) and seen.identity != source.identity:
        return False
    return seen.head is None or source.head is None or seen.head == source.head


def _is_same(source: SourceFile, seen: Seen) -> bool:
    """Whether the longer of two contents begins with the shorter."""
    if source.end == seen.length:
        return (source.content or source.digest) == seen.content
    if source.end > seen.length:
        return holds_first(Path(source.path), seen.length, seen.content)
    other = Path(seen.path)  # it may be another file by now
    return holds_first(other, seen.length, seen.content) and holds_first(
        other, source.end, source.content or source.digest
    )


def _rows(lake: Lake, checkpoint: Checkpoint, path: str, batch: int) -> int:
    """Rows of a file that a batch brought, read from the tables; 0 where these do not say what file a row is of."""
    mark, found = f"{checkpoint.id}/{batch}", 0
    for name in checkpoint.counts(batch).rows:
        table = lake.table(name)
        source, batch_id = ("source", "batch") if name == DEAD_LETTER_TABLE else ("_source", "_batch_id")
        if {source, batch_id} <= {field.name for field in table.schema.fields}:
            found += table.scan((col(source) == path) & (col(batch_id) == mark)).count()
    return found
