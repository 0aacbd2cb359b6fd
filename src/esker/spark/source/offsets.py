"""How far a stream has come: the form in which Spark keeps it in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from esker.errors import InvalidInput

ALL = -1
NOTHING = -1
UNBEGUN = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """All that came before a snapshot is done, and of the snapshot its first files, or all of them.

    ``whole`` is the beginning of a stream that starts with the table itself: the files are those of the snapshot's
    whole state, not what it added. ``snapshot_id`` is ``NOTHING`` before the table has any.

    Spark forgets where the first batch began when it has to send it again, and asks anew. So the offset before all is
    always the same, ``UNBEGUN``, and every later one says where the stream began: ``begin``, and whether whole.
    """

    snapshot_id: int = UNBEGUN
    files: int = ALL
    whole: bool = False
    begin: int = UNBEGUN
    begin_whole: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing of the snapshot is left."""
        return self.files == ALL

    @property
    def first(self) -> Offset:
        """Where the stream began that came to this offset."""
        return Offset(snapshot_id=self.begin, files=0 if self.begin_whole else ALL, whole=self.begin_whole)

    def begun_at(self, start: Offset) -> Offset:
        """The offset in a stream that began there."""
        return replace(self, begin=start.snapshot_id, begin_whole=start.whole)

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        names = ("snapshot", "files", "whole", "begin", "begin-whole")
        return dict(zip(names, (self.snapshot_id, self.files, self.whole, self.begin, self.begin_whole), strict=True))

    @classmethod
    def of(cls, given: Any) -> Offset:
        """The offset that Spark kept; ``InvalidInput`` for one that is not ours."""
        match given:
            case {
                "snapshot": int(snapshot_id),
                "files": int(files),
                "whole": bool(whole),
                "begin": int(begin),
                "begin-whole": bool(begin_whole),
            }:
                return cls(snapshot_id=snapshot_id, files=files, whole=whole, begin=begin, begin_whole=begin_whole)
            case _:
                raise InvalidInput(f"cannot go on from the checkpoint: {given!r} is no offset of a table's stream")


START = Offset()
