"""``esker serve`` beside Iceberg's own REST server and Nessie: loads and commits of a table with 1,000 snapshots.

The servers run at the same time, on one machine, and are asked in turns by the same client over plain HTTP: with the
same headers, once without and once with ``Accept-Encoding: gzip``, which Iceberg's Java client and PyIceberg send. The
client of loads does little, so that it leaves the processors to the servers: it neither decompresses nor decodes
answers. Java runs with its default options. Iceberg's server keeps pointers in SQLite and files on the disk, as Esker
does beside it. Nessie keeps its tables in S3 (moto), so a second Esker does that too. Their jars come from
``make interop-jvm``; a server whose jars are missing is left out.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

from benchmarks.measure import Comparison
from benchmarks.turns import say

ROOT = Path(__file__).parents[1]
CLIENTS = 4
TURN_S = 0.6  # of loads
COMMITS = 20  # in a turn
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "ts", "required": False, "type": "timestamptz"},
    ],
}


@dataclass(slots=True)
class Times:
    """What the requests of one kind to one server took."""

    seconds: list[float] = field(default_factory=list)  # of each request
    rates: list[float] = field(default_factory=list)  # requests a second, of each turn
    cpu: list[float] = field(default_factory=list)  # of the server, for each request, of each turn

    @property
    def text(self) -> str:
        """The rate, the slowest of a hundred, and the CPU time of the server."""
        slowest = sorted(self.seconds)[int(len(self.seconds) * 0.99)]
        return f"{self.rate:,.0f}/s, p99 {slowest * 1e3:.1f} ms, {min(self.cpu) * 1e3:.2f} ms CPU"

    @property
    def rate(self) -> float:
        """The median of the turns."""
        return median(self.rates)


class LeanConnection:
    """Sends the same request again and again, and only counts the bytes of the answers."""

    def __init__(self, host: str, port: int, path: str, headers: dict[str, str]) -> None:
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Accept: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._socket = socket.create_connection((host, port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 << 20)

    def ask(self) -> int:
        """Send the request, read the answer, and return the size of its body. Raises ``RuntimeError`` if it failed."""
        self._socket.sendall(self._request)
        view, size, head = memoryview(self._buffer), 0, -1
        while head < 0:
            size += self._received(view[size:])
            head = self._buffer.find(b"\r\n\r\n", 0, size)
        fields = bytes(self._buffer[:head]).lower()
        if not fields.startswith(b"http/1.1 200"):
            raise RuntimeError(f"the answer is {fields!r}")
        begins = head + 4
        if b"transfer-encoding: chunked" in fields:
            while not self._buffer.endswith(b"0\r\n\r\n", begins, size):
                size += self._received(view[size:])
        else:
            ends = begins + int(fields.partition(b"content-length:")[2].split(b"\r\n")[0])
            while size < ends:
                size += self._received(view[size:])
        return size - begins

    def _received(self, into: memoryview) -> int:
        got = self._socket.recv_into(into)
        if not got:
            raise RuntimeError("the server closed the connection")
        return got

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


class Asked:
    """One server, as the client of the benchmark sees it."""

    def __init__(self, name: str, uri: str, pid: int, table: str = "t") -> None:
        self.name = name
        self._split = urlsplit(uri)
        self._pid = pid
        config = self.call("GET", "/v1/config")
        prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix", "")
        self._home = f"/v1/{quote(prefix, safe='')}/namespaces" if prefix else "/v1/namespaces"
        self._table = f"{self._home}/bench/tables/{table}"
        self.times: dict[str, Times] = {}
        self._metadata: dict[str, Any] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request on a connection of its own."""
        connection = self._connection()
        try:
            return json.loads(self._sent(connection, method, path, body) or b"null")
        finally:
            connection.close()

    def make(self, snapshots: int) -> None:
        """A table with that many snapshots, made by commits."""
        self.call("POST", self._home, {"namespace": ["bench"]})
        layout = {"partition-spec": {"spec-id": 0, "fields": []}, "write-order": {"order-id": 0, "fields": []}}
        body = {"name": self._table.rpartition("/")[2], "schema": _SCHEMA, **layout, "stage-create": False}
        body["properties"] = {"format-version": "2"}
        self._metadata = self.call("POST", f"{self._home}/bench/tables", body)["metadata"]
        connection = self._connection()
        for _ in range(snapshots):
            self._commit(connection)
        connection.close()

    def loads(self, what: str) -> None:
        """A turn of loads, by four clients at a time."""
        with ExitStack() as stack:
            clients = [stack.enter_context(closing(self._lean(what))) for _ in range(CLIENTS)]
            self._turn(what, [client.ask for client in clients])

    def commits(self) -> None:
        """A turn of commits by one client: each adds a snapshot, as an append does. Its manifest list is a name that no
        server reads. All servers get the same number, so that their tables stay alike."""
        with closing(self._connection()) as connection:
            self._turn("commit", [lambda: self._commit(connection)], times=COMMITS)

    def size(self, what: str) -> int:
        """The bytes of the answer to a load. Asked for often enough to get the one that the server keeps."""
        with closing(self._lean(what)) as client:
            return [client.ask() for _ in range(5)][-1]

    def _turn(self, what: str, clients: Sequence[Callable[[], object]], times: int | None = None) -> None:
        """Let the clients ask at the same time, for a while, and note what it took."""
        found = self.times.setdefault(what, Times())
        done = len(found.seconds)
        before, began = _cpu(self._pid), time.perf_counter()
        threads = [Thread(target=_ask, args=(ask, times, found.seconds)) for ask in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = len(found.seconds) - done
        found.rates.append(asked / (time.perf_counter() - began))
        found.cpu.append((_cpu(self._pid) - before) / asked)

    def _lean(self, what: str) -> LeanConnection:
        query, headers = _LOADS[what]
        assert self._split.hostname is not None
        assert self._split.port is not None
        return LeanConnection(self._split.hostname, self._split.port, self._split.path + self._table + query, headers)

    def _connection(self) -> http.client.HTTPConnection:
        assert self._split.hostname is not None
        return http.client.HTTPConnection(self._split.hostname, self._split.port, timeout=120)

    def _sent(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        connection.request(method, self._split.path + path, content, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {text[:500]!r}")
        return text

    def _commit(self, connection: http.client.HTTPConnection) -> None:
        metadata = self._metadata
        old = metadata.get("current-snapshot-id")
        old = None if old == -1 else old
        number = metadata["last-sequence-number"] + 1
        new = random.getrandbits(62)
        snapshot = {
            "snapshot-id": new,
            **({} if old is None else {"parent-snapshot-id": old}),
            "sequence-number": number,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{metadata['location']}/metadata/snap-{new}-1-{number:032}.avro",
            "summary": _summary(number),
            "schema-id": 0,
        }
        requirements = [
            {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": old},
        ]
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": new}
        body = {"requirements": requirements, "updates": [{"action": "add-snapshot", "snapshot": snapshot}, ref]}
        self._sent(connection, "POST", self._table, body)
        self._metadata = {**metadata, "current-snapshot-id": new, "last-sequence-number": number}


def _ask(ask: Callable[[], object], times: int | None, seconds: list[float]) -> None:
    """Ask that many times, or for the time of a turn."""
    ends, asked = time.perf_counter() + TURN_S, 0
    while asked < times if times is not None else time.perf_counter() < ends:
        began = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - began)
        asked += 1


_GZIP = {"Accept-Encoding": "gzip"}
_LOADS: dict[str, tuple[str, dict[str, str]]] = {
    "load": ("", {}),
    "zipped": ("", _GZIP),
    "refs": ("?snapshots=refs", {}),
    "zipped refs": ("?snapshots=refs", _GZIP),
}


def _summary(number: int) -> dict[str, str]:
    """The summary of a small append, with the numbers that Iceberg's writers record."""
    added = {
        "added-data-files": "1",
        "added-records": "100",
        "added-files-size": "4711",
        "changed-partition-count": "1",
    }
    totals = {"total-records": str(100 * number), "total-files-size": str(4711 * number)}
    return {"operation": "append", **added, **totals, "total-data-files": str(number), "total-delete-files": "0"}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(scratch: Path, *, snapshots: int = 1000, rounds: int = 5) -> Iterator[Comparison]:
    """Loads with all snapshots, loads of refs only, and commits: each server in turn, five rounds."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder, _servers(Path(folder)) as servers:
        if len(servers) < 3:
            say("the jars of Iceberg's REST server and of Nessie are missing: run make interop-jvm once")
        for server in servers:
            began = time.perf_counter()
            server.make(snapshots)
            took = time.perf_counter() - began
            sizes = ", ".join(f"{what} {server.size(what):,}" for what in _LOADS)
            say(f"{server.name}: {snapshots} commits in {took:.1f} s; bytes of an answer: {sizes}")
        for number in range(rounds + 2):
            for server in servers:
                for what in _LOADS:
                    server.loads(what)
                server.commits()
                if number < 2:
                    server.times.clear()  # to get warm
        named = {server.name: server for server in servers}
        yield from _beside(named, "Esker", "Iceberg's RESTCatalogServer")
        yield from _beside(named, "Esker on S3", "Nessie")


def _beside(servers: dict[str, Asked], ours: str, theirs: str) -> Iterator[Comparison]:
    if ours not in servers or theirs not in servers:
        return
    asked = {
        "load": ("load a table of 1,000 snapshots", 2.0),
        "zipped": ("load it, clients accept gzip", 2.0),
        "refs": ("load it with the snapshots of refs only", 2.0),
        "zipped refs": ("load it so, clients accept gzip", 2.0),
        "commit": ("commit to it", 1.0),
    }
    for what, (text, least) in asked.items():
        our, their = servers[ours].times[what], servers[theirs].times[what]
        ratio = our.rate / their.rate
        wanted = f"at least {least:.0f} times"
        yield Comparison(f"{text}, {theirs}", our.text, their.text, ratio, wanted, ratio >= least)


@contextmanager
def _servers(folder: Path) -> Iterator[list[Asked]]:
    """The servers that can be started, each with an empty catalog."""
    os.environ.setdefault("ESKER_JVM_ENVIRONMENT", str(ROOT / ".venv-jvm"))
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import rest_servers
    from s3_server import S3Server

    with ExitStack() as stack:
        found = [stack.enter_context(_esker(folder / "esker", str(folder / "warehouse"), {}))]
        if (rest_servers.JARS / "rest").is_dir():
            (folder / "iceberg").mkdir()
            server = stack.enter_context(rest_servers.reference_server(folder / "iceberg", options=()))
            found.append(_asked("Iceberg's RESTCatalogServer", server))
        if (rest_servers.JARS / "nessie").is_dir() and rest_servers.newer_java(21):
            s3 = S3Server.start()
            stack.callback(s3.stop)
            keys = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": "us-east-1"}
            names = {"s3.access-key-id": "AWS_ACCESS_KEY_ID", "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY"}
            keys |= {name: s3.properties[known] for known, name in names.items()}
            warehouse = s3.make_bucket("esker") + "/warehouse"
            found.append(stack.enter_context(_esker(folder / "esker-s3", warehouse, keys, name="Esker on S3")))
            (folder / "nessie").mkdir()
            found.append(_asked("Nessie", stack.enter_context(rest_servers.nessie(folder / "nessie", s3, options=()))))
        yield found


def _asked(name: str, server: Any) -> Asked:
    return Asked(name, server.uri, server.program._process.pid)


@contextmanager
def _esker(folder: Path, warehouse: str, environment: dict[str, str], *, name: str = "Esker") -> Iterator[Asked]:
    import rest_servers
    from free_ports import free_ports

    folder.mkdir()
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "esker.cli.main", "--catalog", f"sqlite:///{folder}/catalog.db"]
    command += ["--warehouse", warehouse, "serve", "--port", str(port)]
    command = ["env", *(f"{key}={value}" for key, value in environment.items()), *command]
    uri = f"http://127.0.0.1:{port}"
    with rest_servers.running(command, f"{uri}/health", folder / "serve.log") as program:
        yield Asked(name, uri, program._process.pid)
