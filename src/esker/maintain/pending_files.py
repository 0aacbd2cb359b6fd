"""Files that no snapshot refers to yet, because the ingest that wrote them still has to commit them.

An ingest writes data files, then a receipt on its own disk, then commits. While a commit cannot be made, the files are
in no snapshot, for days if the catalog is away. The receipt protects them only on the machine of the ingest. So the
ingest also writes a note for each table, below the table's own location: ``metadata/pending/<batch>-<digest>.json``. A
note is written before the receipt, and deleted after the commit. Any process that can list the table finds it.

A note counts until the table has its batch, or a later batch of the same application: a later batch is committed only
after all earlier ones. So a note that a killed process left behind does not protect its files for ever.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from esker.errors import AlreadyExists, Corrupt, NoSuchFile
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import head_of
from esker.write.exactly_once import Batch, is_applied
from esker.write.table_changes import MAIN

FOLDER = "metadata/pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingNote:
    """The files of one table that a batch is going to commit."""

    application: str
    number: int
    uuid: str | None  # of the table: another table may get its location
    files: tuple[str, ...]

    def location(self, table_location: str) -> str:
        """The location of the note. Another set of files has another location: a note is never overwritten."""
        named = "\n".join((self.application, self.uuid or "", *self.files))
        digest = hashlib.sha256(named.encode()).hexdigest()[:16]
        return f"{table_location.rstrip('/')}/{FOLDER}/{self.number:012d}-{digest}.json"


def write_note(storage: Storage, table_location: str, note: PendingNote) -> None:
    """Store a note. It is no error if the note exists: its name says what it contains."""
    try:
        storage.write_new(note.location(table_location), msgspec.json.format(msgspec.json.encode(note), indent=1))
    except AlreadyExists:
        return


def pending_files(storage: Storage, metadata: TableMetadata) -> frozenset[str]:
    """The locations that an ingest still needs: the files that it is going to commit to this table, and their notes.

    Code that deletes unreferenced files must spare these. Call this **before** reading the version of the table whose
    files are spared as referenced: an ingest commits first and deletes its note afterwards, so each file is in one of
    the two sets. ``metadata`` may be an older version. Notes of batches that the table has are not in the answer, and
    may be deleted as orphans.

    Raises ``Corrupt`` for a note that cannot be read, and what the storage raises: nothing may be deleted then.
    """
    found: set[str] = set()
    for stored in storage.list(f"{metadata.location.rstrip('/')}/{FOLDER}"):
        if not stored.location.endswith(".json"):
            continue
        try:
            note = _decoded(stored.location, storage.read(stored.location))
        except NoSuchFile:
            continue  # deleted since the listing: its batch is committed
        if _counts(note, metadata):
            found.add(stored.location)
            found.update(note.files)
    return frozenset(found)


def _decoded(location: str, data: bytes) -> PendingNote:
    try:
        return msgspec.json.decode(data, type=PendingNote)
    except msgspec.MsgspecError as error:
        raise Corrupt(location, f"it is not a note of pending files: {error}") from error


def _counts(note: PendingNote, metadata: TableMetadata) -> bool:
    if note.uuid != metadata.uuid:
        return False
    head = head_of(metadata, MAIN)
    batch = Batch(note.application, note.number)
    return not is_applied(metadata, MAIN, None if head is None else head.snapshot_id, batch)
