"""A lake in S3 touches nothing outside its warehouse and its ``allowed_roots``, however the place is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from object_stores import QUICK
from s3_server import S3Server
from sound_tables import rows_of

import esker
from esker.lake import Lake

NAME = "sales.orders"
REFUSED = r"(refused to touch|cannot use|cannot add) .*(allowed_roots|'\.\.'|climbs)"


@pytest.fixture(params=["directory", "sqlite"])
def connect(request: pytest.FixtureRequest, s3: S3Server, bucket: str, tmp_path: Path) -> Callable[..., Lake]:
    """Opens the lake, with further roots."""
    options: dict[str, Any] = {"properties": {**s3.properties, **QUICK}}
    if request.param == "directory":
        return lambda *roots: esker.connect(f"{bucket}/warehouse", allowed_roots=roots, **options)
    return lambda *roots: esker.connect(
        f"sqlite:///{tmp_path}/c.db", warehouse=f"{bucket}/warehouse", allowed_roots=roots, **options
    )


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{id_}" for id_ in ids]})


@pytest.fixture
def elsewhere(s3: S3Server, bucket: str) -> str:
    """Another bucket, whose name begins with that of the lake's."""
    return s3.make_bucket(f"{bucket.removeprefix('s3://')}2") + "/warehouse"


@pytest.fixture
def outside(connect: Callable[..., Lake], elsewhere: str) -> str:
    """A table whose rows are elsewhere, made by a lake that may; its place."""
    lake = connect(elsewhere)
    lake.create_namespace("sales")
    table = lake.create_table(NAME, "id bigint, name string", properties={"write.data.path": elsewhere})
    table.append(rows(1, 2))
    table.append(rows(3))
    assert rows_of(connect(elsewhere).table(NAME)) == [1, 2, 3]
    return elsewhere


VERBS: dict[str, Callable[[Lake], Any]] = {
    "read": lambda lake: lake.table(NAME).to_arrow(),
    "read in batches": lambda lake: list(lake.table(NAME).scan().to_batches()),
    "filter": lambda lake: lake.table(NAME).scan("id = 1").to_arrow(),
    "changes": lambda lake: lake.table(NAME).scan_changes(lake.table(NAME).snapshots[0].snapshot_id).to_arrow(),
    "append": lambda lake: lake.table(NAME).append(rows(4)),
    "delete": lambda lake: lake.table(NAME).delete("id = 1"),
    "update": lambda lake: lake.table(NAME).update({"name": "'x'"}, "id = 1"),
    "upsert": lambda lake: lake.table(NAME).upsert(rows(1, 9), on=["id"]),
    "compact": lambda lake: lake.table(NAME).compact(min_input_files=1),
    "overwrite": lambda lake: lake.table(NAME).overwrite(rows(4), where="id = 1"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_s05_s07_rows_elsewhere_are_refused_by_every_verb(
    s3: S3Server, connect: Callable[..., Lake], outside: str, verb: str
) -> None:
    lake = connect()
    with s3.counted() as requests, pytest.raises(esker.InvalidInput, match=REFUSED) as raised:
        VERBS[verb](lake)
    assert outside in str(raised.value)
    assert not [request for request in requests if outside.removeprefix("s3://") in request]
    assert rows_of(connect(outside).table(NAME)) == [1, 2, 3]


def test_s07_a_plan_reads_only_metadata_and_touches_nothing_elsewhere(
    s3: S3Server, connect: Callable[..., Lake], outside: str
) -> None:
    with s3.counted() as requests:
        assert len(connect().table(NAME).scan().plan().tasks) == 2
        assert connect().table(NAME).inspect.files().num_rows == 2
    assert not [request for request in requests if outside.removeprefix("s3://") in request]


def test_s18_a_purge_deletes_nothing_elsewhere(s3: S3Server, connect: Callable[..., Lake], outside: str) -> None:
    storage = connect(outside).catalog.storage()
    there = {file.location for file in storage.list(outside)}
    assert len(there) == 2
    with s3.counted() as requests:
        connect().drop_table(NAME, purge=True)
    assert not [request for request in requests if outside.removeprefix("s3://") in request]
    assert {file.location for file in storage.list(outside)} == there


@pytest.mark.parametrize(
    "written",
    [
        "{bucket}2/warehouse",
        "{bucket}2",
        "{bucket}/warehouse2",
        "{bucket}/warehouse/../elsewhere",
        "{bucket}/warehouse/x/../../elsewhere",
        "{bucket}/./warehouse/../elsewhere",
        "{bucket}//elsewhere",
        "{bucket}/WAREHOUSE",
        "{bucket}/%77arehouse",
        "{bucket}/warehouse%2f..%2felsewhere/../../elsewhere",
        "{upper}/warehouse",
        "s3://user@{name}/warehouse",
        "s3://{name}:80/warehouse",
        "s3:/{name}/warehouse",
        "s3:///{name}/warehouse",
        "gs://{name}/warehouse",
        "/{name}/warehouse",
        "file:///{name}/warehouse",
        "http://169.254.169.254/warehouse",
    ],
)
def test_s05_a_place_is_refused_however_it_is_written(connect: Callable[..., Lake], bucket: str, written: str) -> None:
    name = bucket.removeprefix("s3://")
    place = written.format(bucket=bucket, name=name, upper=f"s3://{name.upper()}")
    lake = connect()
    lake.create_namespace("sales")
    table = lake.create_table(NAME, "id bigint, name string")
    refused = (esker.InvalidInput, esker.Unsupported)
    with pytest.raises(refused), table.alter() as change:
        change.set_properties({"write.data.path": place})
    with pytest.raises(refused):
        lake.create_table("sales.other", "id bigint", location=f"{place}/other")
    with pytest.raises(refused):
        lake.register_table("sales.other", f"{place}/v1.metadata.json")
    with pytest.raises(refused):
        table.add_files([f"{place}/a.parquet"])
    for verb in ("read", "exists", "delete"):
        with pytest.raises(refused):
            getattr(lake.catalog.storage(), verb)(f"{place}/a")


@pytest.mark.parametrize("written", ["s3://{name}/warehouse", "s3a://{name}/warehouse", "s3n://{name}//warehouse/."])
def test_the_same_place_is_known_by_its_other_names(connect: Callable[..., Lake], bucket: str, written: str) -> None:
    place = written.format(name=bucket.removeprefix("s3://"))
    lake = connect()
    lake.create_namespace("sales")
    table = lake.create_table(NAME, "id bigint, name string", properties={"write.data.path": f"{place}/data"})
    table.append(rows(1))
    assert rows_of(connect().table(NAME)) == [1]


def test_encoded_dots_are_a_name_and_lead_nowhere(
    s3: S3Server, connect: Callable[..., Lake], bucket: str, elsewhere: str
) -> None:
    """A client or a server that decodes them would leave the warehouse."""
    storage = connect().catalog.storage()
    connect(f"{bucket}/secret").catalog.storage().write_new(f"{bucket}/secret/a", b"secret")
    for dots in ("%2e%2e", "%2E%2E", ".%2e", "..%2f"):
        place = f"{bucket}/warehouse/{dots}/secret/a"
        assert not storage.exists(place)
        with s3.counted() as requests:
            storage.write_new(place, b"x")
        assert storage.read(place) == b"x"
        storage.delete(place)
        assert all("/warehouse/" in request for request in requests)
    assert connect(f"{bucket}/secret").catalog.storage().read(f"{bucket}/secret/a") == b"secret"
