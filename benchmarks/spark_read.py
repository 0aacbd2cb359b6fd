"""What deletes cost a scan of lineitem, and what thousands of files cost before a row is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import esker
from benchmarks.measure import Comparison
from benchmarks.tpch_data import generate
from benchmarks.turns import say, spark_session, take_turns

RUNS = 7
MOST = 1.25
FILES, ROWS_PER_FILE, MORE = 3000, 50, 3.0
SUMS = ("count(*)", "sum(l_orderkey)", "sum(l_extendedprice)", "max(l_shipdate)")
WAYS = {"position deletes": 2, "deletion vectors": 3}


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """Both kinds of deletes, then many files."""
    paths = generate(scratch / f"tpch-{scale:g}", scale)["lineitem"]
    folder = scratch / "spark-read"
    shutil.rmtree(folder, ignore_errors=True)
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), allowed_roots=[scratch])
    lake.create_namespace("tpch")
    with spark_session() as spark:
        schema = spark.read.parquet(*paths).schema
        clean = lake.create_table("tpch.clean", schema)
        clean.add_files(paths)
        for way, version in WAYS.items():
            properties = {"write.delete.mode": "merge-on-read"}
            table = lake.create_table(f"tpch.v{version}", schema, format_version=version, properties=properties)
            table.add_files(paths)
            table.delete(f"l_suppkey <= {max(1, round(100 * scale))}")  # one in a hundred suppliers, all over the file
            yield _deletes(spark, clean, table, way)
        yield _many_files(spark, lake, folder)


def _deletes(spark: Any, clean: Any, table: Any, way: str) -> Comparison:
    rows = clean.scan().count()
    gone = rows - table.scan().count()
    if not 0.005 < gone / rows < 0.02:
        raise RuntimeError(f"{gone} of {rows} rows are deleted")

    def ours() -> list[Any]:
        return list(table.scan().to_spark(spark).selectExpr(*SUMS).collect())

    def theirs() -> list[Any]:
        return list(clean.scan().to_spark(spark).selectExpr(*SUMS).collect())

    if theirs()[0][0] - ours()[0][0] != gone:
        raise RuntimeError(f"Spark does not see {gone} rows deleted by {way}")
    turns = take_turns(ours, theirs, RUNS)
    say(f"{way}: {turns}")
    return Comparison(
        f"scan {rows:,} rows of lineitem with 1 % deleted by {way}; the clean scan",
        f"{turns.typical[0]:.2f} s",
        f"{turns.typical[1]:.2f} s",
        turns.ratio,
        f"at most {MOST:g} times as long",
        turns.ratio <= MOST,
    )


def _many_files(spark: Any, lake: Any, folder: Path) -> Comparison:
    given = folder / "many"
    given.mkdir(parents=True)
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    for at in range(FILES):
        ids = pa.array(range(at * ROWS_PER_FILE, (at + 1) * ROWS_PER_FILE), pa.int64())
        pq.write_table(pa.table([ids], schema=schema), given / f"{at:05}.parquet")
    lake.create_table("tpch.many", "id bigint").add_files([str(path) for path in sorted(given.iterdir())])

    def ours() -> Any:
        fresh = esker.connect(
            f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), allowed_roots=[given]
        )
        return fresh.table("tpch.many").scan().to_spark(spark)

    def theirs() -> Any:
        return spark.read.parquet(str(given))

    if ours().count() != theirs().count():
        raise RuntimeError("Spark does not see the same rows in the files")
    turns = take_turns(ours, theirs, 3)
    say(f"{FILES} files: {turns}")
    mine, directory = turns.typical
    return Comparison(
        f"`to_spark()` over {FILES:,} files; `spark.read.parquet` of their folder",
        f"{mine:.2f} s",
        f"{directory:.2f} s",
        turns.ratio,
        f"at most {MORE:g} s more",
        mine <= directory + MORE,
    )
