"""Esker as a client of Iceberg's own REST catalog server: the contracts of catalogs and of views."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
from catalog_contract import ORDERS, CatalogContract, all_at_once, make
from rest_servers import RestServer, emptied, reference_server
from tables import next_snapshot
from view_contract import ViewContract

from esker.model.table_names import TableName
from esker.ports.catalog import AllAccepted, AllUnanswered, Catalog, Rejected, TableSwap


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with reference_server(tmp_path_factory.mktemp("rest")) as found:
        yield found


class OnReference:
    """The server, without anything in it."""

    @pytest.fixture
    def uri(self, server: RestServer, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(type(self), "roots", (server.warehouse,))
        emptied(server)
        return server.uri


class TestTables(OnReference, CatalogContract):
    compares_properties = False
    servers_own = frozenset(("location",))
    cannot_name = frozenset(("Sales",))  # its JDBC catalog on SQLite compares namespaces without case

    def test_steps_over_several_tables_lose_no_update(self, catalog: Catalog) -> None:
        """This server checks all tables, then commits one after the other. Where another writer changed a table in
        between, it leaves that table out and reports success. Esker must not."""
        names = [ORDERS, TableName(("sales",), "totals")]
        for name in names:
            make(catalog, name)

        def step(order: list[TableName]) -> list[list[int | None]]:
            accepted = []
            for _ in range(10):
                bases = [catalog.load(name) for name in order]
                swaps = [
                    TableSwap(name, base, next_snapshot(base.metadata)) for name, base in zip(order, bases, strict=True)
                ]
                answer = catalog.swap_all(swaps)
                assert isinstance(answer, AllAccepted | Rejected | AllUnanswered)
                if isinstance(answer, AllAccepted):
                    accepted.append([swap.new.current_snapshot_id for swap in swaps])
                if isinstance(answer, AllUnanswered):
                    assert "the server reported success, but the new snapshot is not in sales." in answer.why
            return accepted

        jobs = [functools.partial(step, names if n % 2 else names[::-1]) for n in range(4)]
        steps = [ids for accepted in all_at_once(*jobs) for ids in accepted]
        there = {snapshot.snapshot_id for name in names for snapshot in catalog.load(name).metadata.snapshots}
        assert steps
        assert there.issuperset(id_ for ids in steps for id_ in ids)


class TestViews(OnReference, ViewContract):
    compares_all = False
