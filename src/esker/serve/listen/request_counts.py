"""What a server has done so far, for ``/metrics``: of one process, or of several that share memory."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from itertools import accumulate

import numpy as np

_METHODS = ("GET", "HEAD", "POST", "DELETE", "OTHER")  # clients can make up many: the last stands for all others
_STATUSES = range(100, 600)
_LIMITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_BUCKETS = len(_LIMITS) + 1
_NANOSECONDS = 1_000_000_000

# The numbers of one process, in their order: answers by method and status, answers by method and time, the nanoseconds
# of all answers by method, and the requests in work.
_BY_TIME = len(_METHODS) * len(_STATUSES)
_TIMES = _BY_TIME + len(_METHODS) * _BUCKETS
_IN_WORK = _TIMES + len(_METHODS)
_NUMBERS = _IN_WORK + 1


class SharedCounts:
    """The counts of several processes, in memory that a fork shares. Each process has a place, and writes there alone.

    A process that takes the place of one that died goes on with its counts: totals never go back.
    """

    def __init__(self, places: int = 1) -> None:
        self._places = places
        self._memory = mmap.mmap(-1, places * _NUMBERS * 8)

    def of(self, place: int) -> Counts:
        """The counts of the process that has a place from now on."""
        begins = place * _NUMBERS * 8
        own = memoryview(self._memory)[begins : begins + _NUMBERS * 8].cast("q")
        own[_IN_WORK] = 0
        return Counts(self, own)

    def total(self) -> list[int]:
        """The sums of the counts of all processes."""
        found: list[int] = np.frombuffer(self._memory, np.int64).reshape(self._places, _NUMBERS).sum(axis=0).tolist()
        return found


class Counts:
    """What one process has done so far. ``text`` has the sums of all that share the memory."""

    __slots__ = ("_own", "_shared")

    def __init__(self, shared: SharedCounts, own: memoryview[int]) -> None:
        self._shared = shared
        self._own = own

    @property
    def in_work(self) -> int:
        """The requests that this process has taken and not answered yet."""
        return self._own[_IN_WORK]

    def begin(self) -> None:
        """Count a request as taken."""
        self._own[_IN_WORK] += 1

    def end(self) -> None:
        """Count a request as no longer in work."""
        self._own[_IN_WORK] -= 1

    def count(self, method: str, status: int, seconds: float) -> None:
        """Count one answer."""
        of = _METHODS.index(method) if method in _METHODS else len(_METHODS) - 1
        self._own[of * len(_STATUSES) + status - _STATUSES.start] += 1
        self._own[_BY_TIME + of * _BUCKETS + bisect_left(_LIMITS, seconds)] += 1
        self._own[_TIMES + of] += int(seconds * _NANOSECONDS)

    def text(self) -> str:
        """The counts in Prometheus' text format."""
        numbers = self._shared.total()
        lines = ["# TYPE esker_requests_total counter"]
        for at, number in enumerate(numbers[:_BY_TIME]):
            if number:
                method, status = _METHODS[at // len(_STATUSES)], _STATUSES[at % len(_STATUSES)]
                lines.append(f'esker_requests_total{{method="{method}",status="{status}"}} {number}')
        lines.append("# TYPE esker_request_seconds histogram")
        for at, method in enumerate(_METHODS):
            begins = _BY_TIME + at * _BUCKETS
            totals = list(accumulate(numbers[begins : begins + _BUCKETS]))
            if not totals[-1]:
                continue
            name = f'esker_request_seconds_bucket{{method="{method}",le='
            lines += [f'{name}"{limit}"}} {so_far}' for limit, so_far in zip((*_LIMITS, "+Inf"), totals, strict=True)]
            seconds = numbers[_TIMES + at] / _NANOSECONDS
            lines.append(f'esker_request_seconds_sum{{method="{method}"}} {seconds:.6f}')
            lines.append(f'esker_request_seconds_count{{method="{method}"}} {totals[-1]}')
        lines += ["# TYPE esker_requests_in_work gauge", f"esker_requests_in_work {numbers[_IN_WORK]}"]
        return "\n".join(lines) + "\n"
