"""What a snapshot may do, as intents that can be applied to any base: add files, remove what matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from esker.model.predicate import Bound
from esker.read.attach_deletes import PartitionKey
from esker.tree.data_file import DataFile


@dataclass(frozen=True, slots=True)
class AddFiles:
    """These files join the table; they are written already and are the same on every attempt."""

    files: tuple[DataFile, ...]
    are_given: bool = False  # by the user, so they may be in the table already; what we write has names of its own
    name_mapping: str | None = None  # by which columns of files without ids were found; the table's, if it has none


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Rows that match leave the table: whole files where all of a file matches, else the file is rewritten."""

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


Step: TypeAlias = AddFiles | RemoveRows | RemovePartitions | RemoveFiles
Removal: TypeAlias = RemoveRows | RemovePartitions | RemoveFiles
Replacement: TypeAlias = RemoveRows | RemovePartitions
