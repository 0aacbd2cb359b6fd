"""Purge a dropped table: find the files that belong to it, and delete them when no catalog refers to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from esker.errors import EskerError, InvalidInput, StorageFailed
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.ports.storage import Storage, StoredFile, delete_each

if TYPE_CHECKING:
    from esker.metadata_tables.inspect import Inspect

DROPPED = "metadata.dropped-"
_UUID = re.compile(r"[0-9A-Fa-f-]{8,64}")


def dropped_folder(uuid: str | None) -> str:
    """The name of a dropped table's metadata folder in a directory catalog, without the suffix that makes it unique."""
    return f"{DROPPED}{uuid if uuid and _UUID.fullmatch(uuid) else 'unknown'}-"


def check_purge(catalog: Catalog, name: TableName, state: TableState) -> None:
    """Raise ``InvalidInput`` if another table of the catalog, or another catalog, has this table's files (F46)."""
    from esker.maintain.other_tables import check_no_other_history, check_not_shared, is_metadata
    from esker.maintain.tended_table import path_key  # loads NumPy, which a look at a view does not need

    doing = f"purge {name}"
    check_not_shared(catalog, name, [state.metadata.location], doing)
    log = (entry.metadata_file for entry in state.metadata.metadata_log)
    known = {path_key(place) for place in (state.metadata_location, *log)}
    folder = state.metadata_location.rpartition("/")[0]
    beside = [file for file in _listed(catalog.storage(), folder, closed=True) if is_metadata(file.location)]
    unknown = [file for file in beside if path_key(file.location) not in known]
    check_no_other_history(catalog.storage(), state, unknown, doing)


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


def _listed(storage: Storage, location: str, *, closed: bool = False) -> list[StoredFile]:
    """The files below a location. Empty if it cannot be listed: some stores sign no listings, and after the drop it is
    no failure. With ``closed``, raises ``StorageFailed`` if a second try may succeed."""
    try:
        return list(storage.list(location))
    except EskerError as error:
        if closed and isinstance(error, StorageFailed) and error.retryable:
            raise
        return []
