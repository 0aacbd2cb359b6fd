"""Workers in processes of their own, which have pyarrow and numpy and nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "spark_cluster.py"


def seen(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the program saw, run without Esker on the path that its workers inherit."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *arguments],
        env={**environment, "ESKER_SOURCE": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert isinstance(found, dict)
    return found


WRITTEN = {
    "rows": 1000,
    "sum": 499_500,
    "partitions": [0, 1, 2],
    "refusal": "InvalidInput: cannot write the rows: column 'id' does not fit: it is required and cannot be null",
    "restored": True,
}


@pytest.mark.spark
@pytest.mark.slow
def test_f01_executors_without_esker_write_each_row_once_though_tasks_are_killed_and_doubled(tmp_path: Path) -> None:
    found = seen(tmp_path, "local-cluster[2,1,1024]")
    assert {key: found[key] for key in WRITTEN} == WRITTEN
    assert found["installed"].endswith("void/esker/__init__.py")
    assert found["processes"] == 2
    assert found["faults"] == [[40_000, 40_000], [40_000, 40_000]]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("s3_environment")
def test_f01_an_executor_that_dies_while_it_writes_to_s3_leaves_nothing_visible(tmp_path: Path, bucket: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    support = ROOT / "tests" / "support"
    done = subprocess.run(
        [sys.executable, str(support / "dying_s3_writers.py"), str(tmp_path)],
        env={
            **environment,
            "ESKER_SOURCE": str(ROOT / "src"),
            "ESKER_BUCKET": bucket,
            "PYSPARK_PYTHON": sys.executable,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for case, rows in (("one request", 12_000), ("several parts", 1_400_000)):
        facts = found[case]
        assert facts.pop("attempts") > facts.pop("recorded"), case  # what died had begun a file
        assert facts == {
            "killed": True,
            "rows": rows,
            "ids": rows,
            "snapshots": 1,
            "recorded files are stored": True,
            "in parts": case == "several parts",
        }
