"""Ingests make many small durable files: in memory where the system has such a place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that is gone after the test."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-ingest-", dir=place) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def without_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in their own process here. Those of ``tests/spark`` run on Spark, as commands do unless told."""
    monkeypatch.setenv("ESKER_ENGINE", "arrow")
