"""What the steps of a change come to on one base, before any of it is written down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esker.ports.row_changes import RowCounts, Verb
from esker.tree.data_file import DataFile, FileContent

if TYPE_CHECKING:
    from pyroaring import BitMap64


@dataclass(frozen=True, slots=True)
class LostRows:
    """A data file that stays and loses rows: the positions, and the deletes that took others out of it before."""

    data_file: DataFile
    positions: BitMap64
    deletes: tuple[DataFile, ...]


@dataclass(slots=True)
class Outcome:
    """What the steps come to on one base."""

    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by manifest, names of files
    removed_files: list[DataFile] = field(default_factory=list)
    lost: dict[str, LostRows] = field(default_factory=dict)  # by path of the data file
    rows: RowCounts | None = None  # that changed; None where nothing was changed, or nobody knows how many
    merged: RowCounts | None = None  # of these, those of merges
    copied: int = 0  # rows that merges wrote again as they were
    appended: int = 0  # rows of files that were only added
    _is_unknown: bool = False

    def remove(self, manifest: str, file: DataFile) -> None:
        """A file leaves; removing it twice is removing it once."""
        name = listed_name(file)
        if name not in self.removed[manifest]:
            self.removed[manifest].add(name)
            self.removed_files.append(file)
            self.lost.pop(file.path, None)

    def lose(self, file: DataFile, positions: BitMap64, deletes: Sequence[DataFile]) -> None:
        """Rows leave a file that stays, besides those that earlier steps took."""
        before = self.lost.get(file.path)
        all_ = positions if before is None else before.positions | positions
        self.lost[file.path] = LostRows(file, all_, _of_positions(deletes))

    def count(self, verb: Verb, counts: RowCounts | None, *, copied: int = 0) -> None:
        """So many rows changed; None: it is not known how many, and so it is not known of the whole."""
        self._is_unknown |= counts is None
        if counts is not None:
            self.rows = counts if self.rows is None else self.rows + counts
        if verb == "merge" and counts is not None:
            self.merged = counts if self.merged is None else self.merged + counts
            self.copied += copied - counts.updated - counts.inserted
        if self._is_unknown:
            self.rows = None

    @property
    def counts_rows(self) -> bool:
        """Whether it is known so far how many rows changed."""
        return self.rows is not None

    def gone_from(self, path: str) -> BitMap64 | None:
        """The positions that steps so far took out of a file."""
        lost = self.lost.get(path)
        return None if lost is None else lost.positions

    @property
    def adds_data(self) -> bool:
        """Whether rows come, rather than deletes alone."""
        return any(file.content is FileContent.DATA for file in self.added)

    @property
    def operation(self) -> str:
        """What the snapshot does, in the spec's words."""
        if not self.removed_files and all(file.content is FileContent.DATA for file in self.added):
            return "append"
        return "overwrite" if self.adds_data else "delete"


def listed_name(file: DataFile) -> str:
    """What tells files of a manifest apart: several deletion vectors share one Puffin file."""
    return f"{file.path}#{file.content_offset}" if file.is_deletion_vector else file.path


def _of_positions(deletes: Sequence[DataFile]) -> tuple[DataFile, ...]:
    return tuple(delete for delete in deletes if delete.content is FileContent.POSITION_DELETES)
