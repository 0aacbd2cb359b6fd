"""CACHE TABLE over tables of the lake: rows that Spark keeps, for as long as they are the table's own.

Kept rows are those of one version. A query that finds the table at another version, by whoever's commit, reads that
one, and it takes the place of the old rows. So no commit is hidden. A query of an older version or of a branch reads
files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.model.predicate import TRUE
from esker.read.scan import Scan
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of one table at one version, and how Spark stores them."""

    session: SparkSession
    version: Hashable
    level: StorageLevel
    frame: DataFrame


class CachedTables:
    """The tables that a session caches, each by its id and location."""

    def __init__(self, frame_of: Callable[[Scan, SparkSession], DataFrame]) -> None:
        self._frame_of = frame_of
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def cache(self, scan: Scan, spark: SparkSession, *, level: str | None, lazy: bool) -> None:
        """Keep the rows of a scan of a whole table; those of a table that is cached already stay as they are."""
        name = _name(scan.metadata)
        stored = storage_level(level)
        with self._lock:
            if (kept := self._kept.get(name)) is not None and kept.session is spark:
                return
            made = self._kept[name] = self._made(scan, spark, stored)
        if not lazy:
            made.frame.count()

    def uncache(self, metadata: TableMetadata) -> None:
        """Let Spark forget the rows of a table; nothing where it keeps none."""
        with self._lock:
            kept = self._kept.pop(_name(metadata), None)
        if kept is not None:
            kept.frame.unpersist()

    def clear(self) -> None:
        """Forget every table."""
        with self._lock:
            kept = list(self._kept.values())
            self._kept.clear()
        for one in kept:
            one.frame.unpersist()

    def find(self, scan: Scan, spark: SparkSession) -> DataFrame | None:
        """The rows that are kept of the whole table where the scan is of its current version; None where none are."""
        name = _name(scan.metadata)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.session is not spark or not _is_current(scan):
                return None
            if kept.version != _version(scan):
                kept.frame.unpersist()
                kept = self._kept[name] = self._made(scan, spark, kept.level)
            # Spark forgets what it keeps of a plan when it drops a view of just that plan, as it does after each query
            return kept.frame.where("true")

    def _made(self, scan: Scan, spark: SparkSession, level: StorageLevel) -> _Kept:
        whole = replace(scan, filter=TRUE)
        return _Kept(spark, _version(scan), level, self._frame_of(whole, spark).persist(level))


def _name(metadata: TableMetadata) -> str:
    """What tells a table from any other; old tables have no id."""
    return f"{metadata.uuid} {metadata.location}"


def _is_current(scan: Scan) -> bool:
    snapshot = scan.resolved.snapshot
    current = scan.metadata.current_snapshot_id
    return (None if snapshot is None else snapshot.snapshot_id) == current


def _version(scan: Scan) -> Hashable:
    """Metadata changes with every commit; what is not changed by it may be kept."""
    metadata = scan.metadata
    mapping = metadata.properties.get("schema.name-mapping.default")
    return metadata.current_snapshot_id, scan.resolved.schema.schema_id, mapping


def storage_level(name: str | None) -> StorageLevel:
    """A level by Spark's name, or the one of CACHE TABLE; ``InvalidInput`` where Spark has none of that name."""
    from pyspark import StorageLevel

    found = getattr(StorageLevel, (name or "MEMORY_AND_DISK_DESER").upper(), None)
    if not isinstance(found, StorageLevel):
        raise InvalidInput(f"cannot cache with the storage level {name!r}: Spark has MEMORY_AND_DISK, DISK_ONLY, …")
    return found
