"""A client that reads slowly is waited for as long as it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

pytest.importorskip("uvicorn")

from esker.serve.listen.asgi import Limits
from esker.serve.listen.bounded_connections import bounded_protocol


class Unread:
    """A transport whose client has read some more each time that the server looks.

    It is not a subclass of ``asyncio.Transport``: that of uvloop is not, either.
    """

    def __init__(self, left: Iterator[int]) -> None:
        self.looks = 0
        self._left = left
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return next(self._left)

    def abort(self) -> None:
        self.aborted.set()


def connection_to(transport: Unread) -> asyncio.Protocol:
    """A connection with limits, without the part of uvicorn."""
    bounded = bounded_protocol(Limits(unread_seconds=0.01)).__mro__[1]
    connection: asyncio.Protocol = type("Bounded", (bounded,), {"headers_seconds": 60, "unread_seconds": 0.01})()
    connection.connection_made(cast(asyncio.Transport, transport))
    return connection


def test_a_client_is_left_once_it_reads_nothing_for_the_time() -> None:
    async def run() -> int:
        transport = Unread(iter([100, 80, 30, 30, 20]))
        connection = connection_to(transport)
        connection.pause_writing()
        await asyncio.wait_for(transport.aborted.wait(), 30)
        connection.connection_lost(None)
        return transport.looks

    assert asyncio.run(run()) == 4  # it has read nothing between the third and the fourth


def test_a_client_that_has_read_all_is_not_left() -> None:
    async def run() -> bool:
        transport = Unread(iter([100, 100]))
        connection = connection_to(transport)
        connection.pause_writing()
        connection.resume_writing()
        await asyncio.sleep(0.05)
        connection.connection_lost(None)
        return transport.aborted.is_set()

    assert not asyncio.run(run())
