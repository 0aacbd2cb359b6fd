"""A program beside this file that drives Spark, and may die where it is asked to: started in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import esker

SUPPORT = Path(__file__).parent


def start(program: str, folder: Path, *words: str, number: int) -> subprocess.CompletedProcess[str]:
    """Run a program with a folder and more words to its end. What it says on stderr is in ``words-<number>``."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    own = {
        "PYTHONPATH": os.pathsep.join([str(Path(esker.__file__).parents[1]), str(SUPPORT)]),
        "ESKER_SPARK_MASTER": "local[2]",
        "ESKER_SPARK_MEMORY": "600m",
    }
    with (folder / f"words-{number}").open("w") as said:
        return subprocess.run(
            [sys.executable, str(SUPPORT / program), str(folder), *words],
            env={**environment, **own},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            timeout=280,
            check=False,
        )
