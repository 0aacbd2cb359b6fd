"""SQL on a Connect session, where frames are looked at anew whenever they are used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_connect_session_answers_as_a_classic_one_does(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "sql_on_connect.py"), str(tmp_path)],
        # PySpark's own tests ask for a free port this way; else two servers on one machine would clash
        env={
            **environment,
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert "connect" in answer["session"]
    joined, counted, tables, copied = answer["found"]
    assert joined == [["2", "2", "2"], ["4", "4", "4"], ["100", "None", "100"]]
    assert len(counted) == 1
    assert tables == [["sales", "copy", "False"], ["sales", "orders", "False"]]
    assert [row[:2] for row in copied] == [["0", "eu"], ["2", "eu"], ["4", "eu"]]
