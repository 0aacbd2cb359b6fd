"""``make demo-cluster`` in a small form. Run as a program: a folder. Prints one JSON document of what it found.

Spark must not run in the process before, so that the session is started on the cluster.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from esker.demo.cluster_tour import take
from esker.demo.report import write_page
from esker.demo.story import Story
from esker.demo.telemetry import Size

SMALL = Size(days=6, spans_a_day=300, logs_a_day=20, points=40)


def main(folder: Path) -> None:
    """Take the tour and print its sums."""
    story = take(Story(Console(quiet=True)), folder, SMALL)
    assert story.identity is not None
    write_page(story, folder / "report.html")
    found = {
        "sum": story.identity.text(),
        "holds": story.holds,
        "killed": story.killed,
        "counted_by": story.counted_by,
        "parts": story.parts,
        "steps": {step.what: step.found for step in story.steps},
        "drivers": sorted({batch.driver for batch in story.batches}),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
