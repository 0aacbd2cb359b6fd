"""The two sides: Esker in this process, Iceberg's runtime in another, each with a Spark of the same settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

from jvm_peer import Peer

import esker
from benchmarks.turns import processes
from esker import wiring
from esker.engines import choose_engine

MEMORY = "3g"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": MEMORY,
    "spark.driver.extraJavaOptions": "-Dlog4j2.level=error",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


@dataclass(frozen=True, slots=True)
class CpuClock:
    """The CPU time of a process and all below it, this one by default, without some of those below."""

    process: int | None = None
    without: tuple[int, ...] = ()

    def seconds(self) -> float:
        """Return the CPU time so far, of Python, the JVM and its workers."""
        others = sum(sum(processes(other).values()) for other in self.without)
        return (sum(processes(self.process).values()) - others) / os.sysconf("SC_CLK_TCK")


class Side(Protocol):
    """One of the two."""

    def timed(self, text: str) -> tuple[float, list[tuple[Any, ...]]]:
        """Run a statement over tables of the lake. Return the seconds until its rows are in Python, and the rows."""

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement over tables of the lake, and return its rows."""

    def view(self, name: str, text: str) -> None:
        """Name a query over files that are in no lake."""

    def snapshot(self, table: str) -> int:
        """Return the id of the newest snapshot."""

    def roll_back(self, table: str, snapshot_id: int) -> None:
        """Return to an older snapshot."""

    def forget(self) -> None:
        """Forget what is known of tables, as if the process had just begun."""

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, of Python, the JVM and its workers."""


_NEWEST = "SELECT snapshot_id FROM {{c}}.{0}.snapshots ORDER BY committed_at DESC LIMIT 1"


@dataclass(slots=True)
class EskerSide:
    """A lake with a catalog in SQLite, and a session without any jar."""

    open: Callable[[], esker.Lake]
    lake: esker.Lake
    spark: Any
    peer: int  # the process of the other side, which is below this one

    planned: str = ""  # the metadata of a large table

    def timed(self, text: str) -> tuple[float, list[tuple[Any, ...]]]:
        full = text.format(c="bench", system="system", planned=self.planned)
        began = time.perf_counter()
        rows = self.lake.sql(full).collect()
        return time.perf_counter() - began, [tuple(row) for row in rows]

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.timed(text)[1]

    def view(self, name: str, text: str) -> None:
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")

    def snapshot(self, table: str) -> int:
        newest = self.lake.table(f"bench.{table}").current_snapshot
        return newest.snapshot_id if newest is not None else 0

    def roll_back(self, table: str, snapshot_id: int) -> None:
        if self.snapshot(table) != snapshot_id:
            self.sql(f"CALL system.rollback_to_snapshot('bench.{table}', {snapshot_id})")

    def forget(self) -> None:
        if (cache := wiring._manifest_cache()) is not None:
            cache.flush()
        wiring._manifest_cache.cache_clear()
        rmtree(os.environ["ESKER_MANIFEST_CACHE"], ignore_errors=True)
        self.lake = self.open()

    def cpu_seconds(self) -> float:
        return CpuClock(without=(self.peer,)).seconds()


@dataclass(slots=True)
class JavaSide:
    """Iceberg's runtime with its JDBC catalog in SQLite."""

    peer: Peer
    planned: str = ""

    def timed(self, text: str) -> tuple[float, list[tuple[Any, ...]]]:
        answer = self.peer.sql(text.format(c="java.bench", system="java.system", planned=self.planned))
        return answer.seconds, answer.rows

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.timed(text)[1]

    def view(self, name: str, text: str) -> None:
        self.peer.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")

    def snapshot(self, table: str) -> int:
        return int(self.sql(_NEWEST.format(table))[0][0])

    def roll_back(self, table: str, snapshot_id: int) -> None:
        self.sql(f"CALL java.system.rollback_to_snapshot('bench.{table}', {snapshot_id})")

    def forget(self) -> None:
        self.peer.sql("REFRESH TABLE java.bench.planned")  # it keeps the metadata of tables, and no manifests

    def cpu_seconds(self) -> float:
        return CpuClock(self.peer.pid).seconds()


@contextmanager
def both_sides(scratch: Path, environment: Path) -> Iterator[tuple[EskerSide, JavaSide]]:
    """Start both, with empty catalogs. The environment has the jars and a PySpark that they fit."""
    with java_peer(scratch, environment) as peer, esker_session(peer.version) as spark:
        os.environ["ESKER_MANIFEST_CACHE"] = str(scratch / "manifests")
        connect = partial(esker.connect, f"sqlite:///{scratch}/esker.db", warehouse=str(scratch / "esker"))
        lake = connect()
        lake.create_namespace("bench")
        java = JavaSide(peer)
        java.sql("CREATE NAMESPACE {c}")
        yield EskerSide(connect, lake, spark, peer.pid), java


@contextmanager
def java_peer(folder: Path, environment: Path) -> Iterator[Peer]:
    """Start Iceberg's runtime with the catalog ``java`` in the folder."""
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{folder}/java.db",
        ".warehouse": str(folder / "java"),
    }
    settings = {f"spark.sql.catalog.java{key}": value for key, value in catalog.items()}
    with spark_peer(folder, environment, settings) as peer:
        yield peer


@contextmanager
def spark_peer(folder: Path, environment: Path, settings: Mapping[str, str]) -> Iterator[Peer]:
    """Start a Spark in another process, with the benchmark's settings and these."""
    folder.mkdir(parents=True, exist_ok=True)
    script = Path("tests/interop_jvm/spark_peer.py").resolve()
    own = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "spark"), **settings}
    peer = Peer(environment / "bin" / "python", script, environment / "jars", own, folder)
    try:
        yield peer
    finally:
        peer.close()


@contextmanager
def compacting_on_spark() -> Iterator[None]:
    """Let Esker compact on Spark whatever the size of the files."""
    before = choose_engine._MOST_HERE
    choose_engine._MOST_HERE = 0
    try:
        yield
    finally:
        choose_engine._MOST_HERE = before


@contextmanager
def esker_session(version: str) -> Iterator[Any]:
    """Start the Spark of this process. ``RuntimeError`` if its release is not this one."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        if spark.version != version:
            raise RuntimeError(f"two releases of Spark: {spark.version} and {version}")
        yield spark
    finally:
        spark.stop()
