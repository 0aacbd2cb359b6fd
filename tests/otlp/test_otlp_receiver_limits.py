"""What senders can take of a receiver is bounded: its memory, its time and its connections."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from otlp_messages import random_request
from receiver_process import ReceiverProcess, receiving

from esker.errors import InvalidInput
from esker.otlp.decoding.decode import decode
from esker.otlp.protocol.messages import Signal
from esker.otlp.protocol.wire import sized
from esker.otlp.receive.intake import Held, Limits, Memory, NoRoom, PacedSocket, TooSlow
from esker.otlp.receive.receiver import Checker, Receiver
from esker.otlp.receive.spool import Spool, sealed_segments
from esker.otlp.source.decompress import Coding, Damaged, inflated
from esker.otlp.source.read_requests import read_file

TRACES = random_request(Signal.TRACES, random.Random(8)).SerializeToString()
HEADERS = {"Content-Type": "application/x-protobuf"}
MIB = 1 << 20


def ask(port: int, body: bytes, **headers: str) -> tuple[int, str | None]:
    """The status of the answer, and when to try again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/v1/traces", body, HEADERS | sent)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers["Retry-After"]
    finally:
        connection.close()


LIMITS = Limits(request=4 * MIB, memory=16 * MIB, connections=4)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    yield from running(tmp_path, LIMITS)


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Receiver]:
    yield from running(tmp_path, replace(LIMITS, body_s=0.6))


def running(directory: Path, limits: Limits) -> Iterator[Receiver]:
    made = Receiver(Spool(directory / "spool", segment_age_s=3600), port=0, limits=limits)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
        made.spool.close()


def kept(directory: Path) -> list[bytes]:
    return [one.data for segment in sealed_segments(directory) for one in read_file(segment)]


# ---- memory ----


def bodies(size: int) -> Iterator[bytes]:
    """Small ones that unpack to much, and to what takes much memory to check."""
    spans = b"\x12\x00" * (size // 2 - 30)
    attributes = sized(2, b"\x4a\x00" * (size // 2 - 30))
    yield gzip.compress(bytes(size))
    yield gzip.compress(sized(1, sized(2, spans)))
    yield gzip.compress(sized(1, sized(2, attributes)))


def peak(receiver: ReceiverProcess) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{receiver.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


@pytest.mark.slow
def test_bodies_that_unpack_to_much_stay_within_the_memory(tmp_path: Path) -> None:
    """Sixty at a time, which together unpack to 20 times the memory."""
    size, memory = 4 * MIB, 12 * MIB
    sent = [body for body in bodies(size) for _ in range(20)]
    assert max(map(len, sent)) < size // 100
    with receiving(tmp_path, "--memory", "12M", "--max-request", "4M", "--body-timeout", "600") as receiver:
        assert ask(receiver.port, TRACES) == (200, None)
        before = peak(receiver)
        with ThreadPoolExecutor(len(sent)) as senders:
            answers = list(senders.map(lambda body: ask(receiver.port, body, Content_Encoding="gzip"), sent))
        assert ask(receiver.port, TRACES) == (200, None)
        taken = peak(receiver) - before
        receiver.stop()
    assert {status for status, _ in answers} <= {200, 400, 429}
    assert all((again is not None) == (status == 429) for status, again in answers)
    assert sum(status == 429 for status, _ in answers) < len(sent) / 2
    assert taken < 3 * memory, f"{taken / memory:.1f} times the memory"
    assert len(kept(tmp_path)) == sum(status in (200, 400) for status, _ in answers) + 2


def test_a_body_is_kept_as_packed_as_it_came(receiver: Receiver) -> None:
    packed = gzip.compress(TRACES)
    assert ask(receiver.server_port, packed, Content_Encoding="gzip") == (200, None)
    receiver.spool.seal()
    [segment] = sealed_segments(receiver.spool._directory)
    assert packed in segment.read_bytes()
    assert kept(receiver.spool._directory) == [TRACES]


def test_large_requests_leave_room_for_small_ones() -> None:
    memory = Memory(16 * MIB)
    with Held(memory) as large, Held(memory) as small:
        large.grow(12 * MIB)
        with pytest.raises(NoRoom):
            large.grow(12 * MIB + 1)
        small.grow(MIB)
        with pytest.raises(NoRoom):
            small.grow(MIB + 1)
    with Held(memory) as large:
        large.grow(12 * MIB)


def test_a_memory_too_small_for_one_request_is_refused() -> None:
    Limits(memory=171 * MIB)
    with pytest.raises(InvalidInput, match=r"Cannot receive with 178257920 bytes of memory: .*; give --memory 171M"):
        Limits(memory=170 * MIB)
    with pytest.raises(InvalidInput, match="Cannot take requests of 67108865 bytes: an ingest reads up to 67108864"):
        Limits(request=64 * MIB + 1)


def test_a_request_that_is_too_large_to_check_is_kept_for_the_ingest_to_judge(receiver: Receiver) -> None:
    """Its records are no longer counted in the answer; what cannot be kept is a dead letter later."""
    bad = sized(2, sized(1, b"no id"))
    spans = sized(1, sized(2, b"\x12\x00" * 200_000 + bad))
    assert ask(receiver.server_port, spans) == (200, None)
    assert receiver.counts["rejected"] == 0
    receiver.spool.seal()
    [segment] = sealed_segments(receiver.spool._directory)
    batches = list(decode(read_file(segment), batch_id="b", ingested_at_us=0))
    assert sum(batch.counts.records["spans"] for batch in batches) == 200_000
    assert sum(batch.counts.dead_letters for batch in batches) == 1


def test_a_check_says_when_it_was_not_made() -> None:
    checker = Checker(columns=8 * MIB)
    large = b'{"other":[' + b"[]," * MIB + b'[]],"resourceSpans":[]}'
    assert not checker.check(large, Signal.TRACES, json=True).checked  # larger than a quarter of the memory
    assert not checker.check(large[: 5 * MIB // 4], Signal.TRACES, json=True).checked  # not to be read into objects
    assert not checker.check(sized(1, sized(2, b"\x12\x00" * MIB)), Signal.TRACES, json=False).checked
    assert checker.check(TRACES, Signal.TRACES, json=False).checked
    assert checker.check(b"\x00" * 4 * MIB, Signal.TRACES, json=False).refused


# ---- compression ----


def test_every_member_of_a_gzip_body_counts(receiver: Receiver) -> None:
    half = len(TRACES) // 2
    body = gzip.compress(TRACES[:half]) + gzip.compress(TRACES[half:])
    assert ask(receiver.server_port, body, Content_Encoding="gzip") == (200, None)
    assert ask(receiver.server_port, body + b"more", Content_Encoding="gzip") == (400, None)
    receiver.spool.seal()
    assert kept(receiver.spool._directory) == [TRACES, body + b"more"]


@pytest.mark.parametrize("cut", [0, 1, 9, 10, 30, -1])
def test_a_packed_body_that_is_cut_is_damaged(cut: int) -> None:
    whole = gzip.compress(random.Random(1).randbytes(300_000))
    assert len(inflated(whole, Coding.GZIP, 300_000)) == 300_000
    with pytest.raises(Damaged, match="it is cut off"):
        inflated(whole[:cut], Coding.GZIP, 300_000)
    with pytest.raises(Damaged, match="it decompresses to more than 299999 bytes"):
        inflated(whole, Coding.GZIP, 299_999)
    with pytest.raises(Damaged, match="it has more than 1000 members"):
        inflated(gzip.compress(b"") * 1001, Coding.GZIP, 300_000)


# ---- time ----


def connect(port: int, *sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    for one in sent:
        made.sendall(one)
    return made


def head(*more: str) -> bytes:
    lines = ["POST /v1/traces HTTP/1.1", "Host: x", "Content-Type: application/x-protobuf", *more, "", ""]
    return "\r\n".join(lines).encode()


@pytest.mark.slow
@pytest.mark.parametrize("length", ["Content-Length: 67108864", "Transfer-Encoding: chunked"])
def test_slow_senders_do_not_keep_others_out(tmp_path: Path, length: str) -> None:
    """Each announces 64 MiB, or any length, and sends little: a byte, and then one now and then."""
    with receiving(tmp_path, "--memory", "171M", "--body-timeout", "12") as receiver, ExitStack() as stack:
        slow = [stack.enter_context(connect(receiver.port, head(length), b"4000000\r\n")) for _ in range(12)]
        ended = threading.Event()

        def trickle() -> None:
            while not ended.wait(0.1):
                for one in slow:
                    try:
                        one.send(b"x")
                    except OSError:
                        ended.set()

        sender = threading.Thread(target=trickle)
        sender.start()
        assert [ask(receiver.port, TRACES) for _ in range(20)] == [(200, None)] * 20
        for one in slow:
            answer = one.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 1\r\n" in answer
            assert b"the body came too slowly; try again" in answer
        ended.set()
        sender.join()
        assert ask(receiver.port, TRACES) == (200, None)
        said = receiver.stop()
    assert "21 requests" in said
    assert "12 put off" in said


class Clocked:
    """A sender with a clock of its own: each step takes so long, and then brings so many bytes."""

    def __init__(self, *steps: tuple[float, int]) -> None:
        self.now, self._steps, self._wait = 1000.0, list(steps), 0.0

    def monotonic(self) -> float:
        return self.now

    def settimeout(self, seconds: float) -> None:
        self._wait = seconds

    def recv_into(self, buffer: bytearray) -> int:
        seconds, size = self._steps.pop(0)
        self.now += min(seconds, self._wait)
        if seconds > self._wait:
            self._steps.insert(0, (seconds - self._wait, size))
            raise TimeoutError
        return min(size, len(buffer))


def read_all(paced: PacedSocket) -> None:
    while paced.readinto(bytearray(1 << 16)):
        pass


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ([(5, 1)] * 9, 10),  # below the rate of 1024 bytes a second in the first sixth of a minute
        ([(0, 10_239), (11, 1)], 10),
        ([(0, 10_240), (11, 1), (20, 1)], 20),  # enough in the first one, too little in the second
        ([(5, 50_000)] * 20, 60),  # quick enough, and too long in all
        ([(0, 60_000), (70, 1)], 20),  # what was quick before does not count
    ],
    ids=["silent", "just below", "second window", "too long", "stalls"],
)
def test_a_body_that_is_too_slow_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[float, int]], ends: float
) -> None:
    sender = Clocked(*steps)
    monkeypatch.setattr("esker.otlp.receive.intake.time", sender)
    paced = PacedSocket(sender, Limits())  # type: ignore[arg-type]
    paced.expect_body()
    with pytest.raises(TooSlow):
        read_all(paced)
    assert sender.now == 1000 + ends


def test_a_body_that_keeps_to_the_rate_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Clocked((8, 20_000), (9, 20_000), (9, 20_000), (9, 20_000), (0, 0))
    monkeypatch.setattr("esker.otlp.receive.intake.time", sender)
    paced = PacedSocket(sender, Limits())  # type: ignore[arg-type]
    paced.expect_body()
    assert [paced.readinto(bytearray(1 << 16)) for _ in range(5)] == [20_000] * 4 + [0]


def test_a_head_may_be_waited_for_but_not_trickle(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Clocked((29, 1), *[(1, 1)] * 100)
    monkeypatch.setattr("esker.otlp.receive.intake.time", sender)
    paced = PacedSocket(sender, Limits())  # type: ignore[arg-type]
    with pytest.raises(TooSlow):
        read_all(paced)
    assert sender.now == 1000 + 29 + 10


@pytest.mark.parametrize(
    "sent", [b"", b"P", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"], ids=["none", "letter", "lines"]
)
def test_a_head_that_does_not_end_is_cut_off(impatient: Receiver, sent: bytes) -> None:
    with connect(impatient.server_port, sent) as client:
        began = time.monotonic()
        while time.monotonic() - began < 20:
            client.settimeout(0.02)
            try:
                if sent:
                    client.send(b"a")
                if not client.recv(1000):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 20


def test_a_head_has_a_length(receiver: Receiver) -> None:
    line = b"X-More: " + b"x" * 5000 + b"\r\n"
    with connect(receiver.server_port, b"POST /v1/traces HTTP/1.1\r\n", *[line] * 20) as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"POST /v1/traces HTTP/1.1\r\nX-More: " + b"x" * 70_000, 431),
        (b"GET /" + b"x" * 70_000, 414),
        (b"PUT / HTTP/1.1\r\n\r\n", 501),
    ],
)
def test_a_refused_head_is_answered_whatever_follows_it(receiver: Receiver, line: bytes, status: int) -> None:
    """A connection closed with unread bytes takes the answer with it."""
    with connect(receiver.server_port, line) as client:
        assert select.select([client], [], [], 20)[0]
        for _ in range(50):
            client.sendall(b"y" * 100_000)
        assert client.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


# ---- connections ----


def test_connections_beyond_the_limit_are_told_to_try_again(receiver: Receiver) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(receiver.server_port, b"POST"))
        wait_until(lambda: receiver._connections == 4)
        assert ask(receiver.server_port, TRACES) == (503, "1")
    wait_until(lambda: receiver._connections == 0)
    assert ask(receiver.server_port, TRACES) == (200, None)


def test_a_connection_is_not_kept_where_there_are_many(receiver: Receiver) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(receiver.server_port, b"POST"))
        wait_until(lambda: receiver._connections == 3)
        with connect(receiver.server_port, head("Content-Length: 0")) as client:
            assert b"\r\nConnection: close\r\n" in client.recv(1000)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


# ---- answers that arrive ----


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Encoding": "br"}, 415), ({}, 413), ({"Content-Type": "text/plain"}, 415)],
    ids=["coding", "too long", "type"],
)
def test_a_sender_of_a_long_body_reads_why_it_is_refused(
    receiver: Receiver, headers: dict[str, str], status: int
) -> None:
    """The connection is closed only when the body has come: closed before, it would take the answer with it."""
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=20)
    connection.request("POST", "/v1/traces", bytes(8 * MIB), HEADERS | headers)
    response = connection.getresponse()
    assert (response.status, response.headers["Connection"]) == (status, "close")
    connection.close()


def test_a_sender_that_asks_before_it_sends_is_told_to_go_on(receiver: Receiver) -> None:
    with connect(receiver.server_port, head(f"Content-Length: {len(TRACES)}", "Expect: 100-continue")) as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.sendall(TRACES)
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_refusal_with_a_whole_body_keeps_the_connection(receiver: Receiver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=20)
    packed = gzip.compress(bytes(5 * MIB))
    sent = HEADERS | {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for _ in range(2):
        connection.request("POST", "/v1/traces", packed, sent)
        response = connection.getresponse()
        message = json.loads(response.read())["message"]
        assert (response.status, message) == (413, "the body decompresses to more than 4194304 bytes")
        assert response.headers["Connection"] is None
    connection.close()
