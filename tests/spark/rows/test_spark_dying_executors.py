"""No statement depends on an executor that stays alive: each is run while one is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from dying_executors import EXPECTED

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "dying_executors.py"


@pytest.mark.spark
@pytest.mark.slow
def test_every_statement_survives_the_loss_of_an_executor(tmp_path: Path) -> None:
    """One round, with MERGE from a source that has other values at every look. ``ESKER_ROUNDS`` asks for more."""
    rounds = int(os.environ.get("ESKER_ROUNDS", "1"))
    seed = int(os.environ.get("ESKER_SEED", "") or random.randrange(1000))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), "local-cluster[2,1,1024]", str(rounds), str(seed)],
        env={**environment, "ESKER_SOURCE": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600 + 300 * rounds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for one in found:
        assert one["error"] is None, (seed, one)
        assert one["rows"] == EXPECTED[one["statement"]], (seed, one)
        assert one["snapshots"] == 1, (seed, one)
        assert one["left"] == [], (seed, one)
    assert all(one["killed"] for one in found[1:5])  # whatever was kept, an executor took its part along
