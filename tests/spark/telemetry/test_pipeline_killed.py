"""A pipeline whose driver is killed at each step of a batch, and started again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from dying_driver import start
from dying_pipeline import STEPS
from kafka_broker import broker
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import letters, log_bodies, logs, span_names, spans, write

import esker
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.otlp.ingest_otlp import KIND as FILES
from esker.ingest.otlp.kafka_topics import KIND as TOPICS
from esker.otlp.decoding.signals import Signal
from esker.otlp.receive.spool import Spool
from esker.otlp.source.segment import frame

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"),
]


def run(folder: Path, batch: int, step: str, address: str = "") -> subprocess.CompletedProcess[str]:
    return start("dying_pipeline.py", folder, str(batch), step, address, number=batch)


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


def assert_survives(folder: Path, address: str = "") -> None:
    """Kill the driver at each step, then let it run to its end. Every start finishes the batch that the one before it
    died in."""
    for batch, step in enumerate(STEPS):
        died = run(folder, batch, step, address)
        assert died.returncode == -signal.SIGKILL, (step, (folder / f"words-{batch}").read_text()[-3000:])
    done = run(folder, len(STEPS), "", address)
    assert done.returncode == 0, (folder / f"words-{len(STEPS)}").read_text()[-3000:]
    account = json.loads(done.stdout.strip().splitlines()[-1])
    assert (account["holds"], account["lost"], account["duplicated"]) == (True, 0, 0)
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    numbers = range(len(STEPS))
    assert span_names(lake) == Counter(f"span {number}" for number in numbers)
    assert log_bodies(lake) == Counter(f"log {number}" for number in numbers)
    assert letters(lake).total() == len(STEPS)


def test_a_driver_killed_at_each_step_leaves_every_record_to_be_found_once(tmp_path: Path) -> None:
    fill(tmp_path)
    assert_survives(tmp_path)
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind=FILES)
    assert (checkpoint.next_number, checkpoint.unfinished()) == (len(STEPS), [])
    checkpoint.close()
    assert not list((tmp_path / "spool").glob("*.otlp"))


def test_a_driver_killed_at_each_step_leaves_every_message_to_be_found_once(tmp_path: Path) -> None:
    with broker() as kafka:
        for number in range(len(STEPS)):  # a batch has three offsets, shared out over both partitions
            kafka.send("t", spans([number]), logs([number]))
            kafka.send("t", b"{broken", partition=1)
        assert_survives(tmp_path, f"kafka://{kafka.address}/t")
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind=TOPICS)
    assert (checkpoint.next_number, checkpoint.unfinished()) == (len(STEPS), [])
    (cluster,) = checkpoint.clusters()
    assert sorted(checkpoint.positions(cluster).values()) == [0, 0, len(STEPS), 2 * len(STEPS)]
    counts = [checkpoint.counts(number) for number in range(len(STEPS))]
    assert [(one.received, one.requests) for one in counts] == [(3, 3)] * len(STEPS)
    checkpoint.close()
