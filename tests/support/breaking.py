"""A door that breaks at one call of many, and what comes out of whoever went through it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from doors import Door

from esker.errors import EskerError, InvalidInput

T = TypeVar("T")
MANY = 400  # an operation that makes more calls than this has lost its way


class Breaking(Door):
    """The call of this number fails: before it is done, after it, or as a lost connection after it."""

    def __init__(self, at: int, how: str) -> None:
        super().__init__()
        self.at = at
        self.how = how
        self.broke: str | None = None

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        self.calls.append((verb, what))
        if len(self.calls) != self.at:
            return do()
        self.broke = verb
        if self.how != "before":
            do()
        if self.how == "raw" or verb == "move":  # an error of ours would say that the pointer has not moved
            raise ConnectionResetError(errno.ECONNRESET, "the line went dead")
        raise InvalidInput(f"cannot {verb} {what}: the store is full")


def outcome(do: Callable[[], object]) -> BaseException | None:
    """What was raised; a lost connection may come through as it is, everything else is an error of ours."""
    try:
        do()
    except (EskerError, ConnectionResetError, OSError) as error:
        return error
    return None
