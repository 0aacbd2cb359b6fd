"""Which test modules ``make check`` leaves out: a plugin of pytest that measures them (``make quick-modules``).

A module is left out if its quick tests take more than 0.4 seconds of CPU time, or four times as long by the clock, or
if it has none. Those of ``ALWAYS`` run in any case: they check text and imports. The list is a file of arguments for
pytest, so modules on it are not even imported. A module that is not on the list runs: a new one does.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Collection, Generator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LIST = TESTS / "left_out_of_check.txt"
CPU_S, CLOCK_S = 0.4, 1.6
ALWAYS = {f"tests/architecture/test_{name}.py" for name in ("docs", "import_rules", "plain_english", "rooms")}

_spent: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])


def _cpu_s() -> float:
    """CPU time of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Add the time of a test, with its fixtures, to its module."""
    cpu_s, clock_s = _cpu_s(), time.monotonic()
    result = yield
    spent = _spent[item.nodeid.split("::", 1)[0]]
    spent[0] += _cpu_s() - cpu_s
    spent[1] += time.monotonic() - clock_s
    return result


def pytest_sessionfinish() -> None:
    """Write the list."""
    quick = {module for module, (cpu_s, clock_s) in _spent.items() if cpu_s <= CPU_S and clock_s <= CLOCK_S}
    LIST.write_text("".join(f"--ignore={path}\n" for path in left_out(quick | ALWAYS)))


def left_out(quick: Collection[str]) -> list[str]:
    """The modules that are not quick. A folder without a quick module stands for all that it has."""
    kept = [TESTS.parent / module for module in quick]
    found: set[Path] = set()
    for module in TESTS.rglob("test_*.py"):
        if module not in kept:
            folders = [folder for folder in module.parents if TESTS in folder.parents]
            empty = [folder for folder in folders if not any(folder in one.parents for one in kept)]
            found.add(empty[-1] if empty else module)
    return sorted(path.relative_to(TESTS.parent).as_posix() for path in found)
