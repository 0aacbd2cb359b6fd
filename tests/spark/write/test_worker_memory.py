"""What a worker holds of its slice: a bounded part, however long the slice or the file is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from telemetry_samples import spans, write

_PROGRAM = """
import json, sys
from pathlib import Path
from esker.ingest.job import DataFiles
from esker.ingest.spark.telemetry_job import table_order
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.otlp.decoding.decode import Limits, Options
from esker.otlp.schemas import TABLES, Profile
from esker.ingest.spark.otlp_files_worker import DecodeOrder, Slice, carry_out
from esker.wiring import connect

folder, *files = map(Path, sys.argv[1:])
lake = connect(f"sqlite:///{folder}/catalog.db")
tables = TelemetryTables(lake, profile=Profile.MAP)
order = DecodeOrder(
    slices=tuple((Slice(path=str(path)),) for path in files),
    tables={name: table_order(DataFiles(tables.get(name)), lake.catalog.storage()) for name in TABLES},
    storage=lake.catalog.storage(),
    options=Options(limits=Limits(batch=1 << 20)),
    batch_id="b/0",
    ingested_at_us=0,
    operation_id="o",
    extension=None,
)

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

peaks = []
for number in range(len(files)):
    carry_out(order, number, attempt=number)
    peaks.append(peak())
print(json.dumps(peaks))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak of a process is asked of /proc")
def test_a_slice_that_is_many_times_as_long_takes_no_more_memory(tmp_path: Path) -> None:
    """After two slices of 3 MB the peak is there: one of 30 MB adds less than it has bytes, where all of it at once
    would add several times as much."""
    short = [write(tmp_path, f"{name}.jsonl", *(spans(range(500)) for _ in range(30))) for name in ("a", "b")]
    long = write(tmp_path, "long.jsonl", *(spans(range(500)) for _ in range(300)))
    files = [str(path) for path in (*short, long)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path), *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, before, after = json.loads(done.stdout)
    assert after - before < long.stat().st_size / 2
