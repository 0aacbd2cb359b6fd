"""The data source on executors that have pyarrow and numpy alone, with tasks that fail and are doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "source_cluster.py"


@pytest.mark.spark
@pytest.mark.slow
def test_executors_without_esker_read_write_and_stream_each_row_once(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), "local-cluster[2,1,1024]"],
        env={**environment, "ESKER_SOURCE": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    third = range(1, 4000, 3)
    assert found == {
        "with vectors": ["PUFFIN", 3997],
        "written": [4000, 4000],
        "read": [len(third), sum(third)],
        "streamed": 4000,
        "heard": [[200, 4, 0], [200, 4, 0]],
        "found": "not in executors",
    }
