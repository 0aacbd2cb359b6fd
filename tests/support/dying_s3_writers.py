"""Appends to a table in S3 while an executor is killed in the middle of its requests. Run as a program: folder.

Prints one JSON document: of each append the rows that came of it, and what it left in the bucket. The environment names
the server, as a user of S3 has it. Executors have pyarrow and obstore, and no Esker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.request
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, os.environ.pop("ESKER_SOURCE"))  # executors do not have it
    warnings.simplefilter("ignore")

import dying_executors
import pyarrow.compute as pc
from s3_server import CONTROL, DELAY

import esker

CASES = {"one request": (6, 2000), "several parts": (2, 700_000)}
"""Tasks, and rows of each: files of a few kilobytes, and files of more than 8 MiB, which are written in parts."""


def control(order: dict[str, Any]) -> dict[str, Any]:
    """Have the server do something."""
    address = os.environ["AWS_ENDPOINT_URL"] + CONTROL
    request = urllib.request.Request(address, json.dumps(order).encode(), method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def writes(since: int) -> list[str]:
    """The requests that write data files."""
    return [line for line in control({"log": since})["requests"] if line.startswith("PUT") and "/data/" in line]


class Killer(threading.Thread):
    """Kills an executor when the store has the first request of a data file, and the others are on their way."""

    def __init__(self, since: int) -> None:
        super().__init__(daemon=True)
        self._since = since
        self.killed = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            if writes(self._since):
                self.killed = dying_executors.executors()[0]
                os.kill(self.killed, signal.SIGKILL)
                return
            time.sleep(0.05)


def appended(lake: Any, spark: Any, name: str, tasks: int, rows: int) -> dict[str, Any]:
    """Append rows of every task, and count."""
    table = lake.create_table(name, "id bigint, word string")
    frame = spark.range(0, tasks * rows, 1, tasks).selectExpr("id", "md5(cast(id AS string)) word")
    since = int(control({"log": 0})["next"])
    control({"fault": {"action": DELAY, "method": "PUT", "key": "/data/", "skip": 0, "times": 12}})
    killer = Killer(since)
    killer.start()
    table.append(frame)
    killer.over.set()
    killer.join()
    control({"heal": True})
    now = lake.table(name)
    found = now.scan().to_arrow()
    storage = lake.catalog.storage()
    stored = {file.location for file in storage.list(f"{now.location}/data")}
    recorded = set(now.inspect.files().column("file_path").to_pylist())
    return {
        "killed": killer.killed > 0,
        "rows": found.num_rows,
        "ids": pc.count_distinct(found["id"]).as_py(),
        "snapshots": len(now.snapshots),
        "recorded files are stored": recorded <= stored,
        "attempts": len({line.partition("?")[0] for line in writes(since)}),
        "recorded": len(recorded),
        "in parts": any("partNumber" in line for line in writes(since)),
    }


def main(folder: Path) -> None:
    """Both cases on one cluster."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local-cluster[2,2,1024]")
    for key, value in dying_executors.SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    dying_executors.APPLICATION = spark.sparkContext.applicationId
    spark.range(0, 1000, 1, 4).selectExpr("sum(id)").collect()
    lake = esker.connect(f"{os.environ['ESKER_BUCKET']}/wh", spark=spark)
    lake.create_namespace("a")
    found = {case: appended(lake, spark, f"a.t{at}", *size) for at, (case, size) in enumerate(CASES.items())}
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
