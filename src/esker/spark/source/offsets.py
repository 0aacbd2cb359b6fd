"""How far a stream has come: the form in which Spark keeps it in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from esker.errors import InvalidInput

ALL = -1
NOTHING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """All that came before a snapshot is done, and of the snapshot its first files, or all of them.

    ``whole`` is the beginning of a stream that starts with the table itself: the files are those of the snapshot's
    whole state, not what it added. ``snapshot_id`` is ``NOTHING`` before the table has any.
    """

    snapshot_id: int
    files: int = ALL
    whole: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing of the snapshot is left."""
        return self.files == ALL

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return {"snapshot": self.snapshot_id, "files": self.files, "whole": self.whole}

    @classmethod
    def of(cls, given: Any) -> Offset:
        """The offset that Spark kept; ``InvalidInput`` for one that is not ours."""
        match given:
            case {"snapshot": int(snapshot_id), "files": int(files), "whole": bool(whole)}:
                return cls(snapshot_id=snapshot_id, files=files, whole=whole)
            case _:
                raise InvalidInput(f"cannot go on from the checkpoint: {given!r} is no offset of a table's stream")
