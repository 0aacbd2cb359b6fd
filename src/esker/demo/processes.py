"""The programs of the pipeline as processes that can be killed: ``esker`` with arguments, and drivers of Spark."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from esker.errors import Unsupported

_PROGRAM = [sys.executable, "-c", "from esker.cli.main import main; main()"]
_PATIENCE_S = 600.0
_LOWEST_PORT = 12_000


@dataclass(slots=True)
class Program:
    """A running program. Its output goes to a file."""

    process: subprocess.Popen[bytes]
    words: Path

    @classmethod
    def start(cls, words: Path, *arguments: str | Path) -> Program:
        """Start ``esker`` with arguments. Its output is kept beside the lake."""
        return cls.run(words, [*_PROGRAM, *arguments])

    @classmethod
    def run(cls, words: Path, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Program:
        """Start another program. Its output is kept in the same way."""
        return cls(_started(words, list(map(str, command)), environment), words)

    def kill(self) -> None:
        """End it by SIGKILL: it cannot clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_PATIENCE_S)

    def stop(self) -> None:
        """Ask it to end."""
        self.process.terminate()
        self.process.wait(_PATIENCE_S)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None


@dataclass(slots=True)
class Driver(Program):
    """A Spark driver with its JVM and executors, which prints its progress."""

    read: int = 0  # bytes of its output that were read

    @classmethod
    def launch(cls, words: Path, folder: Path, catalog: str, master: str) -> Driver:
        """Start ``esker.demo.driver`` on a master."""
        environment = {"ESKER_SPARK_MASTER": master, "ESKER_SPARK_MEMORY": "1g"}
        return cls(
            _started(words, [sys.executable, "-m", "esker.demo.driver", str(folder), catalog], environment), words
        )

    def news(self) -> list[dict[str, Any]]:
        """The messages since the last call. Raises ``RuntimeError`` if it has ended by itself."""
        with self.words.open("rb") as file:
            file.seek(self.read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self.read += len(whole) + len(newline)
        if not whole and not self.is_running:
            raise RuntimeError(f"the driver ended: {self.words.with_suffix('.err').read_text()[-2000:]}")
        return [json.loads(line) for line in whole.splitlines()]

    def executors(self) -> list[int]:
        """The processes of its executors; none if these are threads of the driver."""
        return [pid for pid, command in below(self.process.pid) if "CoarseGrainedExecutorBackend" in command]

    def kill(self) -> None:
        """Kill the driver, its Python and its JVM, by SIGKILL. Executors end when they notice it."""
        java = [pid for pid, command in below(self.process.pid) if "deploy.SparkSubmit" in command]
        for pid in (self.process.pid, *java):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_PATIENCE_S)


def _started(words: Path, command: list[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    with words.open("wb") as out, words.with_suffix(".err").open("wb") as errors:
        return subprocess.Popen(command, stdout=out, stderr=errors, env={**os.environ, **(environment or {})})


def below(pid: int) -> Iterator[tuple[int, str]]:
    """The processes below a process, each with its command line."""
    children: dict[int, list[tuple[int, str]]] = {}
    for child, parent, command in _processes():
        children.setdefault(parent, []).append((child, command))
    waiting = [pid]
    while waiting:
        for child, command in children.get(waiting.pop(), []):
            yield child, command
            waiting.append(child)


def _processes() -> Iterator[tuple[int, int, str]]:
    """All processes: id, parent's id, command line."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, parent, command = line.split(None, 2)
            yield int(pid), int(parent), command
        return
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                yield int(folder.name), int(parent), (folder / "cmdline").read_text(errors="replace").replace("\0", " ")


def home_of_spark() -> Path:
    """The folder that PySpark is installed in. Raises ``Unsupported`` if it is not installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unsupported("cannot run the demo without PySpark: pip install 'esker[spark]'", feature="pyspark")
    return Path(os.environ.get("SPARK_HOME") or Path(spec.origin).parent)


def free_port() -> int:
    """A port that is free, below those that the system gives to connections.

    While a killed server is down, its clients connect again and again. The system could choose the server's own port
    for such a connection, and the server could not have it back.
    """
    range_ = Path("/proc/sys/net/ipv4/ip_local_port_range")
    highest = int(range_.read_text().split()[0]) - 1 if range_.exists() else 32_000
    while True:
        port = random.randint(_LOWEST_PORT, max(_LOWEST_PORT, highest))
        with socket.socket() as probe, suppress(OSError):  # somebody listens there
            probe.bind(("127.0.0.1", port))
            return port


def wait_for_port(port: int) -> None:
    """Wait until a program listens at the port."""

    def is_open() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_open, f"a program to listen at port {port}")


def wait_until(holds: Callable[[], bool], what: str, *, patience_s: float = _PATIENCE_S, look_s: float = 0.05) -> None:
    """Wait until ``holds`` is true. Raises ``TimeoutError`` after ``patience_s``."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {patience_s:.0f} s for {what}")
        time.sleep(look_s)


def receipts_in(checkpoint: Path) -> list[str]:
    """Batches that are written but not committed."""
    try:
        return sorted(name for name in os.listdir(checkpoint / "pending") if name.endswith(".json"))  # noqa: PTH208
    except FileNotFoundError:
        return []
