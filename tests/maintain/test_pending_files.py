"""Files that an ingest still has to commit are found from the table alone, by any process, until they are committed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from object_stores import QUICK
from outages import IMPATIENT, Outage
from s3_server import SLOW_DOWN, S3Server
from telemetry_samples import logs, span_names, spans, write

import esker
from esker.errors import Corrupt, EskerError
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import pending_receipts, replay_receipts
from esker.lake import Lake
from esker.maintain.pending_files import FOLDER, PendingNote, pending_files, write_note
from esker.storage.memory import MemoryStorage
from esker.table import Table

T = TypeVar("T")
TABLES = ("otel.spans", "otel.logs")


def asked(folder: Path) -> Asked:
    return Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", properties=IMPATIENT)


def pending(lake: Lake, name: str) -> frozenset[str]:
    return pending_files(lake.catalog.storage(), lake.table(name).metadata)


def notes(held: MemoryLake) -> set[str]:
    return {file for file in held.files() if f"/{FOLDER}/" in file}


def test_files_are_pending_until_their_commit_is_made(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([0]), logs([0]))
    assert ingest_otlp(held.lake(), asked(tmp_path)).holds
    assert not notes(held)
    write(tmp_path / "in", "b.jsonl", spans([1]), logs([1]))
    ingest_otlp(held.lake(Outage(from_swap=1, how="before")), asked(tmp_path))
    (receipt,) = pending_receipts(tmp_path / "checkpoint")
    for delivery in receipt.deliveries:
        found = pending(held.lake(), delivery.table)
        assert found - notes(held) == set(delivery.paths)
        assert len(found & notes(held)) == 1
    assert len(notes(held)) == 2
    assert replay_receipts(held.lake(), tmp_path / "checkpoint").holds
    assert all(not pending(held.lake(), name) for name in TABLES)
    assert not notes(held)


def test_a_store_that_cannot_take_a_note_leaves_nothing_behind(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([0]), logs([0]))

    class Failing(Door):
        failed = 0

        def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
            if verb == "write" and f"/{FOLDER}/" in what:
                self.failed += 1
                if self.failed == 2:
                    raise OSError(5, "Input/output error")
            return do()

    with pytest.raises(EskerError, match="Input/output error"):
        ingest_otlp(held.lake(Failing()), asked(tmp_path))
    assert not pending_receipts(tmp_path / "checkpoint")
    assert not [file for file in held.files() if file.endswith(".parquet") or f"/{FOLDER}/" in file]
    assert ingest_otlp(held.lake(), asked(tmp_path)).holds
    assert span_names(held.lake()).total() == 1


def marked(held: MemoryLake) -> Table:
    lake = held.lake()
    lake.create_namespace("n")
    table = lake.create_table("n.t", "k long")
    table.append(pa.table({"k": [1]}), batch=("feed", 5))
    return table


def note_of(table: Table, application: str, number: int, uuid: str | None = None) -> PendingNote:
    return PendingNote(
        application=application, number=number, uuid=uuid or table.uuid, files=(f"{table.location}/data/{number}",)
    )


def test_a_note_counts_until_the_table_has_its_batch_or_a_later_one(tmp_path: Path) -> None:
    held = MemoryLake()
    table = marked(held)
    for number in (4, 5, 6):
        write_note(held.storage, table.location, note_of(table, "feed", number))
    write_note(held.storage, table.location, note_of(table, "other", 4))
    found = pending_files(held.storage, table.metadata)
    assert {file for file in found if "/data/" in file} == {f"{table.location}/data/{number}" for number in (6, 4)}
    assert len(found) == 4  # each with its note
    table.append(pa.table({"k": [2]}), batch=("feed", 7))
    table.append(pa.table({"k": [2]}), batch=("other", 4))
    assert not pending_files(held.storage, table.metadata)


def test_a_note_of_a_table_that_had_this_location_before_does_not_count() -> None:
    held = MemoryLake()
    table = marked(held)
    write_note(held.storage, table.location, note_of(table, "feed", 9, uuid="another"))
    assert not pending_files(held.storage, table.metadata)


def test_a_note_that_is_written_again_is_the_same_note() -> None:
    held = MemoryLake()
    table = marked(held)
    for _ in range(2):
        write_note(held.storage, table.location, note_of(table, "feed", 9))
    assert len(notes(held)) == 1


def test_a_note_that_cannot_be_read_is_an_error_and_not_an_empty_answer() -> None:
    held = MemoryLake()
    table = marked(held)
    held.storage.write_new(f"{table.location}/{FOLDER}/broken.json", b"{")
    with pytest.raises(Corrupt, match="not a note of pending files"):
        pending_files(held.storage, table.metadata)


def test_a_note_that_is_deleted_after_the_listing_is_of_a_batch_that_is_committed() -> None:
    held = MemoryLake()
    table = marked(held)
    write_note(held.storage, table.location, note_of(table, "feed", 9))

    class Late(MemoryStorage):
        def __init__(self) -> None:
            self.__dict__ = held.storage.__dict__

        def read(self, location: str) -> bytes:
            if f"/{FOLDER}/" in location:
                self.delete(location)
            return super().read(location)

    assert not pending_files(Late(), table.metadata)


@pytest.mark.slow
def test_another_process_finds_the_pending_files_of_a_table_on_s3(
    tmp_path: Path, s3: S3Server, bucket: str, s3_environment: None
) -> None:
    lake = esker.connect(f"{bucket}/lake", properties={**s3.properties, **QUICK})
    write(tmp_path / "in", "a.jsonl", spans([0]))
    assert ingest_otlp(lake, asked(tmp_path)).holds
    write(tmp_path / "in", "b.jsonl", spans([1]))
    s3.fail(SLOW_DOWN, method="PUT", key=r"metadata\.json", times=10_000)
    assert ingest_otlp(lake, asked(tmp_path)).pending == 1
    s3.heal()
    (receipt,) = pending_receipts(tmp_path / "checkpoint")
    program = (
        "import esker, sys\n"
        "from esker.maintain.pending_files import pending_files\n"
        f"lake = esker.connect({bucket + '/lake'!r})\n"
        "print(*pending_files(lake.catalog.storage(), lake.table('otel.spans').metadata), sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True, env=dict(os.environ)
    )
    found = done.stdout.split()
    assert [file for file in found if file.endswith(".parquet")] == list(receipt.deliveries[0].paths)
    assert replay_receipts(lake, tmp_path / "checkpoint").holds
    assert not pending(lake, "otel.spans")
