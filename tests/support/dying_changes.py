"""A pipeline with a transform by chance and a rollup, which dies by SIGKILL at a named step of one batch. Run as a
program: folder, the number of the batch, and the step; without a step it runs to its end and prints its account."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import dying_pipeline

warnings.simplefilter("ignore")

STEPS = ("transformed", "receipt", "one table", "ticked off", "rollup computed", "rolled up")


def main(folder: Path, batch: int, step: str) -> None:
    """Take in what there is, or die."""
    import esker
    from esker.otlp import pipeline
    from esker.spark.session.spark_session import start_session

    if step:
        dying_pipeline.watch(batch, step)
        watch(batch, step)
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    query = pipeline(
        start_session(),
        folder / "files",
        lake,
        checkpoint=folder / "checkpoint",
        available_now=True,
        max_files_per_trigger=1,
        transform=transform,
        rollups=True,
    )
    query.awaitTermination()
    print(json.dumps(query.account.facts()))


def transform(name: str, frame: Any) -> Any:
    """Half of the spans, whichever; logs to a table of their own."""
    if name == "otel.spans":
        return frame.where("rand() < 0.5")
    return {"audit.logs": frame.select("Timestamp", "Body", "_batch_id")}


def watch(batch: int, step: str) -> None:
    """Let the process die at a step of the transform or of the rollup."""
    from esker.ingest.pipeline import update_rollups
    from esker.ingest.pipeline.transform_hook import Transform
    from esker.ingest.run_batches import Run

    in_hand: list[int] = []
    finish = Run.finish

    def finishing(run: Run, plan: Any) -> None:
        in_hand[:] = [plan.number]
        finish(run, plan)

    def dying(owner: Any, name: str, after: str) -> None:
        real = getattr(owner, name)

        def wrapped(*given: Any) -> Any:
            done = real(*given)
            if step == after and batch in in_hand:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(owner, name, wrapped)

    Run.finish = finishing  # type: ignore[method-assign]
    dying(Transform, "apply", "transformed")
    dying(update_rollups, "_take_in", "rollup computed")
    dying(update_rollups, "_once", "rolled up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
