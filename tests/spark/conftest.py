"""One Spark session for all tests that need one: it starts slowly, and one worker of a parallel run is to have it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from spark_releases import is_too_old

from esker.errors import Unsupported

# Far from UTC, with a summer time: no value may depend on it.
ZONE = "America/Los_Angeles"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the session is forgiven what PySpark warns of."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test of a feature that this release of Spark is too old for is skipped, by the error that says so."""
    try:
        return (yield)
    except Unsupported as error:
        if is_too_old(str(error)):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """Started once per process."""
    from esker.spark.session.spark_session import start_session

    os.environ.setdefault("ESKER_SPARK_MASTER", "local[2]")
    os.environ.setdefault("ESKER_SPARK_MEMORY", "1g")
    session = start_session()
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session: Any) -> Iterator[Any]:
    """The session in a zone of its own; a test that leaves settings changed fails."""
    spark_session.conf.set("spark.sql.session.timeZone", ZONE)
    before = dict(spark_session.conf.getAll)
    yield spark_session
    after = dict(spark_session.conf.getAll)
    for key in {*before, *after}:
        if before.get(key) != after.get(key):
            if key in before:
                spark_session.conf.set(key, before[key])
            else:
                spark_session.conf.unset(key)
    assert after == before


@pytest.fixture
def no_jobs(spark: Any) -> Callable[[], None]:
    """Call it: it fails if Spark ran a job since the test began, of any group."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()

    def check() -> None:
        assert scheduler.numTotalJobs() == before

    return check


@pytest.fixture
def jvm_calls(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Call it: it returns how many calls to the JVM were made so far, of any kind but the release of objects."""
    from py4j.java_gateway import GatewayClient

    calls = 0
    send = GatewayClient.send_command

    def counted(self: Any, command: str, *more: Any, **options: Any) -> Any:
        nonlocal calls
        calls += not command.startswith("m\n")  # memory: objects that Python collected, of any test
        return send(self, command, *more, **options)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    return lambda: calls


@pytest.fixture(params=["by index", "by path"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How files are handed to Spark: as it is built now, and as if it were built otherwise."""
    if request.param == "by path":
        from esker.spark.scan.routes import Routes

        begin = Routes.__init__

        def without_index(self: Routes) -> None:
            begin(self)
            self._index_fits = False

        monkeypatch.setattr(Routes, "__init__", without_index)
    return request.param
