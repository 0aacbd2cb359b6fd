"""Running the ``esker`` command in tests: inside this process, or as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import esker
from esker.cli.main import cli

SOURCES = str(Path(esker.__file__).resolve().parents[1])


def run(*arguments: str | Path, env: Mapping[str, str | None] | None = None) -> Result:
    """The command run in this process; ``ESKER_CATALOG`` is unset unless given."""
    runner = CliRunner(env={"ESKER_CATALOG": None, "COLUMNS": None, **(env or {})})
    return runner.invoke(cli, [str(argument) for argument in arguments])


def run_json(*arguments: str | Path, status: int = 0) -> Any:
    """The one JSON document that the command prints; it must end with that status."""
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    document = json.loads(result.stdout)
    assert result.stdout.endswith("}\n")
    return document


def run_program(*arguments: str | Path, code: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """The command as a program; ``code`` runs in place of it, with the arguments in ``sys.argv``."""
    how = ["-m", "esker.cli.main"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *how, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONWARNINGS": "default", **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
