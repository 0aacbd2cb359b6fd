"""``esker serve`` is killed with SIGKILL at each kind of step of a commit that a client sends (F13).

Whatever the step, each table is at its old or its new version, all tables of a transaction agree, other tables are as
they were, and a client that sends its request again, with the same idempotency key, has one effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

pytest.importorskip("uvicorn")

from mortal import Mortal
from orders import SCHEMA, rows
from sound_tables import check_sound, rows_of

import esker

OLD, NEW = [1, 2], [1, 2, 3]


class DyingServer(Mortal):
    """A server that dies at a step of its own."""

    def serve(self, uri: str, *requests: dict[str, Any], at: int | None = None) -> tuple[list[int | None], list[str]]:
        """The status of each answer, None for none, and the steps of the server."""
        found = self.answer(uri=uri, requests=requests, at=at)
        assert found["status"] == -9
        return found["answers"], found["steps"]


@pytest.fixture(scope="module")
def mortal() -> Iterator[DyingServer]:
    program = DyingServer("dying_server.py")
    yield program
    program.close()


@dataclass(frozen=True)
class Case:
    """Tables with a snapshot that is not yet current, a request that makes it current, and one that takes it back."""

    uri: str
    names: tuple[str, ...]
    publish: dict[str, Any]
    take_back: dict[str, Any]

    def versions(self) -> list[str]:
        """The metadata file of each table, and of one that no request names."""
        lake = esker.connect(self.uri)
        return [lake.table(name).metadata_location for name in (*self.names, "sales.other")]

    def commits(self) -> list[int]:
        """How many versions each table had before this one."""
        lake = esker.connect(self.uri)
        return [len(lake.table(name).metadata.metadata_log) for name in self.names]

    def rows(self) -> list[list[int]]:
        """What the tables hold, which are checked."""
        found = []
        for name in self.names:
            table = check_sound(esker.connect(self.uri), name)
            for file in Path(table.location.removeprefix("file://")).rglob("*.metadata.json"):
                msgspec.json.decode(file.read_bytes())  # under its final name a file is whole
            found.append(rows_of(table))
        return found


def made(uri: str, turn: str, tables: int) -> Case:
    """New tables with a snapshot on main and one more on another branch."""
    lake = esker.connect(uri)
    names = tuple(f"{turn}_{number}" for number in range(tables))
    forth, back = [], []
    for name in names:
        table = lake.create_table(f"sales.{name}", SCHEMA)
        table.append(rows(OLD))
        table.branch("next")
        table.append(rows([3]), ref="next")
        refs = table.refresh().refs
        old, new = refs["main"].snapshot_id, refs["next"].snapshot_id
        forth.append(_change(name, new, {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": old}))
        back.append(_change(name, old))
    return Case(uri, tuple(f"sales.{name}" for name in names), _request(forth), _request(back))


def _change(name: str, snapshot_id: int, *requirements: dict[str, Any]) -> dict[str, Any]:
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    identifier = {"namespace": ["sales"], "name": name}
    return {"identifier": identifier, "requirements": requirements, "updates": [update]}


def _request(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """A commit to one table, or one transaction of several, with an idempotency key of its own."""
    one = len(changes) == 1
    path = f"/v1/namespaces/sales/tables/{changes[0]['identifier']['name']}" if one else "/v1/transactions/commit"
    return {
        "method": "POST",
        "path": path,
        "body": changes[0] if one else {"table-changes": changes},
        "headers": {"content-type": "application/json", "idempotency-key": str(uuid4())},
    }


def chosen(steps: list[str], uri: str) -> list[int]:
    """Numbers of steps, from 1: the first and the last of each kind. On PostgreSQL only those around COMMIT."""
    first = {label: number for number, label in reversed(list(enumerate(steps, 1)))}
    last = {label: number for number, label in enumerate(steps, 1)}
    numbers = sorted({*first.values(), *last.values()})
    if uri.startswith("postgresql"):  # files are written in the same way for every catalog
        return [number for number in numbers if steps[number - 1].endswith("COMMIT")]
    return numbers


@pytest.mark.parametrize("tables", [1, 2], ids=["commit", "transaction"])
def test_f13_a_server_killed_at_any_step_leaves_the_old_version_or_the_new_one(
    mortal: DyingServer, uri: str, tables: int
) -> None:
    is_directory = uri.startswith("file")
    if is_directory and tables > 1:
        pytest.skip("a directory has no transaction of several tables")
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_table("sales.other", SCHEMA).append(rows([7]))
    done = 200 if tables == 1 else 204
    for turn in ("warm", "whole"):  # the first server may make tables of its own in the database
        whole = made(uri, turn, tables)
        answers, steps = mortal.serve(uri, whole.publish)
        assert (answers, whole.rows()) == ([done], [NEW] * tables)
    visible = steps.index("after link metadata" if is_directory else "after COMMIT") + 1
    numbers = chosen(steps, uri)
    assert visible in numbers
    assert visible - 1 in numbers
    for at in numbers:
        case = made(uri, f"at{at}", tables)
        before, commits = case.versions(), case.commits()
        where = f"step {at}, {steps[at - 1]}"
        assert mortal.serve(uri, case.publish, at=at) == ([None], steps[:at]), where
        is_new = at >= visible
        left = case.versions()
        assert [new != old for new, old in zip(left, before, strict=True)] == [is_new] * tables + [False], where
        assert case.rows() == [NEW if is_new else OLD] * tables, where
        if is_directory:  # it keeps no keys: the requirement prevents a second effect
            assert mortal.serve(uri, case.publish)[0] == [409 if is_new else 200], where
            assert (case.rows(), case.commits()) == ([NEW], [count + 1 for count in commits]), where
            continue
        assert mortal.serve(uri, case.publish)[0] == [done], where
        assert case.commits() == [count + 1 for count in commits], where
        assert not is_new or case.versions() == left, where
        again = (case.take_back, case.publish)  # a second effect would be seen: it would undo what came between
        assert mortal.serve(uri, *again)[0] == [done] * 2, where
        assert (case.rows(), case.versions()[-1]) == ([OLD] * tables, before[-1]), where
