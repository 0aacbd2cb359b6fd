"""Catalogs that fail, lose their answers or answer late: what cannot be committed is pending, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from breaking import MANY
from doors import Door, MemoryLake
from outages import IMPATIENT, Once, Outage
from telemetry_samples import letters, log_bodies, logs, span_names, spans, write

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.errors import Conflict, EskerError, OutcomeUnknown
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.deliver import Delivered, deliver
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import pending_receipts, replay_receipts
from esker.ingest.receipts import Delivery, Receipt
from esker.lake import Lake
from esker.ports.catalog import Rejected, TableState

T = TypeVar("T")


def asked(folder: Path) -> Asked:
    return Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", properties=IMPATIENT)


def begun(folder: Path, held: MemoryLake) -> None:
    write(folder / "first", "a.jsonl", spans([0]), logs([0]), b"{broken\n")
    first = Asked(paths=[folder / "first"], checkpoint=folder / "checkpoint", properties=IMPATIENT)
    assert ingest_otlp(held.lake(), first).holds
    write(folder / "in", "b.jsonl", spans([1, 2]), logs([1]), b"{broken\n")


def check_whole(lake: Lake) -> None:
    assert span_names(lake) == Counter(["span 0", "span 1", "span 2"])
    assert log_bodies(lake) == Counter(["log 0", "log 1"])
    assert letters(lake).total() == 2


def attempt(lake: Lake, folder: Path) -> Account | None:
    try:
        return ingest_otlp(lake, asked(folder))
    except (EskerError, OSError):
        return None


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("from_swap", [1, 2, 3])
def test_a_catalog_that_goes_away_leaves_commits_pending_and_nothing_lost(
    tmp_path: Path, from_swap: int, how: str
) -> None:
    held = MemoryLake()
    begun(tmp_path, held)
    account = ingest_otlp(held.lake(Outage(from_swap=from_swap, how=how)), asked(tmp_path))
    assert account.received == 4
    assert account.pending > 0
    assert account.lost == account.duplicated == 0
    assert account.pending + account.unproved == 4  # while the catalog is away nothing can be read back
    assert {type(error) for _, error in account.failures} <= {OutcomeUnknown, ConnectionResetError}
    (receipt,) = pending_receipts(tmp_path / "checkpoint")
    assert sum(delivery.rows for delivery in receipt.deliveries) == 4
    after = replay_receipts(held.lake(), tmp_path / "checkpoint")
    assert (after.received, after.holds, after.pending) == (4, True, 0)
    check_whole(held.lake())
    assert not pending_receipts(tmp_path / "checkpoint")
    assert ingest_otlp(held.lake(), asked(tmp_path)).received == 0


def test_no_batch_goes_ahead_of_one_that_is_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog was away for one commit only, yet a table that has a later batch takes an earlier one for done."""
    held = MemoryLake()
    for number in range(2):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]))
    small = replace(asked(tmp_path), batch_bytes=1)
    tried: list[int] = []

    def deliver_later(lake: Lake, receipt: Receipt, place: Path) -> Delivered:
        tried.append(receipt.number)
        error = ConnectionResetError(errno.ECONNRESET, "the line went dead")
        if len(tried) == 1:
            return Delivered(failed=[(delivery, error) for delivery in receipt.deliveries])
        return deliver(lake, receipt, place)

    monkeypatch.setattr("esker.ingest.run_batches.deliver", deliver_later)
    account = ingest_otlp(held.lake(), small)
    assert (account.pending, tried) == (1, [0])
    assert not span_names(held.lake())
    assert ingest_otlp(held.lake(), small).holds
    assert span_names(held.lake()) == Counter(["span 0", "span 1"])
    assert tried == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after"])
def test_whatever_call_is_lost_the_next_run_ends_with_everything_once(tmp_path: Path, how: str) -> None:
    for at in range(1, MANY, 5 if how == "before" else 7):
        folder = tmp_path / str(at)
        held = MemoryLake()
        begun(folder, held)
        door = Once(at, how)
        account = attempt(held.lake(door), folder)
        assert account is None or account.lost == account.duplicated == 0, at
        again = ingest_otlp(held.lake(), asked(folder))
        assert again.holds, at
        check_whole(held.lake())
        if len(door.calls) < at:
            return
    raise AssertionError("an ingest that makes so many calls has lost its way")


class Delayed(Door):
    """A swap is on its way for longer than anyone waits for it; meanwhile nobody can ask."""

    def __init__(self, swap: int) -> None:
        super().__init__()
        self.swap, self.swaps = swap, 0
        self.arrive: Callable[[], Any] | None = None

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        self.swaps += verb == "move"
        if verb == "move" and self.swaps == self.swap:
            self.arrive = do
        if self.swaps >= self.swap and verb in ("move", "get"):
            raise TimeoutError("no answer")
        return do()


@pytest.mark.parametrize("swap", [1, 2, 3])
@pytest.mark.parametrize("before_the_replay", [True, False])
def test_a_commit_that_arrives_long_after_it_was_sent_counts_once(
    tmp_path: Path, swap: int, before_the_replay: bool
) -> None:
    held = MemoryLake()
    begun(tmp_path, held)
    door = Delayed(swap)
    account = ingest_otlp(held.lake(door), asked(tmp_path))
    assert account.pending > 0
    assert account.pending + account.unproved == 4
    assert door.arrive is not None
    if before_the_replay:
        door.arrive()
    assert replay_receipts(held.lake(), tmp_path / "checkpoint").holds
    if not before_the_replay:
        door.arrive()  # and is turned away: the table has moved on
    check_whole(held.lake())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kind", [".parquet", ".avro", ".metadata.json"])
def test_a_disk_that_fails_once_costs_a_run_and_loses_nothing(tmp_path: Path, kind: str, code: int) -> None:
    held = MemoryLake()
    begun(tmp_path, held)

    class Failing(Door):
        failed = False

        def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
            if verb in ("write", "begin") and what.endswith(kind) and not self.failed:
                self.failed = True
                raise OSError(code, os.strerror(code))
            return do()

    door = Failing()
    account = attempt(held.lake(door), tmp_path)
    assert account is None or account.lost == account.duplicated == 0
    assert door.failed
    assert ingest_otlp(held.lake(), asked(tmp_path)).holds
    check_whole(held.lake())


def test_another_writer_in_between_is_no_trouble(tmp_path: Path) -> None:
    held = MemoryLake()
    begun(tmp_path, held)

    class Racing(Door):
        raced = False

        def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
            if verb == "move" and not self.raced:
                self.raced = True
                with held.lake().table("otel.spans").alter() as change:
                    change.set_properties({"owner": "me"})
            return do()

    account = ingest_otlp(held.lake(Racing()), asked(tmp_path))
    assert (account.holds, account.conflicts) == (True, 1)
    check_whole(held.lake())


def test_a_commit_that_was_refused_keeps_its_data_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writers won every time. An append by hand would take its files back; those of a receipt stay."""
    held = MemoryLake()
    begun(tmp_path, held)
    with monkeypatch.context() as patch:
        patch.setattr(PointerCatalog, "swap", lambda *_: Rejected("another writer was first"))
        account = ingest_otlp(held.lake(), asked(tmp_path))
    assert {type(error) for _, error in account.failures} == {Conflict}
    assert account.pending == 4
    (receipt,) = pending_receipts(tmp_path / "checkpoint")
    assert {path for delivery in receipt.deliveries for path in delivery.paths} <= held.files()
    assert replay_receipts(held.lake(), tmp_path / "checkpoint").holds
    check_whole(held.lake())


def test_a_receipt_whose_files_were_swept_up_is_never_committed(tmp_path: Path) -> None:
    held = MemoryLake()
    begun(tmp_path, held)
    ingest_otlp(held.lake(Outage(from_swap=1, how="before")), asked(tmp_path))
    (receipt,) = pending_receipts(tmp_path / "checkpoint")
    held.storage.delete(receipt.deliveries[0].paths[0])
    account = replay_receipts(held.lake(), tmp_path / "checkpoint")
    ((table, error),) = account.failures
    assert table == receipt.deliveries[0].table
    assert "which does not exist; remove the receipt to ingest its sources again" in str(error)
    assert account.pending == receipt.deliveries[0].rows
    (tmp_path / "checkpoint/pending").joinpath("000000000001.json").unlink()
    assert ingest_otlp(held.lake(), asked(tmp_path)).holds
    check_whole(held.lake())


@pytest.mark.parametrize("fenced", [True, False], ids=["by its term", "by the tables alone"])
def test_two_drivers_that_know_nothing_of_each_other_still_add_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    """The checkpoint stops a driver whose term is over. Were it not to, the marks in the tables would."""
    held = MemoryLake()
    if not fenced:
        monkeypatch.setattr(Checkpoint, "_check_term", lambda self: None)
    begun(tmp_path, held)
    monkeypatch.setattr("esker.ingest.checkpoint._locked", lambda directory: os.open(directory, os.O_RDONLY))
    second: list[Account] = []

    def outrun(*arguments: Any) -> Delivered:
        if not second:
            second.append(Account())
            second.append(ingest_otlp(held.lake(), asked(tmp_path)))
        return deliver(*arguments)

    monkeypatch.setattr("esker.ingest.run_batches.deliver", outrun)
    if fenced:
        with pytest.raises(Conflict, match="another process drives it now; stop this one"):
            ingest_otlp(held.lake(), asked(tmp_path))
    else:
        account = ingest_otlp(held.lake(), asked(tmp_path))
        assert (account.received, account.already_committed, account.holds) == (4, 3, True)
    assert (second[1].received, second[1].holds) == (4, True)
    check_whole(held.lake())


def test_a_batch_that_is_there_twice_or_not_at_all_shows_in_the_account(tmp_path: Path) -> None:
    held = MemoryLake()
    begun(tmp_path, held)
    door = Door()
    asking = asked(tmp_path)
    account = ingest_otlp(held.lake(door), asking)
    assert account.holds
    application = held.lake().table("otel.spans").current_snapshot.summary["esker.application"]  # type: ignore[union-attr]
    for said, lost, duplicated in ((2, 0, 0), (3, 1, 0), (1, 0, 1)):
        again = Account(received=said)
        part = Delivery(table="otel.spans", uuid=None, spec_id=0, rows=said, paths=(), files="")
        again.expect(1, [part])
        again.check(held.lake(), application)
        assert (again.lost, again.duplicated, again.holds) == (lost, duplicated, said == 2)
    missing = Account(received=5)
    missing.expect(77, [Delivery(table="otel.spans", uuid=None, spec_id=0, rows=5, paths=(), files="")])
    missing.check(held.lake(), application)
    assert (missing.lost, missing.holds) == (5, False)


def test_a_row_that_is_missing_is_not_made_up_for_by_one_that_is_there_twice(tmp_path: Path) -> None:
    held = MemoryLake()
    begun(tmp_path, held)
    ingest_otlp(held.lake(), asked(tmp_path))
    application = held.lake().table("otel.spans").current_snapshot.summary["esker.application"]  # type: ignore[union-attr]
    account = Account(received=3)  # the tables have two spans and one log record of the batch
    for table, rows in (("otel.spans", 1), ("otel.logs", 2)):
        account.expect(1, [Delivery(table=table, uuid=None, spec_id=0, rows=rows, paths=(), files="")])
    account.check(held.lake(), application)
    assert (account.lost, account.duplicated, account.holds) == (1, 1, False)


def test_a_catalog_that_keeps_only_the_newest_snapshot_proves_batches_by_the_property(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nessie's tables have no history: one snapshot, without a parent."""
    load = PointerCatalog.load

    def newest_only(self: PointerCatalog, *given: Any) -> TableState:
        state = load(self, *given)
        kept = tuple(replace(one, parent_snapshot_id=None) for one in state.metadata.snapshots[-1:])
        return replace(state, metadata=replace(state.metadata, snapshots=kept, snapshot_log=(), metadata_log=()))

    monkeypatch.setattr(PointerCatalog, "load", newest_only)
    held = MemoryLake()
    for number in range(3):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]))
    account = ingest_otlp(held.lake(), replace(asked(tmp_path), batch_bytes=1))
    assert (account.holds, account.tables["otel.spans"], account.batches) == (True, 3, 3)
    table = held.lake().table("otel.spans")
    assert len(table.metadata.snapshots) == 1
    missing = Account(received=5)
    missing.expect(77, [Delivery(table="otel.spans", uuid=None, spec_id=0, rows=5, paths=(), files="")])
    missing.check(held.lake(), table.current_snapshot.summary["esker.application"])  # type: ignore[union-attr]
    assert (missing.lost, missing.holds) == (5, False)
