"""Tables and views that leave a REST catalog or come to it by their metadata file, where the server offers it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from faulty_rest import Fault, FaultyRest, faulty_rest

import esker
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import Operation
from esker.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, NotFound, OutcomeUnknown, Unsupported
from esker.iceberg.metadata.view_metadata import encode_view_metadata
from esker.wiring import lake_over


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyRest]:
    with faulty_rest(str(tmp_path)) as found:
        found.config["endpoints"] = [one.value for one in Operation]
        found.namespaces["a"] = {}
        yield found


def opened(server: FaultyRest) -> esker.Lake:
    return lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))


def test_an_unregistered_table_is_gone_and_its_last_file_is_named(server: FaultyRest, tmp_path: Path) -> None:
    lake = opened(server)
    table = lake.create_table("a.t", "id bigint")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    last = server.answer(("a", "t"))["metadata-location"]
    assert lake.unregister_table("a.t") == last
    assert server.requests("POST", "/v1/namespaces/a/tables/t/unregister")
    assert lake.tables("a") == []
    assert list(tmp_path.rglob("*.parquet"))
    with pytest.raises(NoSuchTable, match=r"a\.t"):
        lake.unregister_table("a.t")
    with pytest.raises(esker.EskerError):
        table.append(pa.table({"id": pa.array([3], pa.int64())}))


def test_a_lost_answer_to_it_is_unknown(server: FaultyRest) -> None:
    lake = opened(server)
    lake.create_table("a.t", "id bigint")
    server.faults.append(Fault(path="/unregister", status=504))
    with pytest.raises(OutcomeUnknown, match=r"unregister table a\.t"):
        lake.unregister_table("a.t")


def test_what_the_server_does_not_offer_is_refused_by_name(server: FaultyRest, tmp_path: Path) -> None:
    opened(server).create_table("a.t", "id bigint")
    gone = (Operation.UNREGISTER_TABLE, Operation.REGISTER_VIEW)
    server.config["endpoints"] = [one.value for one in Operation if one not in gone]
    lake = opened(server)
    with pytest.raises(Unsupported, match=r"cannot unregister table a\.t: .* does not advertise .*/unregister"):
        lake.unregister_table("a.t")
    with pytest.raises(Unsupported, match=r"cannot register view a\.v: .* does not advertise .*/register-view"):
        lake.register_view("a.v", str(tmp_path / "v.metadata.json"))
    assert not server.requests("POST", "register")


@pytest.mark.parametrize("uri", ["memory:", "sqlite:///{}/catalog.db"])
def test_catalogs_with_pointers_do_both_too(tmp_path: Path, uri: str) -> None:
    lake = esker.connect(uri.format(tmp_path), warehouse=None if uri == "memory:" else str(tmp_path))
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    assert lake.unregister_table("a.t") == table.metadata_location
    assert lake.tables("a") == []
    with pytest.raises(NoSuchTable):
        lake.unregister_table("a.t")
    assert lake.register_table("a.t", table.metadata_location).scan().count() == 2
    view = lake.create_view("a.v", "SELECT 1 AS one", schema="one int")
    with pytest.raises(AlreadyExists):
        lake.register_view("a.v", view.metadata_location)
    lake.drop_view("a.v")
    assert lake.register_view("a.v", view.metadata_location).uuid == view.uuid
    with pytest.raises(AlreadyExists):
        lake.register_view("a.t", view.metadata_location)


def test_a_directory_refuses_both_by_name(tmp_path: Path) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake")
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint")
    with pytest.raises(Unsupported, match="use drop_table, which keeps the files"):
        lake.unregister_table("a.t")
    with pytest.raises(Unsupported, match="use create_view"):
        lake.register_view("a.v", str(tmp_path / "v.metadata.json"))
    assert lake.tables("a") == ["a.t"]


def test_a_view_is_registered_by_its_file(server: FaultyRest, tmp_path: Path) -> None:
    origin = esker.connect("memory:")
    origin.create_namespace("a")
    made = origin.create_view("a.v", "SELECT 1 AS one", schema="one int")
    server.views["a", "v"] = encode_view_metadata(made.metadata)
    lake = opened(server)
    view = lake.register_view("a.v", str(tmp_path / "v.metadata.json"))
    assert view.sql == "SELECT 1 AS one"
    assert view.uuid == made.uuid
    server.faults.append(Fault(path="/register-view", status=409, body='{"error": {"type": "AlreadyExistsException"}}'))
    with pytest.raises(AlreadyExists):
        lake.register_view("a.v", str(tmp_path / "v.metadata.json"))
    server.faults.append(Fault(path="/register-view", status=404))
    with pytest.raises(NotFound):
        lake.register_view("a.w", str(tmp_path / "v.metadata.json"))
    with pytest.raises(NoSuchNamespace):
        lake.register_view("b.v", str(tmp_path / "v.metadata.json"))
    with pytest.raises(esker.EskerError, match="outside"):
        lake.register_view("a.x", "/etc/v.metadata.json")


def test_the_answer_is_read_as_any_table(server: FaultyRest) -> None:
    lake = opened(server)
    lake.create_table("a.t", "id bigint")
    server.faults.append(Fault(path="/unregister", status=200, body="{}", applies=True))
    with pytest.raises(esker.EskerError, match="metadata"):
        lake.unregister_table("a.t")
