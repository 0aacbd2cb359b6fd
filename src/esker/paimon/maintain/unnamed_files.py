"""Orphans: files in a table's directory that no snapshot, tag, branch or changelog names."""

from __future__ import annotations

import time

from esker.errors import InvalidInput
from esker.paimon.maintain.reachable import Reachable, other_roots, snapshots_of
from esker.paimon.maintain.table_files import known_files
from esker.paimon.metadata.layout import MAIN, Layout
from esker.ports.own_writer import Orphans
from esker.ports.storage import Storage, delete_each

DAY_MS = 86_400_000
DEFAULT_AGE_MS = 3 * DAY_MS


def remove_orphans(
    storage: Storage,
    root: str,
    *,
    older_than_ms: int | None = None,
    under_24_hours: bool = False,
    dry_run: bool = False,
) -> Orphans:
    """Delete files that were last changed before a time (three days ago) and that nothing names.

    Raises ``InvalidInput`` for a time in the last 24 hours, unless ``under_24_hours``: a writer may be about to name
    it. Any file of metadata that cannot be read raises, and then nothing is deleted.
    """
    now = int(time.time() * 1000)
    limit = now - DEFAULT_AGE_MS if older_than_ms is None else older_than_ms
    if limit > now - DAY_MS and not under_24_hours:
        raise InvalidInput(
            "cannot remove orphans of the last 24 hours: a writer may be about to commit them; give an earlier time, "
            "or under_24_hours=True if nobody writes"
        )
    layout = Layout(root, MAIN)
    listed = known_files(storage, layout)  # before the roots: what is committed meanwhile is then among the needed
    needed = Reachable(storage, layout).of([*snapshots_of(storage, layout).values(), *other_roots(storage, layout)])
    gone = [file for file in listed if file.modified_ms < limit and file.location.rpartition("/")[2] not in needed]
    places = tuple(sorted(file.location for file in gone))
    size = sum(file.size for file in gone)
    if dry_run:
        return Orphans(files=places, total_bytes=size)
    failed = delete_each(storage, places)
    return Orphans(files=places, total_bytes=size, failed=tuple(place for place, _ in failed))
