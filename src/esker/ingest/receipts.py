"""Receipts: what a batch is about to commit and how much it held, durable before the first of its commits is tried.

A receipt names the data files, which are written and synced, and their tables. With a receipt, the commits can be made
any number of times.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from esker.errors import Corrupt
from esker.storage.failures import failure_of, naming_failures
from esker.storage.fsync_and_locks import sync_directory
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- How much a batch held, as it is written down


DEAD_LETTER_TABLE = "otel.dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """What came in and where it went. ``received`` is counted where rows are made, the rest where they are written."""

    received: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)  # by table, dead letters among them
    deduplicated: int = 0  # sent again, and left out because that was asked for
    dropped: Mapping[str, int] = field(default_factory=dict)  # by a transform, by the table they were decoded for
    added: Mapping[str, int] = field(default_factory=dict)  # likewise
    requests: int = 0
    bytes: int = 0  # of the messages of topics; the size of files is in the plan
    oddities: Mapping[str, int] = field(default_factory=dict)  # kept, and worth a word

    @property
    def dead_letters(self) -> int:
        """Records that no table could take."""
        return self.rows.get(DEAD_LETTER_TABLE, 0)


# ---------------------------------------------------------------- receipts
#
# Receipts: what a batch is about to commit, durable before the first of its commits is tried.
#
# A receipt names the data files, which are written and synced, and the tables they go to. Whoever holds it can make
# the commits, any number of times: each table remembers the batch by its mark.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One table's part of a batch."""

    table: str
    uuid: str | None  # which table that was: another may have the name by now
    spec_id: int
    rows: int
    paths: tuple[str, ...]  # for people; ``files`` tells all of each
    files: str
    replaces: tuple[str, ...] = ()  # of dead letters: the batches whose letters these come in place of
    location: str | None = None  # of the table when the files were written; older receipts have none


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A batch whose files are written."""

    application: str
    number: int
    deliveries: tuple[Delivery, ...]
    counts: BatchCounts
    summary: Mapping[str, str] = field(default_factory=dict)  # said by each snapshot


def delivery_of(
    name: str, metadata: TableMetadata, files: list[DataFile], *, replaces: tuple[str, ...] = ()
) -> Delivery:
    """Files of a table as a receipt holds them."""
    import pyarrow as pa

    from esker.spark.write.written_files import SCHEMA, partition_types, rows_of

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(rows_of(files, partition_types(metadata)))
    return Delivery(
        table=name,
        uuid=metadata.uuid,
        spec_id=metadata.default_spec_id,
        rows=sum(file.record_count for file in files),
        paths=tuple(file.path for file in files),
        files=base64.b64encode(sink.getvalue()).decode(),
        replaces=replaces,
        location=metadata.location,
    )


def files_of(delivery: Delivery, metadata: TableMetadata) -> list[DataFile]:
    """The files of a delivery; their partitions are of the spec that they were written by, whatever it is now."""
    import pyarrow as pa

    from esker.spark.write.written_files import files_of, partition_types

    written_by = replace(metadata, default_spec_id=delivery.spec_id)
    try:
        rows = pa.ipc.open_stream(base64.b64decode(delivery.files, validate=True)).read_all()
        return files_of(rows, partition_types(written_by))[0]
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise Corrupt(f"the receipt of a batch of {delivery.table}", str(error)) from error


class Receipts:
    """The receipts of a checkpoint, a file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, number: int) -> Path:
        """Where the receipt of a batch lies."""
        return self.directory / f"{number:012d}.json"

    def write(self, receipt: Receipt) -> None:
        """Keep it; on disk when this returns."""
        path = self.path(receipt.number)
        draft = path.with_name(f".{path.name}.tmp")
        with naming_failures("write the receipt", path):
            with draft.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(receipt), indent=1))
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, path)  # noqa: PTH104  # the step that tests stop at
            sync_directory(self.directory)

    def read(self, number: int) -> Receipt | None:
        """The receipt of a batch, if its files are written."""
        path = self.path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Receipt)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure_of(error, "read the receipt", path) from error
        except msgspec.MsgspecError as error:
            raise Corrupt(str(path), f"it is no receipt: {error}") from error

    def remove(self, number: int) -> None:
        """Forget one whose commits are all made."""
        path = self.path(number)
        with naming_failures("remove the receipt", path):
            path.unlink(missing_ok=True)

    def numbers(self) -> list[int]:
        """The batches that have one, in order."""
        try:  # a folder that cannot be read must not pass for one without receipts
            names = os.listdir(self.directory)  # noqa: PTH208  # glob says nothing of what it may not read
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure_of(error, "list the receipts in", self.directory) from error
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def __iter__(self) -> Iterator[Receipt]:
        for number in self.numbers():
            found = self.read(number)
            if found is not None:
                yield found
