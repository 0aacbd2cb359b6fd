"""The server over real sockets: limits on bodies and waiting requests, slow clients, and a stop that answers."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

from esker_server import serving

import esker
from esker.errors import StorageFailed
from esker.lake import Lake
from esker.serve.call import Answer
from esker.serve.catalog_service import Service
from esker.serve.listen.asgi import Limits
from esker.serve.listen.run_server import Listening, make_server


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def uri(lake: Lake) -> Iterator[str]:
    with serving(lake, limits=Limits(body_bytes=1000, body_seconds=0.5, waiting=2, threads=2)) as address:
        yield address


def ask(uri: str, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=20)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1"])
def test_a_page_of_another_address_can_change_nothing(lake: Lake, uri: str, origin: str) -> None:
    """A browser sends such a request of any page, without asking first, to a server on the same machine."""
    connection = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=20)
    for named, status in ((origin, 403), (uri, 200)):
        connection.request("POST", "/v1/namespaces", b'{"namespace": ["a"]}', {"origin": named})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert lake.namespaces() == (["a"] if status == 200 else [])
    connection.close()


def half(uri: str, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", urlsplit(uri).port or 0), timeout=20)
    connection.sendall(text.encode())
    return connection


def test_the_server_says_how_it_is(uri: str) -> None:
    assert ask(uri, "GET", "/health")[0] == 200
    assert ask(uri, "GET", "/ready")[0] == 200
    ask(uri, "GET", "/v1/namespaces/no")
    counted = ask(uri, "GET", "/metrics")[1].decode()
    assert 'esker_requests_total{method="GET",status="404"} 1' in counted
    assert 'esker_request_seconds_bucket{method="GET",le="+Inf"} 3' in counted
    assert 'esker_request_seconds_count{method="GET"} 3' in counted
    assert "esker_requests_in_work 0" in counted


def test_a_server_is_not_ready_if_its_catalog_does_not_answer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(namespace: object) -> None:
        raise StorageFailed("cannot reach postgresql://secret@host: refused", retryable=True)

    with serving(lake) as uri:
        assert ask(uri, "GET", "/ready")[0] == 200
        monkeypatch.setattr(lake.catalog, "namespace_properties", fail)
        status, body, _ = ask(uri, "GET", "/ready")
        assert status == 503
        assert b"secret" not in body
        assert ask(uri, "GET", "/health")[0] == 200


def test_a_catalog_that_hangs_is_asked_once_and_others_are_answered(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, goes_on = [], threading.Event()

    def hang(namespace: object) -> None:
        asked.append(namespace)
        goes_on.wait(60)

    with serving(lake, limits=Limits(threads=2, ready_seconds=0.3)) as uri:
        monkeypatch.setattr(lake.catalog, "namespace_properties", hang)
        try:
            with ThreadPoolExecutor(8) as threads:
                answers = list(threads.map(lambda _: ask(uri, "GET", "/ready"), range(8)))
            assert {status for status, _, _ in answers} == {503}
            assert b"did not answer within 0.3 s" in answers[0][1]
            assert ask(uri, "GET", "/v1/config")[0] == 200
        finally:
            goes_on.set()
        ends = time.monotonic() + 30
        while ask(uri, "GET", "/ready")[0] != 200:
            assert time.monotonic() < ends
        assert len(asked) <= 2


def test_heads_and_empty_answers_have_no_body(uri: str) -> None:
    status, body, headers = ask(uri, "HEAD", "/v1/namespaces/no")
    assert (status, body) == (404, b"")
    assert int(headers["content-length"]) > 0
    assert ask(uri, "POST", "/v1/namespaces", b'{"namespace": ["a"]}')[0] == 200
    assert ask(uri, "DELETE", "/v1/namespaces/a")[:2] == (204, b"")


def test_a_body_that_is_too_long_is_refused_before_it_is_read(uri: str) -> None:
    assert ask(uri, "POST", "/v1/namespaces", b" " * 1001)[0] == 413
    with half(uri, "POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n") as endless:
        for _ in range(3):
            endless.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        assert b" 413 " in endless.recv(100)


def test_headers_without_end_are_cut_off(lake: Lake) -> None:
    limits = Limits(headers_bytes=10_000, headers_seconds=60)
    with serving(lake, limits=limits) as uri, half(uri, "GET /v1/config HTTP/1.1\r\nX-Long: ") as one:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            one.sendall(b"a" * 100_000_000)
        assert ask(uri, "GET", "/health")[0] == 200


def test_headers_that_are_too_long_are_refused(lake: Lake) -> None:
    with serving(lake, limits=Limits(headers_bytes=10_000)) as uri:
        long = "X-Long: " + "a" * 11_000
        with half(uri, f"GET /v1/config HTTP/1.1\r\nHost: 127.0.0.1\r\n{long}\r\n\r\n") as one:
            assert b" 431 " in one.recv(1000)
        assert ask(uri, "GET", "/v1/config")[0] == 200


def test_a_long_address_and_many_parameters_are_refused(lake: Lake) -> None:
    with serving(lake, limits=Limits(headers_bytes=10_000)) as uri:
        assert ask(uri, "GET", "/v1/namespaces?pageToken=" + "a" * 11_000)[0] == 431
        assert ask(uri, "GET", "/v1/namespaces/" + "a" * 11_000)[0] == 431
        assert ask(uri, "GET", "/v1/namespaces?" + "&".join(f"a{at}=1" for at in range(101)))[0] == 400
        assert ask(uri, "GET", "/v1/namespaces?" + "&".join(f"a{at}=1" for at in range(99)))[0] == 200


def test_a_body_in_chunks_is_read(uri: str) -> None:
    body = b'{"namespace":["in","chunks"]}'
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:20], body[20:])) + b"0\r\n\r\n"
    with half(uri, "POST /v1/namespaces HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n") as one:
        one.sendall(parts)
        assert b" 200 " in one.recv(1000)
    assert ask(uri, "HEAD", "/v1/namespaces/in%1Fchunks")[0] == 204


SLOW = "POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\n{"


def test_slow_clients_do_not_keep_others_from_an_answer(uri: str) -> None:
    slow = [half(uri, SLOW) for _ in range(5)]  # more than the requests that may be in work
    try:
        for _ in range(3):
            assert ask(uri, "GET", "/v1/namespaces")[0] == 200
        assert ask(uri, "POST", "/v1/namespaces", b'{"namespace": ["a"]}')[0] == 200
        assert all(b" 408 " in one.recv(100) for one in slow)
    finally:
        for one in slow:
            one.close()


def test_requests_beyond_those_in_work_are_sent_away_for_a_second(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(Service, "answer", lambda *_: (goes_on.wait(60), Answer(status=204))[1])
    with serving(lake, limits=Limits(waiting=2, threads=2)) as uri, ThreadPoolExecutor(2) as threads:
        taken = [threads.submit(ask, uri, "GET", "/v1/namespaces") for _ in range(2)]
        try:
            ends = time.monotonic() + 20
            while b"esker_requests_in_work 2" not in ask(uri, "GET", "/metrics")[1]:
                assert time.monotonic() < ends
            status, _, headers = ask(uri, "GET", "/v1/namespaces")
            assert (status, headers["retry-after"]) == (503, "1")
            assert ask(uri, "GET", "/health")[0] == 200
        finally:
            goes_on.set()
        assert [one.result()[0] for one in taken] == [204, 204]


def test_the_long_bodies_in_memory_are_bounded_together(lake: Lake) -> None:
    """Short ones are not: a few long ones do not keep others from small changes."""
    long = b'{"namespace": ["a"], "x": "' + b"x" * 100_000
    head = f"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(long) + 10}\r\n\r\n"
    with serving(lake, limits=Limits(long_bodies_bytes=150_000, body_seconds=3)) as uri:
        with half(uri, head + long.decode()):
            ends = time.monotonic() + 20
            while (status := ask(uri, "POST", "/v1/namespaces", long)[0]) != 503:
                assert (status, time.monotonic() < ends) == (400, True)  # the first one is not read yet
            assert ask(uri, "POST", "/v1/namespaces", b'{"namespace": ["b"]}')[0] == 200
        ends = time.monotonic() + 20
        while ask(uri, "POST", "/v1/namespaces", long)[0] != 400:  # the place is free again
            assert time.monotonic() < ends


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8181", "127.0.0.1.evil.example", "localhost.evil.example"]
)
def test_a_name_that_somebody_made_lead_to_this_machine_is_refused(lake: Lake, tmp_path: Path, host: str) -> None:
    """Such a page looks like one of the server itself (DNS rebinding). With tokens any name is right: it has none."""
    request = f"POST /v1/namespaces HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-length: 20\r\n\r\n"
    with serving(lake) as uri:
        for text in (f"GET /v1/namespaces HTTP/1.1\r\nhost: {host}\r\n\r\n", request + '{"namespace": ["a"]}'):
            with half(uri, text) as connection:
                assert b" 403 " in connection.recv(1000)
        for name in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8181", "catalog.localhost"):
            with half(uri, f"GET /v1/namespaces HTTP/1.1\r\nhost: {name}\r\n\r\n") as connection:
                assert b" 200 " in connection.recv(1000)
    assert lake.namespaces() == []
    tokens = tmp_path / "tokens"
    tokens.write_text("admin admin-token-0123456789\n")
    with serving(lake, token_file=tokens) as uri:
        text = f"GET /v1/namespaces HTTP/1.1\r\nhost: {host}\r\nauthorization: bearer admin-token-0123456789\r\n\r\n"
        with half(uri, text) as connection:
            assert b" 200 " in connection.recv(1000)


def test_an_offer_of_another_protocol_is_ignored(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """Clients of the JDK offer HTTP/2. The body of their request was lost, and each was two lines in the log."""
    body = b'{"namespace": ["a"]}'
    offer = "connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nhttp2-settings: AAMAAABkAAQ\r\n"
    head = f"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\n{offer}content-length: {len(body)}\r\n\r\n"
    with serving(lake) as uri, half(uri, head + body.decode()) as connection:
        assert b" 200 " in connection.recv(1000)
        connection.sendall(f"GET /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\n{offer}\r\n".encode())
        assert b'[["a"]]' in connection.recv(1000)
    assert lake.namespaces() == ["a"]
    assert caplog.text == ""


def test_nonsense_is_answered_and_the_server_lives_on(uri: str) -> None:
    for text in ("nonsense\r\n\r\n", "GET /v1/%ff HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "\x00\x01\r\n\r\n"):
        with half(uri, text) as connection:
            connection.recv(200)
    assert ask(uri, "GET", "/v1/config")[0] == 200


def wait_closed(connection: socket.socket) -> bytes:
    """What the server sends before it closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


@pytest.mark.parametrize(
    "text",
    ["", "GET /v1/conf", "POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-le"],
    ids=["none", "line", "headers"],
)
def test_a_request_that_is_sent_halfway_ends_and_others_are_answered(lake: Lake, text: str) -> None:
    with serving(lake, limits=Limits(headers_seconds=0.5, waiting=2, threads=2)) as uri:
        waiting = [half(uri, text) for _ in range(30)]
        try:
            assert ask(uri, "GET", "/v1/namespaces")[0] == 200
            assert all(wait_closed(connection) == b"" for connection in waiting)
        finally:
            for connection in waiting:
                connection.close()


def test_bytes_that_come_one_by_one_do_not_make_the_time_longer(lake: Lake) -> None:
    with serving(lake, limits=Limits(headers_seconds=0.5)) as uri, half(uri, "GET / HTTP/1.1\r\nx: ") as slow:
        ends = time.monotonic() + 30
        with suppress(ConnectionError):
            while time.monotonic() < ends:
                slow.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() < ends


def test_a_second_request_that_is_sent_halfway_ends_too(lake: Lake) -> None:
    first = "GET /v1/config HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving(lake, limits=Limits(headers_seconds=0.5)) as uri, half(uri, first) as connection:
        assert b" 200 " in connection.recv(1 << 16)
        connection.sendall(b"GET /v1/conf")
        assert b" 200 " not in wait_closed(connection)


def test_a_slow_answer_is_not_cut_off_by_the_limit_for_headers(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Service.answer
    monkeypatch.setattr(Service, "answer", lambda *call: time.sleep(1) or answer(*call))
    with serving(lake, limits=Limits(headers_seconds=0.3)) as uri:
        assert ask(uri, "GET", "/v1/namespaces")[0] == 200


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_left(lake: Lake) -> None:
    lake.create_namespace("a")
    lake.create_table("a.t", "id int", properties={f"n{number}": "x" * 1000 for number in range(8000)})
    request = "GET /v1/namespaces/a/tables/t HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving(lake, limits=Limits(unread_seconds=0.5)) as uri:
        unread = socket.socket()
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.settimeout(20)
        with unread:
            unread.connect(("127.0.0.1", urlsplit(uri).port or 0))
            unread.sendall(request.encode())
            time.sleep(2)
            assert len(wait_closed(unread)) < 8_000_000


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_requests_over_https_are_answered_and_others_are_not(lake: Lake, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with serving(lake, certificate=certificate, key=key) as uri:
        place = urlsplit(uri).netloc
        connection = http.client.HTTPSConnection(place, timeout=20, context=trusting)
        connection.request("GET", "/v1/config")
        assert connection.getresponse().status == 200
        connection.close()
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(uri, "GET", "/v1/config")  # not encrypted
        with pytest.raises(ssl.SSLCertVerificationError):
            http.client.HTTPSConnection(place, timeout=20).request("GET", "/v1/config")


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``esker serve`` as a program of its own, and its address."""
    command = [sys.executable, "-m", "esker.cli.main", "--catalog", f"sqlite:///{folder}/catalog.db"]
    command += ["--warehouse", f"{folder}/warehouse", "serve", "--port", "0"]
    command += ["--log", f"{folder}/log"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"at (http://\S+)", said)
            assert found is not None, said
            _wait(found[1])
            yield process, found[1]
        finally:
            process.kill()


def _wait(uri: str) -> None:
    ends = time.monotonic() + 30
    while True:
        try:
            assert ask(uri, "GET", "/health")[0] == 200
            return
        except OSError:
            assert time.monotonic() < ends
            time.sleep(0.05)


@pytest.mark.slow
def test_a_stop_answers_the_request_that_was_taken(tmp_path: Path) -> None:
    with started(tmp_path) as (process, uri):
        body = json.dumps({"namespace": ["a"]}).encode()
        head = f"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        with half(uri, head) as connection:
            connection.sendall(body[:5])
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[5:])
            assert b" 200 " in connection.recv(100)
        process.wait(20)
    assert esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse").namespaces() == ["a"]


@pytest.mark.slow
def test_f13_a_kill_leaves_the_old_or_the_new_version_and_every_acknowledged_commit(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("a")
    lake.create_table("a.t", "id int")
    acknowledged: list[int] = []

    def commit(uri: str, number: int) -> None:
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {f"n{number}": "1"}}]}
        if ask(uri, "POST", "/v1/namespaces/a/tables/t", json.dumps(change).encode())[0] == 200:
            acknowledged.append(number)

    for turn in range(3):
        with started(tmp_path) as (process, uri):
            timer = threading.Timer(0.15 * (turn + 1), process.kill)
            timer.start()
            with suppress(OSError, http.client.HTTPException):
                for number in range(turn * 1000, turn * 1000 + 1000):
                    commit(uri, number)
            timer.join()
    assert acknowledged
    table: Any = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse").table("a.t")
    assert {f"n{number}" for number in acknowledged} <= set(table.properties)
    assert len(table.properties) <= len(acknowledged) + 3


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_headers(lake: Lake) -> None:
    _, listening = make_server(lake, Listening(port=0))
    with listening:
        listening.listen()
        with socket.create_connection(listening.getsockname(), timeout=20), listening.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_first_line_names_the_lake_without_its_password() -> None:
    from esker.cli.commands.serve import _where
    from esker.cli.shared_options import Settings

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        end = f"at http://127.0.0.1:{bound.getsockname()[1]}"
        assert _where(Settings(), Listening(), bound) == f"Serving ./lake {end}"
        shown = _where(Settings(catalog="postgresql://ann:secret@db/lake"), Listening(), bound)
    assert shown.startswith("Serving postgresql://ann")
    assert shown.endswith(end)
    assert "secret" not in shown
