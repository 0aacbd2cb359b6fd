"""Purge a dropped table: find the files that belong to it, and delete them when no catalog refers to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from esker.errors import EskerError, InvalidInput
from esker.ports.catalog import TableState
from esker.ports.storage import Storage, StoredFile, delete_each

if TYPE_CHECKING:
    from esker.metadata_tables.inspect import Inspect

DROPPED = "metadata.dropped-"
_UUID = re.compile(r"[0-9A-Fa-f-]{8,64}")


def dropped_folder(uuid: str | None) -> str:
    """The name of a dropped table's metadata folder in a directory catalog, without the suffix that makes it unique."""
    return f"{DROPPED}{uuid if uuid and _UUID.fullmatch(uuid) else 'unknown'}-"


def own_files(state: TableState, inspect: Inspect) -> list[str]:
    """Every file that a snapshot of the table refers to and that is below the table's location.

    Files elsewhere may belong to someone else: files that ``add_files`` added, or that hostile metadata names. Raises
    ``InvalidInput`` if the property ``gc.enabled`` is false.
    """
    metadata = state.metadata
    if metadata.properties.get("gc.enabled", "true").lower() == "false":
        raise InvalidInput(
            "cannot purge the table: its property gc.enabled is false, so other tables may use its files; set it to "
            "true"
        )
    found = {state.metadata_location}
    found.update(entry.metadata_file for entry in metadata.metadata_log)
    found.update(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list)
    found.update(file.path for file in metadata.statistics)
    found.update(file.path for file in metadata.partition_statistics)
    found.update(inspect.all_manifests().column("path").to_pylist())
    found.update(inspect.all_files(columns=["file_path"]).column("file_path").to_pylist())
    home = f"{metadata.location.rstrip('/')}/"
    return sorted(file for file in found if file.startswith(home) and ".." not in file.split("/"))


def remove(storage: Storage, state: TableState, files: Iterable[str]) -> None:
    """Delete the files of a dropped table. If a file cannot be deleted, the others are still deleted."""
    delete_each(storage, files)
    moved = f"{state.metadata.location.rstrip('/')}/{dropped_folder(state.metadata.uuid)}"
    left = (file.location for file in _listed(storage, state.metadata.location))
    delete_each(storage, [location for location in left if location.startswith(moved)])


def _listed(storage: Storage, location: str) -> list[StoredFile]:
    """The files below a location. Empty if it cannot be listed: the table is dropped already, so this is no failure."""
    try:
        return list(storage.list(location))
    except EskerError:
        return []
