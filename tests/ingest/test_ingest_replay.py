"""Dead letters after a fix: what can be read goes to its table, the rest stays, and no record is in two places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from doors import MemoryLake
from outages import IMPATIENT, Outage
from telemetry_samples import bad_span, by_name, letters, log_bodies, logs, span_names, spans, write

from esker.errors import Corrupt
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import pending_receipts, replay_letters, replay_receipts


def ingested(folder: Path, held: MemoryLake, *, strict: bool = False) -> None:
    asked = Asked(
        paths=[folder / "in"], checkpoint=folder / "checkpoint", properties=IMPATIENT, strict=strict, batch_bytes=1
    )
    assert ingest_otlp(held.lake(), asked).holds


def test_letters_that_can_be_read_now_go_to_their_tables(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]), by_name(2), bad_span(3), b"{broken\n")
    write(tmp_path / "in", "b.jsonl", by_name(4), logs([1]))
    ingested(tmp_path, held, strict=True)
    assert letters(held.lake()).total() == 4
    account = replay_letters(held.lake(), tmp_path / "checkpoint")
    assert (account.received, account.tables, account.dead_letters) == (4, {"otel.spans": 2}, 2)
    assert account.holds
    assert span_names(held.lake()) == Counter(["span 1", "span 2", "span 4"])
    assert log_bodies(held.lake()) == Counter(["log 1"])
    assert letters(held.lake()).total() == 2


def test_letters_that_stay_unreadable_are_left_alone(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", b"{broken\n")
    ingested(tmp_path, held)
    before = held.lake().table("otel.dead_letter").metadata_location
    assert replay_letters(held.lake(), tmp_path / "checkpoint").received == 0
    assert held.lake().table("otel.dead_letter").metadata_location == before


def test_without_any_letters_there_is_nothing_to_do(tmp_path: Path) -> None:
    held = MemoryLake()
    assert replay_letters(held.lake(), tmp_path / "checkpoint").facts()["batches"] == 0


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("from_swap", [1, 2])
def test_a_replay_of_letters_that_breaks_off_is_finished_by_the_next(tmp_path: Path, from_swap: int, how: str) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]), by_name(2), bad_span(3))
    ingested(tmp_path, held, strict=True)
    account = replay_letters(held.lake(Outage(from_swap=from_swap, how=how)), tmp_path / "checkpoint")
    assert account.pending > 0
    assert len(pending_receipts(tmp_path / "checkpoint")) == 1
    assert replay_receipts(held.lake(), tmp_path / "checkpoint").holds
    assert span_names(held.lake()) == Counter(["span 1", "span 2"])
    assert letters(held.lake()).total() == 1


def test_a_letter_goes_only_when_its_record_is_in_a_table(tmp_path: Path) -> None:
    """Until the last commit a record is rather in two places than in none."""
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]), by_name(2))
    ingested(tmp_path, held, strict=True)
    replay_letters(held.lake(Outage(from_swap=2, how="before")), tmp_path / "checkpoint")
    assert span_names(held.lake()) == Counter(["span 1", "span 2"])
    assert letters(held.lake()).total() == 1


def test_a_receipt_that_is_none_is_named(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]))
    ingested(tmp_path, held)
    write(tmp_path / "in", "b.jsonl", spans([2]))
    asked = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint")
    ingest_otlp(held.lake(Outage(from_swap=1, how="before")), asked)
    receipt = tmp_path / "checkpoint/pending/000000000001.json"
    text = receipt.read_text()
    receipt.write_text(text[: len(text) // 2])
    with pytest.raises(Corrupt, match=r"000000000001\.json is corrupt: it is no receipt"):
        replay_receipts(held.lake(), tmp_path / "checkpoint")
    receipt.write_text(text)
    assert replay_receipts(held.lake(), tmp_path / "checkpoint").holds
    assert span_names(held.lake()) == Counter(["span 1", "span 2"])
