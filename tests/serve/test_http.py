"""The server over real sockets: limits on bodies and waiting requests, slow clients, and a stop that answers."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

from esker_server import serving

import esker
from esker.lake import Lake
from esker.serve.asgi import Limits
from esker.serve.run_server import Listening, make_server


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


def test_heads_and_empty_answers_have_no_body(uri: str) -> None:
    status, body, headers = ask(uri, "HEAD", "/v1/namespaces/no")
    assert (status, body) == (404, b"")
    assert int(headers["content-length"]) > 0
    assert ask(uri, "POST", "/v1/namespaces", b'{"namespace": ["a"]}')[0] == 200
    assert ask(uri, "DELETE", "/v1/namespaces/a")[:2] == (204, b"")


def test_a_body_that_is_too_long_is_refused_before_it_is_read(uri: str) -> None:
    assert ask(uri, "POST", "/v1/namespaces", b" " * 1001)[0] == 413
    with half(uri, "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n") as endless:
        for _ in range(3):
            endless.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        assert b" 413 " in endless.recv(100)


def test_slow_clients_do_not_keep_others_from_an_answer(uri: str) -> None:
    slow = [half(uri, "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{") for _ in range(2)]
    try:
        assert ask(uri, "GET", "/health")[0] == 200
        status, _, headers = ask(uri, "GET", "/v1/namespaces")  # both places are taken
        assert (status, headers["retry-after"]) == (503, "1")
        assert b" 408 " in slow[0].recv(100)
        ends = time.monotonic() + 20
        while ask(uri, "GET", "/v1/namespaces")[0] != 200:
            assert time.monotonic() < ends
            time.sleep(0.05)
    finally:
        for connection in slow:
            connection.close()


def test_nonsense_is_answered_and_the_server_lives_on(uri: str) -> None:
    for text in ("nonsense\r\n\r\n", "GET /v1/%ff HTTP/1.1\r\nhost: x\r\n\r\n", "\x00\x01\r\n\r\n"):
        with half(uri, text) as connection:
            connection.recv(200)
    assert ask(uri, "GET", "/v1/config")[0] == 200


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``esker serve`` as a program of its own, and its address."""
    command = [sys.executable, "-m", "esker.cli.main", "--catalog", f"sqlite:///{folder}/catalog.db"]
    command += ["--warehouse", f"{folder}/warehouse", "serve", "--port", "0"]
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
        head = f"POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
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
