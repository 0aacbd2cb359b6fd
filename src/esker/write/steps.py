"""The steps of a snapshot, which can be applied to any base, and their outcome on one base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from esker.errors import Conflict
from esker.model.predicates.predicate import Bound
from esker.ports.row_changes import RowCounts, Verb
from esker.read.attach_deletes import PartitionKey
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries
from esker.tree.snapshot import Snapshot

if TYPE_CHECKING:
    from pyroaring import BitMap64


# ---------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True)
class AddFiles:
    """Add files. They are already written and are the same in every attempt."""

    files: tuple[DataFile, ...]
    are_given: bool = False  # by the user, so they may be in the table already; Esker's own files have new names
    # with which columns of files without ids were found; becomes the table's, if it has none
    name_mapping: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Remove rows that match: whole files if all their rows match, otherwise the file is rewritten or gets a delete, as
    the table's properties say. It is applied again to every base, so it conflicts with nothing."""

    predicate: Bound
    replaces: bool = False  # other rows replace them, so rows that arrive in the meantime must not be removed unread


@dataclass(frozen=True, slots=True)
class RemovePartitions:
    """Remove every file in these partitions of the current spec."""

    spec_id: int
    keys: frozenset[PartitionKey]
    replaces: bool = True


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Remove exactly these files; a conflict if one of them is no longer in the table."""

    paths: frozenset[str]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file of a row change, as it was when the change was computed."""

    data_file: DataFile
    deletes: tuple[DataFile, ...]
    manifest: str | None  # None: a file of the same transaction, which no manifest lists yet


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Remove rows of known files and add new files. It was computed from the branch's head at the start. It is valid as
    long as no other commit changed those files or, under serializable isolation, added rows that match its filter."""

    verb: Verb
    predicate: Bound
    files: tuple[PlannedFile, ...]  # every file named in ``gone`` or ``rewritten``
    gone: Mapping[str, BitMap64]
    rewritten: frozenset[str]
    added: tuple[DataFile, ...]
    counts: RowCounts
    manifests: frozenset[str]  # listed at that time: files are searched only in later ones


@dataclass(frozen=True, slots=True)
class DeleteKeys:
    """Remove rows from before this commit that have one of these keys, by equality delete files."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceFiles:
    """Replace data files by files with the same rows, without the deleted ones. It was computed from ``start``. It is
    valid as long as no other commit removed one of the files or deleted rows of it. Equality deletes of other commits
    are allowed: they apply to the new files too, because these keep the data sequence number of the start."""

    files: tuple[PlannedFile, ...]
    added: tuple[DataFile, ...]
    start: Snapshot
    sequence_number: int | None  # of the new files; None: that of the commit
    manifests: frozenset[str]  # listed at the start: files are searched only in later ones
    format_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceDeletes:
    """Replace position delete files by others that delete the same rows. It is checked against every base: each old
    delete must still be listed, each data file still be there, and none have got a vector meanwhile."""

    files: tuple[DataFile, ...]
    added: tuple[DataFile, ...]
    targets: frozenset[str]  # the data files of the new deletes
    numbers: Mapping[str, int]  # data sequence numbers that new files keep, by path


@dataclass(frozen=True, slots=True)
class ReplaceManifests:
    """List the files of some manifests in others. Manifests that other commits added stay as they are. A conflict if
    one of the old manifests is no longer listed."""

    paths: frozenset[str]
    bins: tuple[tuple[Entries, ...], ...]  # the entries of each new manifest, all of one spec and content


@dataclass(frozen=True, slots=True)
class RemoveDangling:
    """Remove delete files that apply to no data file of the base, as the steps before leave it. It is computed again on
    every base, so it conflicts with nothing."""


Step: TypeAlias = (
    AddFiles
    | RemoveRows
    | RemovePartitions
    | RemoveFiles
    | ChangeRows
    | DeleteKeys
    | ReplaceFiles
    | ReplaceDeletes
    | ReplaceManifests
    | RemoveDangling
)
Removal: TypeAlias = RemoveRows | RemovePartitions | RemoveFiles
Replacement: TypeAlias = RemoveRows | RemovePartitions


# ---------------------------------------------------------------- the outcome on one base


@dataclass(frozen=True, slots=True)
class LostRows:
    """A data file that stays and loses rows: their positions, and the deletes that it had before."""

    data_file: DataFile
    positions: BitMap64
    deletes: tuple[DataFile, ...]


@dataclass(slots=True)
class Outcome:
    """The outcome of the steps on one base."""

    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by manifest, names of files
    removed_files: list[DataFile] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # data sequence numbers that added files keep, by path
    clustered: list[ReplaceManifests] = field(default_factory=list)
    lost: dict[str, LostRows] = field(default_factory=dict)  # by path of the data file
    rows: RowCounts | None = None  # that changed; None if nothing was changed, or if the number is unknown
    merged: RowCounts | None = None  # of these, those of merges
    copied: int = 0  # rows that merges copied unchanged
    appended: int = 0  # rows of files that were only added
    _is_unknown: bool = False

    def remove(self, manifest: str, file: DataFile) -> None:
        """Remove a file. Removing it twice is not an error."""
        name = listed_name(file)
        if name not in self.removed[manifest]:
            self.removed[manifest].add(name)
            self.removed_files.append(file)
            self.lost.pop(file.path, None)

    def lose(self, file: DataFile, positions: BitMap64, deletes: Sequence[DataFile]) -> None:
        """Remove rows of a file that stays, in addition to those of earlier steps."""
        before = self.lost.get(file.path)
        all_ = positions if before is None else before.positions | positions
        self.lost[file.path] = LostRows(file, all_, _of_positions(deletes))

    def count(self, verb: Verb, counts: RowCounts | None, *, copied: int = 0) -> None:
        """Count changed rows. None: the number is unknown, and so is the total."""
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
        """Whether the number of changed rows is known so far."""
        return self.rows is not None

    def gone_from(self, path: str) -> BitMap64 | None:
        """The positions that the steps so far removed from a file."""
        lost = self.lost.get(path)
        return None if lost is None else lost.positions

    @property
    def adds_data(self) -> bool:
        """Whether rows are added, not only deletes."""
        return any(file.content is FileContent.DATA for file in self.added)

    @property
    def operation(self) -> str:
        """The operation in the spec's words."""
        if not self.removed_files and all(file.content is FileContent.DATA for file in self.added):
            return "append"
        return "overwrite" if self.adds_data else "delete"


@dataclass(frozen=True, slots=True)
class FileConflicts:
    """Conflicts of several steps about their files. They become one error, so that all can be mended at once."""

    found: list[Conflict] = field(default_factory=list)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Note a conflict that names files, and go on."""
        try:
            yield
        except Conflict as error:
            if not conflicting_files(error):
                raise
            self.found.append(error)

    def raise_if_any(self) -> None:
        """Raise the first conflict, with the files of all."""
        if self.found:
            files = sorted(set().union(*map(conflicting_files, self.found)))
            raise Conflict(self.found[0].message, **{**self.found[0].facts, "files": files})


def conflicting_files(error: Conflict) -> set[str]:
    """The files that a conflict names."""
    return {*error.facts.get("files", ()), *filter(None, [error.facts.get("file")])}


def listed_name(file: DataFile) -> str:
    """What identifies a file in a manifest: several deletion vectors share one Puffin file."""
    return f"{file.path}#{file.content_offset}" if file.is_deletion_vector else file.path


def _of_positions(deletes: Sequence[DataFile]) -> tuple[DataFile, ...]:
    return tuple(delete for delete in deletes if delete.content is FileContent.POSITION_DELETES)
