"""Telemetry to S3 through a REST catalog: the store refuses one request in ten, and the catalog is killed twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_servers import MortalServer, mortal_nessie
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from telemetry_outages import ingest_while_the_catalog_dies

import esker


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[MortalServer]:
    with mortal_nessie(tmp_path_factory.mktemp("nessie"), s3) as found:
        yield found


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_the_account_comes_out_whatever_the_store_refuses_and_the_catalog_dies(
    tmp_path: Path, s3: S3Server, mortal: MortalServer, engine: str
) -> None:
    server = mortal.server
    s3.refuse_one_in(10)
    feed, account = ingest_while_the_catalog_dies(
        tmp_path,
        ("--catalog", server.uri, "--catalog-property", f"s3.endpoint={s3.endpoint}"),
        {
            "ESKER_ENGINE": engine,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        },
        kill=mortal.kill,
        start_again=mortal.start,
    )
    s3.heal()
    assert (account["holds"], account["lost"], account["duplicated"], account["pending"]) == (True, 0, 0, 0)
    assert account["received"] == 3 * feed.sent + feed.sent // 2
    assert account["engine"] == engine
    feed.check(esker.connect(server.uri, properties=s3.properties))
