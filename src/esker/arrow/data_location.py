"""Where new data files lie: below the table's data folder by partition, or spread by a hash for object stores."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from esker.errors import InvalidInput
from esker.model.murmur3 import murmur3
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import switch

_HASH_BITS = 20
_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLocations:
    """Turns a partition's folders and a file's name into a location."""

    base: str
    hashed: bool = False
    with_partitions: bool = True
    context: str | None = None  # database and table, where files of several tables share a place
    suffix: str = ""  # of every name, before its ending

    def location(self, folders: str, name: str) -> str:
        """The location of a new file."""
        stem, dot, ending = name.rpartition(".")
        name = f"{stem}{self.suffix}{dot}{ending}"
        if not self.hashed:
            return "/".join(part for part in (self.base, folders, name) if part)
        way = f"{folders}/{name}" if folders and self.with_partitions else name
        entropy = _entropy(way)
        if self.context is not None:
            return f"{self.base}/{entropy}/{self.context}/{way}"
        return f"{self.base}/{entropy}/{way}" if self.with_partitions else f"{self.base}/{entropy}-{way}"


def delete_locations(metadata: TableMetadata) -> DataLocations:
    """Delete files lie beside data files, under names that those never have."""
    return replace(data_locations(metadata), suffix="-deletes")


def data_locations(metadata: TableMetadata) -> DataLocations:
    """The layout that the table's properties ask for; the two older names of the data path count as in Java."""
    properties = metadata.properties
    table = metadata.location.rstrip("/")
    hashed = switch(properties, "write.object-storage.enabled", default=False)
    older = ("write.object-storage.path", "write.folder-storage.path") if hashed else ("write.folder-storage.path",)
    chosen = (properties.get(key) for key in ("write.data.path", *older))
    base = (next(filter(None, chosen), None) or f"{table}/data").rstrip("/")
    return DataLocations(
        base=base,
        hashed=hashed,
        with_partitions=switch(properties, "write.object-storage.partitioned-paths", default=True),
        context=None if base.startswith(table) else "/".join(table.split("://")[-1].split("/")[-2:]),
    )


def file_name(call: int, operation_id: str, count: int, *, task: int = 0) -> str:
    """A data file's name, unique by its operation, the call within it and the count within the call.

    Where workers write, ``task`` is which part of the rows and ``call`` which attempt at it.
    """
    if not _SAFE.fullmatch(operation_id):
        raise InvalidInput(f"{operation_id!r} cannot be part of a file name", operation_id=operation_id)
    return f"{task:05d}-{call}-{operation_id}-{count:05d}.parquet"


def _entropy(way: str) -> str:
    """Twenty bits of the hash as folders of four, four, four and eight."""
    bits = f"{murmur3(way.encode()) & ((1 << _HASH_BITS) - 1):0{_HASH_BITS}b}"
    return "/".join((bits[0:4], bits[4:8], bits[8:12], bits[12:]))
