"""The programs of the pipeline, as processes that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = [sys.executable, "-c", "from esker.cli.main import main; main()"]
_PATIENCE_S = 120.0


@dataclass(slots=True)
class Program:
    """``esker`` with arguments, running; its words go to a file."""

    process: subprocess.Popen[bytes]
    words: Path

    @classmethod
    def start(cls, words: Path, *arguments: str | Path) -> Program:
        """Start it. What it says is kept beside the lake."""
        with words.open("wb") as out:
            process = subprocess.Popen(
                [*_PROGRAM, *map(str, arguments)], stdout=out, stderr=words.with_suffix(".err").open("wb")
            )
        return cls(process, words)

    def kill(self) -> None:
        """SIGKILL: it cannot say goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_PATIENCE_S)

    def stop(self) -> None:
        """Ask it to end."""
        self.process.terminate()
        self.process.wait(_PATIENCE_S)

    def answer(self) -> dict[str, Any]:
        """Wait for its end, and for what it answered as JSON."""
        status = self.process.wait(_PATIENCE_S)
        text = self.words.read_text()
        if not text.strip():
            said = self.words.with_suffix(".err").read_text()[-2000:]
            raise RuntimeError(f"{self.words.stem} ended with status {status}: {said}")
        found = json.loads(text)
        assert isinstance(found, dict)
        return found

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    """Until somebody listens."""

    def is_open() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_open, "the receiver to listen")


def wait_until(holds: Callable[[], bool], what: str, *, patience_s: float = _PATIENCE_S) -> None:
    """Look again and again, with patience, not without end."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {patience_s:.0f} s for {what}")
        time.sleep(0.002)


def receipts_in(checkpoint: Path) -> list[str]:
    """Batches that are written and not committed yet."""
    try:
        return sorted(name for name in os.listdir(checkpoint / "pending") if name.endswith(".json"))  # noqa: PTH208
    except FileNotFoundError:
        return []
