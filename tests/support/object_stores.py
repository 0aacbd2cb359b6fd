"""Fixtures for tests on S3: one server for a session, a bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server

from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A running S3 server."""
    for library in ("obstore", "moto", "flask", "flask_cors"):
        pytest.importorskip(library, reason="make test installs it")
    server = S3Server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def checking_s3_server() -> Iterator[S3Server]:
    """A running S3 server that checks signatures and rights."""
    for library in ("obstore", "moto", "flask", "flask_cors"):
        pytest.importorskip(library, reason="make test installs it")
    server = S3Server.start(checks_keys=True)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def checking_s3(checking_s3_server: S3Server) -> Iterator[S3Server]:
    """The server that checks signatures, without a fault."""
    checking_s3_server.heal()
    yield checking_s3_server
    checking_s3_server.heal()


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """The server without a fault."""
    s3_server.heal()
    yield s3_server
    s3_server.heal()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """An empty bucket of the server."""
    return s3.make_bucket(f"bucket-{uuid4().hex[:12]}")


@pytest.fixture
def s3_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment as a user of S3 has it; processes that a test starts have it too."""
    for name, value in environment_of(s3).items():
        monkeypatch.setenv(name, value)


def environment_of(server: S3Server) -> dict[str, str]:
    """The variables by which a process finds the server."""
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture
def s3_storage(s3: S3Server) -> ObjectStorage:
    """A storage on the server that gives up quickly."""
    return storage_on(s3)


def storage_on(server: S3Server, **properties: str) -> ObjectStorage:
    """A storage on a server, with short waits and further properties."""
    return ObjectStorage(ObjectConfiguration.of({**server.properties, **QUICK, **properties}, {}))


QUICK = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "5", "s3.retry.max-wait-ms": "20"}
