"""Receipts: the data files and the counts of a batch, on disk before the first of its commits is attempted.

A receipt names the data files, which are written and synced, and their tables. With a receipt, the commits can be
attempted any number of times.
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

# ---------------------------------------------------------------- The counts of a batch, as they are recorded


DEAD_LETTER_TABLE = "otel.dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """The records of a batch. ``received`` is counted when rows are decoded, the rest when they are written."""

    received: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)  # by table, including dead letters
    deduplicated: int = 0  # sent twice and left out, if that was asked for
    dropped: Mapping[str, int] = field(default_factory=dict)  # by a transform; by the table that they were decoded for
    added: Mapping[str, int] = field(default_factory=dict)  # likewise
    requests: int = 0
    bytes: int = 0  # of messages of topics; sizes of files are in the plan
    oddities: Mapping[str, int] = field(default_factory=dict)  # unusual, but kept

    @property
    def dead_letters(self) -> int:
        """Records that could not become rows of a table."""
        return self.rows.get(DEAD_LETTER_TABLE, 0)


# ---------------------------------------------------------------- receipts
#
# Each table records a batch by its mark, so any process that has the receipt may attempt the commits again.


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The part of a batch that belongs to one table."""

    table: str
    uuid: str | None  # of the table: another table may have the name by now
    spec_id: int
    rows: int
    paths: tuple[str, ...]  # the same files are described in ``files``
    files: str
    replaces: tuple[str, ...] = ()  # for dead letters: the batches whose letters these replace
    location: str | None = None  # of the table when the files were written; older receipts have none


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A batch whose files are written."""

    application: str
    number: int
    deliveries: tuple[Delivery, ...]
    counts: BatchCounts
    summary: Mapping[str, str] = field(default_factory=dict)  # entries for the summary of each snapshot


def delivery_of(
    name: str, metadata: TableMetadata, files: list[DataFile], *, replaces: tuple[str, ...] = ()
) -> Delivery:
    """The files of a table in the form of a receipt."""
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
    """The files of a delivery, with partitions of the spec that they were written with. Raises ``Corrupt``."""
    import pyarrow as pa

    from esker.spark.write.written_files import files_of, partition_types

    written_by = replace(metadata, default_spec_id=delivery.spec_id)
    try:
        rows = pa.ipc.open_stream(base64.b64decode(delivery.files, validate=True)).read_all()
        return files_of(rows, partition_types(written_by))[0]
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise Corrupt(f"the receipt of a batch of {delivery.table}", str(error)) from error


class Receipts:
    """The receipts of a checkpoint, one file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, number: int) -> Path:
        """The path of a batch's receipt."""
        return self.directory / f"{number:012d}.json"

    def write(self, receipt: Receipt) -> None:
        """Store a receipt. It is on disk when this returns."""
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
        """The receipt of a batch; None if there is none. Raises ``Corrupt`` if it cannot be decoded."""
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
        """Remove the receipt of a batch whose commits are all made."""
        path = self.path(number)
        with naming_failures("remove the receipt", path):
            path.unlink(missing_ok=True)

    def numbers(self) -> list[int]:
        """The numbers of the batches that have a receipt, in order."""
        try:  # a folder that cannot be read is not a folder without receipts
            names = os.listdir(self.directory)  # noqa: PTH208  # glob does not report an unreadable folder
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
