"""Expiry: the oldest snapshots go, and then the files that no snapshot, tag, branch or changelog needs."""

from __future__ import annotations

import msgspec

from esker.errors import Corrupt, InvalidInput
from esker.paimon.maintain.reachable import Reachable, other_roots, snapshots_of
from esker.paimon.maintain.table_files import files_by_name
from esker.paimon.metadata.layout import Layout, named
from esker.paimon.write.publish_snapshot import write_hint
from esker.ports.own_writer import Expired
from esker.ports.storage import Storage, delete_each


def expire_snapshots(
    storage: Storage, layout: Layout, *, keep_last: int, older_than_ms: int | None = None, dry_run: bool = False
) -> Expired:
    """Expire snapshots from the oldest on: those that are not among the newest ``keep_last``, and older than a time
    where one is given. A snapshot that a consumer has not read stays, and all after it. Any file of metadata that
    cannot be read raises, and then nothing is deleted.
    """
    if keep_last < 1:
        raise InvalidInput("cannot expire all snapshots: keep_last must be 1 or more")
    found = snapshots_of(storage, layout)
    numbers = sorted(found)
    limit = _first_unread(storage, layout)
    gone = []
    for number in numbers[:-keep_last]:
        if older_than_ms is not None and found[number].time_millis >= older_than_ms:
            break
        if limit is not None and number >= limit:
            break
        gone.append(number)
    if not gone:
        return Expired(snapshots=(), files=())
    reachable = Reachable(storage, layout)
    kept = reachable.of([*(found[number] for number in numbers if number not in gone), *other_roots(storage, layout)])
    free = reachable.of(found[number] for number in gone) - kept
    places = files_by_name(storage, layout)
    files = tuple(sorted(place for name in free for place in places.get(name, ())))
    if dry_run:
        return Expired(snapshots=tuple(gone), files=files)
    write_hint(storage, layout, "EARLIEST", gone[-1] + 1)
    for number in gone:
        storage.delete(layout.snapshot(number))
    failed = delete_each(storage, files)
    return Expired(snapshots=tuple(gone), files=files, failed=tuple(place for place, _ in failed))


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
