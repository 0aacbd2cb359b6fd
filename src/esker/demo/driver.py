"""The driver of the pipeline as a program of its own, to be killed: a streaming query that says what it does, a JSON
document a line. Run as ``python -m esker.demo.driver FOLDER``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from esker.demo.places import Places, start_query

_LOOK_S = 0.02


def main(folder: Path) -> None:
    """Follow the directories of the tour until killed."""
    import esker

    warnings.simplefilter("ignore")  # PySpark's, of versions of pandas; nobody reads this program's words
    places = Places(folder)
    lake = esker.connect(places.catalog)
    query = start_query(places, lake, lambda batch: say(event="batch", **batch), processing_time="200 milliseconds")
    tracker = lake.spark.sparkContext.statusTracker()
    seen: set[int] = set()
    while query.isActive:
        if new := set(tracker.getActiveJobsIds()) - seen:
            seen |= new
            say(event="working")
        time.sleep(_LOOK_S)
    query.awaitTermination()  # raises what ended it


def say(**words: Any) -> None:
    """One line."""
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
