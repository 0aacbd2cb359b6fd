"""Several processes that answer requests at one address. The database keeps their commits apart."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from esker.catalogs.open_catalog import scheme_of
from esker.errors import EskerError, InvalidInput, StorageFailed
from esker.serve.listen.request_counts import SharedCounts
from esker.serve.listen.run_server import Listening, bound_socket, check_protected, server_over

if TYPE_CHECKING:
    from esker.lake import Lake

_NOT_STARTED = 78  # the exit status of a process that cannot be started
_REST_S = 1.0


def check_shared(catalog: str, workers: int) -> None:
    """Raise ``InvalidInput`` for a catalog that one process alone should serve."""
    scheme = scheme_of(catalog)
    if scheme != "postgresql":
        raise InvalidInput(
            f"cannot serve a {scheme} catalog with {workers} workers: only PostgreSQL keeps the commits of several "
            "processes apart and fast; leave out --workers, or use a catalog in PostgreSQL"
        )


def run_workers(open_lake: Callable[[], Lake], listening: Listening, ready: Callable[[socket.socket], None]) -> None:
    """Run ``listening.workers`` processes until SIGTERM or SIGINT. One that dies is started again.

    The lake is opened in each process: connections do not cross a fork. Raises ``InvalidInput`` and ``StorageFailed``
    as ``make_server`` does.
    """
    check_protected(listening)
    with bound_socket(listening) as bound:
        ready(bound)
        _Workers(open_lake, listening, bound).run()


class _Workers:
    def __init__(self, open_lake: Callable[[], Lake], listening: Listening, bound: socket.socket) -> None:
        self._open_lake = open_lake
        self._listening = listening
        self._bound = bound
        self._running: dict[int, int] = {}  # the number of each worker, by its process
        self._counts = SharedCounts(listening.workers)
        self._stops = False

    def run(self) -> None:
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: self._stop())
        for number in range(self._listening.workers):
            self._start(number)
        failed = False
        while self._running:
            process, status = os.wait()
            ended = self._running.pop(process, None)
            if os.waitstatus_to_exitcode(status) == _NOT_STARTED:
                failed = True
                self._stop()
            elif ended is not None and not self._stops:
                time.sleep(_REST_S)  # one that dies at once must not use up the machine
                if not self._stops:
                    self._start(ended)
        if failed:
            raise StorageFailed("cannot start a worker; its message is above", retryable=False)

    def _stop(self) -> None:
        self._stops = True
        for process in tuple(self._running):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(process, signal.SIGTERM)

    def _start(self, number: int) -> None:
        parent = os.getpid()
        process = os.fork()
        if process:
            self._running[process] = number
            if self._stops:  # the signal came before the process was known
                os.kill(process, signal.SIGTERM)
            return
        status = 0
        try:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            self._serve(parent, number)
        except EskerError as error:
            print(f"esker: {error.message}", file=sys.stderr, flush=True)
            status = _NOT_STARTED
        except BaseException as error:  # the process ends here, whatever it is
            print(f"esker: a worker failed: {error!r}", file=sys.stderr, flush=True)
            status = 1
        finally:
            os._exit(status)

    def _serve(self, parent: int, number: int) -> None:
        server = server_over(self._open_lake(), self._listening, counts=self._counts.of(number))

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(_REST_S)
            server.should_exit = True  # nobody would stop this process any more

        threading.Thread(target=watch, daemon=True).start()
        server.run(sockets=[self._bound])
