"""A pipeline over files and segments, or over a topic, that dies by SIGKILL at a named step of one batch. Run as a
program: folder, the number of the batch, the step, and the address of a topic; without a step it runs to its end and
prints its account as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

STEPS = ("planned", "decoded", "receipt", "one table", "all tables", "ticked off")


def main(folder: Path, batch: int, step: str, address: str = "") -> None:
    """Take in what there is, or die."""
    import esker
    from esker.ingest.pipeline.start import pipeline
    from esker.spark.session.spark_session import start_session

    if step:
        watch(batch, step)
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    limit: dict[str, Any] = {"max_offsets_per_trigger": 3} if address else {"max_files_per_trigger": 2}
    query = pipeline(
        start_session(),
        address or [folder / "files", folder / "spool"],
        lake,
        checkpoint=folder / "checkpoint",
        available_now=True,
        **limit,
    )
    query.awaitTermination()
    print(json.dumps(query.account.facts()))


def watch(batch: int, step: str) -> None:
    """Let the process die at the step of that batch."""
    from esker.ingest import deliver
    from esker.ingest.checkpoint import Checkpoint
    from esker.ingest.receipts import Receipts
    from esker.ingest.run_batches import Run

    in_hand: list[int] = []

    def die(at: str) -> None:
        if at == step and batch in in_hand:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(owner: Any, name: str, before: str | None, after: str | None) -> None:
        real = getattr(owner, name)

        def wrapped(*given: Any, **more: Any) -> Any:
            if name == "finish":
                in_hand[:] = [given[1].number]
            if before is not None:
                die(before)
            done = real(*given, **more)
            if after is not None:
                die(after)
            return done

        setattr(owner, name, wrapped)

    wrap(Run, "finish", None, None)
    wrap(Receipts, "write", "decoded", "receipt")
    wrap(deliver, "commit", None, "one table")
    wrap(Checkpoint, "tick_off", "all tables", "ticked off")
    if step == "planned":
        kill_from_source(batch)


def kill_from_source(batch: int) -> None:
    """The process that plans kills the driver, before Spark hears of the plan."""
    from esker.ingest.pipeline import start

    driver, real = os.getpid(), start.importer

    def importer(home: str, version: str) -> Any:
        load = real(home, version)

        def loaded(name: str) -> Any:
            import os
            import signal
            import time

            module = load(name)

            class Feed(module.Feed):  # type: ignore[name-defined,misc]
                def latest(self, given: Any) -> Any:
                    planned = super().latest(given)
                    if planned["next"] == batch + 1 and given["next"] == batch:
                        os.kill(driver, signal.SIGKILL)
                        time.sleep(600)
                    return planned

            class Module:
                pass

            Module.Feed = Feed  # type: ignore[attr-defined]
            return Module

        return loaded

    start.importer = importer  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
