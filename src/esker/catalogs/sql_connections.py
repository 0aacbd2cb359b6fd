"""Connections to a database that wait for their next use. They serve any thread, and never cross a fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from esker.errors import EskerError, OutcomeUnknown

_MOST_IDLE = 8


class Closable(Protocol):
    """A connection, as far as keeping it is concerned."""

    def close(self) -> None:
        """End it."""
        ...


C = TypeVar("C", bound=Closable)


class Connections(Generic[C]):
    """Opens connections, and keeps up to eight that nobody uses at the moment.

    ``is_usable`` is asked about an idle connection before it is used again.
    """

    def __init__(self, open_one: Callable[[], C], is_usable: Callable[[C], bool]) -> None:
        self._open_one = open_one
        self._is_usable = is_usable
        self._lock = threading.Lock()
        self._idle: list[tuple[int, C]] = []  # with the process that opened it
        weakref.finalize(self, _close_all, self._idle)

    @contextmanager
    def borrowed(self) -> Iterator[C]:
        """A connection that nobody else uses meanwhile. One that met an error is closed and not used again."""
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            if isinstance(error, EskerError) and not isinstance(error, OutcomeUnknown):
                self._give_back(connection)
            else:
                connection.close()
            raise
        self._give_back(connection)

    def close_idle(self) -> None:
        """Close the connections of this process that nobody uses."""
        while (connection := self._pop()) is not None:
            connection.close()

    def _take(self) -> C:
        while (connection := self._pop()) is not None:
            if self._is_usable(connection):
                return connection
            connection.close()
        return self._open_one()

    def _pop(self) -> C | None:
        """An idle connection of this process. Those of a parent process stay untouched: two would write to one."""
        with self._lock:
            for at in range(len(self._idle) - 1, -1, -1):
                if self._idle[at][0] == os.getpid():
                    return self._idle.pop(at)[1]
        return None

    def _give_back(self, connection: C) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append((os.getpid(), connection))
                return
        connection.close()


def _close_all(idle: list[tuple[int, C]]) -> None:
    for process, connection in idle:
        if process == os.getpid():
            connection.close()
