"""The order in which a table asks its rows to be written."""

from __future__ import annotations

from dataclasses import dataclass

from esker.model.transform import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key: a column put through a transform, ascending or not, nulls first or last."""

    source_id: int
    transform: Transform
    descending: bool = False
    nulls_last: bool = False
    other_sources: tuple[int, ...] = ()

    def __str__(self) -> str:
        way = "desc" if self.descending else "asc"
        nulls = "nulls-last" if self.nulls_last else "nulls-first"
        return f"{self.transform}({self.source_id}) {way} {nulls}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """Keys from the most significant on; order 0 is unsorted."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()

    @property
    def is_unsorted(self) -> bool:
        """Whether rows may lie in any order."""
        return not self.fields


UNSORTED = SortOrder()
