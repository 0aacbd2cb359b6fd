"""What a sender sends again: counted as received, and left out where that is asked for."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doors import MemoryLake
from hypothesis import given, settings
from hypothesis import strategies as st
from outages import IMPATIENT, Outage
from telemetry_samples import DAY_NS, START_NS, letters, log_bodies, logs, span_names, spans, write

from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import pending_receipts, replay_letters
from esker.otlp.decoding.decode import Decoded, Limits, Options, decode

BATCHES = 3


def ingest(held: MemoryLake, folder: Path, **more: object) -> Account:
    asked: dict[str, Any] = {"dedup": "span_id", "properties": IMPATIENT} | more
    return ingest_otlp(held.lake(), Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", **asked))


def test_a_request_that_is_sent_again_is_received_again_and_left_out(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1, 2]), logs([1]), spans([2, 3]), b"{broken\n")
    account = ingest(held, tmp_path)
    assert (account.received, account.deduplicated, account.dead_letters, account.holds) == (6, 1, 1, True)
    write(tmp_path / "in", "b.jsonl", spans([1, 2]), logs([1, 2]), spans([4]), b"{broken\n")
    account = ingest(held, tmp_path)
    assert (account.received, account.deduplicated, account.dead_letters, account.holds) == (6, 3, 1, True)
    assert account.tables == {"otel.spans": 1, "otel.logs": 1}
    assert span_names(held.lake()) == Counter(f"span {number}" for number in (1, 2, 3, 4))
    assert log_bodies(held.lake()) == Counter(["log 1", "log 2"])


def test_a_batch_of_nothing_new_makes_no_snapshot(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]), logs([1]))
    ingest(held, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans([1]), logs([1]))
    account = ingest(held, tmp_path)
    assert (account.received, account.deduplicated, account.tables, account.holds) == (2, 2, {}, True)
    assert len(held.lake().table("otel.spans").snapshots) == 1
    assert ingest(held, tmp_path).received == 0


def test_late_rows_are_compared_with_their_own_days(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1], day=0), spans([2], day=5), spans([3], day=9))
    ingest(held, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans([1, 4], day=0), spans([3, 5], day=9), spans([2], day=4))
    account = ingest(held, tmp_path)
    # the same ids at another start are another span
    assert (account.deduplicated, account.tables, account.holds) == (2, {"otel.spans": 3}, True)


@pytest.mark.parametrize("profile", ["map", "flat", "variant"])
def test_logs_are_the_same_where_all_that_was_sent_is(tmp_path: Path, profile: str) -> None:
    held = MemoryLake()
    first = logs(range(3)).replace(b'"body"', b'"attributes": [{"key": "k", "value": {"intValue": "7"}}], "body"')
    write(tmp_path / "in", "a.jsonl", first)
    ingest(held, tmp_path, profile=profile)
    write(tmp_path / "in", "b.jsonl", first, first.replace(b'"intValue"', b'"stringValue"'), logs([0], service="x"))
    account = ingest(held, tmp_path)
    assert (account.deduplicated, account.tables, account.holds) == (3, {"otel.logs": 4}, True)


def test_what_nothing_tells_from_others_is_never_left_out(tmp_path: Path) -> None:
    held = MemoryLake()
    nameless = spans([7]).replace(f'"spanId": "{7:016x}", '.encode(), b"")
    zeros = spans([0])
    timeless = logs([1]).replace(f'"timeUnixNano": "{START_NS + 1}", '.encode(), b"")
    assert nameless != spans([7])
    assert timeless != logs([1])
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / "in", name, nameless, zeros, timeless, nameless, zeros, timeless)
    account = ingest(held, tmp_path, batch_bytes=1)
    assert (account.batches, account.received, account.deduplicated, account.holds) == (2, 12, 0, True)


def test_points_of_metrics_are_kept_as_often_as_they_come(tmp_path: Path) -> None:
    held = MemoryLake()
    point = {"timeUnixNano": str(START_NS), "asInt": "1"}
    metric = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [point]}}]}]}]}
    write(tmp_path / "in", "a.jsonl", *[json.dumps(metric).encode() + b"\n"] * 2)
    account = ingest(held, tmp_path)
    assert (account.deduplicated, account.tables) == (0, {"otel.metrics_gauge": 2})


@pytest.mark.parametrize("from_swap", [1, 2, 3])
@pytest.mark.parametrize("keep_receipt", [True, False])
def test_a_batch_that_is_done_again_is_not_left_out_as_its_own_copy(
    tmp_path: Path, from_swap: int, keep_receipt: bool
) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]), logs([1]), b"{broken\n")
    ingest(held, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans([1, 2, 3, 3]), logs([1, 2]), b"{broken\n")
    asked = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint", dedup="span_id", properties=IMPATIENT)
    broken = ingest_otlp(held.lake(Outage(from_swap=from_swap, how="before")), asked)
    assert (broken.received, broken.deduplicated) == (7, 3)
    assert broken.pending + broken.unproved == 4
    if not keep_receipt:
        (receipt,) = pending_receipts(tmp_path / "checkpoint")
        (tmp_path / f"checkpoint/pending/{receipt.number:012d}.json").unlink()
    account = ingest_otlp(held.lake(), asked)
    assert (account.received, account.deduplicated, account.holds) == (7, 3, True)
    assert span_names(held.lake()) == Counter(["span 1", "span 2", "span 3"])
    assert log_bodies(held.lake()) == Counter(["log 1", "log 2"])


def test_letters_whose_records_came_meanwhile_are_left_out_when_they_are_read(tmp_path: Path) -> None:
    held = MemoryLake()
    named = [spans([number]).replace(b'"name"', b'"kind": "SPAN_KIND_SERVER", "name"') for number in (1, 2)]
    write(tmp_path / "in", "a.jsonl", *named, b"{broken\n")
    ingest(held, tmp_path, strict=True)
    write(tmp_path / "in", "b.jsonl", spans([1, 2]))
    ingest(held, tmp_path)
    account = replay_letters(held.lake(), tmp_path / "checkpoint", dedup="span_id")
    assert (account.received, account.deduplicated, account.dead_letters, account.holds) == (3, 2, 1, True)
    assert span_names(held.lake()) == Counter(["span 1", "span 2"])
    assert letters(held.lake()).total() == 1


def test_only_files_that_may_hold_the_same_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = MemoryLake()
    for day in range(6):
        write(tmp_path / "in", f"{day}.jsonl", spans([day + 1], day=day), logs([day]))
    ingest(held, tmp_path, batch_bytes=1)
    read: list[str] = []
    real = held.storage.open
    monkeypatch.setattr(held.storage, "open", lambda location: (read.append(location), real(location))[1])
    write(tmp_path / "in", "again.jsonl", spans([3, 9], day=2))
    assert ingest(held, tmp_path).deduplicated == 1
    assert len({path for path in read if path.endswith(".parquet")}) == 1


def test_copies_are_found_however_many_days_a_batch_touches(tmp_path: Path) -> None:
    held = MemoryLake()
    days = [spans([day + 1], day=day) for day in range(70)]
    write(tmp_path / "in", "a.jsonl", *days[::2])
    ingest(held, tmp_path)
    write(tmp_path / "in", "b.jsonl", *days)
    account = ingest(held, tmp_path)
    assert (account.received, account.deduplicated, account.holds) == (70, 35, True)


def test_copies_in_other_parts_of_a_batch_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_small_parts(*requests: Any, options: Options, **more: Any) -> Iterator[Decoded]:
        return decode(*requests, options=replace(options, limits=Limits(batch=30_000)), **more)

    monkeypatch.setattr("esker.ingest.otlp.otlp_job.decode", in_small_parts)
    held = MemoryLake()
    sent = [spans(range(10 * at + 1, 10 * at + 31)) for at in range(50)]
    sent += [logs(range(5 * at, 5 * at + 30)) for at in range(20)]
    write(tmp_path / "in", "a.jsonl", *sent)
    account = ingest(held, tmp_path)
    assert (account.received, account.holds) == (2100, True)
    assert account.tables == {"otel.spans": 520, "otel.logs": 125}
    assert len(held.lake().table("otel.spans").inspect.files()) > 3
    assert set(span_names(held.lake()).values()) == set(log_bodies(held.lake()).values()) == {1}


def test_other_ways_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    with pytest.raises(InvalidInput, match=r"cannot leave out what was sent again by 'name': use span_id"):
        ingest(MemoryLake(), tmp_path, dedup="name")


SENT = st.lists(
    st.tuples(st.integers(0, BATCHES - 1), st.sampled_from(["span", "log"]), st.integers(1, 6), st.integers(0, 1)),
    max_size=20,
)


def _requests(sent: Iterable[tuple[int, str, int, int]], batch: int) -> list[bytes]:
    made = []
    for at, kind, number, day in sent:
        if at == batch:
            made.append(spans([number], day=day) if kind == "span" else logs([number + day * (DAY_NS // 2)]))
    return made


@settings(max_examples=15, deadline=None)
@given(sent=SENT)
def test_every_record_is_there_once_and_every_copy_is_counted(sent: list[tuple[int, str, int, int]]) -> None:
    held = MemoryLake()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        received = deduplicated = 0
        for batch in range(BATCHES):
            write(folder / "in", f"{batch}.jsonl", *_requests(sent, batch), b"\n")
            account = ingest(held, folder)
            assert account.holds
            received += account.received
            deduplicated += account.deduplicated
    once = {one[1:] for one in sent}
    assert (received, deduplicated) == (len(sent), len(sent) - len(once))
    assert span_names(held.lake()) == Counter(f"span {number}" for kind, number, _ in once if kind == "span")
    assert log_bodies(held.lake()).total() == sum(kind == "log" for kind, _, _ in once)
