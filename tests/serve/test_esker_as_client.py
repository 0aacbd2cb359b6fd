"""Esker's own client and Esker's own server: the contracts of catalogs and of views, and a round with rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("urllib3")

from catalog_contract import CatalogContract
from esker_server import serving, serving_sqlite
from view_contract import ViewContract

import esker
from esker.errors import Conflict, NoSuchTable


class OnEsker:
    """A server of its own for each test."""

    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        folder = tmp_path / "server"
        folder.mkdir()
        monkeypatch.setattr(type(self), "roots", (str(folder / "warehouse"),))
        with serving_sqlite(folder, str(tmp_path)) as uri:
            yield uri


class TestTables(OnEsker, CatalogContract):
    compares_properties = False


class TestViews(OnEsker, ViewContract):
    compares_all = False


def ids(table: esker.Table, **scan: str) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


@pytest.mark.slow
def test_eskers_client_does_its_whole_round(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    behind = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
    with serving(behind) as uri:
        lake = esker.connect(uri, allowed_roots=[warehouse])
        lake.create_namespace("sales")
        orders = lake.create_table("sales.orders", rows.schema, partition_by=["bucket(2, id)"])
        totals = lake.create_table("sales.totals", rows.schema, properties={"write.delete.mode": "merge-on-read"})
        orders.append(rows)
        orders.tag("first")
        orders.upsert(pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["C", "d"]}), on=["id"])
        orders.overwrite(rows.slice(0, 1), where="id = 1")
        with orders.alter() as change:
            change.add_column("note", "string")
            change.add_partition("truncate(1, name)")
        orders.branch("audit")
        orders.append(pa.table({"id": [9], "name": ["n"], "note": ["x"]}), ref="audit")
        assert ids(behind.table("sales.orders")) == [1, 2, 3, 4]
        orders.fast_forward("main", "audit")
        with lake.transaction() as both:
            both.table("sales.orders").delete("id = 2")
            both.table("sales.totals").append(rows)
        totals.refresh().delete("id = 1")
        assert ids(behind.table("sales.orders")) == ids(lake.table("sales.orders")) == [1, 3, 4, 9]
        assert ids(behind.table("sales.totals")) == ids(lake.table("sales.totals")) == [2, 3]
        assert ids(lake.table("sales.orders"), ref="first") == [1, 2, 3]
        late = lake.table("sales.totals").transaction()
        late.overwrite(rows.slice(1, 1), where="id = 2")
        behind.table("sales.totals").append(rows.slice(1, 1))
        with pytest.raises(Conflict):
            late.commit()
        assert ids(lake.table("sales.totals")) == [2, 2, 3]

        totals = lake.table("sales.totals")
        totals.compact(min_input_files=1)
        totals.expire_snapshots(older_than="2100-01-01", retain_last=1)
        assert len(behind.table("sales.totals").snapshots) == 1
        assert not behind.table("sales.totals").verify().findings
        lake.rename_table("sales.totals", "sales.sums")
        place = lake.table("sales.sums").metadata_location
        lake.drop_table("sales.sums")
        with pytest.raises(NoSuchTable):
            lake.table("sales.sums")
        assert ids(lake.register_table("sales.again", place)) == [2, 2, 3]
        assert behind.tables("sales") == ["sales.again", "sales.orders"]
