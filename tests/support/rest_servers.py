"""REST catalog servers that others wrote, started on this machine for the tests of ``make interop-jvm``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

import pyarrow as pa
import pytest
from free_ports import free_ports
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server

import esker
from esker.catalogs.open_catalog import open_catalog
from esker.ports.catalog import Catalog

HERE = Path(__file__).parents[1] / "interop_jvm"
JARS = Path(os.environ.get("ESKER_JVM_ENVIRONMENT", "")).resolve()
SECONDS = 240
STARTS_FAST = ("-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # options of Java, for tests


class ServerProgram:
    """A program that answers at an address. It can be killed and started again."""

    def __init__(self, command: list[str], url: str, log: Path) -> None:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        self._command, self._url, self._log = command, url, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("a") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=subprocess.STDOUT)
        _wait(self._process, self._url, self._log)

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(20)

    def stop(self) -> None:
        """End it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


@dataclass(frozen=True, slots=True)
class RestServer:
    """A server: where it is, and where its tables are."""

    uri: str
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict)
    program: ServerProgram | None = None

    @property
    def address(self) -> Address:
        """What another process opens it with."""
        return Address(self.uri, self.warehouse, dict(self.properties))

    def open(self, *roots: str) -> Catalog:
        """Its catalog, through Esker."""
        return open_catalog(self.uri, allowed_roots=(self.warehouse, *roots), properties=self.properties)


@dataclass(frozen=True, slots=True)
class Address:
    """A server for another process."""

    uri: str
    warehouse: str
    properties: dict[str, str]

    def lake(self) -> esker.Lake:
        """Its lake, through Esker."""
        return esker.connect(self.uri, allowed_roots=(self.warehouse,), properties=self.properties)


def append_in_a_process(job: tuple[Address, int, int]) -> None:
    """Append rows with ids that no other process uses, one in a commit."""
    address, who, times = job
    table = address.lake().table("sales.orders")
    for at in range(times):
        table.append(pa.table({"id": pa.array([who * 1000 + at], pa.int64())}))


def emptied(server: RestServer) -> None:
    """Drop all that the catalog holds: each test begins with nothing."""
    catalog = server.open("/")
    for namespace in reversed(catalog.namespaces()):
        for table in catalog.tables(namespace):
            catalog.drop(table)
        for view in catalog.view_catalog().views(namespace):
            catalog.view_catalog().drop_view(view)
        catalog.drop_namespace(namespace)


@contextmanager
def reference_server(
    folder: Path, *, plans_later: bool = False, options: tuple[str, ...] = ("-Xmx512m",)
) -> Iterator[RestServer]:
    """Iceberg's own server over its JDBC catalog and SQLite, on the loopback interface. With ``plans_later`` it plans
    scans in the background. ``options`` are Java's."""
    jars = JARS / "rest"
    if not jars.is_dir():
        pytest.skip(f"the jars of Iceberg's REST server are not in {jars}")
    (port,) = free_ports(1)
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    database = f"jdbc:sqlite:file:{folder}/catalog.db"
    program = str(HERE / "LoopbackRestServer.java")
    command = ["java", *options, "-cp", f"{jars}/*", program, str(port), str(warehouse), database]
    command += ["later"] if plans_later else []
    with running(command, f"http://127.0.0.1:{port}/v1/config", folder / "server.log") as program:
        yield RestServer(f"http://127.0.0.1:{port}", str(warehouse), program=program)


@contextmanager
def running(command: list[str], url: str, log: Path) -> Iterator[ServerProgram]:
    """A program that answers at an address, stopped at the end."""
    program = ServerProgram(command, url, log)
    try:
        program.start()
        yield program
    finally:
        program.stop()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"the server did not answer within {SECONDS} s: {log.read_text()[-2000:]}")


@contextmanager
def nessie(folder: Path, s3: S3Server, options: tuple[str, ...] = STARTS_FAST) -> Iterator[RestServer]:
    """Nessie, with tables in an S3 server, and with a database on disk that survives the program. ``options`` are
    Java's."""
    jar = next((JARS / "nessie").glob("nessie-quarkus-*-runner.jar"), None)
    java = newer_java(21)
    if jar is None or java is None:
        pytest.skip("Nessie's jar or a Java of version 21 is not there")
    bucket = s3.make_bucket(f"nessie-{uuid4().hex[:8]}").removeprefix("s3://").rstrip("/")
    port, management = free_ports(2)
    store = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "quarkus.log.level": "WARN",
        "nessie.version.store.type": "ROCKSDB",
        "nessie.version.store.persist.rocks.database-path": str(folder / "database"),
        "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": f"s3://{bucket}/wh",
        f"{store}.endpoint": s3.endpoint,
        f"{store}.path-style-access": "true",
        f"{store}.region": "us-east-1",
        f"{store}.access-key": "urn:nessie-secret:quarkus:k",
        "k.name": ACCESS_KEY,
        "k.secret": SECRET_KEY,
    }
    command = [
        java,
        *options,
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-jar",
        str(jar),
    ]
    uri = f"http://127.0.0.1:{port}/iceberg"
    with running(command, f"{uri}/v1/config", folder / "nessie.log") as program:
        yield RestServer(uri, f"s3://{bucket}/wh", s3.properties, program)


@dataclass(frozen=True, slots=True)
class MortalServer:
    """A server to be killed and started again at the same address."""

    server: RestServer
    program: ServerProgram

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.program.start()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.program.kill()


@contextmanager
def mortal_nessie(folder: Path, s3: S3Server) -> Iterator[MortalServer]:
    """Nessie, running, with its database on disk."""
    with nessie(folder, s3) as server:
        assert server.program is not None
        yield MortalServer(server, server.program)


def newer_java(version: int) -> str | None:
    """A Java of that version or a newer one, among those that are installed."""
    found = [shutil.which("java"), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]
    for java in dict.fromkeys(one for one in found if one):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
        number = re.search(r'version "(\d+)', said)
        if number is not None and int(number[1]) >= version:
            return java
    return None
