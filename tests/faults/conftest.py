"""Fault tests make hundreds of small durable files: in memory where the system has such a place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that is gone after the test."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-faults-", dir=place) as folder:
        yield Path(folder)


@pytest.fixture(
    params=["sqlite:///{}/catalog.db", "file://{}/lake", "postgresql:"], ids=["sqlite", "directory", "postgresql"]
)
def uri(request: pytest.FixtureRequest, scratch: Path) -> str:
    """A catalog that processes share."""
    if request.param == "postgresql:":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_catalog(scratch)
    return str(request.param).format(scratch)
