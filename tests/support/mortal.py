"""A program that is killed at one of its steps, again and again: it stays, and forks for each command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import esker


class Mortal:
    """Speaks to one of the programs beside this file that die where they are told to."""

    def __init__(self, program: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(program))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(Path(esker.__file__).parents[1]), "PATH": "", **(environment or {})},
        )

    def run(self, **command: Any) -> tuple[int, list[str]]:
        """Exit status and the steps taken; what dies at a step has taken it last."""
        answer = self.answer(**command)
        return answer["status"], answer["steps"]

    def answer(self, **command: Any) -> dict[str, Any]:
        """All that the program says of a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
