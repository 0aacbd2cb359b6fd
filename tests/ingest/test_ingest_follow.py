"""A directory as a stream: what comes is taken, a failing catalog is waited out, and one process drives."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from doors import MemoryLake
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from outages import IMPATIENT, Outage
from telemetry_samples import START_NS, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.errors import Conflict, InvalidInput
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp
from esker.lake import Lake
from esker.otlp.protocol.messages import Signal
from esker.otlp.receive.spool import Spool
from esker.otlp.source.segment import frame

QUICK = Pace(every_s=0.02, settle_s=0.0, idle_s=0.3, first_wait_s=0.05)


def asked(folder: Path, **more: object) -> Asked:
    return Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", properties=IMPATIENT, **more)  # type: ignore[arg-type]


def follow_for_a_while(lake: Lake, what: Asked) -> Account:
    """Until nothing comes, and for five batches at most: a segment that is not removed would come again for ever."""
    stop = threading.Event()
    return follow_otlp(
        lake, what, pace=QUICK, stop=stop, told=lambda account: stop.set() if account.batches >= 5 else None
    )


def test_a_stream_takes_what_comes_while_it_runs(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "0.jsonl", spans([0]))

    def send() -> None:
        for number in range(1, 4):
            time.sleep(0.1)
            write(tmp_path / "in", f"{number}.jsonl", spans([number]), logs([number]))

    sender = threading.Thread(target=send)
    sender.start()
    account = follow_otlp(held.lake(), asked(tmp_path), pace=QUICK)
    sender.join()
    assert (account.received, account.known_files, account.holds) == (7, 0, True)
    assert span_names(held.lake()) == Counter(f"span {number}" for number in range(4))


def test_a_stream_ends_when_it_is_told_to(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "0.jsonl", spans([0]))
    stop = threading.Event()
    account = follow_otlp(
        held.lake(), asked(tmp_path), pace=Pace(every_s=60, settle_s=0), stop=stop, told=lambda account: stop.set()
    )
    assert (account.received, account.holds) == (1, True)


def test_a_file_that_may_still_be_written_to_is_left(tmp_path: Path) -> None:
    held = MemoryLake()
    old = write(tmp_path / "in", "old.jsonl", spans([0]))
    write(tmp_path / "in", "new.jsonl", spans([1]))
    os.utime(old, (1, 1))
    follow_otlp(held.lake(), asked(tmp_path), pace=Pace(every_s=0.01, settle_s=60, idle_s=0))
    assert span_names(held.lake()) == Counter(["span 0"])


def test_a_catalog_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "first", "a.jsonl", spans([0]))
    first = Asked(paths=[tmp_path / "first"], checkpoint=tmp_path / "checkpoint", properties=IMPATIENT)
    ingest_otlp(held.lake(), first)
    write(tmp_path / "in", "b.jsonl", spans([1]))
    door = Outage(from_swap=1, how="after")
    told: list[str] = []

    def hear(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            door.from_swap = 1000

    account = follow_otlp(held.lake(door), asked(tmp_path), pace=QUICK, told_trouble=hear)
    assert told[0].startswith("batch pending, trying again in")
    assert account.facts() | {"tables": 0} == account.facts() | {"tables": 0, "pending": 0, "lost": 0, "holds": True}
    assert (account.received, account.already_committed) == (1, 1)
    assert span_names(held.lake()) == Counter(["span 0", "span 1"])


def test_what_cannot_be_right_stops_the_stream(tmp_path: Path) -> None:
    held = MemoryLake()
    with pytest.raises(InvalidInput, match=r"cannot follow .*in: there is no such directory"):
        follow_otlp(held.lake(), asked(tmp_path), pace=QUICK)
    write(tmp_path / "in", "a.jsonl", spans([0], k="1"))
    ingest_otlp(held.lake(), asked(tmp_path, promote={"k": "int"}))
    write(tmp_path / "in", "b.jsonl", spans([1], k="1"))
    with pytest.raises(InvalidInput, match=r"cannot promote k as string"):
        follow_otlp(held.lake(), asked(tmp_path, promote={"k": "string"}), pace=QUICK)


def test_of_two_drivers_one_stops_and_says_who_drives(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    (tmp_path / "in").mkdir()
    try:
        with pytest.raises(Conflict, match=rf"cannot drive the checkpoint .*: process {os.getpid()} does; stop that"):
            follow_otlp(MemoryLake().lake(), asked(tmp_path), pace=QUICK)
    finally:
        checkpoint.close()
    assert follow_otlp(MemoryLake().lake(), asked(tmp_path), pace=QUICK).holds


def test_segments_of_the_spool_go_when_their_rows_are_committed(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    spool = Spool(tmp_path / "in")
    for request, signal in ((spans([1]), Signal.TRACES), (logs([1]), Signal.LOGS)):
        spool.append(frame(request, signal=signal, json=True, refused=False, received_at_ms=1))
    spool.append(frame(b"{rubbish", signal=Signal.LOGS, json=True, refused=True, received_at_ms=1))
    spool.seal()
    account = follow_for_a_while(lake, asked(tmp_path))
    assert (account.received, account.dead_letters, account.holds) == (3, 1, True)
    assert (span_names(lake).total(), log_bodies(lake).total(), letters(lake).total()) == (1, 1, 1)
    assert not list((tmp_path / "in").glob("*.otlp"))
    spool.close()


def test_files_that_shared_a_batch_with_segments_are_not_taken_again(tmp_path: Path) -> None:
    held = MemoryLake()
    spool = Spool(tmp_path / "in")
    spool.append(frame(spans([1]), signal=Signal.TRACES, json=True, refused=False, received_at_ms=1))
    spool.close()
    write(tmp_path / "in", "mine.jsonl", spans([2]))
    assert follow_for_a_while(held.lake(), asked(tmp_path)).received == 2
    again = follow_for_a_while(held.lake(), asked(tmp_path))
    assert (again.received, again.known_files) == (0, 1)
    assert span_names(held.lake()) == Counter(["span 1", "span 2"])


def test_segments_stay_where_they_are_asked_to(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "in")
    spool.append(frame(spans([1]), signal=Signal.TRACES, json=True, refused=False, received_at_ms=1))
    spool.close()
    held = MemoryLake()
    account: Account = follow_for_a_while(held.lake(), asked(tmp_path, keep_segments=True))
    assert account.received == 1
    assert len(list((tmp_path / "in").glob("*.otlp"))) == 1
    assert follow_for_a_while(held.lake(), asked(tmp_path, keep_segments=True)).received == 0


def test_half_a_line_at_the_end_of_a_growing_file_waits(tmp_path: Path) -> None:
    held = MemoryLake()
    path = write(tmp_path / "in", "a.jsonl", spans([0]), spans([1])[:-20])
    assert follow_otlp(held.lake(), asked(tmp_path), pace=Pace(every_s=0.01, settle_s=0, idle_s=0)).received == 0
    path.write_bytes(spans([0]) + spans([1]))
    account = follow_otlp(held.lake(), asked(tmp_path), pace=Pace(every_s=0.01, settle_s=0, idle_s=0))
    assert (account.received, account.dead_letters) == (2, 0)
    path.write_bytes(path.read_bytes() + spans([2]).rstrip())
    patient = Pace(every_s=0.01, settle_s=0, idle_s=0, half_line_s=0)
    assert follow_otlp(held.lake(), asked(tmp_path), pace=patient).received == 1
    assert span_names(held.lake()) == Counter(["span 0", "span 1", "span 2"])


def big_endian(number: int) -> bytes:
    return len(spans([number])).to_bytes(4, "big") + spans([number])


def varint(number: int) -> bytes:
    message = ExportTraceServiceRequest()
    span = message.resource_spans.add().scope_spans.add().spans.add(name=f"span {number}")
    span.trace_id, span.span_id, span.start_time_unix_nano = b"t" * 16, b"s" * 8, START_NS
    data = message.SerializeToString()
    assert len(data) < 128
    return bytes([len(data)]) + data


@pytest.mark.parametrize("framed", [big_endian, varint])
@pytest.mark.parametrize("missing", [3, 20])
def test_half_a_frame_at_the_end_of_a_growing_file_waits(
    tmp_path: Path, framed: Callable[[int], bytes], missing: int
) -> None:
    held = MemoryLake()
    first, second, third = map(framed, range(3))
    impatient = Pace(every_s=0.01, settle_s=0, idle_s=0)
    for cut in (first[:-missing], first + second[:-missing], first + second[:2]):
        path = write(tmp_path / "in", "a.bin", cut)
        assert follow_otlp(held.lake(), asked(tmp_path), pace=impatient).received == 0
    path.write_bytes(first + second)
    assert follow_otlp(held.lake(), asked(tmp_path), pace=impatient).received == 2
    path.write_bytes(first + second + third[:-missing])
    patient = Pace(every_s=0.01, settle_s=0, idle_s=0, half_line_s=0)
    assert follow_otlp(held.lake(), asked(tmp_path), pace=patient).dead_letters == 1
    path.write_bytes(first + second + third)
    account = follow_otlp(held.lake(), asked(tmp_path), pace=impatient)
    assert (account.received, account.holds) == (1, True)
    assert span_names(held.lake()) == Counter(["span 0", "span 1", "span 2"])


def test_too_many_dead_letters_end_the_stream(tmp_path: Path) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([0]), b"{broken\n", b"{broken\n")
    account = follow_otlp(
        held.lake(), asked(tmp_path, most_dead=0.5), pace=Pace(every_s=0.01, settle_s=0)
    )  # without an end of its own
    assert account.stopped is not None
    assert account.stopped.startswith("batch 0 is committed, and 67% of its records are dead letters")
    assert (account.received, account.holds) == (3, True)


def test_a_file_of_the_user_is_never_taken_for_a_segment(tmp_path: Path) -> None:
    held = MemoryLake()
    names = ("mine.otlp", "1700000000001-0000001-000001.otlp")
    for number, name in enumerate(names):
        write(tmp_path / "in", name, spans([number]))
    assert follow_otlp(held.lake(), asked(tmp_path), pace=QUICK).received == 2
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == sorted(names)


def test_a_file_that_nobody_may_read_does_not_end_the_stream_and_is_taken_when_it_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = MemoryLake()
    for number, name in enumerate(("a", "b", "c")):
        write(tmp_path / "in", f"{name}.jsonl", spans([number]))
    real, denied = Path.open, {"b.jsonl"}

    def refuse(path: Path, *args: object, **more: object) -> object:
        if path.name in denied:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    pace = Pace(every_s=0.02, settle_s=0.0, idle_s=0.3, half_line_s=3600)
    account = follow_otlp(held.lake(), asked(tmp_path), pace=pace)
    assert [(Path(file).name, reason) for file, reason in account.refused] == [("b.jsonl", "Permission denied")]
    assert (account.received, account.holds) == (2, True)

    write(tmp_path / "in", "d.jsonl", spans([3]))  # the stream goes on, and somebody gives the permission
    account = follow_otlp(held.lake(), asked(tmp_path), pace=pace, told=lambda account: denied.clear())
    assert (account.received, account.refused, account.holds) == (2, [], True)
    assert span_names(held.lake()) == Counter(f"span {number}" for number in range(4))


def test_a_stream_waits_for_a_file_that_a_failing_disk_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = MemoryLake()
    write(tmp_path / "in", "a.jsonl", spans([1]))
    real, left = Path.open, [3]

    def fail(path: Path, *args: object, **more: object) -> object:
        if path.name == "a.jsonl" and left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error", str(path))
        return real(path, *args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", fail)
    pace = Pace(every_s=0.02, settle_s=0.0, idle_s=0.3, half_line_s=3600, first_wait_s=0.01)
    account = follow_otlp(held.lake(), asked(tmp_path), pace=pace)
    assert (account.received, account.refused, left) == (1, [], [0])
