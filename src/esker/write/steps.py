"""What a snapshot may do, as intents that can be applied to any base: add files, remove what matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from esker.model.predicate import Bound
from esker.ports.row_changes import RowCounts, Verb
from esker.read.attach_deletes import PartitionKey
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyroaring import BitMap64


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
