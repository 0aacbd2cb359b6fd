"""A lake in an object store: the same code, another URI."""

from __future__ import annotations

import json
import logging
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from documentation import ROOT, python_of
from s3_server import ACCESS_KEY, ANSWER_500, DENY, IGNORE_CONDITIONS, SECRET_KEY, SLOW_DOWN, S3Server

import esker
from esker.cli.main import cli
from esker.lake import Lake

QUICK = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "5", "s3.retry.max-wait-ms": "20"}


@pytest.fixture(params=["directory", "sqlite"])
def lake(request: pytest.FixtureRequest, s3: S3Server, bucket: str, tmp_path: Path) -> Lake:
    properties = {**s3.properties, **QUICK}
    if request.param == "directory":
        return esker.connect(f"{bucket}/warehouse", properties=properties)
    return esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{bucket}/warehouse", properties=properties)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{id}" for id in ids]})


@pytest.fixture
def orders(lake: Lake) -> esker.Table:
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint, name string")
    for number in range(5):
        table.append(rows(number, number + 10))
    return table


def test_rows_are_written_changed_and_read(lake: Lake, orders: esker.Table, bucket: str) -> None:
    assert orders.location == f"{bucket}/warehouse/sales/orders"
    orders.delete("id = 3")
    orders.upsert(rows(4, 99), on=["id"])
    found = lake.table("sales.orders").scan(where="id > 3").to_arrow()
    assert sorted(found.column("id").to_pylist()) == [4, 10, 11, 12, 13, 14, 99]
    lake.drop_table("sales.orders", purge=True)
    assert list(lake.tables("sales")) == []


def cold(lake: Lake) -> Lake:
    """The same lake, opened by somebody who has read nothing."""
    assert lake.address is not None
    return esker.connect(**lake.address)


def test_a_cold_plan_of_n_manifests_costs_n_and_three_requests(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    opened = cold(lake)
    with s3.counted() as requests:
        plan = opened.table("sales.orders").scan().plan()
        assert len(plan.tasks) == 5
    assert plan.funnel.manifests_read == 5
    lists = [request for request in requests if "/snap-" in request]
    manifests = [request for request in requests if request.endswith(".avro") and "/snap-" not in request]
    assert (len(lists), len(manifests), len(set(manifests))) == (1, 5, 5)  # none came from memory, none twice
    assert len(requests) <= 5 + 3


def test_the_requests_of_an_append_do_not_grow_with_the_table(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    def requests_of_one() -> list[str]:
        table = cold(lake).table("sales.orders")
        with s3.counted() as requests:
            table.append(rows(99))
        return [re.sub(r"/[^/]*$", "", request) for request in requests]

    few = requests_of_one()
    for number in range(12):
        orders.refresh().append(rows(number))
    assert sorted(requests_of_one()) == sorted(few)
    written = [request for request in few if re.match("PUT .*/orders/", request)]
    assert len(written) == 4  # data, manifest, list, metadata
    # the list before; in a directory the versions around the commit, and whether the store knows conditions
    assert len(few) - len(written) <= 6


def test_a_small_file_is_one_request(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    tasks = len(lake.table("sales.orders").scan().plan().tasks)
    with s3.counted() as requests:
        assert lake.table("sales.orders").to_arrow().num_rows == 10
    assert sum(".parquet" in request for request in requests) == tasks


def test_a_purge_takes_few_requests(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    with s3.counted() as requests:
        lake.drop_table("sales.orders", purge=True)
    assert sum(request.startswith(("DELETE", "POST")) for request in requests) == 1


def test_a_store_that_fails_during_a_scan_is_no_corrupt_file(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    s3.fail(SLOW_DOWN, method="GET", key="parquet", times=999)
    with pytest.raises(esker.StorageFailed, match=r"cannot open .*parquet.*the store asks for fewer") as raised:
        lake.table("sales.orders").to_arrow()
    assert raised.value.retryable


def test_a_write_that_fails_says_so_before_the_commit(s3: S3Server, lake: Lake, orders: esker.Table) -> None:
    before = len(lake.table("sales.orders").snapshots)
    s3.fail(ANSWER_500, method="PUT", key="parquet", times=999)
    s3.fail(DENY, method="HEAD", key="parquet", times=999)
    with pytest.raises(esker.StorageFailed):
        orders.append(rows(77))
    s3.heal()
    assert len(lake.table("sales.orders").snapshots) == before
    assert 77 not in lake.table("sales.orders").to_arrow().column("id").to_pylist()


def test_a_table_is_opened_where_it_is(s3: S3Server, orders: esker.Table) -> None:
    for place in (
        orders.location,
        f"{orders.location}/",
        orders.location.replace("s3:", "s3a:"),
        orders.metadata_location,
    ):
        found = esker.open_table(place, properties=s3.properties)
        assert found.to_arrow().num_rows == 10
    with pytest.raises(esker.NoSuchTable, match="has no"):
        esker.open_table(f"{orders.location}/nowhere", properties=s3.properties)


def test_a_copy_of_a_table_opens_as_it_is(s3: S3Server, orders: esker.Table, bucket: str, tmp_path: Path) -> None:
    storage = orders._workings.storage
    for file in storage.list(orders.location):
        copy = tmp_path / "copy" / file.location[len(orders.location) + 1 :]
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(storage.read(file.location))
    assert esker.open_table(tmp_path / "copy").to_arrow().num_rows == 10


def test_s05_data_elsewhere_is_refused_until_its_place_is_allowed(
    s3: S3Server, lake: Lake, orders: esker.Table, bucket: str
) -> None:
    with pytest.raises(esker.InvalidInput, match=r"allowed_roots="), orders.alter() as change:
        change.set_properties({"write.data.path": f"{bucket}/elsewhere"})
    assert lake.address is not None
    allowing = esker.connect(**{**lake.address, "allowed_roots": [f"{bucket}/elsewhere"]})
    with allowing.table("sales.orders").alter() as change:
        change.set_properties({"write.data.path": f"{bucket}/elsewhere"})
    allowing.table("sales.orders").append(rows(50))
    assert allowing.table("sales.orders").to_arrow().num_rows == 11
    with pytest.raises(esker.InvalidInput, match=rf"refused to touch {bucket}/elsewhere/.*allowed_roots="):
        esker.connect(**lake.address).table("sales.orders").to_arrow()


def test_a_lake_in_a_store_may_be_allowed_a_folder_of_this_machine(
    s3: S3Server, lake: Lake, orders: esker.Table, tmp_path: Path
) -> None:
    assert lake.address is not None
    both = esker.connect(**{**lake.address, "allowed_roots": [str(tmp_path / "local")]})
    with both.table("sales.orders").alter() as change:
        change.set_properties({"write.data.path": str(tmp_path / "local")})
    both.table("sales.orders").append(rows(50))
    assert both.table("sales.orders").to_arrow().num_rows == 11
    assert any((tmp_path / "local").rglob("*.parquet"))


def test_workers_get_the_credentials_and_nobody_sees_them(lake: Lake, bucket: str) -> None:
    assert lake.address is not None
    storage = lake.catalog.storage()
    assert storage.is_shared
    copy = pickle.loads(pickle.dumps(storage))
    copy.write_new(f"{bucket}/warehouse/of-a-worker", b"x")
    assert storage.exists(f"{bucket}/warehouse/of-a-worker")
    assert SECRET_KEY not in repr(lake) + repr(lake.address) + str(lake.address) + repr(storage) + lake._repr_html_()
    assert dict(lake.address["properties"])["s3.secret-access-key"] == SECRET_KEY


@pytest.mark.usefixtures("s3_environment")
def test_the_command_line_shows_no_secret(
    s3: S3Server, bucket: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    uri = f"{bucket}/warehouse"
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint, name string").append(rows(1, 2))
    shown = []
    for arguments in (
        ["--catalog", uri, "ls"],
        ["--catalog", uri, "info", "sales.orders"],
        ["--catalog", uri, "files", "sales.orders"],
        ["--catalog", uri, "doctor"],
        ["info", f"{uri}/sales/orders"],
    ):
        for extra in ([], ["--json"], ["--debug"]):
            result = CliRunner().invoke(cli, [*arguments, *extra])
            assert result.exit_code in (0, 1), result.output
            shown.append(result.output)
    s3.fail(DENY, times=999)
    for extra in ([], ["--json"], ["--debug"]):
        result = CliRunner().invoke(cli, ["--catalog", uri, "ls", *extra])
        assert result.exit_code == 6
        shown.append(result.output)
    text = "".join(shown) + caplog.text
    assert "sales.orders" in text
    assert ACCESS_KEY not in text
    assert SECRET_KEY not in text


@pytest.mark.usefixtures("s3_environment")
@pytest.mark.parametrize("ignores", [False, True])
def test_f44_doctor_finds_out_whether_the_store_knows_conditions(s3: S3Server, bucket: str, *, ignores: bool) -> None:
    if ignores:
        s3.fail(IGNORE_CONDITIONS, times=999)
    result = CliRunner().invoke(cli, ["--catalog", f"{bucket}/warehouse", "doctor", "--json"])
    checks = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["store"]["level"] == ("finding" if ignores else "ok")
    assert f"{bucket}/warehouse" in checks["store"]["said"]


@pytest.mark.usefixtures("s3_environment")
def test_the_examples_of_the_page_run(s3: S3Server) -> None:
    s3.make_bucket("my-bucket")
    page = ROOT / "docs" / "object-storage.md"
    exec(compile(python_of(page), str(page), "exec"), {})


@pytest.mark.usefixtures("s3_environment")
def test_init_tries_the_store_and_makes_nothing(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    uri = f"{bucket}/warehouse"
    result = CliRunner().invoke(cli, ["init", "--catalog", uri, "--json"])
    assert result.exit_code == 0, result.output
    assert list(esker.connect(uri).catalog.storage().list(uri)) == []
    esker.connect(uri).create_namespace("sales")
    assert CliRunner().invoke(cli, ["init", "--catalog", uri]).exit_code == 2
    both = ["--catalog", f"sqlite:///{tmp_path}/c.db", "--warehouse", uri]
    assert CliRunner().invoke(cli, ["init", *both]).exit_code == 0
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == []
    s3.fail(IGNORE_CONDITIONS, times=999)
    refused = CliRunner().invoke(cli, ["init", "--catalog", f"{bucket}/other"])
    assert refused.exit_code == 2
    assert "ignores the condition If-None-Match" in refused.output


def test_a_property_of_the_command_line_reaches_the_store(s3: S3Server, bucket: str) -> None:
    given = [part for name, value in s3.properties.items() for part in ("--catalog-property", f"{name}={value}")]
    assert CliRunner().invoke(cli, ["--catalog", f"{bucket}/warehouse", "ls", *given]).exit_code == 0
    wrong = CliRunner().invoke(cli, ["--catalog", f"{bucket}/warehouse", "ls", "--catalog-property", "s3.regoin=x"])
    assert wrong.exit_code == 2
    assert "did you mean s3.region?" in wrong.output
    assert CliRunner().invoke(cli, ["ls", "--catalog-property", "nonsense"]).exit_code == 2
