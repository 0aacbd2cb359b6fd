"""What a compaction would do and what it did, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from esker.errors import EskerError
from esker.maintain.rewriting.plan_groups import PlannedGroup, Strategy
from esker.model.display_text import card, show_bytes
from esker.tree.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The totals of a snapshot, from its summary. None: the summary does not have it."""

    data_files: int | None
    delete_files: int | None
    records: int | None
    bytes: int | None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> TableSize:
        """The totals of a snapshot; zeros for an empty table."""
        if snapshot is None:
            return cls(data_files=0, delete_files=0, records=0, bytes=0)
        return cls(
            data_files=_number(snapshot, "total-data-files"),
            delete_files=_number(snapshot, "total-delete-files"),
            records=_number(snapshot, "total-records"),
            bytes=_number(snapshot, "total-files-size"),
        )

    def __str__(self) -> str:
        files = "unknown" if self.data_files is None else f"{self.data_files:,}"
        size = "unknown size" if self.bytes is None else show_bytes(self.bytes)
        deletes = f", {self.delete_files:,} delete files" if self.delete_files else ""
        return f"{files} data files{deletes}, {size}"


def _number(snapshot: Snapshot, key: str) -> int | None:
    text = snapshot.summary.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What a compaction would rewrite: ``groups`` of files, found in ``snapshot``. Nothing is changed."""

    snapshot: Snapshot | None
    strategy: Strategy
    groups: tuple[PlannedGroup, ...]
    target_file_size: int
    before: TableSize
    manifests: frozenset[str] = field(repr=False)  # of the snapshot

    @property
    def files(self) -> int:
        """How many data files are rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes of these files."""
        return sum(group.size for group in self.groups)

    @property
    def deletes(self) -> int:
        """How many delete files are applied to them."""
        found = {(d.path, d.content_offset) for g in self.groups for f in g.files for d in f.task.deletes}
        return len(found)

    @property
    def files_after(self) -> int:
        """About how many files are written: each group's bytes divided by the target size."""
        return sum(max(1, -(-group.size // self.target_file_size)) for group in self.groups)

    def __repr__(self) -> str:
        if not self.groups:
            return f"<esker.CompactionPlan ({self.strategy}): nothing to rewrite>"
        return (
            f"<esker.CompactionPlan ({self.strategy}): {self.files:,} files ({show_bytes(self.bytes)}) in "
            f"{len(self.groups):,} groups, to about {self.files_after:,} files>"
        )

    def _repr_html_(self) -> str:
        return card(
            f"compaction ({self.strategy})",
            [
                ("table now", self.before),
                ("files to rewrite", f"{self.files:,} ({show_bytes(self.bytes)})"),
                ("groups", f"{len(self.groups):,}"),
                ("delete files to apply", f"{self.deletes:,}"),
                ("files afterwards", f"about {self.files_after:,} of {show_bytes(self.target_file_size)}"),
            ],
        )


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """A group that was left as it is, and why."""

    group: PlannedGroup
    error: EskerError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What a compaction did. ``before`` and ``after`` are the totals of the branch."""

    snapshots: tuple[Snapshot, ...]
    groups: int
    failed: tuple[FailedGroup, ...]
    files_rewritten: int
    files_added: int
    bytes_rewritten: int
    bytes_added: int
    rows: int
    rows_deleted: int  # deleted rows that the old files still had
    delete_files_removed: int
    before: TableSize
    after: TableSize

    def __repr__(self) -> str:
        failed = f", {len(self.failed):,} groups failed" if self.failed else ""
        return (
            f"<esker.CompactionReport: {self.files_rewritten:,} files ({show_bytes(self.bytes_rewritten)}) to "
            f"{self.files_added:,} ({show_bytes(self.bytes_added)}){failed}>"
        )

    def _repr_html_(self) -> str:
        return card(
            "compaction",
            [
                ("before", self.before),
                ("after", self.after),
                ("files rewritten", f"{self.files_rewritten:,} ({show_bytes(self.bytes_rewritten)})"),
                ("files added", f"{self.files_added:,} ({show_bytes(self.bytes_added)})"),
                ("rows copied", f"{self.rows:,}"),
                ("deleted rows left out", f"{self.rows_deleted:,}"),
                ("delete files removed", f"{self.delete_files_removed:,}"),
                ("snapshots", ", ".join(str(s.snapshot_id) for s in self.snapshots) or "none"),
                ("groups that failed", f"{len(self.failed):,}" if self.failed else None),
            ],
        )
