"""What a snapshot may do, as steps that can be applied to any base, and what they come to on one base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from esker.model.predicates.predicate import Bound
from esker.ports.row_changes import RowCounts, Verb
from esker.read.attach_deletes import PartitionKey
from esker.tree.data_file import DataFile, FileContent

if TYPE_CHECKING:
    from pyroaring import BitMap64


# ---------------------------------------------------------------- steps
#
# What a snapshot may do, as intents that can be applied to any base: add files, remove what matches.


@dataclass(frozen=True, slots=True)
class AddFiles:
    """These files join the table; they are written already and are the same on every attempt."""

    files: tuple[DataFile, ...]
    are_given: bool = False  # by the user, so they may be in the table already; what we write has names of its own
    name_mapping: str | None = None  # by which columns of files without ids were found; the table's, if it has none


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Rows that match leave the table: whole files where all of a file matches, else the file is rewritten or gets
    a delete, as the table asks. It is applied anew to every base, so it conflicts with nothing."""

    predicate: Bound
    replaces: bool = False  # other rows take their place, so rows that arrive meanwhile must not vanish unread


@dataclass(frozen=True, slots=True)
class RemovePartitions:
    """Every file in these partitions of the current spec leaves the table."""

    spec_id: int
    keys: frozenset[PartitionKey]
    replaces: bool = True


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """These very files leave the table; a conflict if one of them is no longer there."""

    paths: frozenset[str]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file that a change of rows refers to, as it was when the change was computed."""

    data_file: DataFile
    deletes: tuple[DataFile, ...]
    manifest: str | None  # None: a file of the same transaction, which no manifest lists yet


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Rows of known files go and new files come. It was computed from the branch's head at the start, and stands as
    long as nobody touched those files or, under serializable isolation, added rows where it looked."""

    verb: Verb
    predicate: Bound
    files: tuple[PlannedFile, ...]  # every file named in ``gone`` or ``rewritten``
    gone: Mapping[str, BitMap64]
    rewritten: frozenset[str]
    added: tuple[DataFile, ...]
    counts: RowCounts
    manifests: frozenset[str]  # what was listed then: a file is to be looked for in later ones only


@dataclass(frozen=True, slots=True)
class DeleteKeys:
    """Rows that were there before this commit and have one of these keys leave, by equality delete files."""

    files: tuple[DataFile, ...]


Step: TypeAlias = AddFiles | RemoveRows | RemovePartitions | RemoveFiles | ChangeRows | DeleteKeys
Removal: TypeAlias = RemoveRows | RemovePartitions | RemoveFiles
Replacement: TypeAlias = RemoveRows | RemovePartitions


# ---------------------------------------------------------------- outcome
#
# What the steps of a change come to on one base, before any of it is written down.


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
