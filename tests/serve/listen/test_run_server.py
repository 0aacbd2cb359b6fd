"""What a server says if it cannot start, and that it can be reached when it says where it is."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from esker_server import logging_to, serving

import esker
from esker.errors import InvalidInput, StorageFailed
from esker.lake import Lake
from esker.serve.listen.run_server import Listening, bound_socket, check_protected


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with its key, the key of another one, and its own key with a password."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("pems")
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=x"]
    for name, more in (("own", ["-nodes"]), ("other", ["-nodes"]), ("locked", ["-passout", "pass:secret"])):
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        subprocess.run([*new, *more, *files], check=True, capture_output=True, timeout=60)
    (folder / "junk").write_text("nothing")
    return folder


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("none", "own.key", "none: No such file"),
        ("own.pem", "none", "none: No such file"),
        ("junk", "own.key", "not PEM"),
        ("own.pem", "junk", "not PEM"),
        ("own.pem", "other.key", "the key belongs to another certificate"),
        ("locked.pem", "locked.key", "has a password"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused_by_name(pems: Path, certificate: str, key: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"cannot serve HTTPS.*{why}"):
        check_protected(Listening(certificate=pems / certificate, key=pems / key))
    check_protected(Listening(certificate=pems / "own.pem", key=pems / "own.key"))


def test_the_advice_is_about_what_is_wrong() -> None:
    with pytest.raises(StorageFailed, match="choose another --host"):
        bound_socket(Listening(host="192.0.2.1", port=0))
    with bound_socket(Listening(port=0)) as taken:
        with pytest.raises(StorageFailed, match="choose another --port"):
            bound_socket(Listening(port=taken.getsockname()[1]))
        # a client that has read where the server is may connect at once
        socket.create_connection(taken.getsockname(), timeout=10).close()


def test_each_line_of_the_log_is_json_whatever_clients_send(lake: Lake, tmp_path: Path) -> None:
    with logging_to(tmp_path / "log"), serving(lake) as uri:
        port = int(uri.rpartition(":")[2])
        for text in (b"\x16\x03\x01\x02", b"GET / HTTP/9.9\r\n\r\n", b"GET /%0A%22 HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(text)
                assert connection.recv(1000)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["level"] for line in lines] == ["warning", "warning", "info"]
    assert "Invalid HTTP request" in lines[0]["message"]
