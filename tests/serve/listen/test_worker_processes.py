"""Several processes at one address, over PostgreSQL: commits of all of them, deaths, and a stop."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn")

from postgres_server import PostgresServer

import esker
from esker.errors import InvalidInput
from esker.serve.listen.worker_processes import check_shared

CHILDREN = "/proc/{}/task/{}/children"


@pytest.mark.parametrize("uri", ["sqlite:///lake/catalog.db", "memory:", "file:///data/warehouse", "s3://bucket/lake"])
def test_catalogs_that_one_process_should_serve_are_refused_by_name(uri: str) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        check_shared(uri, 2)
    check_shared("postgresql://host/db", 2)


@contextmanager
def started(catalog: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "esker.cli.main", "--catalog", catalog, "serve", "--port", "0", "--workers", "2"]
    command += ["--log", os.devnull]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"at (http://\S+)", said := process.stderr.readline())
            assert found is not None, said
            yield process, found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def ask(uri: str, method: str, path: str, body: object = None) -> int:
    ends = time.monotonic() + 60
    while True:  # a process that was killed may have taken the connection
        connection = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < ends
            time.sleep(0.1)
        finally:
            connection.close()


def children(process: int) -> list[int]:
    return [int(one) for one in Path(CHILDREN.format(process, process)).read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_workers_share_an_address_and_one_that_dies_is_started_again(tmp_path: Path, postgres: PostgresServer) -> None:
    catalog = postgres.new_catalog(tmp_path)
    lake = esker.connect(catalog)
    lake.create_namespace("a")
    lake.create_table("a.t", "id int")

    def commit(uri: str, number: int) -> int:
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {f"n{number}": "1"}}]}
        return ask(uri, "POST", "/v1/namespaces/a/tables/t", change)

    with started(catalog) as (process, uri):
        assert ask(uri, "GET", "/ready") == 200
        first = children(process.pid)
        assert len(first) == 2
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda number: commit(uri, number), range(16))) == {200}
        os.kill(first[0], signal.SIGKILL)
        assert commit(uri, 16) == 200
        ends = time.monotonic() + 30
        while len(now := children(process.pid)) < 2 or now == first:
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert commit(uri, 17) == 200
        with urlopen(f"{uri}/metrics", timeout=30) as answer:
            found = re.search(r'requests_total{method="POST",status="200"} (\d+)', answer.read().decode())
        assert found is not None
        assert int(found[1]) >= 18  # those of the process that died, too
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not any(Path(f"/proc/{one}").exists() for one in now)
    assert {f"n{number}" for number in range(18)} <= set(esker.connect(catalog).table("a.t").properties)
