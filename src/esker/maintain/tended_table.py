"""The table that is tended, the ports that read it, and locations as keys that can be compared in little memory."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from esker.ports.catalog import TableState
from esker.ports.engine import Engine
from esker.ports.storage import Storage, parallel_reads
from esker.ports.table_format import TableFormat
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.int64]

log = logging.getLogger("esker.maintain")
"""Progress: a message that ends with … is replaced by the next one on a terminal."""

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class TendedTable:
    """One version of a table, and the ports that read its files."""

    name: str
    state: TableState
    storage: Storage
    format: TableFormat
    engine: Engine

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self.state.metadata


# ---------------------------------------------------------------- locations


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "wasbs": "wasb", "abfss": "abfs", "gcs": "gs"}


def place_of(location: str) -> tuple[str, str]:
    """The store of a location, and its path there. Forms that mean the same file give the same result.

    ``s3a://b/x`` and ``s3://b/x`` are one file, and so are ``/x``, ``file:/x`` and ``file:///x``.
    """
    match = _SCHEME.match(location)
    if match is None:
        return "file:", _folded(location)
    scheme, rest = match[1].lower(), location[match.end() :]
    host = ""
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
    if scheme == "file" and host == "localhost":
        host = ""
    return f"{_SAME_STORE.get(scheme, scheme)}:{host}", _folded(f"/{rest}")


def _folded(path: str) -> str:
    if "//" not in path and "/." not in path:
        return path.rstrip("/")
    lead = "/" if path.startswith("/") else ""
    return lead + "/".join(part for part in path.split("/") if part not in ("", "."))


def path_key(location: str) -> int:
    """A number for the path of a location, without its store.

    Two paths may have the same number, about once in 10^19 pairs. All uses are chosen so that such a file is kept.
    """
    return hash(place_of(location)[1])


def name_key(location: str) -> int:
    """A number for the last part of a location, whatever folder it is in."""
    return hash(location.rpartition("/")[2])


def keys_of(locations: Iterable[str], key: Callable[[str], int] = path_key) -> Keys:
    """The numbers of locations, in order."""
    return np.fromiter(map(key, locations), np.int64)


class KeySet:
    """A growing set of keys: 8 bytes for each, and as much again while parts are joined.

    The keys are in sorted parts, each at least twice as large as the next. So adding and asking in turns stays fast.
    """

    def __init__(self) -> None:
        self._parts: list[Keys] = []

    def add(self, keys: Keys) -> None:
        """Add keys. Keys that are in the set already are no error."""
        if len(keys):
            self._parts.append(np.unique(keys))
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            last = self._parts.pop()
            self._parts[-1] = np.union1d(self._parts[-1], last)

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """For each key, whether it is in the set."""
        found = np.zeros(len(keys), np.bool_)
        for part in self._parts:
            at = np.searchsorted(part, keys)
            at[at == len(part)] = 0
            found |= part[at] == keys
        return found

    @property
    def is_empty(self) -> bool:
        """Whether no key was added."""
        return not self._parts

    def __len__(self) -> int:
        while len(self._parts) > 1:
            last = self._parts.pop()
            self._parts[-1] = np.union1d(self._parts[-1], last)
        return sum(map(len, self._parts))


# ---------------------------------------------------------------- many small requests


def in_groups(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """The items in lists of at most ``size``."""
    waiting = iter(items)
    while group := list(islice(waiting, size)):
        yield group


def ask_each(storage: Storage, ask: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    """The answers, in order. If the storage is remote, several requests are under way at a time."""
    at_once = min(parallel_reads(storage), len(items))
    if at_once < 2:
        yield from map(ask, items)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="esker-tends") as pool:
        yield from pool.map(ask, items)
