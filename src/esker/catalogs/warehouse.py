"""The locations of a catalog's tables, and the limits on them.

Tables are created below the warehouse. Tables and their files may be elsewhere only below a place that was named in
``allowed_roots`` when connecting. Nothing that is recorded in a table or in the catalog allows another place.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote
from uuid import uuid4

from esker.errors import InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.ports.storage import Storage
from esker.storage.location import Location, how_to_allow
from esker.tree.table_metadata import TableMetadata

METADATA_PATH = "write.metadata.path"
PATHS = (METADATA_PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_PLAIN = re.compile(r"[^\w.-]")  # all other characters are percent-encoded: engines split locations at # and ?


class Fence(Protocol):
    """Keeps a storage inside the places that it was given."""

    def check(self, location: str) -> None:
        """Raise `InvalidInput` if a location is outside."""
        ...


class Warehouse:
    """The place below which a catalog creates tables, and their storage.

    ``record`` is a file that lists the warehouses that a catalog was used with.
    """

    def __init__(
        self, location: str, storage: Storage, *, fence: Fence | None = None, record: Path | None = None
    ) -> None:
        self.location = checked_location(location, "the warehouse").rstrip("/")
        self.storage = storage
        self._fence = fence
        self._record = record

    def home_of(self, name: TableName, base: str | None = None) -> str:
        """A location for a new table where no other table has files.

        A renamed or dropped table leaves its files in the folder of its old name. Two tables in one folder would clean
        up each other's files. ``base`` is the location of the namespace's tables.
        """
        if base:
            self.check(base, f"the location of namespace {'.'.join(name.namespace)}")
        parts = (name.name,) if base else (*name.namespace, name.name)
        home = "/".join(((base or self.location).rstrip("/"), *map(_folder, parts)))
        taken = next(iter(self.storage.list(home)), None) is not None
        return f"{home}-{uuid4().hex[:12]}" if taken else home

    def check(self, location: str, what: str) -> str:
        """The location without a slash at its end. Raises `InvalidInput` if the catalog may not use it."""
        found = checked_location(location, what)
        if self._fence is not None:
            try:
                self._fence.check(found)
            except InvalidInput as error:
                raise InvalidInput(
                    f"cannot use {location} as {what}: it is located outside the warehouse {self.location}; "
                    f"{how_to_allow(location)}",
                    location=location,
                ) from error
            except Unsupported as error:
                raise error.with_facts(location=location) from None
        return found.rstrip("/")

    def check_table(self, new: TableMetadata, base: TableMetadata | None = None) -> None:
        """Raise `InvalidInput` if the table's location or one of its write paths is outside.

        A location that ``base`` has already is not checked, so that a table elsewhere can still be repaired.
        """
        if base is None or new.location != base.location:
            self.check(new.location, "the table's location")
        for name in PATHS:
            named = new.properties.get(name)
            if named and (base is None or named != base.properties.get(name)):
                self.check(named, name)

    def remember(self) -> None:
        """Record that the catalog has tables in this warehouse, for later connections that do not name it.

        Never raises: without the record, these connections have to name it.
        """
        if self._record is not None and self.location not in recorded_warehouses(self._record):
            with suppress(OSError), self._record.open("a") as file:
                file.write(f"{self.location}\n")


def recorded_warehouses(record: Path) -> list[str]:
    """The warehouses in a record, oldest first."""
    try:
        return [line for line in record.read_text().splitlines() if line]
    except (OSError, ValueError):
        return []


def checked_location(location: str, what: str) -> str:
    """The location. Raises `InvalidInput` unless it is absolute, below some root, and without ``..``."""
    parsed = Location.parse(location)
    if _CONTROL.search(location) or parsed.is_relative:
        raise InvalidInput(f"cannot use {location!r} as {what}: it must be an absolute path or URI", location=location)
    if ".." in parsed.path.split("/"):
        raise InvalidInput(
            f"cannot use {location!r} as {what}: it contains '..'; use the path without it", location=location
        )
    if not parsed.authority and parsed.path in ("", "/"):
        raise InvalidInput(
            f"cannot use {location!r} as {what}: it is the root of the file system; name a folder", location=location
        )
    return location


def _folder(part: str) -> str:
    return _PLAIN.sub(lambda found: quote(found[0], safe=""), part)
