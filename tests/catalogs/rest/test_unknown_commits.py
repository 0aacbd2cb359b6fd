"""F16 to F23 against a REST server: what a commit comes to when the answer is lost, late, wrong or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from faulty_rest import Fault, FaultyRest, faulty_rest

import esker
from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.errors import Conflict, InvalidInput, OutcomeUnknown, StorageFailed
from esker.wiring import lake_over

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
QUICK = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "1"}
COMMIT = "/tables/t"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyRest]:
    with faulty_rest(str(tmp_path)) as found:
        yield found


@pytest.fixture
def table(server: FaultyRest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> esker.Table:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    quiet = {"rest-metrics-reporting-enabled": "false"}  # faults are for commits: no report may take one
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[str(tmp_path)], properties=quiet))
    lake.create_namespace("a")
    return lake.create_table("a.t", "id bigint", properties=QUICK)


def rows(table: esker.Table) -> int:
    table.refresh()
    return table.scan().count()


def data_files(tmp_path: Path) -> int:
    return len(list(tmp_path.rglob("*.parquet")))


LOST = {
    "500": Fault(path=COMMIT, status=500),
    "502 with a page": Fault(path=COMMIT, status=502, body="<html>bad gateway</html>"),
    "503": Fault(path=COMMIT, status=503, headers=(("Retry-After", "0"),)),
    "504": Fault(path=COMMIT, status=504),
    "a status of a proxy": Fault(path=COMMIT, status=524),
    "a cut connection": Fault(path=COMMIT, cut=True),
}


@pytest.mark.parametrize("kind", LOST)
def test_f16_applied_and_the_answer_lost_is_a_success(
    server: FaultyRest, table: esker.Table, tmp_path: Path, kind: str
) -> None:
    server.faults.append(replace(LOST[kind], applies=True))
    table.append(ROWS)
    assert rows(table) == 2
    assert len(table.snapshots) == 1
    assert data_files(tmp_path) == 1


@pytest.mark.parametrize("kind", LOST)
def test_l2_f17_not_applied_and_no_answer_is_sent_again_and_applied_once(
    server: FaultyRest, table: esker.Table, kind: str
) -> None:
    server.faults.append(LOST[kind])
    table.append(ROWS)
    assert rows(table) == 2
    assert len(table.snapshots) == 1


def test_f18_a_conflict_after_an_unknown_attempt_is_looked_up(server: FaultyRest, table: esker.Table) -> None:
    server.faults.append(Fault(path=COMMIT, status=500, applies=True))
    table.append(ROWS)
    statuses = [b"409" in body for *_, body in server.seen]
    assert len(server.requests("POST", COMMIT)) >= 2, statuses
    assert len(table.snapshots) == 1


@pytest.mark.parametrize("answer", ["<html>welcome</html>", "", "[]", '{"metadata": {}}', "{"])
def test_f23_a_success_that_cannot_be_read_is_looked_up(server: FaultyRest, table: esker.Table, answer: str) -> None:
    server.faults.append(Fault(path=COMMIT, status=200, body=answer, applies=True))
    table.append(ROWS)
    assert rows(table) == 2
    server.faults.append(Fault(path=COMMIT, status=200, body=answer))  # and nothing was applied
    with pytest.raises(OutcomeUnknown, match=r"cannot find out whether the commit to a\.t succeeded"):
        table.append(ROWS)
    assert rows(table) == 2


def test_half_an_answer_is_none(server: FaultyRest, table: esker.Table) -> None:
    server.faults.append(Fault(path=COMMIT, half=True))
    table.append(ROWS)
    assert rows(table) == 2
    assert len(table.snapshots) == 1


def test_a_server_that_never_answers_keeps_every_file_and_says_unknown(
    server: FaultyRest, table: esker.Table, tmp_path: Path
) -> None:
    server.faults += [Fault(path=COMMIT, status=503) for _ in range(service_module.ATTEMPTS)]
    with pytest.raises(OutcomeUnknown) as raised:
        table.append(ROWS)
    assert raised.value.snapshot_id is not None
    assert data_files(tmp_path) == 1
    assert rows(table) == 0


def test_f19_a_late_twin_cannot_apply(server: FaultyRest, table: esker.Table) -> None:
    server.faults.append(Fault(path=COMMIT, status=504))
    table.append(ROWS)
    late = server.requests("POST", COMMIT)[-2][3]
    status, _ = server.commit(("a", "t"), json.loads(late))
    assert status == 409
    assert rows(table) == 2


def test_f20_a_commit_under_another_writers_commit_is_found(server: FaultyRest, table: esker.Table) -> None:
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))

    def another(_: FaultyRest) -> None:
        server.lock.release()  # this runs inside the server's answer
        try:
            lake.table("a.t").append(ROWS)
        finally:
            server.lock.acquire()

    server.faults.append(Fault(path=COMMIT, status=500, applies=True, then=another))
    table.append(ROWS)
    assert rows(table) == 4
    assert len(table.snapshots) == 2


def test_l2_a_rejected_commit_is_rebased(server: FaultyRest, table: esker.Table) -> None:
    lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse])).table("a.t").append(ROWS)
    table.append(ROWS)
    assert rows(table) == 4


def test_a_commit_that_always_loses_is_a_conflict_and_leaves_nothing(
    server: FaultyRest, table: esker.Table, tmp_path: Path
) -> None:
    with table.alter() as change:
        change.set_properties({"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1"})
    server.faults += [Fault(path=COMMIT, status=409, body='{"error": {"type": "CommitFailedException"}}')] * 3
    with pytest.raises(Conflict, match="other writers committed first 3 times"):
        table.append(ROWS)
    assert data_files(tmp_path) == 0


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidInput), (403, InvalidInput)])
def test_a_clear_refusal_cleans_up(
    server: FaultyRest, table: esker.Table, tmp_path: Path, status: int, kind: type[Exception]
) -> None:
    server.faults.append(Fault(path=COMMIT, status=status, body='{"error": {"type": "X", "message": "no"}}'))
    with pytest.raises(kind, match=rf"commit to a\.t: .* status {status} \(X: no\)"):
        table.append(ROWS)
    assert data_files(tmp_path) == 0


def test_a_refusal_after_an_unknown_attempt_is_unknown(server: FaultyRest, table: esker.Table, tmp_path: Path) -> None:
    server.faults += [Fault(path=COMMIT, status=500), Fault(path=COMMIT, status=400)]
    with pytest.raises(OutcomeUnknown):
        table.append(ROWS)
    assert data_files(tmp_path) == 1


def test_a_server_that_is_gone_changes_nothing(server: FaultyRest, table: esker.Table, tmp_path: Path) -> None:
    away = lake_over(open_rest_catalog("http://127.0.0.1:9", allowed_roots=[str(tmp_path)]))
    with pytest.raises(StorageFailed, match="does not answer") as raised:
        away.table("a.t")
    assert raised.value.retryable


def test_keys_are_sent_where_the_server_takes_them_and_stay_the_same(server: FaultyRest, tmp_path: Path) -> None:
    server.config["idempotency-key-lifetime"] = "PT30M"
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[str(tmp_path)]))
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint", properties=QUICK)
    server.faults.append(Fault(path=COMMIT, status=500, applies=True))
    table.append(ROWS)
    posts = server.requests("POST", COMMIT)
    keys = [headers["idempotency-key"] for _, path, headers, _ in posts if path.endswith(COMMIT)]
    assert keys[-1] == keys[-2] != keys[0]
    assert all(key[14] == "7" and key[19] in "89ab" for key in keys)
    assert len(table.snapshots) == 1


def test_a_property_change_whose_answer_is_lost_is_found_by_its_effect(server: FaultyRest, table: esker.Table) -> None:
    server.faults.append(Fault(path=COMMIT, status=500, applies=True))
    with table.alter() as change:
        change.set_properties({"colour": "blue"})
    assert table.properties["colour"] == "blue"
    server.faults.append(Fault(path=COMMIT, status=500))
    with pytest.raises(OutcomeUnknown), table.alter() as change:
        change.set_properties({"colour": "red"})


def test_a_creation_whose_answer_is_lost_is_found_by_its_uuid(server: FaultyRest, table: esker.Table) -> None:
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))
    server.faults.append(Fault(path="/tables/u", status=500, applies=True))
    made = lake.create_table("a.u", "id bigint")
    assert server.tables["a", "u"].uuid == made.uuid


# ---------------------------------------------------------------- several tables

TOGETHER = "/transactions/commit"
ALWAYS = [Fault(path=TOGETHER, cut=True)] * service_module.ATTEMPTS


@pytest.fixture
def tables(server: FaultyRest, table: esker.Table) -> esker.Lake:
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))
    lake.create_table("a.u", "id bigint", properties=QUICK)
    return lake


def append_both(lake: esker.Lake) -> None:
    with lake.transaction() as tx:
        for name in ("a.t", "a.u"):
            tx.table(name).append(ROWS)


def counted(server: FaultyRest) -> list[int]:
    lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))
    return [lake.table(name).scan().count() for name in ("a.t", "a.u")]


@pytest.mark.parametrize("kind", LOST)
def test_f12_f16_several_tables_applied_and_the_answer_lost_is_a_success(
    server: FaultyRest, tables: esker.Lake, kind: str
) -> None:
    server.faults.append(replace(LOST[kind], path=TOGETHER, applies=True))
    append_both(tables)
    assert counted(server) == [2, 2]
    assert [len(found.snapshots) for found in server.tables.values()] == [1, 1]


def test_f12_several_tables_not_applied_and_no_answer_is_unknown_and_keeps_every_file(
    server: FaultyRest, tables: esker.Lake, tmp_path: Path
) -> None:
    server.faults += ALWAYS
    with pytest.raises(OutcomeUnknown, match=r"cannot find out whether the commit to a\.t, a\.u succeeded") as raised:
        append_both(tables)
    assert None not in raised.value.snapshot_ids
    assert counted(server) == [0, 0]
    assert data_files(tmp_path) == 2


def test_f12_one_of_several_tables_applied_is_no_success(
    server: FaultyRest, tables: esker.Lake, tmp_path: Path
) -> None:
    """A server that commits one table after the other may die between them."""
    only_t = server.commit_all

    def half(changes: list[object]) -> tuple[int, object]:
        return only_t([one for one in changes if one["identifier"]["name"] == "t"])  # type: ignore[index]

    server.commit_all = half  # type: ignore[method-assign]
    server.faults += [replace(ALWAYS[0], applies=True), *ALWAYS[1:]]
    with pytest.raises(OutcomeUnknown):
        append_both(tables)
    assert counted(server) == [2, 0]
    assert data_files(tmp_path) == 2


def test_f12_several_tables_overtaken_by_others_in_all_are_done_again(server: FaultyRest, tables: esker.Lake) -> None:
    def others(_: FaultyRest) -> None:
        server.lock.release()
        try:
            append_both(lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse])))
        finally:
            server.lock.acquire()

    server.faults.append(Fault(path=TOGETHER, status=500, then=others))
    append_both(tables)
    assert counted(server) == [4, 4]


@pytest.mark.parametrize("left_out", ["t", "u", "tu"])
def test_a_success_without_the_snapshots_is_no_success(
    server: FaultyRest, tables: esker.Lake, tmp_path: Path, left_out: str
) -> None:
    """Iceberg's own server reports success where another writer was faster, and leaves out the change."""
    whole = server.commit_all

    def some(changes: list[object]) -> tuple[int, object]:
        return whole([one for one in changes if one["identifier"]["name"] not in left_out])  # type: ignore[index]

    server.commit_all = some  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown, match="the server reported success, but the new snapshot is not in a") as raised:
        append_both(tables)
    assert all(f"a.{name}" in str(raised.value) for name in left_out)
    assert data_files(tmp_path) == 2


def test_a_success_of_one_table_without_the_snapshot_is_no_success(
    server: FaultyRest, table: esker.Table, tmp_path: Path
) -> None:
    server.commit = lambda route, body: (200, server.answer(route))  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown, match="reported success, but the new snapshot is not in its answer"):
        table.append(ROWS)
    assert data_files(tmp_path) == 1
