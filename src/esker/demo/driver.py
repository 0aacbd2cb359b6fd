"""The driver of the pipeline as a program of its own, so that it can be killed. It runs the streaming query and prints
its progress, one JSON document on each line. Run as ``python -m esker.demo.driver FOLDER CATALOG``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from esker.demo.places import Places, start_query

_LOOK_S = 0.02


def main(folder: Path, catalog: str) -> None:
    """Follow the directories of the tour until killed."""
    import esker

    warnings.simplefilter("ignore")  # PySpark's, about versions of pandas; nobody reads them here
    places = Places(folder, catalog)
    lake = esker.connect(places.catalog)
    query = start_query(places, lake, lambda batch: say(event="batch", **batch), processing_time="200 milliseconds")
    tracker = lake.spark.sparkContext.statusTracker()
    seen: set[int] = set()
    while query.isActive:
        if new := set(tracker.getActiveJobsIds()) - seen:
            seen |= new
            say(event="working")
        time.sleep(_LOOK_S)
    query.awaitTermination()  # raises the error that ended it


def say(**words: Any) -> None:
    """Print one line."""
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
