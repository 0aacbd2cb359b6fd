"""How random tests run: quick by default, a glance in ``make check``, and as long as one likes with
``HYPOTHESIS_PROFILE=thorough``. Where ``CI`` is set they draw the same examples every time, so that what is red there
is red again at home.
"""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts Spark is for one worker of a parallel run, and one JVM at a time; it comes first, for it takes
    the longest."""
    for item in items:
        if _starts_spark(item):
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: not _starts_spark(item))


def _starts_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None or "spark" in getattr(item, "fixturenames", ())
