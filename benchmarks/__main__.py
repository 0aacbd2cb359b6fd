"""``make bench``: side by side with the peers, in one run, as ratios."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import commits, planning, spark_write
from benchmarks.measure import HEADER

SUITES = {"planning": planning.compare, "commits": commits.compare, "spark_write": spark_write.compare}


def main() -> int:
    """Run the suites asked for, all by default; 1 if something asked for was not met."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--scratch", type=Path, help="where to make tables; kept if given")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esker-bench-") as temporary:
        scratch = chosen.scratch or Path(temporary)
        missed = 0
        print(HEADER)
        for name in chosen.suites or SUITES:
            for comparison in SUITES[name](scratch):
                print(comparison.row(), flush=True)
                missed += not comparison.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
