"""Files that a failed job left: found by the operation in their names, and deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice

from esker.errors import EskerError
from esker.ports.storage import Storage

log = logging.getLogger("esker.spark")

_MOST_TO_LOOK_AT = 100_000


def sweep(storage: Storage, folder: str, operation_id: str) -> None:
    """Delete what tasks of a failed job had finished. Nobody reported their names, so they are looked for, in a
    folder of reasonable size; what is left, and what a task that dies later leaves, are orphans like any other."""
    try:
        stored = [file.location for file in islice(storage.list(folder), _MOST_TO_LOOK_AT)]
    except (EskerError, OSError) as error:
        log.warning("cannot look for files that a failed job left below %s: %s", folder, error)
        return
    delete(storage, (location for location in stored if operation_id in location.rpartition("/")[2]))


def delete(storage: Storage, locations: Iterable[str]) -> None:
    """Delete files that are not part of the table."""
    for location in locations:
        try:
            storage.delete(location)
        except (EskerError, OSError) as error:
            log.warning("cannot delete %s, which is not part of the table: %s", location, error)
