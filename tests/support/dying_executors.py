"""Statements on a cluster while an executor is killed in each. Run as a program: folder, master, rounds, seed.

Prints one JSON document: of each statement and round the rows that came of it, how many snapshots it made, and whether
an executor was killed while it ran. In the first round it dies right after the rows are known, later at random.
Executors have pyarrow and no Esker.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, os.environ.pop("ESKER_SOURCE"))  # executors do not have it
    warnings.simplefilter("ignore")

from esker.spark.rows.decide import Places
from esker.spark.rows.row_keeper import RowKeeper

ROWS = int(os.environ.get("ESKER_ROWS", "100000"))
FILES = 8
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "700m",
    "spark.driver.memory": "700m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # so that rows are exchanged between executors, and lost with them
    "spark.speculation": "true",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.excludeOnFailure.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def executors() -> list[int]:
    """The processes of this program's executors: their command lines name its application."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(b"CoarseGrainedExecutorBackend" in word for word in words) and APPLICATION.encode() in words:
                found.append(int(folder.name))
    return sorted(found)


APPLICATION = ""


class Killer(threading.Thread):
    """Kills one executor while a statement runs: some time after the first task of it began."""

    def __init__(self, spark: Any, wait_s: float) -> None:
        super().__init__(daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._wait_s = wait_s
        self.killed: int | None = None
        self.over = threading.Event()

    def kill(self) -> None:
        """Kill one executor of those that run."""
        self.killed = random.choice(executors())
        os.kill(self.killed, signal.SIGKILL)

    def run(self) -> None:
        while not self._tracker.getActiveStageIds():
            if self.over.wait(0.02):
                return
        if self.over.wait(self._wait_s):
            return
        self.kill()


@contextmanager
def killing_after_the_rows_are_known(killer: Killer, statement: str) -> Iterator[None]:
    """One executor dies each time rows were kept, and takes along whatever it held. A DELETE keeps no rows: there it
    dies once the places of the rows are known, before files are written."""
    owner, name = (Places, "of") if statement == "delete" else (RowKeeper, "keep")
    real = getattr(owner, name)

    def known(*given: Any) -> Any:
        found = real(*given)
        killer.kill()
        return found

    with patch.object(owner, name, known):
        yield


def append(lake: Any, spark: Any, name: str) -> None:
    """More rows, exchanged on their way because the table is partitioned."""
    lake.table(name).append(rows(spark, ROWS, 2 * ROWS))


def delete(lake: Any, spark: Any, name: str) -> None:
    """A condition that only Spark knows."""
    lake.sql(f"DELETE FROM {name} WHERE pmod(hash(cast(id AS string)), 1) = 0 AND id % 5 = 0")


def update(lake: Any, spark: Any, name: str) -> None:
    """An expression that only Spark knows."""
    lake.sql(f"UPDATE {name} SET v = length(repeat('x', 7)) WHERE id % 5 = 1")


def merge(lake: Any, spark: Any, name: str) -> None:
    """A source that gives other values at every look: what is decided once must hold."""
    source = rows(spark, ROWS // 2, ROWS + ROWS // 2).selectExpr("id", "cast(rand() * 1000 AS int) + 10 v", "p")
    source.createOrReplaceTempView("given")
    lake.sql(
        f"""MERGE INTO {name} t USING given s ON t.id = s.id
            WHEN MATCHED AND s.id % 10 = 0 THEN DELETE
            WHEN MATCHED THEN UPDATE SET v = s.v
            WHEN NOT MATCHED THEN INSERT *"""
    )


def upsert(lake: Any, spark: Any, name: str) -> None:
    """The same rows by key."""
    lake.table(name).upsert(rows(spark, ROWS // 2, ROWS + ROWS // 2), on=["id"])


STATEMENTS = {"append": append, "delete": delete, "update": update, "merge": merge, "upsert": upsert}
EXPECTED = {
    "append": [2 * ROWS, 2 * ROWS, 0],
    "delete": [ROWS - ROWS // 5, ROWS - ROWS // 5, 0],
    "update": [ROWS, ROWS, ROWS // 5],
    "merge": [ROWS + ROWS // 2 - ROWS // 20, ROWS + ROWS // 2 - ROWS // 20, 0],
    "upsert": [ROWS + ROWS // 2, ROWS + ROWS // 2, 0],
}
"""Of each statement: rows, distinct ids, rows whose value is 7."""


def rows(spark: Any, start: int, end: int) -> Any:
    """Rows of the table: an id, a value that is no 7, a partition."""
    return spark.range(start, end, 1, FILES).selectExpr("id", "cast(id % 3 AS int) v", "cast(id % 2 AS int) p")


def main(folder: Path, master: str, rounds: int, seed: int) -> None:
    """Every statement, in both modes by turns."""
    global APPLICATION
    from pyspark.sql import SparkSession

    import esker

    random.seed(seed)
    builder: Any = SparkSession.builder.master(master)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    APPLICATION = spark.sparkContext.applicationId
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), spark=spark)
    lake.create_namespace("a")
    spark.range(0, 1000, 1, 4).selectExpr("sum(id)").collect()
    chosen = [name for name in os.environ.get("ESKER_STATEMENTS", "").split(",") if name] or list(STATEMENTS)
    took: dict[str, float] = {}
    found = []
    for at in range(rounds):
        for statement in chosen:
            mode = ("copy-on-write", "merge-on-read")[at % 2]
            properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
            name = f"a.{statement}_{at}"
            table = lake.create_table(name, "id bigint, v int, p int", partition_by=["p"], properties=properties)
            table.append(rows(spark, 0, ROWS))
            before = len(lake.table(name).snapshots)
            killer = Killer(spark, random.uniform(0, 0.6 * took.get(statement, 1.5)))
            is_random = at > 0 or statement == "append"
            if is_random:
                killer.start()
            began, error = time.monotonic(), None
            try:
                with nullcontext() if is_random else killing_after_the_rows_are_known(killer, statement):
                    STATEMENTS[statement](lake, spark, name)
            except Exception as raised:
                error = f"{type(raised).__module__}.{type(raised).__name__}: {str(raised)[:300]}"
            took[statement] = min(took.get(statement, 60.0), time.monotonic() - began)
            killer.over.set()
            if is_random:
                killer.join()
            now = lake.table(name)
            told = now.scan().to_arrow()
            left = [path.name for path in (folder / "warehouse").rglob("kept-rows-*")]
            found.append(
                {
                    "statement": statement,
                    "mode": mode,
                    "killed": killer.killed is not None,
                    "error": error,
                    "is_esker": error is None or error.startswith("esker."),
                    "rows": [
                        told.num_rows,
                        len(set(told["id"].to_pylist())),
                        sum(value == 7 for value in told["v"].to_pylist()),
                    ],
                    "snapshots": len(now.snapshots) - before,
                    "left": left,
                }
            )
            lake.drop_table(name, purge=True)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
