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
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from breaking import MANY
from orders import QUICK, SCHEMA, rows
from sound_tables import check_sound, rows_of

import esker
from esker.catalogs.sqlite_failures import sqlite_failure
from esker.errors import InvalidInput, NoSuchFile, OutcomeUnknown, StorageFailed
from esker.lake import Lake
from esker.storage.failures import failure_of
from esker.table import Table

RETRYABLE = ("ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT", "ECONNRESET", "EBUSY", "ENOMEM")
FINAL = ("EROFS", "EACCES", "EFBIG")
CALLS = ("fsync", "link", "mkdir", "stat", "open", "rename", "scandir", "listdir")
IN_TURN = ("ENOSPC", "EIO", "EROFS", "EMFILE", "ESTALE")
BEFORE = [1, 2, 3, 4]

VERBS: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "append": (lambda table: table.append(rows([10], "eu")), [1, 2, 3, 4, 10]),
    "overwrite": (lambda table: table.overwrite(rows([12], "eu"), where="id = 1"), [2, 3, 4, 12]),
    "delete": (lambda table: table.delete("id in (1, 4)"), [2, 3]),
    "scan": (lambda table: table.scan().to_arrow(), BEFORE),
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
        yield calls


def made(uri: str, name: str) -> tuple[Lake, Table]:
    lake = esker.connect(uri)
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    table = lake.create_table(name, SCHEMA, partition_by=["region"], properties=QUICK)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    return lake, table


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
    do, after = VERBS[verb]
    failures = 0
    for at in range(1, MANY, 2):
        number = getattr(errno, IN_TURN[at // 2 % len(IN_TURN)])
        name = f"sales.orders{at}"
        _, table = made(uri, name)
        error: Exception | None = None
        with broken(monkeypatch, at, number) as calls:
            try:
                do(table)
            except Exception as raised:  # of whatever kind: that is what is looked at
                error = raised
        where = f"call {at} of {calls}: {error!r}"
        found = check_sound(esker.connect(uri), name)
        if error is not None:
            failures += 1
            check_error(error, number, where)
            if isinstance(error, StorageFailed):
                assert rows_of(found) == BEFORE, where
                do(found)
                found = check_sound(esker.connect(uri), name)
            assert rows_of(found) in ([after] if isinstance(error, StorageFailed) else [BEFORE, after]), where
        else:
            assert rows_of(found) == after, where
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
