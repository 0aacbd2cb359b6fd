"""A program that writes to tables and dies by SIGKILL at a step it is told: one JSON command a line, one answer each.

Everything is imported once; each command is done by a fork, which leaves a trace of the steps it took on a pipe. A
step is a call that makes something durable or visible: fsync, a link or a rename, a request that changes an object
store, and a database's COMMIT, each before and after it is done.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from esker.catalogs.sqlite import SqliteDatabase
from esker.lake import Lake
from esker.storage.local import LocalStorage
from esker.storage.objects.object_storage import ObjectStorage
from esker.table import Table
from esker.wiring import connect

try:
    import psycopg
except ImportError:  # make test installs it; without it no test asks for PostgreSQL
    psycopg = None  # type: ignore[assignment]


def _rows(ids: list[int], region: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([region] * len(ids), pa.string()),
            "n": pa.array([1] * len(ids), pa.int32()),
        }
    )


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(_rows([10, 11], "jp")),
    "overwrite": lambda table: table.overwrite(_rows([12], "eu"), where="id = 1"),
    "delete": lambda table: table.delete("id in (1, 4)"),
    "update": lambda table: table.update({"id": "id + 100"}, "id in (1, 4)"),
    "upsert": lambda table: table.upsert(_rows([1, 10], "eu"), on=["id"]),
    "compact": lambda table: table.compact(rewrite_all=True, partial_progress=True, max_concurrent_groups=1),
    "manifests": lambda table: table.rewrite_manifests(),
    "position deletes": lambda table: table.rewrite_position_deletes(),
    "merge files": lambda table: table.compact(),  # of a Paimon table
    "expire oldest": lambda table: table.expire_snapshots(retain_last=1),
    "expire": lambda table: table.expire_snapshots(older_than=1 << 60),
    "orphans": lambda table: table.remove_orphans(older_than=1 << 60, under_24_hours=True),
}
REMOVING = ("expire", "expire oldest", "orphans")  # for these, a delete of a file is a step, too
LAKE_VERBS: dict[str, Callable[[Lake, str], object]] = {
    "create": lambda lake, name: lake.create_table(name, "id bigint not null, region string, n int"),
    "drop": lambda lake, name: lake.drop_table(name),
    "purge": lambda lake, name: lake.drop_table(name, purge=True),
    "transaction": lambda lake, name: _both(lake, name),
    "appends": lambda lake, name: _appends(lake, name),
}


def _both(lake: Lake, name: str) -> None:
    with lake.transaction() as tx:
        tx.table(name).append(_rows([10, 11], "jp"))
        tx.table(f"{name}_totals").delete("id in (1, 4)")


def _appends(lake: Lake, name: str) -> None:
    """Appends of several threads, which are committed in groups. The trace has each one that was acknowledged."""

    begun = threading.Barrier(6)

    def work(id_: int) -> None:
        with lake.table(name).transaction() as tx:
            tx.append(_rows([id_], "jp"))
            begun.wait()
        os.write(TRACE[0], f"acknowledged {id_}\n".encode())

    threads = [threading.Thread(target=work, args=(id_,)) for id_ in range(10, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


TRACE: list[int] = []  # where steps are written to, in a fork


class Steps:
    """Counts steps, tells them, and dies at one; with ``lag``, so many seconds after the call has begun."""

    def __init__(self, trace: int, at: int | None, lag: float = 0) -> None:
        self._trace = trace
        TRACE[:] = [trace]
        self._at = at
        self._lag = lag
        self._count = 0

    def begin(self, at: int | None) -> None:
        """Count from here, up to another step."""
        self._at = at
        self._count = 0

    def step(self, label: str) -> None:
        """One more; the last, if it is the one."""
        self._count += 1
        os.write(self._trace, (label + "\n").encode())
        if self._count == self._at and self._lag:
            threading.Timer(self._lag, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self._count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Put a step before and after every call that counts."""
        for name in ("fsync", "link", "rename"):
            self._wrap(name)
        steps = self

        class Watched(sqlite3.Connection):
            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                if statement != "COMMIT":
                    return super().execute(statement, *values)
                steps.step("before COMMIT")
                cursor = super().execute(statement, *values)
                steps.step("after COMMIT")
                return cursor

        defaults: dict[str, Any] = SqliteDatabase.__init__.__kwdefaults__  # type: ignore[misc]
        defaults["connection"] = Watched
        if psycopg is not None:
            self._watch_postgres()
        self._watch_objects()

    def watch_deletes(self) -> None:
        """Put a step before and after every removal of a file that is no draft."""
        delete = LocalStorage.delete

        def deleted(storage: LocalStorage, location: str) -> None:
            self.step(f"before delete {kind_of(location)}")
            delete(storage, location)
            self.step(f"after delete {kind_of(location)}")

        LocalStorage.delete = deleted  # type: ignore[method-assign]

    def _watch_objects(self) -> None:
        steps = self
        asked = ObjectStorage._told

        def told(storage: ObjectStorage, operation: str, location: str, call: Callable[[], Any]) -> Any:
            if operation not in ("create", "write", "delete"):
                return asked(storage, operation, location, call)
            label = f"{operation} {kind_of(location)}"
            steps.step(f"before {label}")
            result = asked(storage, operation, location, call)
            steps.step(f"after {label}")
            return result

        ObjectStorage._told = told  # type: ignore[method-assign,assignment]

    def _watch_postgres(self) -> None:
        steps = self
        asked = psycopg.Connection.execute

        def execute(connection: Any, statement: Any, *values: Any) -> Any:
            if statement != "COMMIT":
                return asked(connection, statement, *values)
            steps.step("before COMMIT")
            cursor = asked(connection, statement, *values)
            steps.step("after COMMIT")
            return cursor

        psycopg.Connection.execute = execute  # type: ignore[method-assign]

    def _wrap(self, name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **more: Any) -> Any:
            label = name if name == "fsync" else f"{name} {kind_of(str(args[1]))}"
            self.step(f"before {label}")
            result = real(*args, **more)
            self.step(f"after {label}")
            return result

        setattr(os, name, call)


def kind_of(path: str) -> str:
    """What a file is, by its name."""
    file = path.rpartition("/")[2]
    if file.endswith(("-deletes.parquet", ".puffin")):
        return "deletes"
    if file.endswith(".parquet"):
        return "data"
    if file.endswith(".metadata.json"):
        return "metadata"
    if file in ("version-hint.text", "LATEST", "EARLIEST"):
        return "hint"
    if file.startswith("snapshot-"):
        return "snapshot"
    return "list" if file.startswith("snap-") else "manifest"


def _do(command: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            steps = Steps(writing, command["at"], command.get("lag", 0))
            steps.watch()
            if command["verb"] in REMOVING:
                steps.watch_deletes()
            lake = connect(command["uri"], **({"warehouse": command["warehouse"]} if "warehouse" in command else {}))
            if command["verb"] in LAKE_VERBS:
                LAKE_VERBS[command["verb"]](lake, command["name"])
            else:
                VERBS[command["verb"]](lake.table(command["name"]))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as trace:
        labels = trace.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "steps": labels}


def _import_all() -> None:
    """Import whatever writing imports, found out by a fork: what has started no thread may fork later."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        lake = connect("memory:")
        lake.create_namespace("a")
        for version, mode in ((2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")):
            table = lake.create_table(
                f"a.b{version}{mode[0]}",
                "id bigint not null, region string, n int",
                partition_by=["region"],
                format_version=version,
                properties={f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")},
            )
            for verb in VERBS.values():
                table.append(_rows([1, 2, 3, 4], "eu"))
                verb(table)
        with os.fdopen(writing, "w") as names:
            names.write("\n".join(sys.modules))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as names:
        wanted = names.read().splitlines()
    os.waitpid(child, 0)
    for name in wanted:
        with suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    _import_all()
    for line in sys.stdin:
        print(json.dumps(_do(json.loads(line))), flush=True)
