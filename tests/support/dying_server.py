"""A program that serves a catalog over HTTP and dies by SIGKILL at a step of its own: one JSON command a line.

Everything is imported once; each command is done by a fork, which serves on a free port and leaves a trace of its
steps on a pipe. The program itself is the client: it sends the requests of the command one after another, and answers
with the status of each (null where the server died) and with the steps of the server.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import uvicorn.loops.auto
import uvicorn.protocols.http.h11_impl  # noqa: F401  (imported by the server when it starts)
from dying_writer import Steps

from esker.serve.listen.run_server import Listening, make_server
from esker.wiring import connect

READY = "serving at port "


def _serve(uri: str, at: int | None, trace: int) -> None:
    """Serve until a signal ends it. Steps are counted from the first request on."""
    steps = Steps(trace, None)
    steps.watch()
    server, listening = make_server(connect(uri), Listening(port=0))
    listening.listen()
    steps.begin(at)
    os.write(trace, f"{READY}{listening.getsockname()[1]}\n".encode())
    server.run(sockets=[listening])


def _sent(port: int, request: dict[str, Any]) -> int | None:
    """The status of the answer; None if the server died before it had answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(request["method"], request["path"], json.dumps(request["body"]), request["headers"])
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _do(command: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _serve(command["uri"], command["at"], writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as trace:
        ready = next(line for line in trace if line.startswith(READY))
        answers = [_sent(int(ready.removeprefix(READY)), request) for request in command["requests"]]
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        labels = trace.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "steps": labels, "answers": answers}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_do(json.loads(line))), flush=True)
