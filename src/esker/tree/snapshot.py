"""A snapshot: the state of the table after one commit. Also the branches and tags that name a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from esker.model.display_text import card, show_ms

T = TypeVar("T")
_MOST_FACTS = 24  # in a notebook
_PIECE = 128  # items of a history whose texts are joined once
ROWS_DELETED, ROWS_UPDATED, ROWS_INSERTED = "esker.rows-deleted", "esker.rows-updated", "esker.rows-inserted"
"""Keys of a summary: how many rows a change deleted, updated and inserted. Rewritten files do not count."""
UNKNOWN = "unknown"
"""A value of these keys, for an append whose number of rows does not show how many were inserted."""


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


@dataclass(frozen=True, slots=True)
class _Written:
    """The text of a history, as far as it was written in one form: full pieces, and the items after them."""

    form: object
    items: int = 0
    full: tuple[bytes, ...] = ()  # each with the texts of ``_PIECE`` items
    rest: tuple[Any, ...] = ()

    def extended(self, texts: Iterable[Any], items: int) -> _Written:
        """With the texts of more items; ``items`` is their number then."""
        full, rest = list(self.full), [*self.rest, *texts]
        while len(rest) > _PIECE:
            full.append(b",".join(rest[:_PIECE]) + b",")
            del rest[:_PIECE]
        return _Written(self.form, items, tuple(full), tuple(rest))

    def pieces(self) -> list[bytes]:
        """All texts, with commas between them."""
        return [*self.full, b",".join(self.rest)]


@runtime_checkable
class TextRuns(Protocol):
    """Raw items that are side by side in one text, and can be copied without taking it apart."""

    def runs(self, most: int) -> list[bytes]:
        """The text of all items, ``most`` in a run. Each run but the last ends with a comma."""


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that decodes an item when it is read, and keeps the raw form of all.

    The history of a table grows with every commit, and a reader mostly needs the newest entry. So five thousand
    snapshots stay bytes until they are read. Appended items have no raw form and follow the others.
    """

    __slots__ = ("_added", "_decode", "_decoded", "_keys", "_raw", "_written")

    def __init__(self, raw: Sequence[Any], decode: Callable[[Any], T], added: tuple[T, ...] = ()) -> None:
        self._raw = raw
        self._decode = decode
        self._added = added
        self._decoded: dict[int, T] = {}
        self._written: _Written | None = None
        self._keys: tuple[set[int], int] | None = None  # and of how many items

    @classmethod
    def of(cls, items: Iterable[T]) -> LazySequence[T]:
        """A sequence of items that need no decoding."""
        return cls((), _itself, tuple(items))

    def appended(self, item: T) -> LazySequence[T]:
        """The sequence with one more item. The other items stay raw."""
        longer = LazySequence(self._raw, self._decode, (*self._added, item))
        longer._decoded = self._decoded  # both sequences are equal up to here
        longer._written = self._written
        longer._keys = self._keys
        return longer

    def has_key(
        self, key: int, *, of_raw: Callable[[Iterable[Any]], Iterable[int]], of_item: Callable[[T], int]
    ) -> bool:
        """Whether an item has this key. Raw items are not decoded, and are searched once for all longer sequences.

        May be True for a key of another sequence that began as this one.
        """
        if self._keys is None:
            texts = self._raw.runs(_PIECE) if isinstance(self._raw, TextRuns) else self._raw
            self._keys = set(of_raw(texts)), len(self._raw)
        keys, known = self._keys
        keys.update(map(of_item, self._added[known - len(self._raw) :]))
        self._keys = keys, len(self)
        return key in keys

    def written(self, form: object, encode: Callable[[T], bytes], *, keeps_raw: bool) -> list[bytes]:
        """Every item as text, with a comma between two: its raw form if that may be kept, else encoded.

        The text is in pieces. Those that a shorter sequence has made in the same ``form`` are used again, so that a
        commit does not copy the history.
        """
        if self._written is None or self._written.form != form:
            self._written = _Written(form)
            if keeps_raw and isinstance(self._raw, TextRuns):
                *full, rest = self._raw.runs(_PIECE) or [b""]
                self._written = _Written(form, len(self._raw), tuple(full), (rest,) if rest else ())
        made, raws = self._written.items, len(self._raw)
        texts: list[Any] = []
        if made < raws:
            texts += self._raw[made:] if keeps_raw else map(encode, self[made:raws])
        texts += map(encode, self._added[max(made - raws, 0) :])
        self._written = self._written.extended(texts, len(self))
        return self._written.pieces()

    def __len__(self) -> int:
        return len(self._raw) + len(self._added)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"there is no item {index} of {len(self)}")
        if at >= len(self._raw):
            return self._added[at - len(self._raw)]
        if at not in self._decoded:
            self._decoded[at] = self._decode(self._raw[at])
        return self._decoded[at]

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"<{len(self)} items>"


def _itself(item: T) -> T:
    return item


def extended(items: Sequence[T], item: T) -> Sequence[T]:
    """A history with one more entry. Raw entries stay raw."""
    return (items if isinstance(items, LazySequence) else LazySequence.of(items)).appended(item)
