"""Files of a REST catalog's tables in a store that checks keys: vended credentials, and requests that the server signs.

The client has no key of its own in any of these tests.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from faulty_rest import FaultyRest, faulty_rest, serving
from planning_rest import PlanningRest
from s3_server import S3Server

import esker
from esker.catalogs.rest.files import CredentialRefresh
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.settings import RestSettings
from esker.errors import InvalidInput, StorageFailed
from esker.model.table_names import TableName
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage
from esker.wiring import lake_over

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
QUICK = {"s3.retry.num-retries": "0", "rest-metrics-reporting-enabled": "false"}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server(checking_s3: S3Server) -> Iterator[FaultyRest]:
    bucket = checking_s3.make_bucket(f"rest-{uuid4().hex[:12]}")
    with faulty_rest(f"{bucket}/wh") as found:
        found.config["endpoints"] = [one.value for one in Operation]
        found.namespaces["a"] = {}
        yield found


def opened(server: FaultyRest, **properties: str) -> esker.Lake:
    return lake_over(open_rest_catalog(server.uri, properties={**QUICK, **properties}))


def place_of(store: S3Server) -> dict[str, str]:
    return {"s3.endpoint": store.endpoint, "client.region": "us-east-1", "s3.path-style-access": "true"}


def keys(id_: str, secret: str, **more: str) -> dict[str, str]:
    return {"s3.access-key-id": id_, "s3.secret-access-key": secret, **more}


def used(lake: esker.Lake, name: str = "a.t") -> esker.Table:
    """A table that was made, written, changed and read."""
    table = lake.create_table(name, "id bigint", properties={"write.delete.mode": "merge-on-read"})
    table.append(ROWS)
    table.append(ROWS)
    table.delete("id = 2")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]
    return table


# ---------------------------------------------------------------- vended credentials


def test_listed_credentials_come_before_settings_and_the_longest_prefix_wins(
    checking_s3: S3Server, server: FaultyRest
) -> None:
    right = checking_s3.make_key(f"{server.warehouse}/a")
    bucket = server.warehouse.rpartition("/")[0]
    server.extra = {
        "config": {**place_of(checking_s3), **keys("AKIANOBODY", "x" * 40)},
        "storage-credentials": [
            {"prefix": "s3", "config": {**place_of(checking_s3), **keys("AKIAWRONG1", "y" * 40)}},
            {"prefix": f"{server.warehouse}/a", "config": {**place_of(checking_s3), **keys(*right)}},
            {"prefix": bucket, "config": {**place_of(checking_s3), **keys("AKIAWRONG2", "z" * 40)}},
        ],
    }
    used(opened(server))


def test_settings_of_the_table_are_used_where_nothing_is_listed(checking_s3: S3Server, server: FaultyRest) -> None:
    key = checking_s3.make_key(f"{server.warehouse}/a")
    server.extra = {"config": {**place_of(checking_s3), **keys(*key)}}
    used(opened(server))


def test_a_key_for_other_files_is_refused_by_the_store_and_not_shown(checking_s3: S3Server, server: FaultyRest) -> None:
    id_, secret = checking_s3.make_key(f"{server.warehouse}/elsewhere")
    server.extra = {"config": {**place_of(checking_s3), **keys(id_, secret)}}
    with pytest.raises(StorageFailed, match="AccessDenied") as raised:
        opened(server).create_table("a.t", "id bigint").append(ROWS)
    assert not raised.value.retryable
    assert secret not in str(raised.value) + repr(raised.value)


def vended(store: S3Server, server: FaultyRest, key: tuple[str, str], *, lives_s: float) -> dict[str, Any]:
    ends = str(int((time.time() + lives_s) * 1000))
    more = {"s3.session-token-expires-at-ms": ends}
    return {
        "storage-credentials": [
            {"prefix": server.warehouse, "config": {**place_of(store), **keys(*key), **more}},
        ]
    }


@pytest.mark.parametrize("route", ["credentials", "load"])
def test_credentials_are_renewed_before_they_end(checking_s3: S3Server, server: FaultyRest, route: str) -> None:
    if route == "load":
        server.config["endpoints"].remove(Operation.LOAD_CREDENTIALS.value)
    old, new = (checking_s3.make_key(server.warehouse) for _ in range(2))
    server.extra = vended(checking_s3, server, old, lives_s=60)  # renewed at once: less than five minutes are left
    table = used(opened(server))
    asked = len(server.requests("GET", "/credentials"))
    assert (asked > 0) == (route == "credentials")
    server.extra = vended(checking_s3, server, new, lives_s=3600)
    checking_s3.drop_key(old[0])
    time.sleep(0.2)  # obstore keeps what it got within a tenth of a second, however soon it ends
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]
    before = len(server.seen)
    table.scan().to_arrow()
    assert not [path for _, path, _, _ in server.seen[before:] if path.endswith("/credentials")]  # they last now


def test_workers_renew_the_credentials_they_were_sent_with(
    checking_s3: S3Server, server: FaultyRest, tmp_path: Path
) -> None:
    old, new = (checking_s3.make_key(server.warehouse) for _ in range(2))
    server.extra = vended(checking_s3, server, old, lives_s=60)
    lake = opened(server)
    table = used(lake)
    file = table.scan().plan().tasks[0].data_file.path
    (tmp_path / "files").write_bytes(pickle.dumps(lake.catalog.storage()))
    checking_s3.drop_key(old[0])
    server.extra = vended(checking_s3, server, new, lives_s=3600)
    program = "import pickle, sys; print(len(pickle.load(open(sys.argv[1], 'rb')).read(sys.argv[2])))"
    command = [sys.executable, "-c", program, str(tmp_path / "files"), file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_credentials_of_a_plan_read_its_files_and_write_none(checking_s3: S3Server) -> None:
    bucket = checking_s3.make_bucket(f"plan-{uuid4().hex[:12]}")
    table_key, plan_key, own_key = (checking_s3.make_key(f"{bucket}/wh") for _ in range(3))
    own = ObjectConfiguration.of({**place_of(checking_s3), **keys(*own_key)}, {})
    with serving(PlanningRest(warehouse=f"{bucket}/wh", storage=ObjectStorage(own))) as server:
        server.offer()
        server.namespaces["a"] = {}
        server.extra = vended(checking_s3, server, table_key, lives_s=3600)
        used(opened(server))
        checking_s3.drop_key(table_key[0])
        table = opened(server, **{"scan-planning-mode": "server"}).table("a.t")
        with pytest.raises(StorageFailed, match="InvalidAccessKeyId"):
            table.scan().to_arrow()
        server.credentials = vended(checking_s3, server, plan_key, lives_s=3600)["storage-credentials"]
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]
        with pytest.raises(StorageFailed, match="InvalidAccessKeyId"):  # the key of the plan is not used to write
            table.append(ROWS)
        CredentialRefresh(RestSettings.of(server.uri), TableName.parse("a.t"), table.location, "p 1")()
        assert server.requests("GET", "/credentials?planId=p%201")


# ---------------------------------------------------------------- remote signing


def signing(checking_s3: S3Server, server: FaultyRest, **config: str) -> None:
    server.signs_with = checking_s3.make_key(server.warehouse)
    server.extra = {"config": {**place_of(checking_s3), "s3.remote-signing-enabled": "true", **config}}


def test_the_server_signs_what_the_client_has_no_key_for(checking_s3: S3Server, server: FaultyRest) -> None:
    signing(checking_s3, server)
    used(opened(server))
    asked = server.requests("POST", "/v1/namespaces/a/tables/t/sign")
    assert asked
    assert server.signs_with is not None
    assert all(server.signs_with[1].encode() not in body for _, _, _, body in server.seen)


def test_keys_of_the_user_need_no_signature_though_the_server_offers_them(
    checking_s3: S3Server, server: FaultyRest
) -> None:
    signing(checking_s3, server)
    key, secret, *_ = checking_s3.make_key(server.warehouse)
    used(opened(server, **keys(key, secret)))
    assert not server.requests("POST", "/sign")


def test_signatures_are_kept_as_the_answer_allows(checking_s3: S3Server, server: FaultyRest) -> None:
    signing(checking_s3, server)
    used(opened(server))

    def asked() -> int:
        lake = opened(server)
        storage = lake.catalog.storage()
        path = lake.table("a.t").scan().plan().tasks[0].data_file.path
        before = len(server.requests("POST", "/sign"))
        for _ in range(5):
            storage.read(path)
        return len(server.requests("POST", "/sign")) - before

    assert asked() == 5
    server.sent_headers["/sign"] = ("Cache-Control", "private")
    assert asked() == 1
    server.sent_headers["/sign"] = ("Cache-Control", "no-cache")
    assert asked() == 5


def test_a_server_that_does_not_advertise_it_is_asked_at_the_old_place(
    checking_s3: S3Server, server: FaultyRest
) -> None:
    server.config["endpoints"].remove(Operation.SIGN_REQUEST.value)
    signing(checking_s3, server)
    used(opened(server))
    assert server.requests("POST", "/v1/aws/s3/sign")


def test_the_server_names_the_place_and_what_is_sent_along(checking_s3: S3Server, server: FaultyRest) -> None:
    signing(checking_s3, server, **{"s3.signer.endpoint": "/v1/aws/s3/sign"})
    server.extra["remote-signing-config"] = {"properties": {"table": "t-1"}, "headers": {"X-Tenant": ["blue"]}}
    used(opened(server))
    _, _, headers, body = server.requests("POST", "/v1/aws/s3/sign")[0]
    assert headers["x-tenant"] == "blue"
    assert b'"table":"t-1"' in body


def test_no_request_goes_to_a_signer_on_another_host(checking_s3: S3Server, server: FaultyRest) -> None:
    signing(checking_s3, server, **{"s3.signer.uri": "http://127.0.0.1:1", "s3.signer.endpoint": "sign"})
    with pytest.raises(InvalidInput, match=r"another host; set the property s3\.signer\.uri"):
        opened(server).create_table("a.t", "id bigint")
    with pytest.raises(StorageFailed, match="sign a request"):  # now trusted, and nobody there
        opened(server, **{"s3.signer.uri": "http://127.0.0.1:1"}).create_table("a.t", "id bigint").append(ROWS)


def test_a_signer_that_refuses_is_an_error(checking_s3: S3Server, server: FaultyRest) -> None:
    signing(checking_s3, server)
    table = used(opened(server))
    server.signs_with = None
    with pytest.raises(InvalidInput, match=r"sign a request for files of a\.t"):
        table.scan().to_arrow()


def test_workers_have_their_requests_signed(checking_s3: S3Server, server: FaultyRest, tmp_path: Path) -> None:
    signing(checking_s3, server)
    lake = opened(server)
    file = used(lake).scan().plan().tasks[0].data_file.path
    again = pickle.loads(pickle.dumps(lake.catalog.storage()))
    assert len(again.read(file)) > 100
