"""A pipeline whose driver is killed at each step of a batch, and started again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from dying_pipeline import STEPS
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import letters, log_bodies, logs, span_names, spans, write

import esker
from esker.ingest.checkpoint import Checkpoint
from esker.otlp.segment import frame
from esker.otlp.signals import Signal
from esker.otlp.spool import Spool

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"),
]
SUPPORT = Path(__file__).parents[1] / "support"


def run(folder: Path, batch: int, step: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    own = {
        "PYTHONPATH": os.pathsep.join([str(Path(esker.__file__).parents[1]), str(SUPPORT)]),
        "ESKER_SPARK_MASTER": "local[2]",
        "ESKER_SPARK_MEMORY": "600m",
    }
    with (folder / f"words-{batch}").open("w") as words:
        return subprocess.run(
            [sys.executable, str(SUPPORT / "dying_pipeline.py"), str(folder), str(batch), step],
            env={**environment, **own},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            timeout=280,
            check=False,
        )


def fill(folder: Path) -> None:
    """For each step a file and a segment, of the same age: they share a batch."""
    spool = Spool(folder / "spool")
    for number in range(len(STEPS)):
        spool.append(frame(logs([number]), signal=Signal.LOGS, json=True, refused=False, received_at_ms=1))
        spool.seal()
    spool.close()
    files = [write(folder / "files", f"{number}.jsonl", spans([number]), b"{broken\n") for number in range(len(STEPS))]
    for number, pair in enumerate(zip(files, sorted((folder / "spool").glob("*.otlp")), strict=True)):
        for path in pair:
            os.utime(path, ns=(number * 10**9, number * 10**9))


def test_a_driver_killed_at_each_step_leaves_every_record_to_be_found_once(tmp_path: Path) -> None:
    fill(tmp_path)
    for batch, step in enumerate(STEPS):  # each start finishes the batch that the one before it died in
        died = run(tmp_path, batch, step)
        assert died.returncode == -signal.SIGKILL, (step, (tmp_path / f"words-{batch}").read_text()[-3000:])
    done = run(tmp_path, len(STEPS), "")
    assert done.returncode == 0, (tmp_path / f"words-{len(STEPS)}").read_text()[-3000:]
    account = json.loads(done.stdout.strip().splitlines()[-1])
    assert (account["holds"], account["lost"], account["duplicated"]) == (True, 0, 0)
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    numbers = range(len(STEPS))
    assert span_names(lake) == Counter(f"span {number}" for number in numbers)
    assert log_bodies(lake) == Counter(f"log {number}" for number in numbers)
    assert letters(lake).total() == len(STEPS)
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    assert (checkpoint.next_number, checkpoint.unfinished()) == (len(STEPS), [])
    checkpoint.close()
    assert not list((tmp_path / "spool").glob("*.otlp"))
