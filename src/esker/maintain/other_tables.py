"""Metadata files in a table's folder that the table does not know: another table may be there, or another catalog may
commit to the same table (F46). What such metadata reaches must not be deleted.

A commit that failed leaves one metadata file: the version before it is a version of this table. If a file follows
another one that the table does not know either, both were committed somewhere else, or the catalog was set back.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from esker.errors import Corrupt, EskerError, InvalidInput, NoSuchFile, StorageFailed
from esker.maintain.tended_table import ask_each, path_key
from esker.ports.catalog import Catalog, KnowsPlaces, TableState
from esker.ports.storage import Storage, StoredFile

_METADATA = re.compile(r".\.metadata\.json(?:\.gz)?$")
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]{1,64})"')
_HEAD = 64 << 10  # bytes that are read to find the uuid: writers put it first
_LARGEST = 256 << 20  # bytes of metadata, inflated
_DAY_MS = 24 * 3_600_000


class _Entry(msgspec.Struct):
    file: str = msgspec.field(name="metadata-file")


class _Version(msgspec.Struct):
    """What is read of a metadata file."""

    uuid: str | None = msgspec.field(name="table-uuid", default=None)
    location: str | None = None
    updated_ms: int = msgspec.field(name="last-updated-ms", default=0)
    log: list[_Entry] = msgspec.field(name="metadata-log", default_factory=list)


def is_metadata(location: str) -> bool:
    """Whether a file has the name of a table's metadata file."""
    return _METADATA.search(location) is not None


def check_no_other_table(storage: Storage, state: TableState, files: Sequence[StoredFile], doing: str) -> None:
    """Raise ``InvalidInput`` if one of the metadata files is of another table.

    ``files`` are metadata files that this table does not reach. A file that is no metadata is ignored. Raises
    ``StorageFailed`` if the storage does not answer.
    """
    for file, found in zip(files, ask_each(storage, lambda one: _owner(storage, one.location), files), strict=True):
        if found is None or found.is_of(state):
            continue
        other = found.uuid or found.location or "without a uuid"
        raise InvalidInput(
            f"cannot {doing}: {file.location} is metadata of another table ({other}), which may need files here; "
            "give a folder without it, with location=…; if that table is gone for good, allow it with "
            "other_tables='remove'",
            file=file.location,
            other=other,
        )


def check_no_other_history(storage: Storage, state: TableState, files: Sequence[StoredFile], doing: str) -> None:
    """Raise ``InvalidInput`` if one of the metadata files is a later version of this table from another history.

    ``files`` are metadata files that this table does not reach. Raises ``StorageFailed`` if the storage does not
    answer.
    """
    metadata = state.metadata
    known = {
        path_key(place) for place in (state.metadata_location, *(one.metadata_file for one in metadata.metadata_log))
    }
    since_ms = min([metadata.last_updated_ms, *(one.timestamp_ms for one in metadata.metadata_log)])
    late = [file for file in files if file.modified_ms >= since_ms - _DAY_MS]  # older ones have left the log
    found = {path_key(file.location): version for file, version in _versions(storage, late, metadata.uuid)}
    for file in late:
        version = found.get(path_key(file.location))
        if version is None or not version.log or version.updated_ms < since_ms:
            continue
        before = found.get(path_key(version.log[-1].file))
        if before is not None and path_key(version.log[-1].file) not in known and before.updated_ms >= since_ms:
            raise InvalidInput(
                f"cannot {doing}: {file.location} is a version of the table that is not in its history; another "
                "catalog may have the table, or this one was set back to an older version; if that version is not "
                "needed, allow it with other_tables='remove'",
                file=file.location,
            )


def check_not_shared(catalog: Catalog, name: object, folders: Iterable[str], doing: str) -> None:
    """Raise ``InvalidInput`` if the catalog has another table or view whose metadata is in one of the folders.

    Only catalogs that know where all tables are without opening them are asked.
    """
    if not isinstance(catalog, KnowsPlaces):
        return
    mine = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    for other in catalog.folders():
        if other.name != name and f"{other.location.rstrip('/')}/".startswith(mine):
            raise InvalidInput(
                f"cannot {doing}: {other.name} is in the same folder ({other.location}), so the two may share files; "
                "drop it without purge",
                other=str(other.name),
            )


class _Owner(NamedTuple):
    """The table that a metadata file is of. In format version 1 it may have no uuid, and a view never has one."""

    uuid: str | None
    location: str | None = None

    def is_of(self, state: TableState) -> bool:
        """Whether it is this table. Versions without a uuid are compared by their location."""
        mine = state.metadata.uuid
        if self.uuid is not None:
            return mine is not None and self.uuid.lower() == mine.lower()
        return self.location is None or path_key(self.location) == path_key(state.metadata.location)


def _owner(storage: Storage, location: str) -> _Owner | None:
    """The table of a metadata file. None if it is no metadata, or is gone."""
    try:
        with storage.open(location) as file:
            head = _inflated(file.read(_HEAD), _HEAD)
        if (found := _UUID.search(head)) is not None:
            return _Owner(found[1].decode("utf-8", "replace"))
        version = _decoded(storage, location)
    except StorageFailed:
        raise
    except EskerError:
        return None
    return None if version is None else _Owner(version.uuid, version.location)


def _versions(storage: Storage, files: Sequence[StoredFile], uuid: str | None) -> Iterator[tuple[StoredFile, _Version]]:
    """The files that are versions of the table with this uuid."""
    for file in files:
        version = _decoded(storage, file.location)
        if version is not None and (version.uuid or "").lower() == (uuid or "").lower():
            yield file, version


def _decoded(storage: Storage, location: str) -> _Version | None:
    try:
        return msgspec.json.decode(_inflated(storage.read(location), _LARGEST), type=_Version)
    except (NoSuchFile, Corrupt, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _inflated(data: bytes, most: int) -> bytes:
    """The bytes, inflated if they are compressed, up to a limit. What cannot be inflated is left out."""
    if not data.startswith(b"\x1f\x8b"):
        return data[:most]
    try:
        return zlib.decompressobj(wbits=31).decompress(data, most)
    except zlib.error:
        return b""
