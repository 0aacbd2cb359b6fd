"""What may happen between a client and PostgreSQL: at every message of a commit the connection is cut, silent or late.

Whatever happens, a row is in the table once if the commit was reported as made, not at all if it was reported as
failed, and once or not at all if its outcome was reported as unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from orders import NAME, QUICK, SCHEMA, orders, rows
from postgres_proxy import Fault, Proxy, proxy_to
from postgres_server import PostgresServer
from sound_tables import check_sound, rows_of

import esker
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.postgres import PostgresDatabase
from esker.catalogs.postgres_address import parse_address
from esker.catalogs.sql_pointers import Session, SqlPointers
from esker.catalogs.warehouse import Warehouse
from esker.errors import Conflict, OutcomeUnknown, StorageFailed
from esker.lake import Lake
from esker.storage.local import LocalStorage
from esker.wiring import lake_over

psycopg = pytest.importorskip("psycopg", reason="make test installs it")

LOST_FOR_EVER = (Fault.CUT_BEFORE, Fault.CUT_AFTER)
OTHER = "sales.totals"


@pytest.fixture(scope="module")
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    with proxy_to(postgres.socket) as found:
        yield found


@pytest.fixture(autouse=True)
def in_order(proxy: Proxy) -> None:
    proxy.refuses = False
    proxy.set(None)


@pytest.fixture
def direct(scratch: Path, postgres: PostgresServer) -> str:
    """The catalog, reached without the proxy."""
    return postgres.new_catalog(scratch)


def spoiled(direct: str, proxy: Proxy, *, answer_seconds: float = 20.0, busy_seconds: float = 10.0) -> Lake:
    """The same lake through the proxy."""
    address = parse_address(direct)
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable&gssencmode=disable"
    database = PostgresDatabase(parse_address(through), answer_seconds=answer_seconds, busy_seconds=busy_seconds)
    storage = LocalStorage(roots=[str(address.warehouse)])
    warehouse = Warehouse(str(address.warehouse), storage, fence=storage)
    return lake_over(PointerCatalog(SqlPointers(database, address.catalog_name), warehouse))


def tried(act: Any) -> str:
    """How an attempt was reported."""
    try:
        act()
    except OutcomeUnknown:
        return "unknown"
    except (Conflict, StorageFailed):
        return "failed"
    return "made"


def messages_of(lake: Lake, proxy: Proxy, act: Any) -> list[str]:
    """The messages of an attempt that nothing happens to, on a connection that is open already."""
    lake.namespaces()
    proxy.set(None)
    act()
    return list(proxy.passed)


def test_f16_f17_at_every_message_of_a_commit_rows_are_there_once_or_the_outcome_is_unknown(
    direct: str, proxy: Proxy
) -> None:
    checked = esker.connect(direct)
    orders(checked)
    lake = spoiled(direct, proxy)
    table = lake.table(NAME)
    passed = messages_of(lake, proxy, lambda: table.append(rows([0])))
    assert {">BEGIN", ">COMMIT", "<COMMIT"} <= set(passed)
    expected, reports = [0], set()
    for fault in LOST_FOR_EVER:
        for at in range(1, len(passed) + 1):
            id_ = len(expected) + at * 1000
            lake.namespaces()
            proxy.set(fault, at)
            report = tried(lambda id_=id_: table.append(rows([id_])))  # type: ignore[misc]
            proxy.set(None)
            found = rows_of(checked.table(NAME))
            assert found.count(id_) == {"made": 1, "failed": 0}.get(report, found.count(id_)), (fault, passed[at - 1])
            expected += [id_] * found.count(id_)
            assert found == sorted(expected), (fault, at)
            reports.add(report)
    assert reports == {"made"}  # the same swap, sent again, settles each of these
    check_sound(checked, NAME, deep=False)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.SWALLOW, ">COMMIT"),  # lost on the way there
        (Fault.SWALLOW, "<COMMIT"),  # lost on the way back
        (Fault.LATE, ">COMMIT"),  # arrives when the client has given up (F19)
        (Fault.SWALLOW, ">BEGIN"),
        (Fault.DELAY, "<COMMIT"),
    ],
)
def test_f16_f19_a_server_that_is_silent_or_late_is_given_up_and_the_row_is_there_once(
    direct: str, proxy: Proxy, fault: Fault, message: str
) -> None:
    checked = esker.connect(direct)
    orders(checked)
    lake = spoiled(direct, proxy, answer_seconds=0.5)
    table = lake.table(NAME)
    proxy.set(fault, message)
    assert tried(lambda: table.append(rows([1]))) == "made"
    assert message in proxy.passed
    table.append(rows([2]))
    time.sleep(0.2)  # what comes late is there by now
    assert rows_of(check_sound(checked, NAME)) == [1, 2]


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
def test_f16_a_commit_that_nobody_can_be_asked_about_is_unknown_and_keeps_every_file(
    direct: str, proxy: Proxy, fault: Fault
) -> None:
    checked = esker.connect(direct)
    before = set(Path(orders(checked).location).rglob("*"))
    lake = spoiled(direct, proxy)
    table = lake.table(NAME)
    proxy.refuses = True  # the server is out of reach from the cut on
    proxy.set(fault, ">COMMIT")
    with pytest.raises(OutcomeUnknown, match=r"whether the commit to sales\.orders succeeded") as raised:
        table.append(rows([1]))
    new = {file.suffix for file in set(Path(table.location).rglob("*")) - before if file.is_file()}
    assert new == {".parquet", ".avro", ".json"}
    proxy.refuses = False
    found = checked.table(NAME)
    if fault is Fault.CUT_AFTER:
        _wait_for(lambda: rows_of(found.refresh()) == [1])
        assert found.current_snapshot is not None
        assert found.current_snapshot.snapshot_id == raised.value.snapshot_id
    else:
        assert rows_of(found) == []
    table.refresh().append(rows([2]))
    assert rows_of(check_sound(checked, NAME)) == ([1, 2] if fault is Fault.CUT_AFTER else [2])


def test_f20_a_commit_that_another_writer_built_on_is_found(direct: str, proxy: Proxy) -> None:
    checked = esker.connect(direct)
    patient = {"commit.status-check.min-wait-ms": "200", "commit.status-check.num-retries": "8"}
    orders(checked, properties=patient)
    lake = spoiled(direct, proxy)
    table = lake.table(NAME)
    proxy.refuses = True  # until the other writer is done
    proxy.set(Fault.CUT_AFTER, ">COMMIT")

    def other() -> None:
        _wait_for(lambda: rows_of(checked.table(NAME)) == [1])
        checked.table(NAME).append(rows([2]))
        proxy.refuses = False

    thread = threading.Thread(target=other)
    thread.start()
    table.append(rows([1]))
    thread.join(60)
    assert rows_of(check_sound(checked, NAME)) == [1, 2]


def test_f12_at_every_message_of_a_commit_to_two_tables_both_change_or_none(direct: str, proxy: Proxy) -> None:
    checked = esker.connect(direct)
    orders(checked)
    checked.create_table(OTHER, SCHEMA, properties=QUICK)
    lake = spoiled(direct, proxy)

    def both(id_: int) -> None:
        with lake.transaction() as tx:
            tx.table(NAME).append(rows([id_]))
            tx.table(OTHER).append(rows([id_]))

    passed = messages_of(lake, proxy, lambda: both(0))
    assert passed.count(">COMMIT") == 1
    expected = [0]
    first = passed.index(">BEGIN")  # what comes before only reads
    for fault in LOST_FOR_EVER:
        for at in range(first, len(passed) + 1):
            id_ = len(expected) + at * 1000
            lake.namespaces()
            proxy.set(fault, at)
            report = tried(lambda id_=id_: both(id_))  # type: ignore[misc]
            proxy.set(None)
            found = rows_of(checked.table(NAME))
            assert rows_of(checked.table(OTHER)) == found, (fault, at, passed[at - 1])
            assert report == "made"
            expected.append(id_)
            assert found == sorted(expected), (fault, at)
    check_sound(checked, NAME, deep=False)
    check_sound(checked, OTHER, deep=False)


def test_f12_a_commit_to_two_tables_that_nobody_can_be_asked_about_is_unknown(direct: str, proxy: Proxy) -> None:
    checked = esker.connect(direct)
    orders(checked)
    checked.create_table(OTHER, SCHEMA, properties=QUICK)
    lake = spoiled(direct, proxy)
    tx = lake.transaction()
    for name in (NAME, OTHER):
        tx.table(name).append(rows([1]))
    proxy.set(Fault.CUT_AFTER, ">COMMIT")
    proxy.refuses = True  # new connections; the open one goes on
    with pytest.raises(OutcomeUnknown, match=r"the commit to sales\.orders, sales\.totals succeeded") as raised:
        tx.commit()
    assert len(raised.value.snapshot_ids) == 2
    for name, id_ in zip((NAME, OTHER), raised.value.snapshot_ids, strict=True):
        _wait_for(lambda name=name: rows_of(checked.table(name)) == [1])  # type: ignore[misc]
        assert check_sound(checked, name).current_snapshot.snapshot_id == id_  # type: ignore[union-attr]


def test_a_new_table_whose_commit_was_cut_is_there_once(direct: str, proxy: Proxy) -> None:
    checked = esker.connect(direct)
    checked.create_namespace("sales")
    lake = spoiled(direct, proxy)
    passed = messages_of(lake, proxy, lambda: lake.create_table("sales.first", SCHEMA))
    begin = passed.index(">BEGIN")
    for fault in LOST_FOR_EVER:
        for at in range(begin, len(passed) + 1):
            name = f"sales.{fault.name.lower()}_{at}"
            lake.namespaces()
            proxy.set(fault, at)
            lake.create_table(name, SCHEMA)
            proxy.set(None)
            assert checked.table(name).uuid == lake.table(name).uuid


@pytest.mark.parametrize("verb", ["create_namespace", "drop_namespace", "drop_table", "rename_table", "alter"])
def test_f16_f17_at_every_message_of_another_change_it_is_made_or_not_or_unknown(
    direct: str, proxy: Proxy, verb: str
) -> None:
    checked = esker.connect(direct)
    checked.create_namespace("sales")
    lake = spoiled(direct, proxy)

    def prepare(name: str) -> None:
        if verb == "drop_namespace":
            checked.create_namespace(name)
        elif verb != "create_namespace":
            checked.create_table(f"sales.{name}", SCHEMA, properties=QUICK)

    def change(name: str) -> None:
        if verb == "alter":
            with lake.table(f"sales.{name}").alter() as altered:
                altered.add_column("note", "string")
        elif verb == "rename_table":
            lake.rename_table(f"sales.{name}", f"sales.{name}_renamed")
        else:
            getattr(lake, verb)(f"sales.{name}" if verb == "drop_table" else name)

    def is_made(name: str) -> bool:
        there = checked.tables("sales")
        match verb:
            case "create_namespace":
                return name in checked.namespaces()
            case "drop_namespace":
                return name not in checked.namespaces()
            case "alter":
                return "note" in [field.name for field in checked.table(f"sales.{name}").schema]
            case "rename_table":
                assert (f"sales.{name}" in there) != (f"sales.{name}_renamed" in there)
                return f"sales.{name}_renamed" in there
            case _:
                return f"sales.{name}" not in there

    prepare("first")
    passed = messages_of(lake, proxy, lambda: change("first"))
    assert is_made("first")
    for fault in LOST_FOR_EVER:
        for at in range(1, len(passed) + 1):
            name = f"{fault.name.lower()}_{at}"
            prepare(name)
            lake.namespaces()
            proxy.set(fault, at)
            report = tried(lambda name=name: change(name))  # type: ignore[misc]
            proxy.set(None)
            if report != "unknown":
                assert is_made(name) == (report == "made"), (fault, passed[at - 1])
            else:
                is_made(name)
                assert passed[at - 1] in (">COMMIT", "<COMMIT", "<Z"), (fault, passed[at - 1])


# ------------------------------------------------------------ what the server says


def test_f24_a_transaction_that_the_server_undid_is_done_again(direct: str, postgres: PostgresServer) -> None:
    database = PostgresDatabase(parse_address(direct))
    failures = ["40001", "40P01"]
    done: list[int] = []

    def work(session: Session) -> int:
        done.append(1)
        if failures:
            session.rows(f"DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '{failures.pop()}'; END $$")
        return session.change("UPDATE iceberg_tables SET metadata_location = metadata_location WHERE 1 = 0")

    assert database.write("try", work) == 0
    assert len(done) == 3


def test_f24_a_transaction_that_is_undone_again_and_again_is_a_conflict(direct: str) -> None:
    database = PostgresDatabase(parse_address(direct))

    def work(session: Session) -> int:
        return session.change("DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '40001'; END $$")

    with pytest.raises(Conflict, match=r"cannot try: .* undid the change 8 times .* nothing was changed"):
        database.write("try", work)


def test_f24_a_deadlock_ends_with_both_transactions_done(direct: str, postgres: PostgresServer) -> None:
    """Two writers that lock in opposite orders: the server ends one of them, and it is done again."""
    checked = esker.connect(direct)
    checked.create_namespace("a")
    checked.create_namespace("b")
    name = parse_address(direct).catalog_name
    database = PostgresDatabase(parse_address(direct))
    meeting = threading.Barrier(2)

    def work(first: str, second: str) -> Any:
        tries: list[int] = []

        def change(session: Session) -> None:
            tries.append(1)
            for at, namespace in enumerate((first, second)):
                if at and len(tries) == 1:
                    meeting.wait(30)
                session.change(
                    "UPDATE iceberg_namespace_properties SET property_value = property_value"
                    " WHERE catalog_name = ? AND namespace = ?",
                    (name, namespace),
                )

        return lambda: database.write("meet", change, compares=True), tries

    (one, tries_of_one), (other, tries_of_other) = work("a", "b"), work("b", "a")
    threads = [threading.Thread(target=run) for run in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(tries_of_one) + len(tries_of_other) == 3


def test_f24_a_commit_that_undoes_a_failed_transaction_is_no_success(direct: str) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK, and no error, where a statement failed before."""
    database = PostgresDatabase(parse_address(direct))
    database.write("make the tables", lambda session: None)

    def work(session: Session) -> None:
        session.change(
            "INSERT INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)", ("swallowed", "error", "exists", "true")
        )
        with pytest.raises(psycopg.Error):
            session.rows("SELECT 1 / 0")

    with pytest.raises(Conflict, match="answered the commit with ROLLBACK; nothing was changed"):
        database.write("try", work)
    found = database.read(
        "look",
        lambda session: session.rows(
            "SELECT * FROM iceberg_namespace_properties WHERE catalog_name = ?", ("swallowed",)
        ),
        nothing=[],
    )
    assert found == []


def test_f24_a_server_that_ends_the_connection_in_the_middle_of_a_commit(direct: str, postgres: PostgresServer) -> None:
    """An administrator ends every connection: one that is idle is opened again, and nothing is lost."""
    lake = esker.connect(direct)
    table = orders(lake)
    for id_ in range(3):
        postgres.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'esker' AND pid <> pg_backend_pid()"
        )
        table.append(rows([id_]))
    assert rows_of(check_sound(lake, NAME)) == [0, 1, 2]


def test_f24_a_row_that_another_transaction_holds_for_too_long_rejects_the_commit(
    direct: str, proxy: Proxy, postgres: PostgresServer
) -> None:
    checked = esker.connect(direct)
    orders(checked, properties={"commit.retry.num-retries": "1"})
    lake = spoiled(direct, proxy, busy_seconds=0.1)
    name = parse_address(direct).catalog_name
    table = lake.table(NAME)
    files = set(Path(table.location).rglob("*"))
    with psycopg.connect(host=str(postgres.folder), user="postgres") as holder:
        holder.execute("SELECT * FROM iceberg_tables WHERE catalog_name = %s FOR UPDATE", (name,))
        with pytest.raises(Conflict, match=r"stayed locked for 0\.1 s; nothing was changed"):
            table.append(rows([1]))
        holder.rollback()
    assert {file for file in Path(table.location).rglob("*") if file.is_file()} <= files
    table.append(rows([2]))
    assert rows_of(check_sound(checked, NAME)) == [2]


def test_a_server_that_is_not_there_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    uri = f"postgresql://postgres:{'hidden'}@/db?host={tmp_path}&warehouse={tmp_path}/w"
    with pytest.raises(
        StorageFailed, match=r"cannot list namespaces: .* nothing was changed; try again later"
    ) as raised:
        esker.connect(uri).namespaces()
    assert raised.value.retryable
    assert "hidden" not in str(raised.value)


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)
