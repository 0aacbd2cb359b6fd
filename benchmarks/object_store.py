"""Two ways to read a table in S3 on Spark: Spark's own reader through ``s3a``, and Arrow in the workers.

The server is moto, on this machine: requests are cheap, and one process answers all of them. The jars of ``s3a`` are
those of ``make interop-jvm``, or the folder in ``ESKER_S3A_JARS``. Without them Arrow alone is measured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import esker
from benchmarks.measure import Comparison
from benchmarks.tpch_data import generate
from benchmarks.turns import say, spark_session, take_turns

RUNS = 5
WAYS = {
    "all rows, four columns": ("", ("count(*)", "sum(l_orderkey)", "sum(l_extendedprice)", "max(l_shipdate)")),
    "a filter that keeps one row in a hundred": ("l_suppkey <= {few}", ("count(*)", "sum(l_quantity)")),
}
SUPPORT = Path(__file__).parents[1] / "tests" / "support"
JARS = Path(os.environ.get("ESKER_S3A_JARS") or ".venv-jvm/s3a")


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """Both ways in S3, and each beside local files."""
    paths = generate(scratch / f"tpch-{scale:g}", scale)["lineitem"]
    local = scratch / "object-store"
    shutil.rmtree(local, ignore_errors=True)
    jars = sorted(str(jar.resolve()) for jar in JARS.glob("*.jar"))
    if not jars:
        say(f"{JARS} has no jars, so Spark's own reader is not measured in S3: make interop-jvm brings them")
    with _server() as server, _with_jars(jars), spark_session() as spark:
        places = {"S3": f"{server.make_bucket('bench')}/wh", "local files": str(local)}
        tables = {}
        for place, at in places.items():
            for reader in ("native", "arrow"):
                properties = {**server.properties, "read.spark.reader": reader}
                tables[place, reader] = esker.connect(at, properties=properties, spark=spark)
            lake = tables[place, "arrow"]
            lake.create_namespace("tpch")
            schema = pq.read_schema(paths[0])
            lake.create_table("tpch.lineitem", schema, properties={"write.target-file-size-bytes": str(32 << 20)})
            for path in paths:
                lake.table("tpch.lineitem").append(pq.read_table(path))
        for what in WAYS:
            if jars:
                yield _turns(spark, tables, what, ("S3", "native"), ("S3", "arrow"), scale)
            yield _turns(spark, tables, what, ("S3", "arrow"), ("local files", "native"), scale)
            yield _turns(spark, tables, what, ("local files", "arrow"), ("local files", "native"), scale)


def _turns(
    spark: Any,
    tables: dict[tuple[str, str], Any],
    what: str,
    ours: tuple[str, str],
    theirs: tuple[str, str],
    scale: float,
) -> Comparison:
    where, sums = WAYS[what]

    def run(which: tuple[str, str]) -> list[Any]:
        table = tables[which].table("tpch.lineitem")
        scan = table.scan(where.format(few=max(1, round(100 * scale))) or None)
        return list(scan.to_spark(spark).selectExpr(*sums).collect())

    if run(ours) != run(theirs):
        raise RuntimeError(f"{ours} and {theirs} see different rows")
    turns = take_turns(lambda: run(ours), lambda: run(theirs), RUNS)
    names = [f"{'Spark reads' if reader == 'native' else 'Arrow reads'} {place}" for place, reader in (ours, theirs)]
    say(f"{what}: {names[0]}, {names[1]}: {turns}")
    return Comparison(
        f"{what}: {names[0]}; {names[1]}",
        f"{turns.typical[0]:.2f} s",
        f"{turns.typical[1]:.2f} s",
        turns.ratio,
        "–",
        True,
    )


@contextmanager
def _server() -> Iterator[Any]:
    sys.path.insert(0, str(SUPPORT))
    from s3_server import S3Server

    server = S3Server.start()
    try:
        yield server
    finally:
        server.stop()
        sys.path.remove(str(SUPPORT))


@contextmanager
def _with_jars(jars: list[str]) -> Iterator[None]:
    """Sessions that start inside the block have the jars."""
    name = "PYSPARK_SUBMIT_ARGS"
    before = os.environ.get(name)
    if jars:
        os.environ[name] = f"--jars {','.join(jars)} pyspark-shell"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
