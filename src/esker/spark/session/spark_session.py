"""Which Spark session moves the rows: the user's session, or a quiet one that Esker starts when it is first needed.

Also checks that the session accepts Spark's TIME type where a table needs it. Nothing of PySpark is loaded when this
module is imported.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import TYPE_CHECKING, Any

from esker.errors import Unsupported
from esker.model.schema import walk
from esker.model.types import Field, TimeType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# ---------------------------------------------------------------- times
#
# Spark's TIME type, which sessions have to be told to take.


SETTING = "spark.sql.timeType.enabled"


def check_times(session: SparkSession, fields: Iterable[Field]) -> None:
    """``Unsupported`` for a column of times where the session takes none. It is asked again at every use of a frame,
    so setting it for a moment would not help."""
    names = [".".join(part.name for part in path) for f, path in walk(tuple(fields)) if isinstance(f.type, TimeType)]
    if names and str(session.conf.get(SETTING, "false")).lower() != "true":
        raise Unsupported(
            f"cannot give column {names[0]!r} to Spark: its type time needs spark.conf.set({SETTING!r}, 'true'); "
            "or leave the column out of columns=[…]",
            feature="time",
            column=names[0],
        )


# ---------------------------------------------------------------- session
#
# Which Spark session moves the rows: the user's, or a quiet one of our own that starts on first need.


log = logging.getLogger("esker.spark.session.spark_session")

_SMALLEST, _LARGEST = 1 << 30, 16 << 30
_starting = Lock()


class SessionSource:
    """Gives the session. One that was handed over is used as it is; else the one that is running, else a new one."""

    def __init__(self, given: SparkSession | None = None) -> None:
        self._given = given

    def get(self) -> SparkSession:
        """The session, started if there is none."""
        return self._given if self._given is not None else running_session() or start_session()


def running_session() -> SparkSession | None:
    """The session of this process, if it has one that lives."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    with suppress(Exception):  # a session without its JVM says so in many ways
        active = SparkSession.getActiveSession()
        if active is not None and _is_alive(active):
            return active
    return None


def is_connect(session: SparkSession) -> bool:
    """Whether the session is a client of a Spark Connect server."""
    return "connect" in type(session).__module__.split(".")


def _is_alive(session: SparkSession) -> bool:
    return is_connect(session) or not session.sparkContext._jsc.sc().isStopped()


def start_session() -> SparkSession:
    """A local session that says nothing unless something fails, and listens to this machine alone."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Unsupported(
            "cannot start Spark: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark"
        ) from error
    from esker.spark.session.jvm import check_java

    with _starting:
        check_java()
        log.info("starting Spark …")
        scratch = Path(tempfile.mkdtemp(prefix="esker-spark-"))
        atexit.register(rmtree, scratch, ignore_errors=True)
        settings = {"spark.app.name": "esker", "spark.master": _master()} | _settings(scratch)
        builder: Any = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _standard_error_to(scratch / "spark.log"), _workers_like_us():
            _launch(settings)
            session: SparkSession = builder.getOrCreate()
        log.info("Spark is started")
        return session


def _launch(settings: dict[str, str]) -> None:
    """Start the JVM outside the process group of this process, unless it has one. A signal to the group, by Ctrl-C,
    ``timeout`` or a shell, is then for this process alone, which finishes the work in hand. The JVM ends with it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    SparkContext(conf=conf, gateway=launch_gateway(conf, {"start_new_session": True}))


def _master() -> str:
    return os.environ.get("ESKER_SPARK_MASTER") or "local[*]"


def _settings(scratch: Path) -> dict[str, str]:
    cores = os.cpu_count() or 2
    quiet = scratch / "log4j2.properties"
    quiet.write_text("rootLogger.level = error\nrootLogger.appenderRef.out.ref = err\n" + _APPENDER)
    return {
        "spark.driver.memory": os.environ.get("ESKER_SPARK_MEMORY") or f"{driver_memory() >> 20}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
        SETTING: "true",
    }


_APPENDER = "appender.err.type = Console\nappender.err.name = err\nappender.err.target = SYSTEM_ERR\n" + (
    "appender.err.layout.type = PatternLayout\nappender.err.layout.pattern = %d %p %c{1}: %m%n%ex\n"
)


def driver_memory() -> int:
    """Half of this machine's memory, within reason: the other half is for Python's workers and the file cache."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2 << 30
    return min(max(whole // 2, _SMALLEST), _LARGEST)


@contextmanager
def _workers_like_us() -> Iterator[None]:
    """Workers run this Python, which has what is installed here; PySpark takes the first python3 on the path."""
    name = "PYSPARK_PYTHON"
    if name in os.environ:
        yield
        return
    os.environ[name] = sys.executable
    try:
        yield
    finally:
        os.environ.pop(name, None)


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """What the starting JVM inherits as standard error, and keeps: a file. Java greets there before any setting."""
    try:
        here = os.dup(2)
    except OSError:  # no standard error at all
        yield
        return
    sys.stderr.flush()
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(here, 2)
        os.close(here)
