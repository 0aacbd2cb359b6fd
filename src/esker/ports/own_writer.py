"""The port of a format that commits by itself: its snapshots are files that are created once, with no catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction would do (``done`` is False) or did: the files that it rewrites, and those that it writes. Rows
    before include versions that are gone afterwards. The number of new files in a plan is an estimate."""

    done: bool = True
    groups: int  # buckets, or groups of small files, that are rewritten
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int | None  # None in the plan for a table with a key: only a merge can count the rows
    bytes_before: int
    bytes_after: int | None  # None in a plan
    snapshots: tuple[int, ...] = ()  # the new one; empty if there was nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What an expiry would delete (``done`` is False) or deleted: numbers of snapshots, and locations of files.
    ``failed`` are files that could not be deleted."""

    done: bool
    snapshots: tuple[int, ...]
    snapshots_before: int
    files: tuple[str, ...]
    kinds: Mapping[str, int]  # how many of these files, by kind: data, manifest, manifest-list, …
    total_bytes: int
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Files that nothing names, and those of them that could not be deleted. ``done`` is False in a plan."""

    done: bool
    location: str  # that was listed
    older_than_ms: int
    listed: int  # files
    reached: int  # of the listed files
    young: int  # not reached, and not old enough
    spared: int  # not known to be of the format
    files: tuple[str, ...]
    total_bytes: int
    failed: tuple[str, ...] = ()


class OwnWriter(Protocol):
    """Writes one branch of one table. Each verb is one snapshot, or none if there is nothing to do.

    All raise ``Unsupported`` with the name of an option that the writer does not have, ``InvalidInput`` for rows that
    do not fit, ``Conflict`` if others were faster too often, and ``OutcomeUnknown``.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for a table without one."""
        ...

    def append(self, rows: pa.Table) -> None:
        """Add rows. In a table with a key they replace those with the same key."""
        ...

    def overwrite(self, rows: pa.Table, *, only_partitions: bool) -> None:
        """Replace all rows, or those of the partitions that the new rows are in."""
        ...

    def delete(self, rows: pa.Table, rows_at: Callable[[int], pa.Table]) -> None:
        """Delete rows by their key. If another writer was faster, ``rows_at`` gives the rows to delete in the snapshot
        with this number."""
        ...

    def compact(self, *, target_bytes: int | None, dry_run: bool) -> Compacted:
        """Rewrite files, so that rows are fewer files and need no merge. A dry run returns the plan, raises what the
        real run would raise for the table and its files, and writes nothing."""
        ...

    def expire(self, *, keep_last: int | None, older_than_ms: int | None, dry_run: bool) -> Expired:
        """Delete the oldest snapshots and the files that only they need. The table's options decide which, if neither a
        number nor a time is given."""
        ...

    def remove_orphans(self, *, older_than_ms: int | None, under_24_hours: bool, dry_run: bool) -> Orphans:
        """Delete files that nothing names."""
        ...
