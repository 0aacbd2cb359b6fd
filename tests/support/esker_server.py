"""``esker serve`` for tests: a real server on a free port of the loopback interface, in a thread of this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import esker
from esker.lake import Lake
from esker.serve.listen.asgi import Limits
from esker.serve.listen.log_lines import write_log
from esker.serve.listen.run_server import Listening, make_server


@contextmanager
def serving(
    lake: Lake, *, limits: Limits | None = None, token_file: Path | None = None, **options: Any
) -> Iterator[str]:
    """The address of a server over a lake, while the block runs. ``options`` are those of ``Listening``."""
    server, socket = make_server(lake, Listening(port=0, token_file=token_file, **options), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        ends = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < ends
            time.sleep(0.01)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        socket.close()


@contextmanager
def serving_sqlite(folder: Path, *roots: str) -> Iterator[str]:
    """The address of a server over a new SQLite catalog in a folder."""
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), allowed_roots=roots)
    with serving(lake) as uri:
        yield uri


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """The log of the server is written to a file while the block runs."""
    loggers = [logging.getLogger(name) for name in ("esker.serve", "uvicorn")]
    before = [(one.handlers, one.level, one.propagate) for one in loggers]
    errors = logging.getLogger("uvicorn.error")  # another server of this process may have made it silent
    silence = (errors.level, errors.disabled)
    errors.setLevel(logging.NOTSET)
    errors.disabled = False
    write_log(str(file))
    try:
        yield
    finally:
        errors.setLevel(silence[0])
        errors.disabled = silence[1]
        loggers[0].handlers[0].close()
        for one, (one.handlers, level, one.propagate) in zip(loggers, before, strict=True):
            one.setLevel(level)
