"""Python code in a process with little memory, no network and a deadline: for input that wants to take everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
_FRAME = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))

def deny(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit("it went to the network")

sys.addaudithook(deny)
import esker
try:
    answer = (lambda table: {ask})(esker.open_table({table!r}))
    print("answered", answer)
except esker.EskerError as error:
    print(type(error).__name__, error.facts.get("file"), "|", error)
"""


def ask_limited(table: Path, ask: str, *, memory: int = 3 << 30, seconds: int = 120) -> str:
    """How the question ends: ``answered …``, or the kind of the error, the file it names and what it says."""
    script = _FRAME.format(memory=memory, ask=ask, table=str(table))
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={"PYTHONPATH": str(SRC), "PATH": "", "MALLOC_ARENA_MAX": "2"},
    )
    if done.returncode:
        raise AssertionError(f"exit {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()
