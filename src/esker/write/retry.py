"""How long a commit keeps trying, as the table's ``commit.retry.*`` properties say."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from esker.write.properties import whole_number

DEFAULT_RETRIES = 16
"""More than Iceberg's 4: a retry here rewrites a list and a metadata file, no data, so patience is cheap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, bounded in number and in time."""

    retries: int = DEFAULT_RETRIES
    min_wait_ms: int = 20
    max_wait_ms: int = 60_000
    total_ms: int = 1_800_000
    checks: int = 3
    min_check_wait_ms: int = 1_000
    max_check_wait_ms: int = 60_000
    total_check_ms: int = 1_800_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The policy that a table's properties ask for."""
        return cls(
            retries=whole_number(properties, "commit.retry.num-retries", DEFAULT_RETRIES),
            min_wait_ms=whole_number(properties, "commit.retry.min-wait-ms", 20),
            max_wait_ms=whole_number(properties, "commit.retry.max-wait-ms", 60_000),
            total_ms=whole_number(properties, "commit.retry.total-timeout-ms", 1_800_000),
            checks=whole_number(properties, "commit.status-check.num-retries", 3),
            min_check_wait_ms=whole_number(properties, "commit.status-check.min-wait-ms", 1_000),
            max_check_wait_ms=whole_number(properties, "commit.status-check.max-wait-ms", 60_000),
            total_check_ms=whole_number(properties, "commit.status-check.total-timeout-ms", 1_800_000),
        )

    def attempts(self) -> Iterator[int]:
        """Numbers of attempts from 1, with a wait before each but the first, until the policy is spent."""
        waits = (
            random.uniform(0, max(min(self.max_wait_ms, self.min_wait_ms * 2 ** min(retry, 20)), 1))
            for retry in range(self.retries)
        )
        return _numbered(waits, self.total_ms)

    def status_checks(self) -> Iterator[int]:
        """The same for asking whether a commit that nobody answered is there: once at once, then ever later."""
        waits = (
            min(self.max_check_wait_ms, self.min_check_wait_ms * 2 ** min(check, 20)) for check in range(self.checks)
        )
        return _numbered(waits, self.total_check_ms)


def _numbered(waits_ms: Iterable[float], total_ms: int) -> Iterator[int]:
    began = time.monotonic()
    yield 1
    for number, wait_ms in enumerate(waits_ms, 2):
        if (time.monotonic() - began) * 1000 + wait_ms > total_ms:
            return
        time.sleep(wait_ms / 1000)
        yield number
