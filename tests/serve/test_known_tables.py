"""Tables that the server knows: not read again while their pointer stays, and never older than the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from counting_storage import CountingStorage

import esker
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.errors import NoSuchTable
from esker.iceberg.metadata import snapshot as snapshots
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import TableState
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.known_tables import KnownTables
from esker.tree.table_metadata import TableMetadata

NAME = TableName(("sales",), "orders")
PATH = "/v1/namespaces/sales/tables/orders"
ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("sales")
    lake.create_table("sales.orders", ROW.schema).append(ROW)
    return lake


@pytest.fixture
def reads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> CountingStorage:
    """Counts the files that the server reads."""
    assert isinstance(lake.catalog, PointerCatalog)
    warehouse = lake.catalog._warehouse
    counting = CountingStorage(warehouse.storage)
    monkeypatch.setattr(warehouse, "storage", counting)
    return counting


def loaded(service: Service, **query: str) -> dict[str, Any]:
    answer = service.answer("GET", PATH, Call(query=query))
    assert answer.status == 200, answer.body
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


def test_a_table_that_has_not_changed_is_read_once(lake: Lake, reads: CountingStorage) -> None:
    service = Service(lake)
    first = loaded(service)
    assert (loaded(service), loaded(service)) == (first, first)
    assert len(loaded(service, snapshots="refs")["metadata"]["snapshots"]) == 1
    assert sum(reads.opened.values()) == 1


def test_a_table_whose_metadata_file_is_gone_is_not_served_from_memory(lake: Lake) -> None:
    service = Service(lake)
    loaded(service)
    Path(lake.table("sales.orders").metadata_location).unlink()
    answer = service.answer("GET", PATH, Call())
    assert answer.status == 404, answer.body


def test_a_commit_of_another_program_is_seen_at_once(lake: Lake, tmp_path: Path) -> None:
    service = Service(lake)
    before = loaded(service)
    other = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    other.table("sales.orders").append(ROW)
    after = loaded(service)
    assert after["metadata-location"] != before["metadata-location"]
    assert len(after["metadata"]["snapshots"]) == 2
    other.drop_table("sales.orders")
    assert service.answer("GET", PATH, Call()).status == 404
    other.create_table("sales.orders", "name string")
    assert [field["name"] for field in loaded(service)["metadata"]["schemas"][0]["fields"]] == ["name"]


def test_a_commit_decodes_no_snapshot_that_the_server_knows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(20):
        lake.table("sales.orders").append(ROW)
    service = Service(lake)
    decoded: list[str] = []
    decode = snapshots.decode_snapshot
    monkeypatch.setattr(
        "esker.iceberg.metadata.snapshot.decode_snapshot", lambda *given: (decoded.append(given[0]), decode(*given))[1]
    )
    counts = []
    for _ in range(3):
        decoded.clear()
        _commit(service)
        counts.append(len(decoded))
    assert counts == [21, 0, 0]
    assert len(loaded(service)["metadata"]["snapshots"]) == 24


def _commit(service: Service) -> None:
    metadata = loaded(service)["metadata"]
    newest = metadata["snapshots"][-1]
    new = {
        **newest,
        "snapshot-id": newest["snapshot-id"] // 2 + 1,
        "parent-snapshot-id": newest["snapshot-id"],
        "sequence-number": newest["sequence-number"] + 1,
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": new["snapshot-id"]}
    required = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": newest["snapshot-id"]}
    body = {"requirements": [required], "updates": [{"action": "add-snapshot", "snapshot": new}, ref]}
    answer = service.answer("POST", PATH, Call(body=msgspec.json.encode(body)))
    assert answer.status == 200, answer.body


class TestLimits:
    def test_the_tables_that_were_used_last_are_kept(self, lake: Lake, reads: CountingStorage) -> None:
        for name in "abc":
            lake.create_table(f"sales.{name}", "id bigint")
        known = KnownTables(lake.catalog, most_tables=2)
        a, b, c = (TableName(("sales",), name) for name in "abc")
        for name in (a, b, a, c, a):
            known.load(name)
        assert sorted(reads.opened.values()) == [1, 1, 1]
        known.load(b)
        assert sorted(reads.opened.values()) == [1, 1, 2]

    def test_bytes_are_bounded(self, lake: Lake, reads: CountingStorage) -> None:
        known = KnownTables(lake.catalog, most_bytes=100)
        for _ in range(2):
            state = known.load(NAME)
            assert known.encoded(NAME, state, "all", lambda metadata: metadata).startswith(b"{")
        assert list(reads.opened.values()) == [2]

    def test_a_table_that_is_gone_is_forgotten(self, lake: Lake) -> None:
        known = KnownTables(lake.catalog)
        known.load(NAME)
        lake.drop_table("sales.orders")
        with pytest.raises(NoSuchTable):
            known.load(NAME)
        assert not known._known

    def test_the_text_of_another_state_is_never_given(self, lake: Lake) -> None:
        known = KnownTables(lake.catalog)
        old = known.load(NAME)
        known.encoded(NAME, old, "all", _same)
        lake.table("sales.orders").append(ROW)
        new = known.load(NAME)
        assert _snapshots(known, new) == 2
        assert _snapshots(known, old) == 1
        assert _snapshots(known, new) == 2


def _same(metadata: TableMetadata) -> TableMetadata:
    return metadata


def _snapshots(known: KnownTables, state: TableState) -> int:
    return len(msgspec.json.decode(known.encoded(NAME, state, "all", _same))["snapshots"])
