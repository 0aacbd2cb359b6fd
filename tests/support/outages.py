"""Catalogs that go away, for one call or for good, and tables that do not wait long for them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from doors import Door

T = TypeVar("T")
IMPATIENT = {
    "commit.retry.num-retries": "1",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "1",
    "commit.status-check.num-retries": "1",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "1",
}


class Outage(Door):
    """From some swap on, the catalog is away: swaps are lost before or after they are done, and it cannot be asked."""

    def __init__(self, *, from_swap: int, how: str) -> None:
        super().__init__()
        self.from_swap, self.how = from_swap, how
        self.swaps = 0

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        self.calls.append((verb, what))
        self.swaps += verb == "move"
        if self.swaps < self.from_swap:
            return do()
        if verb == "move" and self.how == "after" and self.swaps == self.from_swap:
            do()
        if verb in ("move", "get"):
            raise ConnectionResetError(errno.ECONNRESET, "the line went dead")
        return do()


class Once(Door):
    """One call is lost, before or after it is done; then all is well again."""

    def __init__(self, at: int, how: str) -> None:
        super().__init__()
        self.at, self.how = at, how

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        self.calls.append((verb, what))
        if len(self.calls) != self.at:
            return do()
        if self.how == "after":
            do()
        raise ConnectionResetError(errno.ECONNRESET, "the line went dead")
