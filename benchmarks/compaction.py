"""Compaction beside a plain rewrite of the same Parquet files, and planning before and after rewriting manifests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import Comparison, measure
from esker.lake import Lake
from esker.wiring import connect

ROWS = 50_000
_PLAIN = """
writer = None
for path in paths:
    rows = pq.read_table(path)
    writer = writer or pq.ParquetWriter(target, rows.schema, compression="zstd")
    writer.write_table(rows)
writer.close()
answer = len(paths)
"""


def compare(scratch: Path, *, files: int = 100, manifests: int = 1000) -> Iterator[Comparison]:
    """100 files of 50,000 rows become one. 1,000 one-file manifests become one."""
    folder = scratch / f"compaction-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    lake = connect(_uri(folder), warehouse=str(folder / "warehouse"))
    lake.create_namespace("bench")
    paths = _fill(lake, files)
    opening = f"import esker\nlake = esker.connect({_uri(folder)!r}, warehouse={str(folder / 'warehouse')!r})\n"
    plain = measure(
        f"import pyarrow.parquet as pq\npaths = {paths!r}\ntarget = {str(folder / 'plain.parquet')!r}", _PLAIN
    )
    lake.create_table("bench.warm", "id bigint").append(pa.table({"id": pa.array([1], pa.int64())}))
    warm = 'lake.table("bench.warm").compact(rewrite_all=True)\ntable = lake.table("bench.rows")'
    ours = measure(opening + warm, 'answer = table.compact(engine="arrow").files_rewritten')
    assert ours.answer == plain.answer == files
    yield Comparison(
        f"compaction of {files} files, {files * ROWS:,} rows, beside a plain rewrite with pyarrow",
        f"{ours.seconds:.1f} s, {ours.peak_bytes / 1e6:.0f} MB",
        f"{plain.seconds:.1f} s, {plain.peak_bytes / 1e6:.0f} MB",
        ours.seconds / plain.seconds,
        "at most 1.5",
        ours.seconds <= 1.5 * plain.seconds,
    )
    table = lake.create_table("bench.many", "id bigint")
    for at in range(manifests):
        table.append(pa.table({"id": pa.array([at], pa.int64())}))
    warm = 'lake.table("bench.warm").scan("id = 7").plan()\ntable = lake.table("bench.many")'
    planning = 'answer = table.scan("id = 7").plan().funnel.files_kept'
    before = measure(opening + warm, planning, runs=5)
    table.rewrite_manifests()
    after = measure(opening + warm, planning, runs=5)
    assert after.answer == before.answer == 1
    yield Comparison(
        f"planning over {manifests:,} one-file manifests, after rewrite_manifests and before",
        f"{after.seconds * 1e3:.1f} ms",
        f"{before.seconds * 1e3:.1f} ms",
        after.seconds / before.seconds,
        "at most 0.1",
        after.seconds <= 0.1 * before.seconds,
    )


def _uri(folder: Path) -> str:
    return f"sqlite:///{folder}/catalog.db"


def _fill(lake: Lake, files: int) -> list[str]:
    """A table of so many files. Returns where they are."""
    table = lake.create_table("bench.rows", "id bigint, a double, b string, c int")
    drawn = np.random.default_rng(1)
    for at in range(files):
        table.append(
            pa.table(
                {
                    "id": pa.array(np.arange(at * ROWS, (at + 1) * ROWS)),
                    "a": drawn.random(ROWS),
                    "b": [f"name-{number}" for number in drawn.integers(0, 100_000, ROWS)],
                    "c": pa.array(drawn.integers(0, 1000, ROWS).astype("int32")),
                }
            )
        )
    return [task.data_file.path.removeprefix("file://") for task in table.scan().plan().tasks]
