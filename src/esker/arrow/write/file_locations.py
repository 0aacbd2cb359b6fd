"""Locations of new files: below the data folder by partition, or spread by a hash for object stores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus

from esker.errors import InvalidInput
from esker.metadata_tables.human_values import human
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import murmur3, result_type
from esker.model.types import UNKNOWN, Field
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import switch

# ---------------------------------------------------------------- Folder names of partitions
#
# Folders have no meaning in Iceberg (the manifest has the values). They are for users and for tools that list files.


_LONGEST = 200  # bytes of one folder name; file systems allow 255


def partition_path(spec: PartitionSpec, sources: Mapping[int, Field], partition: tuple[Any, ...]) -> str:
    """The folders of a partition below the table's data folder. Empty for an unpartitioned spec."""
    return "/".join(
        _folder(field, sources.get(field.source_id), value) for field, value in zip(spec.fields, partition, strict=True)
    )


def _folder(field: PartitionField, source: Field | None, value: Any) -> str:
    type_ = result_type(field.transform, UNKNOWN if source is None else source.type)
    folder = f"{_encoded(field.name)}={_encoded(human(field.transform, type_, value))}"
    if len(folder) <= _LONGEST:
        return folder
    # Cut the name and add a hash, so that it stays unique.
    return f"{folder[: _LONGEST - 17]}~{hashlib.sha256(folder.encode()).hexdigest()[:16]}"


def _encoded(text: str) -> str:
    """Like ``java.net.URLEncoder``: letters, digits and ``.-*_`` stay, a space becomes ``+``."""
    return quote_plus(text, safe="*").replace("~", "%7E")


# ---------------------------------------------------------------- Locations


_HASH_BITS = 20
_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLocations:
    """Makes a location from a partition's folders and a file's name."""

    base: str
    hashed: bool = False
    with_partitions: bool = True
    context: str | None = None  # database and table, if files of several tables share a place
    suffix: str = ""  # of every name, before its extension

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
    """Delete files are beside data files. Their names have a suffix that data files never have."""
    return replace(data_locations(metadata), suffix="-deletes")


def data_locations(metadata: TableMetadata) -> DataLocations:
    """The layout of the table's properties. The two older names of the data path are used as in Java."""
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
    """The name of a data file, unique by its operation, the call in it and the count in the call.

    If workers write, ``task`` is the part of the rows and ``call`` the attempt.
    """
    if not _SAFE.fullmatch(operation_id):
        raise InvalidInput(
            f"cannot use the operation id {operation_id!r}: it cannot be part of a file name", operation_id=operation_id
        )
    return f"{task:05d}-{call}-{operation_id}-{count:05d}.parquet"


def _entropy(way: str) -> str:
    """Twenty bits of the hash as folders of four, four, four and eight."""
    bits = f"{murmur3(way.encode()) & ((1 << _HASH_BITS) - 1):0{_HASH_BITS}b}"
    return "/".join((bits[0:4], bits[4:8], bits[8:12], bits[12:]))
