"""The commits of a receipt: each table's part is one snapshot, marked with the batch, and never made twice.

While a commit is pending, a note below the table's location names its files, for the removal of orphaned files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from esker.errors import Conflict, Corrupt
from esker.ingest.receipts import Delivery, Receipt, files_of
from esker.lake import Lake
from esker.maintain.pending_files import PendingNote, write_note
from esker.model.predicates.bind import bind
from esker.model.predicates.column import as_unbound, col
from esker.ports.catalog import TableState
from esker.ports.storage import Storage, delete_each, parallel_reads
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange, head_of
from esker.write.commit import Proposal, commit
from esker.write.context import MetadataNames, Scratch
from esker.write.exactly_once import Batch, is_applied
from esker.write.steps import AddFiles, RemoveRows, Step
from esker.write.table_changes import MAIN

FOLDED = "manifests-replaced"
log = logging.getLogger("esker.ingest")


@dataclass(slots=True, kw_only=True)
class Delivered:
    """The result of a receipt's commits. Failed ones are pending: their files and the receipt are kept."""

    made: list[Delivery] = field(default_factory=list)
    found: list[Delivery] = field(default_factory=list)  # made by an earlier attempt
    failed: list[tuple[Delivery, Exception]] = field(default_factory=list)
    conflicts: int = 0  # commits that lost a race and were repeated
    folded: int = 0  # commits that also merged small manifests, and so took longer


class _Watched:
    """A change that counts how often it was proposed."""

    def __init__(self, change: SnapshotChange) -> None:
        self._change = change
        self.attempts = 0

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        self.attempts += 1
        return self._change.propose(base, attempt)

    def abandon(self) -> None:
        self._change.abandon()


def announce(storage: Storage, receipt: Receipt) -> None:
    """Write the notes that protect the files of a receipt. Call it before the receipt is stored.

    Raises what the storage raises; the notes and the data files are deleted then, because no receipt names them.
    """
    notes = [(delivery.location, note) for delivery in receipt.deliveries if (note := _note(receipt, delivery))]
    try:
        with ThreadPoolExecutor(max(1, min(len(notes), parallel_reads(storage)))) as pool:
            for _ in pool.map(lambda pair: write_note(storage, str(pair[0]), pair[1]), notes):
                pass
    except BaseException:
        files = [path for delivery in receipt.deliveries for path in delivery.paths]
        _delete(storage, [*_note_locations(receipt, receipt.deliveries), *files])
        raise


def deliver(lake: Lake, receipt: Receipt, place: Path) -> Delivered:
    """Try every commit of a receipt. A table that fails does not stop the others. Notes of commits that are made are
    deleted."""
    outcome = Delivered()
    for delivery in receipt.deliveries:
        try:
            made = _commit(lake, receipt, delivery, place, outcome)
        except Exception as error:  # a catalog may fail in any way, and nothing may be lost by it
            log.info("batch %d cannot be committed to %s now: %s", receipt.number, delivery.table, error)
            outcome.failed.append((delivery, error))
        else:
            (outcome.made if made else outcome.found).append(delivery)
    _delete(lake.catalog.storage(), _note_locations(receipt, (*outcome.made, *outcome.found)))
    return outcome


def _note(receipt: Receipt, delivery: Delivery) -> PendingNote | None:
    """The note of a delivery. None if it has no files, or an older Esker wrote it."""
    if not delivery.paths or delivery.location is None:
        return None
    return PendingNote(application=receipt.application, number=receipt.number, uuid=delivery.uuid, files=delivery.paths)


def _note_locations(receipt: Receipt, deliveries: Iterable[Delivery]) -> list[str]:
    return [note.location(str(one.location)) for one in deliveries if (note := _note(receipt, one))]


def _delete(storage: Storage, locations: list[str]) -> None:
    """Delete what is not needed any more. A file that stays is only an orphan, so this raises nothing."""
    for location, error in delete_each(storage, locations):
        log.warning("cannot delete %s, which is not part of a table: %s", location, error)


def _commit(lake: Lake, receipt: Receipt, delivery: Delivery, place: Path, outcome: Delivered) -> bool:
    """Make one commit and count its conflicts. Returns False if the table has the batch already."""
    draft = lake.table(delivery.table).transaction()
    metadata = draft.base.metadata
    _check_same_table(metadata, delivery, place)
    batch = Batch.of((receipt.application, receipt.number))
    head = head_of(metadata, MAIN)
    if is_applied(metadata, MAIN, None if head is None else head.snapshot_id, batch):
        return False
    _check_files(draft.tools.storage, delivery, place)
    change = SnapshotChange(
        tools=draft.tools,
        steps=tuple(_steps(metadata, delivery)),
        scratch=Scratch(draft.tools.storage),  # without the data files: they are kept after a failed commit
        names=MetadataNames(),
        start=head,
        operation=None if delivery.replaces else "append",
        extra=receipt.summary,
        batch=batch,
    )
    watched = _Watched(change)
    try:
        commit(draft.catalog, draft.name, draft.base, watched)
    finally:
        outcome.conflicts += max(0, watched.attempts - 1)
    if change.snapshot is None:
        return False
    folded = int(change.snapshot.summary.get(FOLDED, "0"))
    if folded and not delivery.replaces:
        outcome.folded += 1
        log.info("the commit of batch %d to %s also merged %d manifests", receipt.number, delivery.table, folded)
    return True


def _steps(metadata: TableMetadata, delivery: Delivery) -> Iterator[Step]:
    if delivery.replaces:
        yield RemoveRows(bind(as_unbound(col("batch").isin(delivery.replaces)), metadata.schema))
    if delivery.paths:
        yield AddFiles(tuple(files_of(delivery, metadata)))


def _check_same_table(metadata: TableMetadata, delivery: Delivery, place: Path) -> None:
    if metadata.uuid != delivery.uuid:
        raise Conflict(
            f"cannot commit {place} to {delivery.table}: the table was dropped and another table has its name; "
            "give the old one its name back, or remove the receipt to ingest its sources again",
            table=delivery.table,
        )
    if delivery.spec_id not in metadata.spec_by_id:
        raise Conflict(
            f"cannot commit {place} to {delivery.table}: its files are of partition spec {delivery.spec_id}, which the "
            "table has no more; remove the receipt to ingest its sources again",
            table=delivery.table,
        )


def _check_files(storage: Storage, delivery: Delivery, place: Path) -> None:
    """Raise ``Corrupt`` if a file of the receipt is missing, for example because it was removed as an orphan: a table
    must never name a missing file."""
    for path in delivery.paths:
        if not storage.exists(path):
            raise Corrupt(
                str(place),
                f"it names {path}, which does not exist; remove the receipt to ingest its sources again",
                table=delivery.table,
            )
