"""Many clients commit at the same time over HTTP: each commit that was acknowledged is there, once."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")

from esker_server import serving
from postgres_server import PostgresServer

import esker
from esker.lake import Lake

CLIENTS, TABLES = 16, 4
PATIENCE_S = 300


@pytest.fixture(params=["sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "sqlite":
        lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(server.new_catalog(tmp_path))
    lake.create_namespace("a")
    for number in range(TABLES):
        lake.create_table(f"a.t{number}", "id bigint").append(pa.table({"id": pa.array([1], pa.int64())}))
    return lake


class Client:
    """A client that adds snapshots: it loads the table, commits, and begins again where another came first."""

    def __init__(self, uri: str, number: int) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=60)
        self._number = number
        self._path = f"/v1/namespaces/a/tables/t{number % TABLES}"

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self._connection.request(method, path, None if body is None else json.dumps(body))
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def commit(self, number: int, ends: float) -> str:
        """The name of a commit that was acknowledged."""
        name = f"{self._number}-{number}"
        while True:
            assert time.monotonic() < ends
            status, loaded = self.ask("GET", f"{self._path}?snapshots=refs")
            assert status == 200
            status, answer = self.ask("POST", self._path, self._change(loaded["metadata"], name, number))
            if status == 200:
                return name
            assert status == 409, answer

    def _change(self, table: dict[str, Any], name: str, number: int) -> dict[str, Any]:
        current = table["current-snapshot-id"]
        parent = next(one for one in table["snapshots"] if one["snapshot-id"] == current)
        new = {
            **parent,
            "snapshot-id": (self._number + 1) * 1_000_000 + number,
            "parent-snapshot-id": current,
            "sequence-number": table["last-sequence-number"] + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "summary": {"operation": "append", "commit": name},
        }
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": new["snapshot-id"]}
        return {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}],
            "updates": [{"action": "add-snapshot", "snapshot": new}, {"action": "set-snapshot-ref", **ref}],
        }


@pytest.mark.parametrize("commits", [3, pytest.param(50, marks=pytest.mark.cluster)])
def test_every_acknowledged_commit_is_there_once(lake: Lake, commits: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    with serving(lake) as uri, ThreadPoolExecutor(CLIENTS) as pool:

        def work(number: int) -> list[str]:
            with closing(Client(uri, number)) as client:
                return [client.commit(at, ends) for at in range(commits)]

        acknowledged = [name for names in pool.map(work, range(CLIENTS)) for name in names]
    assert len(acknowledged) == CLIENTS * commits
    found: list[str] = []
    for number in range(TABLES):
        history = lake.table(f"a.t{number}").metadata.snapshots
        found += [one.summary["commit"] for one in history if "commit" in one.summary]
        sequence = [one.sequence_number for one in history]
        assert sequence == list(range(1, len(history) + 1))
    assert sorted(found) == sorted(acknowledged)
