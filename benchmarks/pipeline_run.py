"""One ingest of OTLP files, measured: as a program, so that each has a process tree of its own.

Run with the engine (``arrow`` or ``local[n]``), the folder of files, one with files to be warmed up with, and one for
lakes. Prints as JSON the rows, the seconds, the CPU-seconds of the whole tree, and the peak memory of the largest
Python worker. What a start costs, of Python or of a JVM, is not in it: a first ingest goes before.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.turns import processes

_BATCH = 2 << 30


def main(engine: str, data: Path, first: Path, scratch: Path) -> None:
    """Ingest the first files, then the others."""
    run = _arrow if engine == "arrow" else _on_spark(engine)
    run([first], scratch)
    before, began = _cpu_by_kind(), time.perf_counter()
    rows = run([data], scratch)
    seconds, after = time.perf_counter() - began, _cpu_by_kind()
    by_kind = {kind: round(used - before.get(kind, 0.0), 2) for kind, used in after.items()}
    cpu = sum(by_kind.values())
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "by_kind": by_kind, "peak": _largest_worker()}))


def _cpu_by_kind() -> dict[str, float]:
    """The CPU-seconds so far of this process, of the JVM and of Spark's Python workers."""
    found: dict[str, float] = {}
    for pid, ticks in processes().items():
        command = b""
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        kind = "jvm" if b"java" in command.split(b"\0")[0] else "workers" if b"pyspark" in command else "driver"
        found[kind] = found.get(kind, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return found


def _arrow(paths: list[Path], scratch: Path) -> int:
    from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp

    lake, checkpoint = _lake(scratch)
    account = ingest_otlp(lake, Asked(paths=paths, checkpoint=checkpoint, engine="arrow"))
    return _rows(account)


def _on_spark(master: str) -> Callable[[list[Path], Path], int]:
    os.environ["ESKER_SPARK_MASTER"] = master
    from esker.ingest.pipeline.start import pipeline
    from esker.spark.session.spark_session import start_session

    spark = start_session()

    def run(paths: list[Path], scratch: Path) -> int:
        lake, checkpoint = _lake(scratch)
        query = pipeline(spark, paths, lake, checkpoint=checkpoint, available_now=True, max_bytes_per_trigger=_BATCH)
        query.awaitTermination()
        return _rows(query.account)

    return run


def _lake(scratch: Path) -> tuple[Any, Path]:
    from esker.wiring import connect

    folder = tempfile.mkdtemp(dir=scratch)
    return connect(f"sqlite:///{folder}/catalog.db"), Path(folder, "checkpoint")


def _rows(account: Any) -> int:
    assert account.holds, account.facts()
    return int(account.tables["otel.spans"])


def _largest_worker() -> int:
    """The peak memory in bytes of the Python worker of Spark's that had most; workers outlast their tasks."""
    peak = 0
    for pid in processes():
        with suppress(OSError, IndexError):
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                status = Path(f"/proc/{pid}/status").read_text()
                peak = max(peak, int(status.split("VmHWM:")[1].split()[0]) << 10)
    return peak


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
