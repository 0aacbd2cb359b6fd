"""Writing TPC-H's lineitem from Spark, beside Spark's own Parquet writer in the same session, with the same codec."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import esker
from benchmarks.measure import Comparison
from benchmarks.tpch_data import generate
from benchmarks.turns import say, spark_session, take_turns

RUNS = 5
MOST = 1.15


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """The median of several runs of each."""
    paths = generate(scratch / f"tpch-{scale:g}", scale)["lineitem"]
    folder = scratch / "spark-write"
    shutil.rmtree(folder, ignore_errors=True)
    with spark_session() as spark:
        frame = spark.read.parquet(*paths)
        lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
        lake.create_namespace("tpch")
        table = lake.create_table("tpch.lineitem", frame.schema)

        def theirs() -> None:
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(folder / "plain"))

        def ours() -> None:
            table.overwrite(frame)

        for warm_up in (theirs, ours):
            warm_up()
        turns = take_turns(ours, theirs, RUNS)
        rows = table.scan().count()
        if rows != frame.count():
            raise RuntimeError(f"{rows} rows were written of {frame.count()}")
    say(f"writes: {turns}")
    yield Comparison(
        f"write {rows:,} rows of lineitem by Spark's workers, zstd; `df.write.parquet`",
        f"{turns.typical[0]:.2f} s",
        f"{turns.typical[1]:.2f} s",
        turns.ratio,
        f"at most {MOST} times as long",
        turns.ratio <= MOST,
    )
