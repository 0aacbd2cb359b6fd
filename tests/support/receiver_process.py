"""``esker receive`` as a process of its own, to be killed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ReceiverProcess:
    """A receiver on one port and one spool, over several lives."""

    def __init__(self, spool: Path, *options: str) -> None:
        self._spool, self._options = spool, options
        self.port = 0
        self.start()

    def start(self) -> None:
        """Begin, or begin again on the same port."""
        command = [sys.executable, "-m", "esker.cli.main", "receive", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--spool", str(self._spool), *self._options], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        said, found = "", None
        while found is None:
            line = self.process.stderr.readline()
            said += line
            assert line, said
            found = re.search(r":(\d+), keeping", line)
        self.port = int(found[1])

    def kill(self) -> None:
        """As the machine would: no farewell."""
        self.process.kill()
        self._reap()

    def stop(self) -> str:
        """With a farewell; what it said."""
        self.process.terminate()
        return self._reap()

    def _reap(self) -> str:
        _, said = self.process.communicate(timeout=30)
        return said


@contextmanager
def receiving(spool: Path, *options: str) -> Iterator[ReceiverProcess]:
    """A receiver that is gone afterwards, whatever happens."""
    made = ReceiverProcess(spool, *options)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.kill()
