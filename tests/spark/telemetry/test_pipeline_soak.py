"""A telemetry pipeline and a continuous compaction with expiry, side by side on the same tables.

It feeds for 40 seconds, or as long as ``ESKER_SOAK_SECONDS`` says, and on a busy machine until both have committed
several times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from reachability import reachable
from telemetry_samples import log_bodies, logs, point_values, points, span_names, spans, write

import esker
from esker.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
STREAMS = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
SUPPORT = Path(__file__).parents[2] / "support"
SECONDS = float(os.environ.get("ESKER_SOAK_SECONDS", "40"))
SPANS = 50  # of a file
DAYS = 2
TABLES = ("spans", "logs", "metrics_gauge")
MOST_LEFT = 5 * DAYS  # a partition with five small files is compacted
COMMITS = 12  # to the table of spans, at least: batches, compactions, expiries
MOST_SECONDS = 240  # for these


def begin(role: str, folder: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    own = {
        "PYTHONPATH": os.pathsep.join([str(Path(esker.__file__).parents[1]), str(SUPPORT)]),
        "ESKER_SPARK_MASTER": "local[2]",
        "ESKER_SPARK_MEMORY": "800m",
    }
    with (folder / f"{role}.log").open("w") as said:
        return subprocess.Popen(
            [sys.executable, str(SUPPORT / "soaking.py"), role, str(folder)],
            env={**environment, **own},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )


def end(role: str, process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    """Tell the program to stop. Returns what it printed."""
    (folder / "stop" / role).touch()
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, (folder / f"{role}.log").read_text()[-4000:]
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found


def fed(folder: Path, number: int) -> None:
    """One more file of spans, logs and points."""
    ids = range(number * SPANS, (number + 1) * SPANS)
    write(folder / "in", f"{number}.jsonl", spans(ids, day=number % DAYS), logs([number]), points([number]))


def commits(lake: Lake) -> int:
    """How many snapshots the table of spans has had."""
    is_there = "otel" in lake.namespaces() and "otel.spans" in lake.tables("otel")
    return lake.table("otel.spans").metadata.last_sequence_number if is_there else 0


def most_files(lake: Lake, known: Counter[str]) -> None:
    """Keep the largest number of live data files of each table."""
    for name in lake.tables("otel") if "otel" in lake.namespaces() else ():
        snapshot = lake.table(name).current_snapshot
        now = 0 if snapshot is None else int(snapshot.summary["total-data-files"])
        known[name] = max(known[name], now)


@pytest.mark.parametrize("engine", ["arrow", pytest.param("spark", marks=[STREAMS, pytest.mark.spark])])
def test_a_pipeline_and_a_continuous_compaction_run_side_by_side(tmp_path: Path, engine: str) -> None:
    for name in ("in", "lake", "stop"):
        (tmp_path / name).mkdir()
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    fed(tmp_path, 0)
    programs = {role: begin(role, tmp_path) for role in (engine, "tend")}
    most: Counter[str] = Counter()
    files, began = 1, time.monotonic()
    try:
        while time.monotonic() < began + SECONDS or (
            commits(lake) < COMMITS and time.monotonic() < began + SECONDS + MOST_SECONDS
        ):
            assert all(one.poll() is None for one in programs.values()), "neither stops by itself"
            if most:  # the first batch is committed
                fed(tmp_path, files)
                files += 1
            else:
                began = time.monotonic()
            most_files(lake, most)
            time.sleep(0.25)
        account = end(engine, programs[engine], tmp_path)
        tended = end("tend", programs["tend"], tmp_path)
    finally:
        for program in programs.values():
            program.kill()
    print(json.dumps({"files": files, "most": most, "account": account, "tended": tended}))
    assert (account["holds"], account["lost"], account["duplicated"], account["pending"]) == (True, 0, 0, 0)
    assert account["batches"] > 2
    assert span_names(lake) == Counter(f"span {number}" for number in range(files * SPANS))
    assert log_bodies(lake) == Counter(f"log {number}" for number in range(files))
    assert point_values(lake) == Counter(range(files))
    if engine == "spark":
        rolled_up = lake.table("otel.service_red").scan().to_arrow().column("Requests").to_pylist()
        assert sum(rolled_up) == files * SPANS
    assert tended["compactions"] > 0
    assert tended["expired"] > 0
    assert tended["left_most"] <= MOST_LEFT
    for name in (*TABLES, "service_red") if engine == "spark" else TABLES:
        check_tidy(lake, name)


def check_tidy(lake: Lake, name: str) -> None:
    """Few files are live, and no others are left."""
    table = lake.table(f"otel.{name}")
    assert table.current_snapshot is not None
    assert int(table.current_snapshot.summary["total-data-files"]) < MOST_LEFT
    assert table.verify().ok
    folder = Path(table.metadata.location.removeprefix("file://"))
    stored = {str(path) for path in (folder / "data").rglob("*") if path.is_file()}
    needed = reachable(table._workings.storage, table.metadata)
    assert stored <= {place.removeprefix("file://") for place in needed}, "nothing is left over"
