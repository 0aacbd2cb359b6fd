"""Finds the Spark session that reads and writes rows: the user's session, or a quiet one that Esker starts when needed.

Also checks that the session accepts Spark's TIME type if a table needs it. Importing this module does not load PySpark.
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


SETTING = "spark.sql.timeType.enabled"


def check_times(session: SparkSession, fields: Iterable[Field]) -> None:
    """Raise ``Unsupported`` if a column has the type time and the session's setting for it is off.

    Spark checks the setting at each use of a frame, so it is not enough to set it for a moment.
    """
    names = [".".join(part.name for part in path) for f, path in walk(tuple(fields)) if isinstance(f.type, TimeType)]
    if names and str(session.conf.get(SETTING, "false")).lower() != "true":
        raise Unsupported(
            f"cannot give column {names[0]!r} to Spark: its type time is switched off in this session; run "
            f"spark.conf.set({SETTING!r}, 'true'), or leave the column out of columns=[…]",
            feature="time",
            column=names[0],
        )


log = logging.getLogger("esker.spark.session.spark_session")

_SMALLEST, _LARGEST = 1 << 30, 16 << 30
_starting = Lock()


class SessionSource:
    """Returns the session to use: the given one, else the running one, else a new one."""

    def __init__(self, given: SparkSession | None = None) -> None:
        self._given = given

    def get(self) -> SparkSession:
        """Return the session. Start one if none is running."""
        return self._given if self._given is not None else running_session() or start_session()

    def running(self) -> SparkSession | None:
        """Return the session if there is one that runs. Starts none."""
        if self._given is None:
            return running_session()
        with suppress(Exception):  # a session whose JVM has ended raises many kinds of errors
            return self._given if _is_alive(self._given) else None
        return None


def running_session() -> SparkSession | None:
    """Return the running session of this process, or None."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    with suppress(Exception):  # a session whose JVM has ended raises many kinds of errors
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
    """Start a local session. It prints nothing unless something fails, and accepts connections from this machine only.

    Raises ``Unsupported`` if PySpark or a suitable Java is not installed.
    """
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
    """Start the JVM in a process group of its own, unless it is running already.

    A signal to the group, from Ctrl-C, ``timeout`` or a shell, then reaches only this process, which can finish its
    work. The JVM ends when this process ends.
    """
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
    """Half of this machine's memory, between 1 and 16 GiB. The rest is for Python workers and the file cache."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2 << 30
    return min(max(whole // 2, _SMALLEST), _LARGEST)


@contextmanager
def _workers_like_us() -> Iterator[None]:
    """Let workers run this Python, which has the installed packages.

    PySpark would use the first python3 on the path.
    """
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
    """Send standard error to a file while the JVM starts. Java prints there before any setting applies."""
    try:
        here = os.dup(2)
    except OSError:  # this process has no standard error
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
