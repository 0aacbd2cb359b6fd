"""A manifest list: one row per manifest, with the statistics that decide whether it is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ManifestContent(IntEnum):
    """What a manifest lists. The numbers are from the spec."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """The values of one partition field over a whole manifest. Bounds are in the single-value form of the spec."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest, with the statistics that decide whether it is read. A count of None means: unknown, perhaps
    some."""

    path: str
    length: int
    spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    added_rows: int | None = None
    existing_rows: int | None = None
    deleted_rows: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None  # None: the writer wrote no summaries
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def may_hold_live_files(self) -> bool:
        """False only if both counts are known and zero."""
        return self.added_files != 0 or self.existing_files != 0

    @property
    def live_files(self) -> int | None:
        """The number of added and existing files. None if a count is missing."""
        if self.added_files is None or self.existing_files is None:
            return None
        return self.added_files + self.existing_files
