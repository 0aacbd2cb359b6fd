"""How long a commit keeps trying, as the table's ``commit.retry.*`` properties say."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
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
    status_checks: int = 3
    status_wait_ms: int = 1_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The policy that a table's properties ask for."""
        return cls(
            retries=whole_number(properties, "commit.retry.num-retries", DEFAULT_RETRIES),
            min_wait_ms=whole_number(properties, "commit.retry.min-wait-ms", 20),
            max_wait_ms=whole_number(properties, "commit.retry.max-wait-ms", 60_000),
            total_ms=whole_number(properties, "commit.retry.total-timeout-ms", 1_800_000),
            status_checks=whole_number(properties, "commit.status-check.num-retries", 3),
            status_wait_ms=whole_number(properties, "commit.status-check.min-wait-ms", 1_000),
        )

    def attempts(self) -> Iterator[int]:
        """Numbers of attempts from 1, with a wait before each but the first, until the policy is spent."""
        began = time.monotonic()
        yield 1
        for retry in range(self.retries):
            ceiling = min(self.max_wait_ms, self.min_wait_ms * 2 ** min(retry, 20))
            wait = random.uniform(0, max(ceiling, 1)) / 1000
            if (time.monotonic() - began + wait) * 1000 > self.total_ms:
                return
            time.sleep(wait)
            yield retry + 2
