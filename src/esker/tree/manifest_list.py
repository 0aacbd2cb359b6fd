"""A manifest list: one row per manifest, with enough about each to leave it unread."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ManifestContent(IntEnum):
    """What a manifest lists; the numbers are the spec's."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """What one partition field's values are over a whole manifest. Bounds are single-value bytes."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest, and enough about it to leave it unread. A count of None means: perhaps some."""

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
    partitions: tuple[FieldSummary, ...] | None = None  # None: the writer gave no summaries
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def may_hold_live_files(self) -> bool:
        """False only when both counts are given and zero."""
        return self.added_files != 0 or self.existing_files != 0

    @property
    def live_files(self) -> int | None:
        """Added and existing files; None where a count is missing."""
        if self.added_files is None or self.existing_files is None:
            return None
        return self.added_files + self.existing_files
