"""What an engine is told of a change feed: what each snapshot did to the rows, as files to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esker.model.schema import Schema
from esker.model.types import INT, LONG, STRING, Field
from esker.ports.engine import ScanTask
from esker.tree.table_metadata import TableMetadata

INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"

CHANGE_COLUMNS = (
    Field(id=2147483543, name="_change_type", type=STRING, required=True, doc="insert or delete"),
    Field(id=2147483542, name="_change_ordinal", type=INT, required=True, doc="the snapshot's place in the feed"),
    Field(id=2147483541, name="_commit_snapshot_id", type=LONG, required=True, doc="the snapshot that did it"),
)
"""What a row of the feed has besides the table's columns, under the ids that the spec reserves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Rows that one snapshot took out and put in, none of which can equal a row of another group.

    A row that is on both sides was only moved, as copy-on-write does, and is no change.
    """

    deleted: tuple[ScanTask, ...] = ()
    inserted: tuple[ScanTask, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether a row may be on both sides."""
        return bool(self.deleted and self.inserted)

    @property
    def tasks(self) -> tuple[ScanTask, ...]:
        """Both sides, what was taken out first."""
        return self.deleted + self.inserted


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one snapshot did to the rows of a table."""

    snapshot_id: int
    ordinal: int
    groups: tuple[ChangeGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Which changes to read, and the shape the rows are wanted in.

    ``keys`` are columns that tell rows apart: a row that one snapshot takes out and puts in again under one key is
    an update. Without any there are none. ``net``: of rows that come and go, only the difference between the first and
    the last snapshot is wanted; rows are compared by all columns of ``row_schema``.
    """

    metadata: TableMetadata
    commits: Sequence[Commit]
    row_schema: Schema  # what the filter was bound to; rows are compared as it shows them
    projection: Schema  # whole columns of it that are wanted; those of the feed come behind them
    keys: tuple[Field, ...] = ()
    net: bool = False
