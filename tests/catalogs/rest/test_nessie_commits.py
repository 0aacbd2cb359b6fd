"""Commits to Nessie, which compares less than the protocol asks for unless it is asked in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_nessie import FakeNessie, fake_nessie
from faulty_rest import Fault
from tables import next_snapshot, with_properties

import esker
from esker.catalogs.rest import nessie
from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.errors import Conflict, InvalidInput, OutcomeUnknown, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Rejected, TableSwap
from esker.wiring import lake_over

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
QUICK = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "1"}
NAME = TableName(("a",), "t")
COMMIT = "/tables/t"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeNessie]:
    with fake_nessie(str(tmp_path)) as found:
        yield found


def opened(server: FakeNessie) -> esker.Lake:
    return lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))


@pytest.fixture
def lake(server: FakeNessie, monkeypatch: pytest.MonkeyPatch) -> esker.Lake:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    lake = opened(server)
    lake.create_namespace("a")
    return lake


@pytest.fixture
def table(lake: esker.Lake) -> esker.Table:
    return lake.create_table("a.t", "id bigint", properties=QUICK)


def outside(server: FakeNessie, act: Callable[[], Any]) -> Callable[[Any], None]:
    """Run something else while the server answers."""

    def run(_: Any) -> None:
        server.lock.release()
        try:
            act()
        finally:
            server.lock.acquire()

    return run


def rows(server: FakeNessie) -> int:
    return opened(server).table("a.t").scan().count()


def test_of_two_first_snapshots_one_is_rejected(server: FakeNessie, table: esker.Table, lake: esker.Lake) -> None:
    base = lake.catalog.load(NAME)
    first, second = next_snapshot(base.metadata), next_snapshot(base.metadata)
    assert isinstance(lake.catalog.swap(NAME, base, first), Accepted)
    assert isinstance(lake.catalog.swap(NAME, base, second), Rejected)
    assert server.tables["a", "t"].current_snapshot_id == first.current_snapshot_id


def test_a_commit_of_two_snapshots_is_known_by_the_newest(table: esker.Table, lake: esker.Lake) -> None:
    base = lake.catalog.load(NAME)
    assert isinstance(lake.catalog.swap(NAME, base, next_snapshot(next_snapshot(base.metadata))), Accepted)


def test_a_change_of_properties_on_an_old_base_is_rejected(server: FakeNessie, table: esker.Table) -> None:
    catalog = opened(server).catalog
    base = catalog.load(NAME)
    assert isinstance(catalog.swap(NAME, base, with_properties(base.metadata, {"n": "1"})), Accepted)
    before = len(server.requests("GET", COMMIT))
    assert isinstance(catalog.swap(NAME, base, with_properties(base.metadata, {"n": "2"})), Rejected)
    assert len(server.requests("GET", COMMIT)) == before  # the server compared, nobody looked first
    assert server.tables["a", "t"].properties["n"] == "1"


def test_other_tables_that_moved_on_do_not_disturb(server: FakeNessie, table: esker.Table, lake: esker.Lake) -> None:
    base = lake.catalog.load(NAME)
    lake.create_table("a.u", "id bigint").append(ROWS)
    assert lake.catalog.load(NAME, base) is base
    assert isinstance(lake.catalog.swap(NAME, base, next_snapshot(base.metadata)), Accepted)


def test_a_commit_gives_the_file_and_not_the_address_of_the_server(server: FakeNessie, table: esker.Table) -> None:
    table.append(ROWS)
    assert opened(server).catalog.load(NAME).metadata_location == table.metadata_location
    assert table.metadata_location.startswith(server.warehouse)


@pytest.mark.parametrize("applies", [True, False])
@pytest.mark.parametrize("others", [1, 3])
def test_f20_a_lost_answer_under_commits_of_others_counts_once(
    server: FakeNessie, table: esker.Table, applies: bool, others: int
) -> None:
    """Nessie keeps the newest snapshot alone, so that the table itself does not show what happened."""

    def append() -> None:
        for _ in range(others):
            opened(server).table("a.t").append(ROWS)

    server.faults.append(Fault(path=COMMIT, status=500, applies=applies, then=outside(server, append)))
    table.append(ROWS)
    assert rows(server) == 2 * (others + 1)


def test_a_history_that_is_too_long_leaves_it_unknown(
    server: FakeNessie, table: esker.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nessie, "LONGEST_WALK", 1)

    def append() -> None:
        for _ in range(3):
            opened(server).table("a.t").append(ROWS)

    server.faults.append(Fault(path=COMMIT, status=500, applies=True, then=outside(server, append)))
    with pytest.raises(OutcomeUnknown):
        table.append(ROWS)
    assert rows(server) == 8  # it was made, and every file is there


def test_what_nessie_ignores_is_refused_and_nothing_is_sent(server: FakeNessie, table: esker.Table) -> None:
    table.append(ROWS)
    sent = len(server.requests("POST", COMMIT))
    catalog = opened(server).catalog
    base = catalog.load(NAME)
    with pytest.raises(Unsupported, match=r"cannot commit to a\.t: Nessie does not support branches and tags"):
        table.tag("v1")
    with pytest.raises(Unsupported, match="Nessie does not support branches and tags"):
        table.branch("audit")
    with pytest.raises(Unsupported, match="Nessie does not support moving a table"):
        catalog.swap(NAME, base, replace(base.metadata, location=f"{server.warehouse}/elsewhere"))
    with pytest.raises(Unsupported, match="Nessie does not support changing the format version"):
        catalog.swap(NAME, base, replace(base.metadata, format_version=3))
    assert len(server.requests("POST", COMMIT)) == sent


@pytest.mark.parametrize("name", ["t@dev", "t#2024-01-01"])
def test_a_name_that_means_another_branch_is_refused(lake: esker.Lake, name: str) -> None:
    odd = TableName(("a",), name)
    calls: list[Callable[[], Any]] = [
        lambda: lake.catalog.load(odd),
        lambda: lake.catalog.drop(odd),
        lambda: lake.catalog.location_for(odd),
        lambda: lake.catalog.register(odd, "/nowhere"),
        lambda: lake.catalog.rename(NAME, odd),
        lambda: lake.catalog.view_catalog().load_view(odd),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="Nessie reads what follows @ or # as a branch"):
            call()


def test_a_nessie_that_names_no_version_is_refused(server: FakeNessie, table: esker.Table, lake: esker.Lake) -> None:
    base = lake.catalog.load(NAME)
    bare = replace(base, metadata=replace(base.metadata, properties={}), metadata_location="elsewhere")
    with pytest.raises(Unsupported, match=r"does not name the version of the catalog \(nessie.commit.id\)"):
        lake.catalog.swap(NAME, bare, next_snapshot(bare.metadata))


def test_rows_that_came_before_the_only_snapshot_are_a_conflict(server: FakeNessie, table: esker.Table) -> None:
    """The change began on an empty table. The snapshot with rows inside its filter is gone, the newest has none."""
    tx = table.transaction()
    tx.overwrite(ROWS, where="id < 10")
    opened(server).table("a.t").append(ROWS)
    opened(server).table("a.t").append(pa.table({"id": pa.array([100], pa.int64())}))
    with pytest.raises(Conflict, match="the table's past is not complete"):
        tx.commit()
    assert rows(server) == 3


# ---------------------------------------------------------------- several tables


@pytest.mark.parametrize("stale", [0, 1])
def test_a_step_over_several_tables_is_compared_as_a_whole(
    server: FakeNessie, table: esker.Table, lake: esker.Lake, stale: int
) -> None:
    lake.create_table("a.u", "id bigint")
    names = [NAME, TableName(("a",), "u")]
    bases = [lake.catalog.load(name) for name in names]
    opened(server).table(str(names[stale])).append(ROWS)
    swaps = [TableSwap(name, base, next_snapshot(base.metadata)) for name, base in zip(names, bases, strict=True)]
    assert isinstance(lake.catalog.swap_all(swaps), Rejected)
    assert len(server.tables["a", names[1 - stale].name].snapshots) == 0


def test_a_race_between_the_look_and_the_step_rejects_it(
    server: FakeNessie, table: esker.Table, lake: esker.Lake
) -> None:
    lake.create_table("a.u", "id bigint")
    names = [NAME, TableName(("a",), "u")]
    bases = [lake.catalog.load(name) for name in names]
    late = outside(server, lambda: opened(server).table("a.t").append(ROWS))
    server.faults.append(Fault(method="GET", path="/tables/u", applies=True, then=late))
    swaps = [TableSwap(name, base, next_snapshot(base.metadata)) for name, base in zip(names, bases, strict=True)]
    assert isinstance(lake.catalog.swap_all(swaps), Rejected)
    assert len(server.tables["a", "u"].snapshots) == 0


def test_a_prefix_with_a_warehouse_keeps_it() -> None:
    assert nessie.prefix_at("main", "c1") == "main@c1"
    assert nessie.prefix_at("main|wh", "c1") == "main@c1|wh"
    assert nessie.prefix_at("dev%7Cwh", "c1~2") == "dev@c1~2%7Cwh"


def test_lost_races_for_properties_of_a_namespace_are_tried_again(server: FakeNessie, lake: esker.Lake) -> None:
    refused = Fault(path="/namespaces/a/properties", status=409, body='{"error": {"message": "different"}}')
    server.faults += [refused] * 100
    with pytest.raises(Conflict, match="others changed it first 12 times in a row"):
        lake.catalog.update_namespace_properties(("a",), {"k": "v"}, [])
    assert len(server.requests("POST", "/properties")) == 12
