"""View metadata files: one for each state of a view, each written once under a name nobody else can choose."""

from __future__ import annotations

import gzip
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from esker.catalogs.metadata_files import SUFFIXES, codec_of, version_of
from esker.catalogs.warehouse import METADATA_PATH, Warehouse
from esker.errors import EskerError
from esker.iceberg.view_metadata import decode_view_metadata, encode_view_metadata
from esker.ports.view_catalog import ViewState
from esker.tree.view_metadata import ViewMetadata


@dataclass(frozen=True, slots=True)
class ViewFiles:
    """Reads and writes whole files of view metadata."""

    warehouse: Warehouse

    def read(self, location: str) -> ViewState:
        """The view as that file states it; `InvalidInput` for a file outside the warehouse and the allowed roots."""
        content = self.warehouse.storage.read(location)
        return ViewState(metadata=decode_view_metadata(location, content), metadata_location=location)

    def write(self, metadata: ViewMetadata, base: ViewState | None = None) -> ViewState:
        """The file that follows ``base``, or the first; it is not the view until the pointer says so."""
        version = 0 if base is None else version_of(base.metadata_location) + 1
        codec = codec_of(metadata.properties)
        location = f"{self._folder(metadata)}/{version:05d}-{uuid4()}{SUFFIXES[codec]}"
        content = encode_view_metadata(metadata)
        self.warehouse.storage.write_new(location, gzip.compress(content, mtime=0) if codec == "gzip" else content)
        return ViewState(metadata=metadata, metadata_location=location)

    def discard(self, state: ViewState) -> None:
        """Take back a file that is certain never to have been pointed at."""
        with suppress(EskerError):
            self.warehouse.storage.delete(state.metadata_location)

    def _folder(self, metadata: ViewMetadata) -> str:
        named = metadata.properties.get(METADATA_PATH)
        if named:
            return self.warehouse.check(named, METADATA_PATH)
        return self.warehouse.check(metadata.location, "the view's location") + "/metadata"
