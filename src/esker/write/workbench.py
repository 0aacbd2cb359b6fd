"""What a write works with, and what it has written so far."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esker.errors import AlreadyExists, EskerError
from esker.model.naming import TableName
from esker.ports.catalog import Catalog
from esker.ports.engine import Engine, Writer
from esker.ports.merging import Merger
from esker.ports.row_changes import DeleteWriter, RowEngine
from esker.ports.storage import Storage
from esker.ports.table_format import TableFormat, TableFormatWriter

if TYPE_CHECKING:
    from esker.write.new_table import FromArrow

log = logging.getLogger("esker.write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """How to read and write the levels of a table."""

    format: TableFormat
    manifests: TableFormatWriter
    engine: Engine
    writer: Writer
    deletes: DeleteWriter
    rows: RowEngine
    storage: Storage
    merger: Merger | None = None  # computes merges, and changes by any SQL expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a table can be changed: its catalog, its name there, and the tools of writing."""

    catalog: Catalog
    name: TableName
    get_tools: Callable[[], Tools]
    schema_from_arrow: FromArrow | None = None

    @property
    def tools(self) -> Tools:
        """What a write works with."""
        return self.get_tools()


@dataclass(slots=True)
class Scratch:
    """Files written for a commit that is not made yet, so that a failure can take them back."""

    storage: Storage
    locations: set[str] = field(default_factory=set)

    def note(self, location: str) -> None:
        """Remember a file that was written."""
        self.locations.add(location)

    @contextmanager
    def writing(self, location: str) -> Iterator[str]:
        """Remember a file that is written inside the block, whatever becomes of it, unless the name is another's."""
        self.locations.add(location)
        try:
            yield location
        except AlreadyExists:
            self.locations.discard(location)
            raise

    def discard(self, locations: Iterable[str] | None = None) -> None:
        """Delete what was written. Only for files that no catalog can have been told of."""
        for location in sorted(self.locations if locations is None else locations):
            try:
                self.storage.delete(location)
            except (EskerError, OSError) as error:  # an orphan is no harm; hiding the cause of the failure is
                log.warning("cannot delete %s, which is not part of the table: %s", location, error)
            self.locations.discard(location)
