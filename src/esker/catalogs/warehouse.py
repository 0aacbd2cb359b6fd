"""Where a catalog's tables lie, and the fence around it.

Tables are made below the warehouse. A table may lie elsewhere only when somebody who may say so named the place:
the caller of ``create``, the roots given on connecting, or the catalog's own pointer to a table that is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import quote
from uuid import uuid4

from esker.errors import InvalidInput
from esker.model.naming import TableName
from esker.ports.storage import Storage
from esker.storage.location import Location

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_PLAIN = re.compile(r"[^\w.-]")  # anything else is percent-encoded: engines split locations at # and ?


class Fence(Protocol):
    """What keeps a storage inside the places it was given."""

    def admit(self, place: str) -> None:
        """Open one more place."""
        ...

    def check(self, location: str) -> None:
        """`InvalidInput` for a location that leads outside."""
        ...


class Warehouse:
    """The place below which a catalog makes tables, and the storage they lie in."""

    def __init__(
        self, location: str, storage: Storage, *, fence: Fence | None = None, roots: Iterable[str] = ()
    ) -> None:
        self.location = checked_location(location, "the warehouse").rstrip("/")
        self.storage = storage
        self._fence = fence
        for place in (self.location, *roots):
            self.admit(place)

    def home_of(self, name: TableName, base: str | None = None) -> str:
        """A location for a new table where no other table's files lie.

        A renamed or dropped table leaves its files in the folder of its old name; two tables in one folder would
        clean up each other's files.
        """
        if base:  # the namespace itself names the place
            self.admit(base)
        parts = (name.name,) if base else (*name.namespace, name.name)
        home = "/".join(((base or self.location).rstrip("/"), *map(_folder, parts)))
        taken = next(iter(self.storage.list(home)), None) is not None
        return f"{home}-{uuid4().hex[:12]}" if taken else home

    def admit(self, place: str) -> None:
        """Let tables lie there too."""
        checked_location(place, "a place for tables")
        if self._fence is not None:
            self._fence.admit(place)

    def check(self, location: str, what: str) -> str:
        """The location without a slash at its end, if it is a place that files may be written below."""
        found = checked_location(location, what)
        if self._fence is not None:
            try:
                self._fence.check(found)
            except InvalidInput as error:
                raise InvalidInput(
                    f"cannot use {location} as {what}: it lies outside the warehouse {self.location}; "
                    "to allow it, name its folder among the roots on connecting",
                    location=location,
                ) from error
        return found.rstrip("/")


def checked_location(location: str, what: str) -> str:
    """The location, if it is whole: absolute, below some root, with nothing in it that climbs or hides."""
    parsed = Location.parse(location)
    if _CONTROL.search(location) or parsed.is_relative:
        raise InvalidInput(f"cannot use {location!r} as {what}: it must be an absolute path or URI", location=location)
    if ".." in parsed.path.split("/"):
        raise InvalidInput(f"cannot use {location!r} as {what}: it climbs by '..'", location=location)
    if not parsed.authority and parsed.path in ("", "/"):
        raise InvalidInput(f"cannot use {location!r} as {what}: it is the root of everything", location=location)
    return location


def _folder(part: str) -> str:
    return _PLAIN.sub(lambda found: quote(found[0], safe=""), part)
