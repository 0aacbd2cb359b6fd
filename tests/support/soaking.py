"""A telemetry pipeline and a loop that tends its tables, each a program of its own.

Run as ``spark FOLDER``, ``arrow FOLDER`` (the two engines of an ingest) or ``tend FOLDER``: each runs until its name
is a file in the folder ``stop``, and prints what it did as JSON. The pipeline on Spark keeps a rollup too, so that the
loop meets a writer that replaces rows.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

warnings.simplefilter("ignore")

YOUNG = timedelta(seconds=5)
KEPT = 5  # snapshots of a table


class Races(logging.Handler):
    """Counts lost races of commits, and groups that were rewritten again."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.groups = 0
        for name in ("esker.commit", "esker.maintain"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.INFO)
            logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a message."""
        self.commits += "lost the race" in record.getMessage()
        self.groups += record.getMessage().startswith("compacting ")


def arrow(folder: Path) -> dict[str, Any]:
    """Load what arrives until it is to stop, and what is there then, in this process."""
    import esker
    from esker.ingest.follow import Pace
    from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp

    races = Races()
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    asked = Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", engine="arrow")
    stop = Event()

    def watch() -> None:
        while not (folder / "stop" / "arrow").exists():
            time.sleep(0.2)
        stop.set()

    Thread(target=watch, daemon=True).start()
    account = follow_otlp(lake, asked, pace=Pace(every_s=0.5, settle_s=0.0), stop=stop)
    rest = ingest_otlp(lake, asked)
    found = account.facts()
    for key in ("received", "lost", "duplicated", "pending", "batches", "conflicts"):
        found[key] += rest.facts()[key]
    return {**found, "holds": account.holds and rest.holds, "lost_races": races.commits}


def spark(folder: Path) -> dict[str, Any]:
    """Load what arrives until it is to stop, and what is there then, by a streaming query."""
    import esker
    from esker.ingest.pipeline.start import pipeline
    from esker.spark.session.spark_session import start_session

    races = Races()
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    query = pipeline(
        start_session(),
        folder / "in",
        lake,
        checkpoint=folder / "checkpoint",
        processing_time="0.5 seconds",
        settle_s=0.0,
        rollups=True,
    )
    while query.isActive and not (folder / "stop" / "spark").exists():
        time.sleep(0.2)
    if query.isActive:
        query.processAllAvailable()
        query.end()
    if query.failure is not None:
        raise query.failure
    return {**query.account.facts(), "lost_races": races.commits}


def tend(folder: Path) -> dict[str, Any]:
    """Compact and expire all tables, round after round, and once more when it is to stop."""
    import esker

    races = Races()
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    done: dict[str, Any] = {"rounds": 0, "compactions": 0, "left_most": 0, "expired": 0, "deleted": 0, "gave_up": []}
    is_last = False
    while not is_last:
        is_last = (folder / "stop" / "tend").exists()
        for name in lake.tables("otel") if "otel" in lake.namespaces() else ():
            table = lake.table(name)
            for step in table.maintain().steps:
                if step.skipped is not None:
                    done["gave_up"].append(f"{name} {step}")
                elif step.verb == "compact" and step.report.groups:
                    report = step.report
                    done["compactions"] += 1
                    left = (report.before.data_files or 0) - report.files_rewritten + report.files_added
                    done["left_most"] = max(done["left_most"], left)
            expiry = table.expire_snapshots(older_than=YOUNG, retain_last=KEPT)
            done["expired"] += len(expiry.snapshot_ids)
            done["deleted"] += expiry.files_total - len(expiry.failed)
        done["rounds"] += 1
        time.sleep(0.2)
    return {**done, "lost_races": races.commits, "again": races.groups}


if __name__ == "__main__":
    print(json.dumps({"spark": spark, "arrow": arrow, "tend": tend}[sys.argv[1]](Path(sys.argv[2]))))
