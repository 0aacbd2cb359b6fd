"""What removes files of a table: expiry of its oldest snapshots, and removal of orphans.

A file goes only if no snapshot, tag, branch or changelog names it, and if its place and name show that a writer of
Paimon made it. A data file may have any name: it goes with the last snapshot that names it, but it is no orphan.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from esker.errors import Corrupt, InvalidInput
from esker.paimon.maintain.reachable import Reachable, other_roots, snapshots_of
from esker.paimon.metadata.layout import MAIN, Layout, named
from esker.paimon.write.publish_snapshot import write_hint
from esker.ports.own_writer import Expired, Orphans
from esker.ports.storage import Storage, StoredFile, delete_each

DAY_MS = 86_400_000
DEFAULT_AGE_MS = 3 * DAY_MS
_KNOWN = re.compile(
    r"(?:manifest/(?:manifest|index-manifest)-[^/]+|index/index-[^/]+|statistics/stat-[^/]+"
    r"|(?:[^/]+=[^/]*/)*bucket-[^/]+/(?:data|changelog|index)-[^/]+)"
)
_IN_BUCKET = re.compile(r"(?:[^/]+=[^/]*/)*bucket-[^/]+/[^/]+")  # data-file.prefix, and names of other engines

_OF_TABLE = re.compile(r"(?:branch/branch-[^/]+/)?(?:schema|snapshot|tag|changelog|consumer)/[^/]+")


def expire_snapshots(
    storage: Storage,
    layout: Layout,
    *,
    keep_last: int,
    keep_most: int | None = None,
    older_than_ms: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Expire snapshots from the oldest on: those that are not among the newest ``keep_last``, and older than a time
    where one is given or not among the newest ``keep_most``. A snapshot that a consumer has not read stays, and all
    after it. Any file of metadata that cannot be read raises, and then nothing is deleted.
    """
    if keep_last < 1:
        raise InvalidInput("cannot expire all snapshots: keep_last must be 1 or more")
    found = snapshots_of(storage, layout)
    numbers = sorted(found)
    limit = _first_unread(storage, layout)
    gone = []
    for at, number in enumerate(numbers[:-keep_last]):
        is_spare = keep_most is not None and len(numbers) - at > keep_most
        if older_than_ms is not None and found[number].time_millis >= older_than_ms and not is_spare:
            break
        if limit is not None and number >= limit:
            break
        gone.append(number)
    if not gone:
        return Expired(done=not dry_run, snapshots=(), snapshots_before=len(numbers), files=(), kinds={}, total_bytes=0)
    reachable = Reachable(storage, layout)
    kept = reachable.of([*(found[number] for number in numbers if number not in gone), *other_roots(storage, layout)])
    free = reachable.of(found[number] for number in gone) - kept
    places = _files_by_name(storage, layout)
    stored = sorted((file for name in free for file in places.get(name, ())), key=lambda file: file.location)
    files = tuple(file.location for file in stored)
    plan = Expired(
        done=False,
        snapshots=tuple(gone),
        snapshots_before=len(numbers),
        files=files,
        kinds=Counter(sorted(map(_kind, files))),
        total_bytes=sum(file.size for file in stored),
    )
    if dry_run:
        return plan
    write_hint(storage, layout, "EARLIEST", gone[-1] + 1)
    for number in gone:
        storage.delete(layout.snapshot(number))
    failed = delete_each(storage, files)
    return replace(plan, done=True, failed=tuple(place for place, _ in failed))


def _kind(place: str) -> str:
    folder, _, name = place.rpartition("/")
    if folder.endswith("/manifest"):
        return next((kind for kind in ("manifest-list", "index-manifest") if name.startswith(kind)), "manifest")
    if folder.endswith("/statistics"):
        return "statistics"
    return next((kind for kind in ("index", "changelog") if name.startswith(f"{kind}-")), "data")


def _first_unread(storage: Storage, layout: Layout) -> int | None:
    """The oldest snapshot that a consumer reads next."""
    found = []
    for name in named(storage, f"{layout.own}/consumer", "consumer-"):
        place = f"{layout.own}/consumer/consumer-{name}"
        try:
            found.append(int(msgspec.json.decode(storage.read(place))["nextSnapshot"]))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            raise Corrupt(place, f"it is no consumer: {error!r}") from None
    return min(found, default=None)


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
    every = list(_files(storage, layout))  # before the roots: what is committed meanwhile is then among the needed
    known = [file for file, below in every if _KNOWN.fullmatch(below)]  # all others are never deleted
    needed = Reachable(storage, layout).of([*snapshots_of(storage, layout).values(), *other_roots(storage, layout)])
    free = [file for file in known if file.location.rpartition("/")[2] not in needed]
    gone = [file for file in free if file.modified_ms < limit]
    places = tuple(sorted(file.location for file in gone))
    reached = sum(
        file.location.rpartition("/")[2] in needed or _OF_TABLE.fullmatch(below) is not None for file, below in every
    )
    plan = Orphans(
        done=False,
        location=layout.root,
        older_than_ms=limit,
        listed=len(every),
        reached=reached,
        young=len(free) - len(gone),
        spared=len(every) - reached - len(free),
        files=places,
        total_bytes=sum(file.size for file in gone),
    )
    if dry_run:
        return plan
    failed = delete_each(storage, places)
    return replace(plan, done=True, failed=tuple(place for place, _ in failed))


def _files(storage: Storage, layout: Layout) -> Iterator[tuple[StoredFile, str]]:
    """Every file of the table, with its path below the table's directory."""
    start = layout.root.rstrip("/") + "/"
    return ((file, _below(file.location, start)) for file in storage.list(layout.root))


def _below(location: str, start: str) -> str:
    at = location.find(start)
    return location[at + len(start) :] if at >= 0 else ""


def _files_by_name(storage: Storage, layout: Layout) -> dict[str, list[StoredFile]]:
    """The files that a snapshot may name, by name."""
    found: dict[str, list[StoredFile]] = defaultdict(list)
    for file, below in _files(storage, layout):
        if _KNOWN.fullmatch(below) or _IN_BUCKET.fullmatch(below):
            found[file.location.rpartition("/")[2]].append(file)
    return found
