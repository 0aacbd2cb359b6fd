"""A pipeline on a cluster whose executors are killed at random. Run as a program: folder, master, rounds, seed.

Tasks are tried again and, where they are slow, run twice. Each round has files and segments of a spool of its own, and
its own query on the one checkpoint. Prints as JSON what each round came to.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, os.environ.pop("ESKER_SOURCE"))  # executors do not have it
    warnings.simplefilter("ignore")

import dying_executors
from dying_executors import Killer

FILES, SEGMENTS, A_REQUEST, REQUESTS = 4, 2, 500, 20
RECORDS = A_REQUEST * REQUESTS  # of a file or a segment
SURE_S = 0.2  # after its first task began, the first batch of a query is at work, however fast the machine is
SETTINGS = dying_executors.SETTINGS | {
    "spark.task.maxFailures": "4",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.interval": "50ms",
}


def fill(folder: Path, number: int) -> None:
    """Spans in files and logs in segments, each record with a number that no other has; and a letter in each file."""
    from telemetry_samples import logs, spans, write

    from esker.otlp.decoding.signals import Signal
    from esker.otlp.receive.spool import Spool
    from esker.otlp.source.segment import frame

    first = number * FILES * RECORDS
    for at in range(FILES):
        begin = first + at * RECORDS
        requests = [spans(range(begin + a, begin + a + A_REQUEST)) for a in range(0, RECORDS, A_REQUEST)]
        write(folder / "files", f"{number}-{at}.jsonl", *requests, b"{broken\n")
    spool = Spool(folder / "spool")
    for at in range(SEGMENTS):
        begin = first + at * RECORDS
        for a in range(begin, begin + RECORDS, A_REQUEST):
            data = logs(range(a, a + A_REQUEST))
            spool.append(frame(data, signal=Signal.LOGS, json=True, refused=False, received_at_ms=1))
        spool.seal()
    spool.close()


def session(master: str) -> Any:
    """Two executors that are given work twice where it takes long."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master(master)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    dying_executors.APPLICATION = spark.sparkContext.applicationId
    return spark


def main(folder: Path, master: str, rounds: int, seed: int) -> None:
    """A query for each round, and a kill in each of its batches."""
    import esker
    from esker.ingest.pipeline.start import pipeline

    random.seed(seed)
    spark = session(master)
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    found, took = [], 2.0
    for number in range(rounds):
        fill(folder, number)
        killers: list[Killer] = []

        def begin_another(_: object = None, killers: list[Killer] = killers, took: float = took) -> None:
            longest = took if killers else SURE_S
            killers.append(Killer(spark, random.uniform(0, longest)))
            killers[-1].start()

        begin_another()
        began = time.monotonic()
        query = pipeline(
            spark,
            [folder / "files", folder / "spool"],
            lake,
            checkpoint=folder / "checkpoint",
            available_now=True,
            max_files_per_trigger=(FILES + SEGMENTS) // 2,
            told=begin_another,
        )
        query.awaitTermination()
        took = max(0.3, (time.monotonic() - began) / 4)
        for killer in killers:
            killer.over.set()
            killer.join()
        facts = query.account.facts()
        found.append(
            {name: facts[name] for name in ("received", "dead_letters", "batches", "holds", "lost", "duplicated")}
            | {"killed": sum(killer.killed is not None for killer in killers), "left": len(segments(folder))}
        )
    spark.stop()
    print(json.dumps(found))


def segments(folder: Path) -> list[Path]:
    """Segments that nobody has released."""
    return list((folder / "spool").glob("*.otlp"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
