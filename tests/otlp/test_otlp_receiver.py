"""The receiver answers as OTLP over HTTP says, and 200 only for what is on disk."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import shutil
import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from failing_disk import FailingDisk, Fault
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from otlp_messages import random_request, to_json

from esker.errors import InvalidInput
from esker.otlp.decoding.decode import decode
from esker.otlp.protocol.messages import Signal
from esker.otlp.receive.intake import Limits
from esker.otlp.receive.receiver import Receiver
from esker.otlp.receive.spool import Spool, sealed_segments
from esker.otlp.source.read_requests import read_file

TRACES = random_request(Signal.TRACES, random.Random(8))
PROTOBUF, JSON = "application/x-protobuf", "application/json"
BAD_SPAN = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"aa"},{"name":"fine"}]}]}]}'
BAD_LOG = b"\x0a\x09\x12\x07\x12\x05\x4a\x03bad"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    yield from running(Receiver(Spool(tmp_path / "spool", segment_age_s=3600), port=0, limits=Limits(request=100_000)))


def running(made: Receiver) -> Iterator[Receiver]:
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
        made.spool.close()


def post(
    receiver: Receiver, path: str, body: bytes | Iterator[bytes], **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=10)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body, {"Content-Type": PROTOBUF} | sent, encode_chunked=True)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def spooled(receiver: Receiver) -> list[tuple[bytes, Signal | None, bool, str | None]]:
    receiver.spool.seal()
    segments = sealed_segments(receiver.spool._directory)
    found = [one for segment in segments for one in read_file(segment)]
    return [(one.data, one.signal, one.json, one.trouble.word if one.trouble else None) for one in found]


def test_what_is_answered_with_200_is_in_the_spool(receiver: Receiver) -> None:
    data, text = TRACES.SerializeToString(), to_json(TRACES)
    assert post(receiver, "/v1/traces", data)[:2] == (200, b"")
    assert post(receiver, "/v1/traces", gzip.compress(data), Content_Encoding="gzip")[:2] == (200, b"")
    assert post(receiver, "/v1/traces", zlib.compress(data), Content_Encoding="deflate")[:2] == (200, b"")
    assert post(receiver, "/v1/traces?x=1", text, Content_Type=f"{JSON}; charset=utf-8")[:2] == (200, b"{}")
    assert post(receiver, "/v1/logs", b"")[:2] == (200, b"")
    assert spooled(receiver) == [
        *[(data, Signal.TRACES, False, None)] * 3,
        (text, Signal.TRACES, True, None),
        (b"", Signal.LOGS, False, None),
    ]


def test_a_body_in_chunks_is_put_together(receiver: Receiver) -> None:
    data = TRACES.SerializeToString()
    pieces = (data[at : at + 100] for at in range(0, len(data), 100))
    assert post(receiver, "/v1/traces", pieces, Transfer_Encoding="chunked")[0] == 200
    assert spooled(receiver) == [(data, Signal.TRACES, False, None)]


def test_records_that_cannot_be_kept_are_counted_in_the_answer(receiver: Receiver) -> None:
    status, body, _ = post(receiver, "/v1/traces", BAD_SPAN, Content_Type=JSON)
    assert status == 200
    reason = "a trace id is not 16 bytes long, or a span id not 8"
    assert json.loads(body) == {"partialSuccess": {"rejectedSpans": "1", "errorMessage": reason}}
    status, body, headers = post(receiver, "/v1/logs", BAD_LOG)
    assert (status, headers["Content-Type"]) == (200, PROTOBUF)
    answer = ExportLogsServiceResponse.FromString(body)
    assert (answer.partial_success.rejected_log_records, answer.partial_success.error_message) == (1, reason)
    receiver.spool.seal()
    [segment] = sealed_segments(receiver.spool._directory)
    [batch] = decode(read_file(segment), batch_id="b", ingested_at_us=0)
    assert (batch.counts.records, batch.counts.dead_letters) == ({"spans": 1}, 2)


def test_what_cannot_be_decoded_is_refused_and_kept_for_the_dead_letters(receiver: Receiver) -> None:
    status, body, _ = post(receiver, "/v1/traces", b"{]", Content_Type=JSON)
    assert (status, json.loads(body)) == (
        400,
        {"message": "the request cannot be decoded: the text is not JSON"},
    )
    assert post(receiver, "/v1/metrics", b"\x0a\x05abc")[0] == 400
    assert post(receiver, "/v1/logs", b'{"resourceSpans":[]}', Content_Type=JSON)[0] == 400
    assert spooled(receiver) == [
        (b"{]", Signal.TRACES, True, "refused"),
        (b"\x0a\x05abc", Signal.METRICS, False, "refused"),
        (b'{"resourceSpans":[]}', Signal.LOGS, True, "refused"),
    ]
    assert receiver.counts["refused"] == 3


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"")[:-3]], ids=["no gzip", "cut"])
def test_what_cannot_be_unpacked_is_refused_and_kept_as_it_came(receiver: Receiver, body: bytes) -> None:
    status, answer, _ = post(receiver, "/v1/traces", body, Content_Encoding="gzip", Content_Type=JSON)
    assert status == 400
    assert json.loads(answer)["message"].startswith("the body cannot be decompressed: ")
    assert spooled(receiver) == [(body, Signal.TRACES, True, "refused")]
    assert receiver.counts["refused"] == 1


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/v1/profiles", {}, b"", 404),
        ("/v1/traces", {"Content_Type": "text/plain"}, b"", 415),
        ("/v1/traces", {"Content_Encoding": "br"}, b"", 415),
        ("/v1/traces", {"Content_Encoding": "gzip"}, gzip.compress(bytes(1_000_000)), 413),
        ("/v1/traces", {}, bytes(100_001), 413),
        ("/v1/traces", {"Content_Length": "many"}, b"", 411),
    ],
    ids=["path", "type", "encoding", "bomb", "long", "length"],
)
def test_what_cannot_be_taken_is_refused_for_good(
    receiver: Receiver, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    assert post(receiver, path, body, **headers)[0] == status
    assert spooled(receiver) == []


def test_a_full_spool_puts_senders_off(tmp_path: Path) -> None:
    for made in running(Receiver(Spool(tmp_path, cap_bytes=600, segment_age_s=3600), port=0)):
        answers = [post(made, "/v1/traces", BAD_SPAN, Content_Type=JSON) for _ in range(8)]
        assert [status for status, _, _ in answers] == sorted(status for status, _, _ in answers)
        status, body, headers = answers[-1]
        assert (status, headers["Retry-After"]) == (503, "10")
        assert json.loads(body) == {"message": "the spool is full; try again later"}
        assert len(spooled(made)) == sum(status == 200 for status, _, _ in answers)


def test_a_disk_that_fails_is_told_to_senders_and_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """The disk is full for some steps and then has room again, over and over; the process is killed at the end."""
    for step in range(12):
        disk = FailingDisk()
        made = Receiver(Spool(tmp_path / str(step), disk=disk, segment_age_s=3600), port=0)
        answered = []
        for _ in running(made):
            connection = http.client.HTTPConnection("127.0.0.1", made.server_port, timeout=10)
            for number in range(10):
                if number % 3 == 0:
                    disk.fault = Fault(step=len(disk.steps) + step % 4, lasts=1 + step // 4, bytes=step)
                data = random_request(Signal.TRACES, random.Random(number)).SerializeToString()
                connection.request("POST", "/v1/traces", data, {"Content-Type": PROTOBUF})
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    answered.append(data)
                else:
                    assert (response.status, response.headers["Retry-After"]) == (503, "10")
            connection.close()
            assert 0 < len(answered) < 10
            copy = shutil.copytree(tmp_path / str(step), tmp_path / f"{step} killed")
            Spool(copy).close()
            kept = [one.data for segment in sealed_segments(copy) for one in read_file(segment)]
            assert [data for data in kept if data in answered] == answered
            assert len(kept) == len(set(kept))  # one that was answered 503 may be there, once


def test_too_much_at_once_is_put_off(receiver: Receiver) -> None:
    assert receiver.memory.claim(receiver.limits.memory - 10, small=True)
    status, _, headers = post(receiver, "/v1/traces", TRACES.SerializeToString())
    assert (status, headers["Retry-After"]) == (429, "1")
    receiver.memory.give_back(receiver.limits.memory - 10)
    assert post(receiver, "/v1/traces", TRACES.SerializeToString())[0] == 200
    assert receiver.counts["put_off"] == 1


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    for made in running(Receiver(Spool(tmp_path), port=0, token="secret")):
        assert post(made, "/v1/traces", b"")[0] == 401
        assert post(made, "/v1/traces", b"", Authorization="Bearer wrong")[0] == 401
        assert post(made, "/v1/traces", b"", Authorization="Bearer secret")[0] == 200


def test_nobody_listens_to_the_world_without_a_token(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(InvalidInput, match=r"Cannot listen on 0\.0\.0\.0 without a token"):
        Receiver(spool, host="0.0.0.0", port=0)
    spool.close()


def test_a_connection_is_used_again(receiver: Receiver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_port, timeout=10)
    for body, status in ((TRACES.SerializeToString(), 200), (b"\x0a\x05abc", 400), (b"", 200)):
        connection.request("POST", "/v1/traces", body, {"Content-Type": PROTOBUF})
        response = connection.getresponse()
        assert (response.status, response.read() is not None) == (status, True)
    connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{}",
        b"\x00\xff\xfe\r\n\r\n",
    ],
    ids=["get", "negative", "huge", "short", "noise"],
)
def test_odd_clients_break_nothing(receiver: Receiver, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", receiver.server_port), timeout=10) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert re.search(rb"\b4\d\d\b", client.recv(10_000))
    assert post(receiver, "/v1/traces", b"")[0] == 200
    assert [data for data, *_ in spooled(receiver)] == [b""]
