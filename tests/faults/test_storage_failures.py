"""Every call of the file system fails with every code, through every verb: only `StorageFailed` and `OutcomeUnknown`
come out, each says what to do, nothing is lost, and the same call succeeds once the disk works again.
"""

from __future__ import annotations

import errno
import io
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breaking import MANY
from orders import QUICK, SCHEMA, rows
from sound_tables import check_sound, rows_of

import esker
from esker.catalogs.sqlite import sqlite_failure
from esker.errors import InvalidInput, NoSuchFile, OutcomeUnknown, StorageFailed
from esker.ingest.account import Account
from esker.ingest.ingest_rows import ingest_files
from esker.ingest.row_files_job import Target
from esker.lake import Lake
from esker.storage.failures import failure_of

RETRYABLE = ("ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT", "ECONNRESET", "EBUSY", "ENOMEM")
FINAL = ("EROFS", "EACCES", "EFBIG")
CALLS = ("fsync", "link", "mkdir", "stat", "open", "rename", "scandir", "listdir")
IN_TURN = ("ENOSPC", "EIO", "EROFS", "EMFILE", "ESTALE")

EVERY = 9  # of how many calls one is broken; of those from the last link on, which publishes a version, each one


def rows_in(lake: Lake, name: str) -> object:
    """What most verbs change."""
    return rows_of(lake.table(name))


def columns_in(lake: Lake, name: str) -> object:
    table = lake.table(name)
    return table.schema.name_by_id, table.properties.get("owner"), table.spec.fields


def refs_in(lake: Lake, name: str) -> object:
    """Names of refs, and the number of rows at each."""
    table = lake.table(name)
    return {ref: table.scan(snapshot_id=held.snapshot_id).count() for ref, held in table.refs.items()}


def tables_in(lake: Lake, name: str) -> object:
    """What there is under names that begin so, and with how many rows."""
    return {one: lake.table(one).scan().count() for one in lake.tables("sales") if one.startswith(name)}


def add_files(lake: Lake, name: str) -> None:
    table = lake.table(name)
    file = Path(table.location) / "data" / "brought.parquet"
    pq.write_table(rows([20], "eu"), file)
    table.add_files([str(file)])


def transaction(lake: Lake, name: str) -> None:
    with lake.table(name).transaction() as tx:
        tx.append(rows([14, 15], "eu"))
        tx.delete("id in (2, 14)")


def alter(lake: Lake, name: str) -> None:
    with lake.table(name).alter() as change:
        change.add_column("note", "string")
        change.rename_column("n", "number")
        change.add_partition("bucket(4, id)")
        change.set_properties({"owner": "me"})


def cherry_pick(lake: Lake, name: str) -> None:
    table = lake.table(name)
    table.cherry_pick(table.refs["work"].snapshot_id)


@dataclass(frozen=True)
class Verb:
    """Something done to a table, and what is different then."""

    do: Callable[[Lake, str], object]
    seen: Callable[[Lake, str], object] = rows_in


VERBS: dict[str, Verb] = {
    "append": Verb(lambda lake, name: lake.table(name).append(rows([10], "eu"))),
    "overwrite": Verb(lambda lake, name: lake.table(name).overwrite(rows([12], "eu"), where="id = 1")),
    "overwrite_partitions": Verb(lambda lake, name: lake.table(name).overwrite_partitions(rows([13], "us"))),
    "delete": Verb(lambda lake, name: lake.table(name).delete("id in (1, 4)")),
    "update": Verb(lambda lake, name: lake.table(name).update({"id": "id + 100"}, where="id = 1")),
    "upsert": Verb(lambda lake, name: lake.table(name).upsert(rows([1, 30], "eu", n=9), on=["id"])),
    "scan": Verb(lambda lake, name: lake.table(name).scan().to_arrow()),
    "scan_changes": Verb(lambda lake, name: lake.table(name).scan_changes(None).to_arrow()),
    "inspect": Verb(lambda lake, name: lake.table(name).inspect.files()),
    "add_files": Verb(add_files),
    "transaction": Verb(transaction),
    "cherry_pick": Verb(cherry_pick),
    "alter": Verb(alter, columns_in),
    "tag": Verb(lambda lake, name: lake.table(name).tag("new"), refs_in),
    "branch": Verb(lambda lake, name: lake.table(name).branch("new"), refs_in),
    "append to a branch": Verb(lambda lake, name: lake.table(name).append(rows([40]), ref="work"), refs_in),
    "drop_ref": Verb(lambda lake, name: lake.table(name).drop_ref("work"), refs_in),
    "fast_forward": Verb(lambda lake, name: lake.table(name).fast_forward("main", "work"), refs_in),
    "rollback": Verb(lambda lake, name: lake.table(name).rollback(lake.table(name).snapshots[0].snapshot_id)),
    "create_table": Verb(lambda lake, name: lake.create_table(f"{name}_new", SCHEMA), tables_in),
    "create_table_as": Verb(lambda lake, name: lake.create_table_as(f"{name}_new", SCHEMA, rows([1])), tables_in),
    "rename_table": Verb(lambda lake, name: lake.rename_table(name, f"{name}_new"), tables_in),
    "drop_table": Verb(lambda lake, name: lake.drop_table(name), tables_in),
    "purge": Verb(lambda lake, name: lake.drop_table(name, purge=True), tables_in),
}


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch, at: int, code: int) -> Iterator[list[str]]:
    """The call of this number fails, of those that ask the system for something."""
    calls: list[str] = []

    def breaking(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            calls.append(name)
            if len(calls) == at:
                raise OSError(code, os.strerror(code))
            return real(*args, **more)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, breaking(getattr(os, name), name))
        patch.setattr(io, "open", breaking(io.open, "open"))
        patch.setattr(io, "FileIO", breaking(io.FileIO, "FileIO"))
        yield calls


def made(uri: str, name: str) -> Lake:
    """A table with four rows on ``main``, and a fifth on the branch ``work``."""
    lake = esker.connect(uri)
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    table = lake.create_table(name, SCHEMA, partition_by=["region"], properties=QUICK)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    table.branch("work")
    table.append(rows([5]), ref="work")
    return lake


def checked(uri: str, verb: Verb, name: str) -> object:
    """What is there, seen by a lake of its own; every table of it is whole."""
    lake = esker.connect(uri)
    for one in lake.tables("sales"):
        if one.startswith(name):
            check_sound(lake, one)
    return verb.seen(lake, name)


def check_error(error: Exception, code: int, where: str) -> None:
    assert isinstance(error, StorageFailed | OutcomeUnknown), where
    assert "None" not in str(error), where
    if isinstance(error, StorageFailed):
        assert os.strerror(code) in error.message, where
        assert "; " in error.message, where  # what to do
        assert error.operation, where
        assert str(error.file).startswith("/"), where
        assert error.retryable == (code not in {getattr(errno, name) for name in FINAL}), where


@pytest.mark.slow
@pytest.mark.parametrize("verb", list(VERBS))
def test_whatever_call_fails_the_error_is_one_of_storage_and_a_retry_succeeds(
    uri: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = VERBS[verb]
    if verb == "rename_table" and uri.startswith("file:"):
        pytest.skip("a directory catalog does not rename tables")
    if uri.startswith("postgresql:"):
        pytest.skip("the catalog has no files here; test_postgres_faults.py breaks the connection instead")
    whole = made(uri, "sales.whole")
    before = like(checked(uri, chosen, "sales.whole"), "sales.whole")
    with broken(monkeypatch, 0, 0) as all_calls:
        chosen.do(whole, "sales.whole")
    after = like(checked(uri, chosen, "sales.whole"), "sales.whole")
    failures = 0
    for at in chosen_calls(all_calls):
        number = getattr(errno, IN_TURN[at % len(IN_TURN)])
        name = f"sales.t{at:05}"
        lake = made(uri, name)
        error: Exception | None = None
        with broken(monkeypatch, at, number) as calls:
            try:
                chosen.do(lake, name)
            except Exception as raised:  # of whatever kind: that is what is looked at
                error = raised
        where = f"call {at} of {calls}: {error!r}"
        found = like(checked(uri, chosen, name), name)
        if error is not None:
            failures += 1
            check_error(error, number, where)
        if isinstance(error, StorageFailed):
            assert found == before, where
            chosen.do(esker.connect(uri), name)
            found = like(checked(uri, chosen, name), name)
        assert found == after or (isinstance(error, OutcomeUnknown) and found == before), where
    assert failures, "no call was made to fail"


def chosen_calls(calls: list[str]) -> list[int]:
    """The numbers of the calls to break. A read makes few calls, so each one is broken."""
    publishing = "link" if "link" in calls else "rename"
    if publishing not in calls:
        return list(range(1, len(calls) + 1))
    published = max((at for at, call in enumerate(calls, 1) if call == publishing), default=len(calls))
    return sorted({*range(1, len(calls) + 1, EVERY), *range(published, len(calls) + 1)})


def like(seen: object, name: str) -> object:
    """What was seen of a table of any name."""
    return {one.removeprefix(name): held for one, held in seen.items()} if isinstance(seen, dict) else seen


def sources_in(folder: Path) -> None:
    (folder / "in").mkdir(parents=True)
    (folder / "in/a.csv").write_text("id,region,n\n1,eu,1\n2,eu,1\n")
    (folder / "in/b.json").write_text('{"id": 3, "region": "us", "n": 1}\n')
    pq.write_table(rows([4], "us"), folder / "in/c.parquet")


def ingested(folder: Path) -> Account:
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
    target = Target(name="sales.orders", create=True)
    return ingest_files(lake, [folder / "in"], target, checkpoint=folder / "checkpoint")


@pytest.mark.slow
def test_whatever_call_fails_an_ingest_of_files_takes_every_row_once(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0
    for at in range(2, MANY, 5):
        number = getattr(errno, IN_TURN[at // 5 % len(IN_TURN)])
        folder = scratch / str(at)
        sources_in(folder)
        error: Exception | None = None
        with broken(monkeypatch, at, number) as calls:
            try:
                account = ingested(folder)
            except Exception as raised:  # of whatever kind: that is what is looked at
                error = raised
        where = f"call {at} of {calls}: {error!r}"
        if error is None:  # nothing failed, or the account says what did
            broke = account.refused or account.failures
            assert broke or account.received == 4, where
            for _, failure in account.failures:
                check_error(failure, number, where)
        else:
            check_error(error, number, where)
        failures += error is not None
        again = ingested(folder)
        assert (again.holds, again.refused, again.failures) == (True, [], []), where
        lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db")
        assert rows_of(check_sound(lake, "sales.orders")) == [1, 2, 3, 4], where
        if at > len(calls):
            assert failures, "no call was made to fail"
            return
    raise AssertionError("never came through")


@pytest.mark.parametrize("code", [*RETRYABLE, *FINAL])
def test_a_code_says_what_failed_where_why_and_what_to_do(code: str) -> None:
    number = getattr(errno, code)
    error = failure_of(OSError(number, os.strerror(number)), "create", "/a/b")
    assert isinstance(error, StorageFailed)
    assert error.message.startswith(f"cannot create /a/b: {os.strerror(number)}; ")
    assert error.retryable == (code in RETRYABLE)
    whole = failure_of(OSError(number, os.strerror(number)), "commit to a.b", "/a/b", whole=True)
    assert whole.message.startswith(f"cannot commit to a.b: /a/b: {os.strerror(number)}; ")


def test_what_can_never_work_is_no_failure_of_storage() -> None:
    assert isinstance(failure_of(OSError(errno.ENOENT, "gone"), "read", "/a"), NoSuchFile)
    for code in (errno.ENAMETOOLONG, errno.EISDIR, errno.EEXIST):
        assert isinstance(failure_of(OSError(code, "no"), "create", "/a"), InvalidInput)


@pytest.mark.parametrize(
    ("code", "retryable"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR, True),
        (sqlite3.SQLITE_IOERR | (4 << 8), True),  # an extended code: a sync that failed
        (sqlite3.SQLITE_CANTOPEN, True),
        (sqlite3.SQLITE_READONLY, False),
    ],
)
def test_a_database_says_what_its_disk_does(tmp_path: Path, code: int, retryable: bool) -> None:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    found = sqlite_failure(error, "commit to a.b", tmp_path / "catalog.db")
    assert found is not None
    assert found.message.startswith(f"cannot commit to a.b: {tmp_path}/catalog.db: what SQLite says; ")
    assert found.retryable == retryable


LIMITED = """
    import resource, sys
    import pyarrow as pa
    import esker
    lake = esker.connect(sys.argv[1])
    table = lake.table("sales.orders")
    data = pa.table({{"id": pa.array(range(200_000), pa.int64()), "region": ["eu"] * 200_000}})
    table.append(data.slice(0, 1))  # what is loaded at first use is there before the limit
    {limit}
    try:
        table.append(data)
    except esker.StorageFailed as error:
        print(type(error).__name__, error.retryable, error.reason)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))",
            "StorageFailed False File too large",
        ),
        (
            "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 4096))",
            "StorageFailed True Too many open files",
        ),
    ],
    ids=["file size", "open files"],
)
def test_a_real_limit_of_the_system_is_a_failure_of_storage(tmp_path: Path, limit: str, said: str) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint, region string")
    table.append(rows([1], "eu").select(["id", "region"]))
    program = textwrap.dedent(LIMITED).format(limit=limit)
    done = subprocess.run([sys.executable, "-c", program, uri], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == said, done.stderr
    assert not list(Path(table.location).rglob("*.tmp"))
    assert check_sound(esker.connect(uri), "sales.orders").scan().count() == 2
