"""An upsert of one row for every five of a table, half of them new, on Spark; beside PyIceberg's, as far as that goes.

PyIceberg's takes minutes where Spark's takes seconds, so it is run with growing tables until it would take too long,
and its time is extrapolated from the two largest: by the power of its rows that these show, between 1 and 2.
``ESKER_BENCH_SECONDS`` is the longest that one of its runs may take, 300 by default.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import esker
from benchmarks.measure import Comparison
from benchmarks.turns import say, seconds, spark_session

ROWS, PER_ROW = 1_000_000, 5
LEAST = 20
RUNS = 3
_FIRST, _GROWTH = 2_000, 2


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """Both modes of Esker's beside the peer's one."""
    rows = round(ROWS * scale)
    folder = scratch / "upsert"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (before, quick), (small, took) = _peer(folder, rows)
    power = min(2.0, max(1.0, log(took / quick) / log(small / before)))
    expected = took * (rows / small) ** power
    say(f"PyIceberg at {rows:,} rows: {expected:,.0f} s by the power {power:.2f}, {took * rows / small:,.0f} s by 1")
    with spark_session() as spark:
        for mode in ("copy-on-write", "merge-on-read"):
            best = min(_ours(folder, spark, rows, mode))
            yield Comparison(
                f"upsert {rows:,} rows into {PER_ROW * rows:,} on Spark, {mode}; PyIceberg's of {small:,} rows, "
                f"{took:.0f} s, extrapolated by the power {power:.2f} of its rows",
                f"{best:.1f} s",
                f"{expected:,.0f} s",
                expected / best,
                f"at least {LEAST} times as fast",
                expected / best >= LEAST,
            )


def _table_rows(rows: int) -> pa.Table:
    return _rows(pa.array(range(PER_ROW * rows), pa.int64()), "old")


def _news(rows: int) -> pa.Table:
    """Half of the keys are the table's, spread over all of it, and half are new."""
    known = range(0, PER_ROW * rows, 2 * PER_ROW)
    return _rows(pa.array([*known, *range(PER_ROW * rows, PER_ROW * rows + rows - len(known))], pa.int64()), "new")


def _rows(ids: pa.Array, word: str) -> pa.Table:
    names = pc.binary_join_element_wise(word, pc.cast(ids, pa.string()), "-")
    return pa.table({"id": ids, "name": names, "price": pc.divide(pc.cast(ids, pa.float64()), 7.0)})


def _ours(folder: Path, spark: Any, rows: int, mode: str) -> Iterator[float]:
    lake = esker.connect(f"sqlite:///{folder}/{mode}.db", warehouse=str(folder / mode), spark=spark)
    lake.create_namespace("b")
    pq.write_table(_news(rows), folder / "news.parquet")
    for run in range(RUNS):
        table = lake.create_table(
            f"b.t{run}", "id bigint, name string, price double", properties={"write.merge.mode": mode}
        )
        table.append(_table_rows(rows))
        news = spark.read.parquet(str(folder / "news.parquet"))

        def upsert(table: esker.Table = table, news: Any = news) -> None:
            table.upsert(news, on=["id"])

        taken = seconds(upsert)
        found = table.scan().to_spark(spark).selectExpr("count(*)", "count_if(name LIKE 'new%')").collect()[0]
        if tuple(found) != (PER_ROW * rows + rows // 2, rows):
            raise RuntimeError(f"{found} is not what an upsert of {rows} rows leaves")
        say(f"upsert {mode}: {taken:.2f} s, {len(table.snapshots)} snapshots")
        yield taken


def _peer(folder: Path, most: int) -> list[tuple[int, float]]:
    """The two largest upserts that PyIceberg finishes in time: how many rows, and how long it took."""
    from pyiceberg.catalog.sql import SqlCatalog

    limit = float(os.environ.get("ESKER_BENCH_SECONDS", "300"))
    catalog = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}/peer")
    catalog.create_namespace("b")
    rows = min(_FIRST, most // _GROWTH)
    done: list[tuple[int, float]] = []
    while True:
        data = _table_rows(rows)
        table = catalog.create_table(f"b.t{rows}", data.schema)
        table.append(data)
        news = _news(rows)

        def upsert(table: Any = table, news: pa.Table = news) -> None:
            table.upsert(news, join_cols=["id"])

        taken = seconds(upsert)
        say(f"PyIceberg upsert of {rows:,} rows: {taken:.2f} s")
        growth = taken / done[-1][1] if done else _GROWTH
        done.append((rows, taken))
        if len(done) > 1 and (rows >= most or taken * max(growth, _GROWTH) > limit):
            return done[-2:]
        rows = min(most, rows * _GROWTH)
