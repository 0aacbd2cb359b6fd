"""What a user's script does first works, with its virtual environment not activated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from entry_points import ENTRY_POINTS

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.slow
def test_each_entry_point_is_the_first_call_of_a_session_and_workers_run_this_python(tmp_path: Path) -> None:
    """The ``python3`` of the path cannot run anything: whoever starts it fails."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "python"):
        (tools / name).write_text("#!/bin/sh\nexit 3\n")
        (tools / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    environment.pop("VIRTUAL_ENV", None)
    script = ROOT / "tests" / "support" / "entry_points.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(ENTRY_POINTS) > 10
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {}
