"""What reading and writing need: the ports, the table's home, names for new metadata files, and the files written so
far."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.errors import AlreadyExists
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog
from esker.ports.engine import Engine, SparkFrames, Writer
from esker.ports.file_rewriting import FileRewriter
from esker.ports.row_changes import DeleteWriter, RowEngine
from esker.ports.scan_service import ScanService, ServesScans
from esker.ports.statistics import Statistics
from esker.ports.storage import FileLister, Storage, delete_each
from esker.ports.table_format import TableFormat, TableFormatWriter
from esker.tree.snapshot import LazySequence
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.write.definition.new_table import FromArrow
    from esker.write.group_commit import GroupCommits


@dataclass(frozen=True, kw_only=True)
class Workings:
    """The parts that a table needs for reading: storage, format and engines. Each is made when it is first used."""

    storage: Storage
    make_format: Callable[[Storage], TableFormat]
    make_engine: Callable[[Storage], Engine]
    make_frames: Callable[[Storage, Engine], SparkFrames] | None = None
    make_inspect: Callable[[TableMetadata, TableFormat], Any] | None = None  # of a format with its own metadata tables

    @cached_property
    def format(self) -> TableFormat:
        """Reads manifest lists and manifests."""
        return self.make_format(self.storage)

    @cached_property
    def engine(self) -> Engine:
        """Reads rows as Arrow data."""
        return self.make_engine(self.storage)

    @cached_property
    def frames(self) -> SparkFrames | None:
        """Makes Spark DataFrames of rows; None without Spark."""
        return None if self.make_frames is None else self.make_frames(self.storage, self.engine)


# ---------------------------------------------------------------- locations of new metadata files


@dataclass(slots=True)
class MetadataNames:
    """Unique names for the manifests and manifest lists of one operation."""

    operation_id: str = field(default_factory=lambda: str(uuid4()))
    _manifests: int = 0

    def manifest(self, metadata: TableMetadata) -> str:
        """A location for the operation's next manifest."""
        number = self._manifests
        self._manifests += 1
        return f"{metadata_folder(metadata)}/{self.operation_id}-m{number}.avro"

    def manifest_list(self, metadata: TableMetadata, snapshot_id: int, attempt: int) -> str:
        """A location for the manifest list of one attempt."""
        return f"{metadata_folder(metadata)}/snap-{snapshot_id}-{attempt}-{self.operation_id}.avro"


def metadata_folder(metadata: TableMetadata) -> str:
    """The folder of the table's metadata files."""
    chosen = metadata.properties.get("write.metadata.path")
    return chosen.rstrip("/") if chosen else f"{metadata.location.rstrip('/')}/metadata"


_ID = re.compile(rb'"snapshot-id"\s*:\s*(\d+)')


def new_snapshot_id(metadata: TableMetadata) -> int:
    """A random id of 63 bits that no snapshot of the table has."""
    while True:
        drawn = secrets.randbits(63)
        if drawn and not _is_taken(metadata, drawn):
            return drawn


def _is_taken(metadata: TableMetadata, snapshot_id: int) -> bool:
    """Search the encoded history: decoding thousands of snapshots only for this check would make the commit slow."""
    snapshots = metadata.snapshots
    if not isinstance(snapshots, LazySequence):
        return any(snapshot.snapshot_id == snapshot_id for snapshot in snapshots)
    return snapshots.has_key(snapshot_id, of_raw=_numbers, of_item=lambda snapshot: snapshot.snapshot_id)


def _numbers(texts: Iterable[bytes]) -> Iterator[int]:
    """Every snapshot id in the texts of snapshots; other large numbers may be among them."""
    return (int(found) for found in _ID.findall(b"\n".join(texts)))


# ---------------------------------------------------------------- tools, and the files written so far


log = logging.getLogger("esker.write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The ports for reading and writing the levels of a table."""

    format: TableFormat
    manifests: TableFormatWriter
    engine: Engine
    writer: Writer
    deletes: DeleteWriter
    rows: RowEngine[Any, Any]  # its types are its own
    rewriter: FileRewriter
    statistics: Statistics
    lister: FileLister
    storage: Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a table can be changed: its catalog, its name there, and the tools for writing."""

    catalog: Catalog
    name: TableName
    get_tools: Callable[[], Tools]
    get_commits: Callable[[], GroupCommits]
    schema_from_arrow: FromArrow | None = None

    @property
    def commits(self) -> GroupCommits:
        """How appends of several threads are committed."""
        return self.get_commits()

    @property
    def tools(self) -> Tools:
        """The tools for writing."""
        return self.get_tools()

    @property
    def scan_service(self) -> ScanService | None:
        """What the catalog does for scans of this table; None for a catalog that stores pointers only."""
        return self.catalog.scan_service(self.name) if isinstance(self.catalog, ServesScans) else None


@dataclass(slots=True)
class Scratch:
    """Files written for a commit that is not made yet, so that they can be deleted after a failure."""

    storage: Storage
    locations: set[str] = field(default_factory=set)

    def note(self, location: str) -> None:
        """Record a file that was written."""
        self.locations.add(location)

    @contextmanager
    def writing(self, location: str) -> Iterator[str]:
        """Record a file that is written inside the block, also if that fails, unless another writer has the name."""
        self.locations.add(location)
        try:
            yield location
        except AlreadyExists:
            self.locations.discard(location)
            raise

    def discard(self, locations: Iterable[str] | None = None) -> None:
        """Delete what was written. Only for files that no catalog can know."""
        gone = sorted(self.locations if locations is None else locations)
        for location, error in delete_each(self.storage, gone):
            # an orphaned file does no harm; hiding the cause of the failure does
            log.warning("cannot delete %s, which is not part of the table: %s", location, error)
        self.locations.difference_update(gone)
