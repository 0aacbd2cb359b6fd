"""The rows that changed between two snapshots, for ``esker diff --rows``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.read.scan_changes import ChangeScan

FIRST = ("_change_type", "_commit_snapshot_id")


@dataclass(frozen=True, slots=True)
class ForPeople:
    """A feed with what became of each row before the row; its commits come in order, so their numbers say nothing."""

    feed: ChangeScan

    @property
    def _names(self) -> list[str]:
        return [*FIRST, *(field.name for field in self.feed.projection)]

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        import pyarrow as pa

        whole = self.feed.schema
        return pa.schema([whole.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return (batch.select(self._names) for batch in self.feed.to_batches())


def print_changed_rows(feed: ChangeScan, shown: int | None, facts: Mapping[str, Any], *, as_json: bool) -> None:
    """At most so many rows, behind the facts in a document, alone on a screen."""
    from esker.cli.printed_rows import print_rows, print_rows_json

    if as_json:
        print_rows_json(feed, shown, facts)
    else:
        print_rows(ForPeople(feed), shown)
