"""A pipeline loses executors at random, with tasks that are tried again and tasks that run twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from dying_executors_pipeline import FILES, RECORDS, SEGMENTS
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import letters, log_bodies, span_names

import esker

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "dying_executors_pipeline.py"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"),
]


def test_executors_that_die_while_they_decode_lose_and_double_nothing(tmp_path: Path) -> None:
    """Two rounds of two batches, each with a kill; ``ESKER_ROUNDS`` asks for more, and ``ESKER_SEED`` for the same."""
    rounds = int(os.environ.get("ESKER_ROUNDS", "2"))
    seed = int(os.environ.get("ESKER_SEED", "") or random.randrange(1000))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    own = {"ESKER_SOURCE": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), "local-cluster[2,1,1024]", str(rounds), str(seed)],
        env={**environment, **own},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600 + 120 * rounds,
        check=False,
    )
    assert done.returncode == 0, (seed, done.stderr[-3000:])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    received = (FILES + SEGMENTS) * RECORDS + FILES
    for one in found:
        assert (one["holds"], one["lost"], one["duplicated"]) == (True, 0, 0), (seed, one)
        assert (one["received"], one["dead_letters"], one["left"]) == (received, FILES, 0), (seed, one)
    assert sum(one["killed"] for one in found) >= rounds, (seed, found)
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    per_round = FILES * RECORDS
    assert span_names(lake) == Counter(f"span {number}" for number in range(rounds * per_round)), seed
    logs = (number * per_round + at for number in range(rounds) for at in range(SEGMENTS * RECORDS))
    assert log_bodies(lake) == Counter(f"log {number}" for number in logs), seed
    assert letters(lake).total() == rounds * FILES
