"""Writers that race through REST servers, and servers that are killed in a commit (F13)."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pytest
from killing_proxy import KillingProxy, killing_proxy
from rest_servers import Address, RestServer, append_in_a_process, nessie, reference_server
from s3_server import S3Server

import esker
from esker.errors import OutcomeUnknown

NAME = "sales.orders"
PATIENT = {
    "commit.retry.num-retries": "300",
    "commit.retry.max-wait-ms": "500",
    "commit.status-check.num-retries": "2",
    "commit.status-check.min-wait-ms": "10",
}


@contextmanager
def started(kind: str, folder: Path, s3: S3Server) -> Iterator[RestServer]:
    with reference_server(folder) if kind == "reference" else nessie(folder, s3) as server:
        lake = server.address.lake()
        lake.create_namespace("sales")
        lake.create_table(NAME, "id bigint", properties=PATIENT)
        yield server


@pytest.fixture(scope="module", params=["reference", "nessie"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server
) -> Iterator[RestServer]:
    with started(request.param, tmp_path_factory.mktemp(request.param), s3_server) as found:
        yield found


def ids(address: Address) -> list[int]:
    found: list[int] = address.lake().table(NAME).to_arrow().column("id").to_pylist()
    return sorted(found)


def snapshot_ids(server: RestServer) -> list[int]:
    """All snapshots of the table. Nessie has them in its own history only."""
    if not server.uri.endswith("/iceberg"):
        return [snapshot.snapshot_id for snapshot in server.address.lake().table(NAME).snapshots]
    with urlopen(f"{server.uri.removesuffix('/iceberg')}/api/v2/trees/main/history?fetch=ALL", timeout=60) as answer:
        commits = json.load(answer)["logEntries"]
    changes = (change for commit in commits for change in commit["operations"] or ())
    tables = (one["content"] for one in changes if one["type"] == "PUT" and one["content"]["type"] == "ICEBERG_TABLE")
    return [table["snapshotId"] for table in tables if table["snapshotId"] >= 0]


def test_eight_processes_append_and_every_row_is_there_once(server: RestServer) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        pool.map(append_in_a_process, [(server.address, writer, 25) for writer in range(8)], chunksize=1)
    assert ids(server.address) == sorted(writer * 1000 + number for writer in range(8) for number in range(25))
    assert len(set(snapshot_ids(server))) == 200
    assert server.address.lake().table(NAME).metadata.last_sequence_number == 200


@pytest.fixture
def proxy(server: RestServer) -> Iterator[KillingProxy]:
    assert server.program is not None
    with killing_proxy(server.uri, server.program) as found:
        yield found


@pytest.mark.parametrize("comes_back", [True, False])
def test_f13_a_server_that_is_killed_in_a_commit_leaves_each_row_once_or_never(
    server: RestServer, proxy: KillingProxy, comes_back: bool
) -> None:
    """``comes_back``: requests wait until the server is there again; else they are refused until then."""
    through = Address(proxy.uri, server.warehouse, dict(server.properties))
    before = ids(server.address)
    table = through.lake().table(NAME)
    acknowledged, unknown = [], []
    for number, delay_ms in enumerate((0, 10, 50)):
        id_ = 100_000 + number + 1000 * comes_back
        proxy.kill_in_commit(delay_ms / 1000, holds=comes_back)
        try:
            table.append(pa.table({"id": pa.array([id_], pa.int64())}))
            acknowledged.append(id_)
        except OutcomeUnknown as error:
            unknown.append((id_, error.snapshot_id))
        proxy.wait_for_server()
    assert proxy.kills == 3
    found = ids(server.address)
    assert found == sorted({*found}), "a row is there twice"
    assert {*before, *acknowledged} <= {*found} <= {*before, *acknowledged, *(id_ for id_, _ in unknown)}
    snapshots = set(snapshot_ids(server))
    assert all((id_ in found) == (snapshot in snapshots) for id_, snapshot in unknown)
    if comes_back:  # the same request was sent again, and could be applied once
        assert not unknown
    table.append(pa.table({"id": pa.array([200_000 + comes_back], pa.int64())}))  # and the table goes on
    assert ids(server.address) == sorted([*found, 200_000 + comes_back])


def test_f13_a_server_that_is_killed_after_a_commit_still_has_it(server: RestServer) -> None:
    assert server.program is not None
    table = server.address.lake().table(NAME)
    table.append(pa.table({"id": pa.array([300_000], pa.int64())}))
    server.program.kill()
    with pytest.raises(esker.errors.StorageFailed, match="does not answer"):
        server.address.lake().table(NAME)
    server.program.start()
    assert 300_000 in ids(server.address)
