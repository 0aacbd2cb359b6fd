"""``make bench``: side by side with the peers, in one run, as ratios."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import (
    arrow_scan,
    commits,
    compaction,
    expiry,
    ingest,
    micro_batches,
    object_store,
    otlp,
    paimon_planning,
    pipeline,
    planning,
    serve,
    spark_read,
    spark_write,
    tpch,
    upsert,
)
from benchmarks.measure import HEADER, Comparison

Suite = Callable[[Path], Iterator[Comparison]]
SUITES: dict[str, Suite] = {
    "planning": planning.compare,
    "paimon_planning": paimon_planning.compare,
    "commits": commits.compare,
    "compaction": compaction.compare,
    "expiry": expiry.compare,
    "otlp": otlp.compare,
    "ingest": ingest.compare,
    "serve": serve.compare,
}
SCALED_SUITES = {
    "arrow_scan": arrow_scan.compare,
    "tpch": tpch.compare,
    "spark_read": spark_read.compare,
    "spark_write": spark_write.compare,
    "object_store": object_store.compare,
    "upsert": upsert.compare,
    "pipeline": pipeline.compare,
    "micro_batches": micro_batches.compare,
}


def main() -> int:
    """Run the suites asked for, all by default; 1 if something asked for was not met."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    known = [*SUITES, *SCALED_SUITES]
    parser.add_argument("suites", nargs="*", choices=[[], *known], metavar="SUITE", help=", ".join(known))
    parser.add_argument(
        "--scale",
        type=float,
        default=1,
        help="of TPC-H's tables, of the rows of arrow_scan, and of 2 GB of telemetry on Spark; 1 by default",
    )
    parser.add_argument("--scratch", type=Path, help="where to make tables; kept if given")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esker-bench-") as temporary:
        scratch = chosen.scratch or Path(temporary)
        missed = 0
        print(HEADER)
        suites: dict[str, Suite] = SUITES | {
            name: partial(run, scale=chosen.scale) for name, run in SCALED_SUITES.items()
        }
        for name in chosen.suites or suites:
            for comparison in suites[name](scratch):
                print(comparison.row(), flush=True)
                missed += not comparison.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
