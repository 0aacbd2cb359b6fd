"""Which folders the workers of a cluster can reach themselves."""

from __future__ import annotations

from pathlib import Path

from esker.ports.storage import Storage
from esker.storage.local import LocalStorage
from esker.storage.location import Location


def folder_of_workers(storage: Storage, location: str) -> Path | None:
    """The folder at a location, as a path that the driver and all workers share; None if the store has no paths."""
    if not isinstance(storage, LocalStorage):
        return None
    storage.check(location)
    return Path(Location.parse(location).path).absolute()
