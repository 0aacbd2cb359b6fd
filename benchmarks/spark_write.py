"""Writing TPC-H's lineitem from Spark, beside Spark's own Parquet writer in the same session, with the same codec."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import esker
from benchmarks.measure import Comparison

RUNS = 5
MOST = 1.15


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """The best of several runs of each, taken in turns so that neither has the warmer machine."""
    from esker.spark.session import start_session

    source = lineitem(scratch, scale)
    folder = scratch / "spark-write"
    shutil.rmtree(folder, ignore_errors=True)
    spark = start_session()
    try:
        frame = spark.read.parquet(str(source))
        lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
        lake.create_namespace("tpch")
        table = lake.create_table("tpch.lineitem", frame.schema)

        def theirs() -> None:
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(folder / "plain"))

        def ours() -> None:
            table.overwrite(frame)

        for warm_up in (theirs, ours):
            warm_up()
        taken = [(_seconds(theirs), _seconds(ours)) for _ in range(RUNS)]
        rows = table.scan().count()
        if rows != frame.count():
            raise RuntimeError(f"{rows} rows were written of {frame.count()}")
    finally:
        spark.stop()
    plain, esker_ = min(times[0] for times in taken), min(times[1] for times in taken)
    yield Comparison(
        f"write {rows:,} rows of lineitem by Spark's workers, zstd; `df.write.parquet`",
        f"{esker_:.2f} s",
        f"{plain:.2f} s",
        esker_ / plain,
        f"at most {MOST} times as long",
        esker_ <= MOST * plain,
    )


def lineitem(scratch: Path, scale: float) -> Path:
    """The table as tpchgen makes it, made once."""
    folder = scratch / f"tpch-{scale:g}"
    made = folder / "lineitem.parquet"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        words = ["parquet", "-s", f"{scale:g}", "--tables", "lineitem", "--output-dir", str(folder)]
        subprocess.run([str(generator), *words], check=True, capture_output=True)
    return made


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
