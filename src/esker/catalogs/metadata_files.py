"""Metadata files: their names, their log of earlier files, and which of these may be deleted (D4, D9)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from uuid import uuid4

from esker.catalogs.warehouse import METADATA_PATH, Warehouse
from esker.errors import EskerError, InvalidInput
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata, first_pieces, table_metadata_in_pieces
from esker.ports.catalog import TableState
from esker.ports.storage import BeginsFiles, Finish, drop_cached, sync_names, write_pieces
from esker.tree.table_metadata import MetadataLogEntry, TableMetadata

CODEC = "write.metadata.compression-codec"
LOG_LENGTH = "write.metadata.previous-versions-max"
DELETE_OLD = "write.metadata.delete-after-commit.enabled"

LONG_HISTORY = 1024
"""Snapshots from which on a metadata file is large: each takes about 750 bytes."""

_VERSION = re.compile(r"(?:^|/)v?(\d{1,18})[^/]*$")
SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}


@dataclass(frozen=True, slots=True)
class _Begun:
    """A file whose beginning is written: the folder that was checked for it, for which version, and the rest's way."""

    folder: str
    base: TableMetadata
    finish: Finish

    def is_home_of(self, metadata: TableMetadata) -> bool:
        """Whether the metadata names the same folder."""
        named = metadata.properties.get(METADATA_PATH)
        return metadata.location == self.base.location and named == self.base.properties.get(METADATA_PATH)


_begun: ContextVar[_Begun | None] = ContextVar("begun", default=None)


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """Reads and writes complete metadata files. Each file is written once, under a name that no other writer can
    choose."""

    warehouse: Warehouse

    def read(self, location: str) -> TableState:
        """The table that a file describes. Raises `InvalidInput` if the file is outside the warehouse and the allowed
        roots."""
        content = self.warehouse.storage.read(location)
        return TableState(metadata=decode_table_metadata(location, content), metadata_location=location)

    def write_first(self, metadata: TableMetadata) -> TableState:
        """Write the first metadata file of a new table."""
        return self._write(metadata, version=0)

    def write_next(self, base: TableState, new: TableMetadata) -> TableState:
        """Write the file that follows ``base``. It becomes the table's metadata only when the pointer moves to it."""
        return self._write(with_log(base, new), version=version_of(base.metadata_location) + 1)

    @contextmanager
    def writing_ahead(self, base: TableState) -> Iterator[None]:
        """Write the old snapshots of a long history while the block runs. If ``write_next`` is called in the block, by
        the same thread, it writes the rest behind them. Raises nothing: ``write_next`` reports what is wrong.
        """
        folder, beginning = self._beginning(base.metadata)
        with beginning as finish:
            before = _begun.set(None if finish is None else _Begun(folder, base.metadata, finish))
            try:
                yield
            finally:
                _begun.reset(before)

    def _beginning(self, metadata: TableMetadata) -> tuple[str, AbstractContextManager[Finish | None]]:
        storage = self.warehouse.storage
        if len(metadata.snapshots) >= LONG_HISTORY and isinstance(storage, BeginsFiles):
            with suppress(EskerError):  # the change may mend it, such as a wrong property
                if codec_of(metadata.properties) == "none":
                    folder = self.folder_of(metadata)
                    return folder, storage.begun(folder, first_pieces(metadata))
        return "", nullcontext()

    def discard(self, state: TableState) -> None:
        """Delete a file that certainly no pointer ever named."""
        with suppress(EskerError):
            self.warehouse.storage.delete(state.metadata_location)

    def tidy(self, base: TableState, state: TableState) -> None:
        """After a commit, delete the files that left the log, if the table's properties ask for it. Never raises.

        The content of the base is dropped from memory if it is large: readers begin at the new file. Without it, each
        commit would fill megabytes of memory that was not in use.
        """
        if len(base.metadata.snapshots) >= LONG_HISTORY:
            drop_cached(self.warehouse.storage, base.metadata_location)
        with suppress(EskerError):
            for location in forgotten(base, state.metadata):
                self.warehouse.storage.delete(location)

    def folder_of(self, metadata: TableMetadata) -> str:
        """The folder of a table's metadata files. Raises `InvalidInput` if the catalog may not write there."""
        named = metadata.properties.get(METADATA_PATH)
        if named:
            return self.warehouse.check(named, METADATA_PATH)
        return self.warehouse.check(metadata.location, "the table's location") + "/metadata"

    def _write(self, metadata: TableMetadata, *, version: int) -> TableState:
        codec = codec_of(metadata.properties)
        begun = _begun.get()
        folder = begun.folder if begun is not None and begun.is_home_of(metadata) else self.folder_of(metadata)
        location = f"{folder}/{version:05d}-{uuid4()}{SUFFIXES[codec]}"
        state = TableState(metadata=metadata, metadata_location=location)
        pieces = [encoded(metadata, codec)] if codec == "gzip" else table_metadata_in_pieces(metadata)
        if begun is None or not begun.finish(location, pieces):
            write_pieces(self.warehouse.storage, location, pieces)
        try:
            sync_names()  # the next step is the pointer's: all that it will lead to must survive a crash
        except EskerError:
            self.discard(state)
            raise
        return state


def check_same_table(base: TableMetadata, new: TableMetadata) -> None:
    """Raise `InvalidInput` if the uuid changes. It never changes; only a v1 table may get its first one (D1)."""
    if base.uuid is not None and (new.uuid or "").lower() != base.uuid.lower():
        raise InvalidInput(
            f"cannot commit: the table's uuid is {base.uuid}, the new metadata has {new.uuid}; load it again"
        )


def encoded(metadata: TableMetadata, codec: str) -> bytes:
    """The metadata as the bytes of a file."""
    content = encode_table_metadata(metadata)
    return gzip.compress(content, mtime=0) if codec == "gzip" else content


def codec_of(properties: Mapping[str, str]) -> str:
    """The compression codec of new metadata files: ``none`` or ``gzip``."""
    codec = properties.get(CODEC, "none").lower()
    if codec not in SUFFIXES:
        raise InvalidInput(f"cannot write metadata: {CODEC} is {codec!r}; set it to none or gzip", property=CODEC)
    return codec


def with_log(base: TableState, new: TableMetadata) -> TableMetadata:
    """The new metadata with the file of its base in the log. The oldest entries are removed (D4)."""
    keep = _log_length(new.properties)
    entry = MetadataLogEntry(timestamp_ms=base.metadata.last_updated_ms, metadata_file=base.metadata_location)
    return replace(new, metadata_log=(*base.metadata.metadata_log, entry)[-keep:])


def forgotten(base: TableState, new: TableMetadata) -> list[str]:
    """The files that left the log and are in the folder of the new file, oldest first. Empty unless the table asks for
    it."""
    if new.properties.get(DELETE_OLD, "false").lower() != "true":
        return []
    kept = {entry.metadata_file for entry in new.metadata_log}
    own = (f"{new.location.rstrip('/')}/metadata/", f"{new.properties.get(METADATA_PATH, new.location).rstrip('/')}/")
    gone = (entry.metadata_file for entry in base.metadata.metadata_log)
    return [file for file in gone if file not in kept and file.startswith(own) and "/../" not in file]


def version_of(location: str) -> int:
    """The number at the start of a metadata file's name. -1 if there is none, so that the next one is 0."""
    found = _VERSION.search(location)
    return int(found[1]) if found else -1


def _log_length(properties: Mapping[str, str]) -> int:
    text = properties.get(LOG_LENGTH, "100")
    try:
        return max(1, int(text))
    except ValueError:
        raise InvalidInput(
            f"cannot commit: {LOG_LENGTH} is {text!r}; set it to a whole number", property=LOG_LENGTH
        ) from None
