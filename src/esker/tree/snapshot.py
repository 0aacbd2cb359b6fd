"""A snapshot: the state of the table after one commit. Also the branches and tags that name a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar, overload

from esker.model.display_text import card, show_ms

T = TypeVar("T")
_MOST_FACTS = 24  # in a notebook
ROWS_DELETED, ROWS_UPDATED, ROWS_INSERTED = "esker.rows-deleted", "esker.rows-updated", "esker.rows-inserted"
"""Keys of a summary: how many rows a change deleted, updated and inserted. Rewritten files do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state of the table: the manifests that list its files, and what the commit did."""

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0  # 0 in v1, which has no sequence numbers
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()  # v1 only: the manifest locations, instead of a list
    summary: Mapping[str, str] = field(default_factory=dict)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None

    @property
    def operation(self) -> str | None:
        """``append``, ``replace``, ``overwrite`` or ``delete``. None if an early writer did not record it."""
        return self.summary.get("operation")

    @property
    def rows_deleted(self) -> int | None:
        """How many rows the commit deleted. None if its writer did not record it."""
        return self._rows(ROWS_DELETED, "deleted-records")

    @property
    def rows_updated(self) -> int | None:
        """How many rows the commit updated. None if its writer did not record it."""
        return self._rows(ROWS_UPDATED)

    @property
    def rows_inserted(self) -> int | None:
        """How many rows the commit inserted. None if its writer did not record it."""
        return self._rows(ROWS_INSERTED, "added-records")

    def __repr__(self) -> str:
        return f"<Snapshot {self.snapshot_id}: {self.operation or 'unknown operation'}, {show_ms(self.timestamp_ms)}>"

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        facts: list[tuple[str, object]] = [
            ("time", show_ms(self.timestamp_ms)),
            ("parent", self.parent_snapshot_id),
            ("sequence number", self.sequence_number or None),
            *sorted(self.summary.items(), key=lambda fact: (fact[0] != "operation", fact[0])),
        ]
        return card(f"Snapshot {self.snapshot_id}", facts[:_MOST_FACTS])

    def _rows(self, key: str, of_append: str = "") -> int | None:
        """The recorded number of rows. For an append, which changes no row, it follows from the number of added
        rows."""
        found = self.summary.get(key)
        if found is None and self.operation == "append":
            found = self.summary.get(of_append, "0")
        return int(found) if found is not None and found.isascii() and found.isdecimal() else None


class RefKind(Enum):
    """The kind of a name for a snapshot."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """A branch or tag: a name for a snapshot, with its own retention."""

    snapshot_id: int
    kind: RefKind
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    schema_id: int | None = None  # of a branch with a schema of its own; None: the table's current schema


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that decodes an item when it is read, and keeps the raw form of all.

    The history of a table grows with every commit, and a reader mostly needs the newest entry. So five thousand
    snapshots stay bytes until they are read. Appended items have no raw form and follow the others.
    """

    __slots__ = ("_decode", "_decoded", "_raws", "_written", "raw")

    def __init__(self, raw: Sequence[Any], decode: Callable[[Any], T]) -> None:
        self.raw = raw
        self._raws = len(raw)  # how many items are raw; decoded items follow
        self._decode = decode
        self._decoded: dict[int, T] = {}
        self._written: tuple[object, list[Any]] | None = None

    @classmethod
    def of(cls, items: Iterable[T]) -> LazySequence[T]:
        """A sequence of items that need no decoding."""
        return cls(tuple(items), _itself)._with(0)

    def appended(self, item: T) -> LazySequence[T]:
        """The sequence with one more item. The other items stay raw."""
        longer = LazySequence([*self.raw, item], self._decode)._with(self._raws)
        longer._decoded = self._decoded  # both sequences are equal up to here
        longer._written = self._written
        return longer

    def raw_and_plain(self) -> tuple[Sequence[Any], Sequence[T]]:
        """The raw items, and the items that were never raw."""
        return self.raw[: self._raws], self.raw[self._raws :]

    def written(self, form: object, encode: Callable[[T], Any], *, keeps_raw: bool) -> list[Any]:
        """Every item as text: its raw form if that may be kept, else encoded.

        Items that a shorter sequence has encoded in the same ``form`` are not encoded again.
        """
        found = list(self._written[1]) if self._written is not None and self._written[0] == form else []
        if not found and keeps_raw:
            found += self.raw[: self._raws]
        found += (encode(self[at]) for at in range(len(found), len(self.raw)))
        self._written = form, found
        return list(found)

    def _with(self, raws: int) -> LazySequence[T]:
        self._raws = raws
        return self

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self.raw)))]
        at = index + len(self.raw) if index < 0 else index
        if at >= self._raws:
            item: T = self.raw[at]
            return item
        if at not in self._decoded:
            self._decoded[at] = self._decode(self.raw[at])
        return self._decoded[at]

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self.raw)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(len(self.raw))

    def __repr__(self) -> str:
        return f"<{len(self.raw)} items>"


def _itself(item: T) -> T:
    return item


def extended(items: Sequence[T], item: T) -> Sequence[T]:
    """A history with one more entry. Raw entries stay raw."""
    return (items if isinstance(items, LazySequence) else LazySequence.of(items)).appended(item)
