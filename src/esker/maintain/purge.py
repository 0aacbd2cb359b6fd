"""The end of a table: which files are its own, and their removal once no catalog points at them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from esker.errors import EskerError, InvalidInput
from esker.ports.catalog import TableState
from esker.ports.storage import Storage, StoredFile

if TYPE_CHECKING:
    from esker.metadata_tables.inspect import Inspect

DROPPED = "metadata.dropped-"
_UUID = re.compile(r"[0-9A-Fa-f-]{8,64}")


def dropped_folder(uuid: str | None) -> str:
    """What a directory catalog calls the metadata folder of a table it dropped, up to what tells two drops apart."""
    return f"{DROPPED}{uuid if uuid and _UUID.fullmatch(uuid) else 'unknown'}-"


def own_files(state: TableState, inspect: Inspect) -> list[str]:
    """Every file that any snapshot of the table reaches, of those below its own location.

    Files elsewhere (taken in by ``add_files``, or named by metadata that means harm) may be somebody else's.
    """
    metadata = state.metadata
    if metadata.properties.get("gc.enabled", "true").lower() == "false":
        raise InvalidInput("cannot purge the table: its property gc.enabled is false, other tables may use its files")
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
    """Delete the files of a table that was dropped. One that will not go does not keep the others."""
    for file in files:
        with suppress(EskerError):
            storage.delete(file)
    moved = f"{state.metadata.location.rstrip('/')}/{dropped_folder(state.metadata.uuid)}"
    for left in _listed(storage, state.metadata.location):
        if left.location.startswith(moved):
            with suppress(EskerError):
                storage.delete(left.location)


def _listed(storage: Storage, location: str) -> list[StoredFile]:
    """What is left there. The table is dropped by now: a folder that cannot be listed is no failure of that."""
    try:
        return list(storage.list(location))
    except EskerError:
        return []
