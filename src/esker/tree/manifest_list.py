"""A manifest list: one row per manifest, with the statistics that decide whether it is read.

A plan over thousands of manifests compares columns. Only the remaining manifests become ``ManifestFile`` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, overload

from esker.model.arrow_arrays import binary_array, boolean_array

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


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


MOST_FILES = 1 << 40
"""No manifest lists more files than this. Larger counts are wrong, and would overflow a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumns:
    """What decides whether manifests are read, one row per manifest. Their summaries are one after the other in arrays
    of their own."""

    spec_id: Int64s
    is_data: Bools
    may_hold_live_files: Bools
    live_files: Int64s  # up to `MOST_FILES`; -1: unknown
    summaries: Int64s  # how many there are; -1: the writer wrote none
    first_summary: Int64s
    contains_null: pa.Array
    contains_nan: pa.Array
    lower_bound: pa.Array
    upper_bound: pa.Array

    @classmethod
    def of(cls, manifests: Sequence[ManifestFile]) -> ListColumns:
        """The columns of manifests. Those of a `ManifestList` are known."""
        if isinstance(manifests, ManifestList):
            return manifests.columns
        import numpy as np

        count = [-1 if manifest.partitions is None else len(manifest.partitions) for manifest in manifests]
        ends = np.cumsum(np.maximum(np.array(count, np.int64), 0))
        every = [summary for manifest in manifests for summary in manifest.partitions or ()]
        live = [manifest.live_files for manifest in manifests]
        return cls(
            spec_id=np.array([manifest.spec_id for manifest in manifests], np.int64),
            is_data=np.array([manifest.content is ManifestContent.DATA for manifest in manifests], bool),
            may_hold_live_files=np.array([manifest.may_hold_live_files for manifest in manifests], bool),
            live_files=np.array([-1 if files is None else min(files, MOST_FILES) for files in live], np.int64),
            summaries=np.array(count, np.int64),
            first_summary=np.append(np.zeros(1, np.int64), ends)[:-1],
            contains_null=boolean_array([summary.contains_null for summary in every]),
            contains_nan=boolean_array([summary.contains_nan for summary in every]),
            lower_bound=binary_array([summary.lower_bound for summary in every]),
            upper_bound=binary_array([summary.upper_bound for summary in every]),
        )


class ManifestList(Sequence[ManifestFile]):
    """The manifests of a snapshot in order, equal to a tuple of them. Each is made when code accesses it.

    ``make`` returns the manifests of some rows.
    """

    __slots__ = ("_made", "_make", "columns")

    def __init__(self, columns: ListColumns, make: Callable[[Sequence[int]], Sequence[ManifestFile]]) -> None:
        self.columns = columns
        self._make = make
        self._made: list[ManifestFile | None] = [None] * len(columns.spec_id)

    def take(self, rows: Sequence[int]) -> tuple[ManifestFile, ...]:
        """The manifests of these rows. Another call returns the same objects."""
        made = self._made
        missing = [row for row in rows if made[row] is None]
        if missing:
            for row, manifest in zip(missing, self._make(missing), strict=True):
                made[row] = manifest
        return tuple(found for row in rows if (found := made[row]) is not None)

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> ManifestFile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ManifestFile, ...]: ...
    def __getitem__(self, index: int | slice) -> ManifestFile | tuple[ManifestFile, ...]:
        rows = range(len(self))[index]
        return self.take([rows])[0] if isinstance(rows, int) else self.take(rows)

    def __iter__(self) -> Iterator[ManifestFile]:
        return iter(self.take(range(len(self))))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, ManifestList | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self):,} manifests>"


def some_manifests(manifests: Sequence[ManifestFile], where: Bools) -> tuple[ManifestFile, ...]:
    """The manifests where the mask is true, in order."""
    rows: list[int] = where.nonzero()[0].tolist()
    return manifests.take(rows) if isinstance(manifests, ManifestList) else tuple(manifests[row] for row in rows)
