"""Against the 13 operations of S3 Tables: all that can work works, and the rest is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pytest
from faulty_rest import Fault, serving
from s3_server import ACCESS_KEY, DENY, SECRET_KEY, S3Server
from s3_tables import ARN, S3Tables

import esker
from esker.errors import EskerError, InvalidInput, NotFound, Unsupported

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "a", "b"]})


@pytest.fixture
def service(s3: S3Server) -> Iterator[S3Tables]:
    bucket = s3.make_bucket(f"tables-{uuid4().hex[:12]}")
    s3.fail(DENY, method="DELETE", times=10**6)  # the service collects its own garbage
    s3.fail(DENY, method="POST", key="delete", times=10**6)
    with serving(S3Tables(warehouse=bucket)) as found:
        yield found


@pytest.fixture
def lake(service: S3Tables, s3: S3Server) -> esker.Lake:
    return opened(service, s3)


def opened(service: S3Tables, s3: S3Server, warehouse: str = ARN) -> esker.Lake:
    properties = {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": "eu-west-1",
        "client.access-key-id": ACCESS_KEY,
        "client.secret-access-key": SECRET_KEY,
        **s3.properties,
    }
    return esker.connect(service.uri, warehouse=warehouse, properties=properties)


def made(lake: esker.Lake) -> esker.Table:
    lake.create_namespace("sales")
    return lake.create_table(
        "sales.orders",
        "id bigint, day string",
        partition_by=["day"],
        properties={"write.delete.mode": "merge-on-read", "owner": "me"},
        format_version=2,
    )


def test_files_are_left_to_the_service(lake: esker.Lake) -> None:
    table = made(lake)
    table.append(ROWS)
    table.overwrite(ROWS)
    for verb in (table.remove_orphans, lambda: table.expire_snapshots(older_than=1 << 60)):
        with pytest.raises(Unsupported, match="S3 Tables removes files of its tables itself"):
            verb()
    report = table.expire_snapshots(older_than=1 << 60, delete="never")
    assert (len(report.snapshot_ids), len(lake.table("sales.orders").snapshots)) == (1, 1)


def test_all_that_can_work_works(lake: esker.Lake, service: S3Tables) -> None:
    table = made(lake)
    assert [str(field.transform) for field in table.spec.fields] == ["identity"]
    assert table.properties["owner"] == "me"
    table.append(ROWS)
    table.delete("id = 2")
    with table.alter() as change:
        change.add_column("note", "string")
    table.tag("before")
    with table.transaction() as tx:
        tx.append(ROWS.append_column("note", pa.array(["x"] * 3)))
        tx.delete("id = 1")
    assert sorted(lake.table("sales.orders").scan().to_arrow()["id"].to_pylist()) == [2, 3, 3]
    assert lake.namespaces() == ["sales"]
    assert lake.namespace_properties("sales") == {}
    assert lake.tables() == ["sales.orders"]
    assert lake.views("sales") == []
    renamed = lake.rename_table("sales.orders", "sales.sold")
    assert renamed.scan().count() == 3
    lake.drop_table("sales.sold")
    assert lake.tables("sales") == []
    lake.drop_namespace("sales")
    assert lake.namespaces() == []
    assert not [path for _, path, _, _ in service.seen if path.endswith(("/metrics", "/credentials"))]


def test_a_drop_with_purge_leaves_the_files_to_the_service(lake: esker.Lake, s3: S3Server) -> None:
    made(lake).append(ROWS)
    with s3.counted() as requests:
        lake.drop_table("sales.orders", purge=True)
    assert lake.tables("sales") == []
    assert not [one for one in requests if one.startswith("DELETE") or "delete" in one]


def test_files_of_a_commit_that_is_refused_are_left_to_the_service(
    lake: esker.Lake, service: S3Tables, s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(lake)
    service.faults.append(Fault(path="/tables/orders", status=403))
    with s3.counted() as requests, pytest.raises(InvalidInput, match="not allowed"):
        table.append(ROWS)
    assert not [one for one in requests if one.startswith("DELETE") or "delete" in one]
    assert "cannot delete" not in caplog.text


REFUSED: dict[str, tuple[Callable[[esker.Lake], object], type[EskerError], str]] = {
    "a table with its rows": (
        lambda lake: lake.create_table_as("sales.x", "id bigint", pa.table({"id": pa.array([1], pa.int64())})),
        Unsupported,
        "cannot stage a table; create it first, then append to it",
    ),
    "several tables": (lambda lake: lake.transaction().__enter__(), Unsupported, "commit to one table at a time"),
    "properties of a namespace": (
        lambda lake: lake.set_namespace_properties("sales", {"a": "b"}), Unsupported, "update namespace"),
    "a view": (lambda lake: lake.create_view("sales.v", "SELECT 1", schema="a int"), Unsupported, "not offer views"),
    "registering": (
        lambda lake: lake.register_table("sales.r", lake.table("sales.orders").location + "/x.metadata.json"),
        Unsupported,
        "register table",
    ),
    "unregistering": (lambda lake: lake.unregister_table("sales.orders"), Unsupported, "unregister table"),
    "a namespace in another": (lambda lake: lake.create_namespace("a.b"), Unsupported, "one level"),
    "orphans": (
        lambda lake: lake.table("sales.orders").remove_orphans(older_than=timedelta(days=7)), Unsupported, "S3 Tables"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_the_rest_is_refused_with_the_reason_and_nothing_is_changed(
    lake: esker.Lake, service: S3Tables, kind: str
) -> None:
    act, error, words = REFUSED[kind]
    made(lake).append(ROWS)
    before = dict(service.tables), dict(service.namespaces)
    with pytest.raises(error, match=words):
        act(lake)
    assert (dict(service.tables), dict(service.namespaces)) == before


def test_a_lost_race_is_rebased_as_everywhere(lake: esker.Lake, service: S3Tables, s3: S3Server) -> None:
    table = made(lake)
    opened(service, s3).table("sales.orders").append(ROWS)
    table.append(ROWS)  # rebased
    assert table.scan().count() == 6


def test_a_bucket_that_is_not_there_is_named(service: S3Tables, s3: S3Server) -> None:
    with pytest.raises(NotFound, match="no warehouse 'arn:aws:s3tables:other'"):
        opened(service, s3, "arn:aws:s3tables:other").namespaces()
