"""How rows of several files with the same key become one row, for formats whose files have versions of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from esker.model.schema import MappedField
from esker.model.types import INT, LONG, Field

SEQUENCE = Field(id=2147483300, name="_SEQUENCE_NUMBER", type=LONG, doc="the order of the versions of a key")
ROW_KIND = Field(id=2147483299, name="_VALUE_KIND", type=INT, doc="0 insert, 1 update before, 2 update after, 3 delete")
"""Columns of files with versions, which no table shows. Their ids are reserved here; files have only the names."""

SYSTEM_NAMES = tuple(MappedField(names=(column.name,), field_id=column.id) for column in (SEQUENCE, ROW_KIND))
LIVE_KINDS = (0, 2)
UPDATE_BEFORE = 1


class MergeEngine(Enum):
    """Which row the versions of a key become."""

    DEDUPLICATE = "deduplicate"  # the last version
    PARTIAL_UPDATE = "partial-update"  # the last value of each column that is not null
    AGGREGATION = "aggregation"  # a function of each column's values
    FIRST_ROW = "first-row"  # the first version


class Aggregate(Enum):
    """A function of a column's values, in the order of the versions."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FIRST = "first_value"
    FIRST_NOT_NULL = "first_non_null_value"
    LAST = "last_value"
    LAST_NOT_NULL = "last_non_null_value"
    ANY = "bool_or"
    ALL = "bool_and"


FIRST_VALUES = (Aggregate.FIRST, Aggregate.FIRST_NOT_NULL)


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that change together: the version with the largest ``order`` gives them all, also their nulls. A version
    whose ``order`` is null does not count."""

    order: tuple[int, ...]  # field ids; null is the smallest value
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How the versions of a key become one row. Columns are field ids.

    Versions are ordered by ``order`` (null comes first), then by ``SEQUENCE``, then deletes before inserts. Where
    columns are merged, the first version gives its values also if it deletes, as in Paimon's Java library.
    """

    engine: MergeEngine
    keys: tuple[int, ...]
    order: tuple[int, ...] = ()
    descending: bool = False  # of two values of ``order``, the smaller is the newer one
    groups: tuple[SequenceGroup, ...] = ()
    functions: Mapping[int, Aggregate] = field(default_factory=dict)
    sum_bits: Mapping[int, int] = field(default_factory=dict)  # a sum of whole numbers wraps around after so many bits
    ignores_deletes: bool = False  # versions that delete are left out
    deletes_whole_rows: bool = False  # a delete removes the row, and its own values are the first ones of a new row

    @property
    def refuses_deletes(self) -> bool:
        """Whether no version may delete."""
        columns = self.engine is MergeEngine.AGGREGATION or (
            self.engine is MergeEngine.PARTIAL_UPDATE and not self.groups
        )
        return columns and not (self.ignores_deletes or self.deletes_whole_rows)

    @property
    def used(self) -> frozenset[int]:
        """The columns that a merge needs besides those that are asked for."""
        grouped = (id_ for group in self.groups for id_ in group.order)
        return frozenset((*self.keys, *self.order, *grouped))
