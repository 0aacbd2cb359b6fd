"""TPC-H's 22 queries on Esker's tables, beside the same Spark session on the same Parquet files by themselves."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import esker
from benchmarks.measure import Comparison
from benchmarks.tpch_data import generate, queries
from benchmarks.turns import Turns, say, spark_session, take_turns

RUNS = 5
BUDGET = 240.0  # seconds for all queries; when they run short, later ones are run less often
MOST = 1.05


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """Both sides end with the rows in Python; what parses, plans and loads metadata counts."""
    files = generate(scratch / f"tpch-{scale:g}", scale)
    folder = scratch / "tpch"
    shutil.rmtree(folder, ignore_errors=True)
    with spark_session() as spark:
        lake = esker.connect(f"sqlite:///{folder}/catalog.db", allowed_roots=[scratch], spark=spark)
        lake.create_namespace("tpch")
        lake.sql("USE tpch")
        plain = spark.newSession()
        for table, paths in files.items():
            frame = plain.read.parquet(*paths)
            frame.createOrReplaceTempView(table)
            lake.create_table(f"tpch.{table}", frame.schema).add_files(paths)
        taken = _all_queries(lake, plain, scale)
    ratio = math.exp(sum(math.log(turns.ratio) for turns in taken) / len(taken))
    yield Comparison(
        f"{len(taken)} queries of TPC-H at scale {scale:g}, geometric mean; `spark.read.parquet` on the same files",
        f"{sum(turns.typical[0] for turns in taken):.2f} s",
        f"{sum(turns.typical[1] for turns in taken):.2f} s",
        ratio,
        f"at most {MOST} times as long",
        ratio <= MOST,
    )
    cpu = math.exp(sum(math.log(turns.our_cpu / turns.their_cpu) for turns in taken) / len(taken))
    yield Comparison(
        "the same in CPU time, of Python and the JVM",
        f"{sum(turns.our_cpu for turns in taken):.2f} s",
        f"{sum(turns.their_cpu for turns in taken):.2f} s",
        cpu,
        "–",
        True,
    )


def _all_queries(lake: Any, plain: Any, scale: float) -> list[Turns]:
    texts = queries(scale)
    ends = time.perf_counter() + BUDGET
    taken: list[Turns] = []
    for name, text in texts.items():

        def ours(text: str = text) -> list[Any]:
            return list(lake.sql(text).collect())

        def theirs(text: str = text) -> list[Any]:
            return list(plain.sql(text).collect())

        began = time.perf_counter()
        if Counter(map(tuple, theirs())) != Counter(map(tuple, ours())):  # which also warms both up
            raise RuntimeError(f"{name} has another answer")
        once = time.perf_counter() - began
        left = (ends - time.perf_counter()) / (len(texts) - len(taken))
        turns = take_turns(ours, theirs, max(1, min(RUNS, int(left / once))))
        taken.append(turns)
        wall = f"{turns.typical[0]:.3f} s, plain {turns.typical[1]:.3f} s, {turns.ratio:.2f}"
        say(f"{name}: {wall}; CPU {turns.our_cpu:.2f} s, plain {turns.their_cpu:.2f} s ({len(turns.ours)} runs)")
    return taken
