"""The port of a catalog that takes part in scans: it may plan a scan itself, and may want reports of scans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuestion:
    """What a scan asks for: rows of one snapshot. The filter is bound to ``schema``."""

    metadata: TableMetadata
    snapshot: Snapshot
    schema: Schema
    filter: Bound
    projection: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A data file to read, with every delete that applies to it. Sequence numbers are not known."""

    data_file: DataFile
    deletes: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPlan:
    """All files of a scan, as the catalog planned it. ``by`` names the planner, for people."""

    files: tuple[PlannedFile, ...]
    by: str


@dataclass(frozen=True, slots=True)
class NotServed:
    """The catalog does not plan this scan. ``why`` says why it refused; None where nobody asked it."""

    why: str | None = None


class ScanService(Protocol):
    """What a catalog does for the scans of one table."""

    def plan(self, question: ScanQuestion) -> ServedPlan | NotServed:
        """The whole plan, or that the reader has to plan. Raises where the catalog began to answer and failed."""
        ...

    def clock_ns(self) -> int:
        """A clock for the duration of a plan. The read path reads no clock itself."""
        ...

    def report(self, question: ScanQuestion, counts: Mapping[str, int], duration_ns: int) -> None:
        """Report a finished plan, by counters under Iceberg's names. Returns at once and never raises."""
        ...


@runtime_checkable
class ServesScans(Protocol):
    """A catalog that takes part in scans."""

    def scan_service(self, name: TableName) -> ScanService:
        """What the catalog does for the scans of a table."""
        ...
