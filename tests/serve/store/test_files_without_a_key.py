"""Clients without a key of their own read and write files in S3: by credentials for a short time, or by signatures.

The store checks every signature and every right. Only the server has a key.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")

from esker_server import serving
from s3_server import S3Server

import esker
from esker.errors import EskerError, InvalidInput, StorageFailed
from esker.lake import Lake
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.listen.run_server import Listening, make_server, table_access
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage

ROLE = "arn:aws:iam::111111111111:role/lake"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
QUICK = {"s3.retry.num-retries": "0", "rest-metrics-reporting-enabled": "false"}
TABLE = "/v1/namespaces/a/tables/t"
ASKED = {"x-iceberg-access-delegation": "vended-credentials"}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def lake(checking_s3: S3Server, tmp_path: Path) -> Lake:
    """The lake as the server has it: in S3, with the one key."""
    bucket = checking_s3.make_bucket(f"serve-{uuid4().hex[:12]}")
    key, secret = checking_s3.make_key(bucket, assumes_roles=True)
    store = {"s3.endpoint": checking_s3.endpoint, "s3.region": "us-east-1", **QUICK}
    keys = {"s3.access-key-id": key, "s3.secret-access-key": secret}
    properties = {name: value for name, value in {**store, **keys}.items() if name.startswith("s3.")}
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{bucket}/wh", properties=properties)
    lake.create_namespace("a")
    return lake


HOW = {"credentials": {"s3_role": ROLE}, "signatures": {"signs_requests": True}}


@contextmanager
def served(lake: Lake, how: str, token_file: Path | None = None) -> Iterator[str]:
    with serving(lake, token_file=token_file, **HOW[how]) as uri:
        yield uri


def service(lake: Lake, **options: Any) -> Service:
    return Service(lake, access=table_access(lake, Listening(**options)))


def body(answer: Answer) -> Any:
    return msgspec.json.decode(answer.body)


@pytest.mark.parametrize("how", HOW)
def test_eskers_client_makes_writes_changes_and_reads_a_table_without_a_key(lake: Lake, how: str) -> None:
    with served(lake, how) as uri:
        client = esker.connect(uri, properties=QUICK)
        table = client.create_table("a.t", "id bigint", properties={"write.delete.mode": "merge-on-read"})
        table.append(ROWS)
        table.append(ROWS)
        table.delete("id = 2")
        found = esker.connect(uri, properties=QUICK).table("a.t").to_arrow()
        assert sorted(found["id"].to_pylist()) == [1, 1, 3, 3]
    assert sorted(lake.table("a.t").to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]


def test_pyiceberg_writes_and_reads_with_vended_credentials(lake: Lake) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    with served(lake, "credentials") as uri:
        made = RestCatalog("x", uri=uri).create_table("a.t", Schema(NestedField(1, "id", LongType())))
        made.append(ROWS)
        assert RestCatalog("x", uri=uri).load_table("a.t").scan().to_arrow().equals(ROWS)
    assert lake.table("a.t").to_arrow().equals(ROWS)


def test_pyicebergs_signer_writes_reads_and_lists_with_signatures(lake: Lake) -> None:
    """PyIceberg's own signer on botocore, as its file system uses it (which needs a library that is not installed)."""
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.io.fsspec import S3V4RestSigner

    lake.create_table("a.t", "id bigint").append(ROWS)
    with served(lake, "signatures") as uri:
        catalog = RestCatalog("x", uri=uri, **{"header.X-Iceberg-Access-Delegation": "remote-signing"})
        table = catalog.load_table("a.t")
        properties = table.io.properties
        assert properties["s3.remote-signing-enabled"] == "true"
        bucket, _, prefix = table.location().removeprefix("s3://").partition("/")
        store: Any = boto3.client(
            "s3",
            endpoint_url=properties["s3.endpoint"],
            region_name=properties["client.region"],
            config=Config(signature_version=UNSIGNED),
        )
        store.meta.events.unregister("before-sign.s3")
        store.meta.events.register_last("before-sign.s3", S3V4RestSigner(properties))
        store.put_object(Bucket=bucket, Key=f"{prefix}/data/a key = ä+b.parquet", Body=b"content")
        got = store.get_object(Bucket=bucket, Key=f"{prefix}/data/a key = ä+b.parquet")
        assert got["Body"].read() == b"content"
        listed = store.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")
        assert any(one["Key"].endswith(".metadata.json") for one in listed["Contents"])
        with pytest.raises(Exception, match="403"):
            store.put_object(Bucket=bucket, Key="wh/a/other/data/x", Body=b"content")


def test_s14_credentials_end_soon_and_reach_no_other_table(lake: Lake) -> None:
    lake.create_table("a.t", "id bigint").append(ROWS)
    lake.create_table("a.t2", "id bigint").append(ROWS)  # its name begins with that of the other
    answer = body(service(lake, s3_role=ROLE).answer("GET", f"{TABLE}/credentials", Call()))
    (given,) = answer["storage-credentials"]
    assert given["prefix"] == lake.table("a.t").location
    ends = int(given["config"]["s3.session-token-expires-at-ms"]) - time.time() * 1000
    assert 0 < ends <= 3_600_000
    storage = ObjectStorage(ObjectConfiguration.of({**given["config"], **QUICK}, {}))
    assert storage.read(lake.table("a.t").metadata_location)
    storage.write_new(f"{lake.table('a.t').location}/data/new", b"x")
    for place in (lake.table("a.t2").metadata_location, lake.table("a.t").location + "2/data/new"):
        with pytest.raises(StorageFailed):
            storage.read(place)
        with pytest.raises(StorageFailed):
            storage.write_new(place, b"x")


def test_s14_a_reader_gets_credentials_that_only_read(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("a.t", "id bigint")
    table.append(ROWS)
    tokens = tmp_path / "tokens"
    tokens.write_text("read reader-0123456789abcdef\nwrite writer-0123456789abcdef\n")
    for how in HOW:
        with served(lake, how, tokens) as uri:
            reader = esker.connect(uri, token="reader-0123456789abcdef", properties=QUICK).table("a.t")
            assert reader.to_arrow().equals(ROWS)
            files = len(list(lake.catalog.storage().list(table.location)))
            with pytest.raises(EskerError, match=r"403|AccessDenied"):
                reader.append(ROWS)
            assert len(list(lake.catalog.storage().list(table.location))) == files
            esker.connect(uri, token="writer-0123456789abcdef", properties=QUICK).table("a.t").append(ROWS)
            lake.table("a.t").overwrite(ROWS)


def test_secrets_go_only_to_clients_that_ask_for_them(lake: Lake) -> None:
    lake.create_table("a.t", "id bigint")
    plain = body(service(lake, s3_role=ROLE).answer("GET", TABLE, Call()))
    assert "storage-credentials" not in plain
    assert "s3.endpoint" in plain["config"]
    asked = body(service(lake, s3_role=ROLE).answer("GET", TABLE, Call(headers=ASKED)))
    assert asked["storage-credentials"]
    signing = service(lake, signs_requests=True)
    both = Call(headers={"x-iceberg-access-delegation": "vended-credentials, remote-signing"})
    answer = signing.answer("GET", TABLE, both)
    assert b"secret-access-key" not in answer.body
    assert body(answer)["config"]["signer.endpoint"] == "v1/namespaces/a/tables/t/sign"


def test_credentials_are_asked_for_once_while_they_are_fresh(lake: Lake, checking_s3: S3Server) -> None:
    lake.create_table("a.t", "id bigint")
    one = service(lake, s3_role=ROLE)
    with checking_s3.counted() as requests:
        for _ in range(5):
            assert one.answer("GET", TABLE, Call(headers=ASKED)).status == 200
    assert len([request for request in requests if request.startswith("POST ")]) == 1


def test_a_client_with_old_credentials_is_not_told_that_nothing_has_changed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("a.t", "id bigint")
    one = service(lake, s3_role=ROLE)

    def load(tag: str = "") -> Answer:
        return one.answer("GET", TABLE, Call(headers={**ASKED, "if-none-match": tag}))

    first = load()
    assert load(first.headers["etag"]).status == 304
    without = one.answer("GET", TABLE, Call()).headers["etag"]
    assert load(without).status == 200
    monkeypatch.setattr("esker.serve.store.vend_credentials._FRESH_MS", 1 << 60)  # from now on all are old
    renewed = load(first.headers["etag"])
    assert renewed.status == 200
    assert body(renewed)["storage-credentials"] != body(first)["storage-credentials"]


def test_a_token_service_that_fails_fails_loads_and_never_a_commit(lake: Lake, checking_s3: S3Server) -> None:
    lake.create_table("a.t", "id bigint")
    one = service(lake, s3_role=ROLE)
    checking_s3.fail("slow_down", method="POST", key="^$", times=100)
    assert one.answer("GET", TABLE, Call(headers=ASKED)).status == 503
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "1"}}]}
    assert one.answer("POST", TABLE, Call(headers=ASKED, body=msgspec.json.encode(change))).status == 200
    new = {
        "name": "new",
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
    }
    made = one.answer("POST", "/v1/namespaces/a/tables", Call(headers=ASKED, body=msgspec.json.encode(new)))
    assert (made.status, lake.tables("a")) == (503, ["a.t"])  # refused before anything was made
    location = lake.table("a.t").metadata_location
    lake.drop_table("a.t")
    register = {"name": "t", "metadata-location": location}
    answer = one.answer("POST", "/v1/namespaces/a/register", Call(headers=ASKED, body=msgspec.json.encode(register)))
    assert answer.status == 200
    assert "storage-credentials" not in body(answer)


@pytest.mark.parametrize("options", [{"s3_role": "lake"}, {"s3_role": ROLE}, {"signs_requests": True}])
def test_a_server_that_cannot_give_access_does_not_start(tmp_path: Path, options: dict[str, Any]) -> None:
    local = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    with pytest.raises(InvalidInput, match="cannot give"):
        make_server(local, Listening(**options))
