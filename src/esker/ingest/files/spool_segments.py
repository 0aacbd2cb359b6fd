"""Segments of the receiver's spool among other files. They are the only files that an ingest removes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.source_files import Found
from esker.otlp.receive.spool import forget
from esker.otlp.source.framing import SPOOL_MAGIC

_NAME = re.compile(r"\d{13,}-\d{7,}-\d{6,}\.otlp")


def is_named_like_segment(path: Path) -> bool:
    """Whether the name is that of a sealed segment, which is complete."""
    return _NAME.fullmatch(path.name) is not None


def is_segment(path: Path) -> bool:
    """Whether it is a sealed segment, by name and content. A user's own file never is."""
    if not is_named_like_segment(path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(SPOOL_MAGIC)) == SPOOL_MAGIC
    except FileNotFoundError:
        return False


def sweep_segments(checkpoint: Checkpoint, found: Iterable[Found]) -> None:
    """Remove segments that a run committed but could not remove because it was killed."""
    for one in found:
        if is_named_like_segment(one.path) and checkpoint.is_done(one) and is_segment(one.path):
            forget(one.path)
