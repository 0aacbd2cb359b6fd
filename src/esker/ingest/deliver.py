"""The commits of a receipt: each table's part is one snapshot, marked with the batch, and never made twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from esker.errors import Conflict, Corrupt
from esker.ingest.receipts import Delivery, Receipt, files_of
from esker.lake import Lake
from esker.model.predicates.bind import bind
from esker.model.predicates.column import as_unbound, col
from esker.ports.catalog import TableState
from esker.ports.storage import Storage
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


def deliver(lake: Lake, receipt: Receipt, place: Path) -> Delivered:
    """Try every commit of a receipt. A table that fails does not stop the others."""
    outcome = Delivered()
    for delivery in receipt.deliveries:
        try:
            made = _commit(lake, receipt, delivery, place, outcome)
        except Exception as error:  # a catalog may fail in any way, and nothing may be lost by it
            log.info("batch %d cannot be committed to %s now: %s", receipt.number, delivery.table, error)
            outcome.failed.append((delivery, error))
        else:
            (outcome.made if made else outcome.found).append(delivery)
    return outcome


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
