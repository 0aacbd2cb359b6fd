"""A pipeline with a transform and a rollup whose driver is killed at each step: what is committed is what the receipt
named, and the rollup is what the table comes to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from dying_changes import STEPS
from dying_driver import start
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import logs, span_names, spans, write

import esker
from esker.ingest.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"),
]
SPANS = 20  # of a batch


def run(folder: Path, batch: int, step: str) -> subprocess.CompletedProcess[str]:
    return start("dying_changes.py", folder, str(batch), step, number=batch)


def test_a_driver_killed_at_each_step_of_a_transform_and_a_rollup_counts_every_row_once(tmp_path: Path) -> None:
    for number in range(len(STEPS) + 1):
        path = write(
            tmp_path / "files", f"{number}.jsonl", spans(range(100 * number, 100 * number + SPANS)), logs([number])
        )
        os.utime(path, ns=(number * 10**9, number * 10**9))
    for batch, step in enumerate(STEPS):
        died = run(tmp_path, batch, step)
        assert died.returncode == -signal.SIGKILL, (step, (tmp_path / f"words-{batch}").read_text()[-3000:])
    done = run(tmp_path, len(STEPS), "")
    assert done.returncode == 0, (tmp_path / f"words-{len(STEPS)}").read_text()[-3000:]
    account = json.loads(done.stdout.strip().splitlines()[-1])
    assert (account["holds"], account["lost"], account["duplicated"]) == (True, 0, 0)
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    kept = span_names(lake)
    assert set(kept.values()) == {1}
    assert Counter(lake.table("audit.logs").scan().to_arrow().column("Body").to_pylist()) == Counter(
        f"log {number}" for number in range(len(STEPS) + 1)
    )
    batches = Counter(
        int(name.rpartition("/")[2])
        for name in lake.table("otel.spans").scan().to_arrow().column("_batch_id").to_pylist()
    )
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    for number in range(len(STEPS) + 1):
        counts = checkpoint.counts(number)
        assert counts.rows.get("otel.spans", 0) == batches[number]
        assert batches[number] + counts.dropped.get("otel.spans", 0) == SPANS
    checkpoint.close()
    assert sum(lake.table("otel.service_red").scan().to_arrow().column("Requests").to_pylist()) == kept.total()
