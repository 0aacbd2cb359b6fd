"""A writer is killed with SIGKILL at every request that changes an object store, and at the COMMIT of its catalog.

F02 to F08 and F12, on a directory catalog in S3 and on PostgreSQL with the files in S3. Whatever the step, the table is
at its old or its new version, no reachable object is gone, and the next commit succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from mortal import Mortal
from object_stores import environment_of
from orders import QUICK, SCHEMA, rows
from postgres_server import PostgresServer
from s3_server import DELAY, S3Server
from sound_tables import check_sound, reachable, rows_of

import esker
from esker.errors import NoSuchTable
from esker.lake import Lake

GONE = "gone"
BEFORE = [1, 2, 3, 4]
AFTER: dict[str, Any] = {
    "append": [1, 2, 3, 4, 10, 11],
    "overwrite": [2, 3, 4, 12],
    "delete": [2, 3],
    "upsert": [1, 2, 3, 4, 10],
    "create": [],
    "drop": GONE,
    "purge": GONE,
    "transaction": [1, 2, 3, 4, 10, 11],
}
BESIDE = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


@dataclass(frozen=True)
class Place:
    """A catalog whose files are in S3."""

    uri: str
    warehouse: str | None

    def lake(self, s3: S3Server) -> Lake:
        where = {} if self.warehouse is None else {"warehouse": self.warehouse}
        return esker.connect(self.uri, properties=s3.properties, **where)

    @property
    def is_directory(self) -> bool:
        return self.warehouse is None


@pytest.fixture(params=["directory", "postgresql"])
def place(request: pytest.FixtureRequest, bucket: str) -> Place:
    if request.param == "directory":
        return Place(f"{bucket}/w", None)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return Place(postgres.uri(catalog_name=uuid4().hex), f"{bucket}/w")


@pytest.fixture(scope="module")
def mortal(s3_server: S3Server) -> Iterator[Mortal]:
    program = Mortal("dying_writer.py", environment_of(s3_server))
    yield program
    program.close()


def killed(mortal: Mortal, place: Place, name: str, verb: str, at: int | None = None, **how: Any) -> list[str]:
    """The steps of a writer that dies at one of them; of one that is not killed for None."""
    where = {} if place.is_directory else {"warehouse": place.warehouse}
    status, steps = mortal.run(uri=place.uri, name=name, verb=verb, at=at, **where, **how)
    assert status == (0 if at is None else -9), steps
    return steps


def made(lake: Lake, name: str, verb: str, properties: dict[str, str]) -> None:
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    if verb == "create":
        return
    for table in (name, f"{name}_totals") if verb == "transaction" else (name,):
        lake.create_table(table, SCHEMA, partition_by=["region"], properties={**QUICK, **properties}).append(
            pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")])
        )


def state_of(lake: Lake, name: str) -> Any:
    try:
        return rows_of(check_sound(lake, name))
    except NoSuchTable:
        return GONE


def visible_from(steps: list[str], place: Place) -> int:
    """The number of the step after which the change is visible: the new version, or the COMMIT."""
    return steps.index("after create metadata" if place.is_directory else "after COMMIT") + 1


def check(lake: Lake, name: str, verb: str, expected: Any, where: str) -> None:
    assert state_of(lake, name) == expected, where
    if verb == "transaction":  # F12: both or none
        assert state_of(lake, f"{name}_totals") == (BEFORE if expected == BEFORE else AFTER["delete"]), where
    if expected == GONE:
        return
    table = lake.table(name)
    kept = reachable(table)
    table.append(rows([99]))
    assert rows_of(check_sound(lake, name)) == sorted([*expected, 99]), where
    storage = lake.catalog.storage()
    assert all(storage.exists(location) for location in kept), where


CASES = [
    *((verb, {}) for verb in ("append", "overwrite", "delete", "create", "drop", "purge", "transaction")),
    ("delete", BESIDE),
    ("upsert", BESIDE),
]


@pytest.mark.parametrize(
    ("verb", "properties"), CASES, ids=[f"{verb}{' beside' if how else ''}" for verb, how in CASES]
)
def test_f02_f03_f04_f05_f07_f08_f12_a_writer_killed_at_any_request_leaves_the_old_table_or_the_new_one(
    mortal: Mortal, s3: S3Server, place: Place, verb: str, properties: dict[str, str]
) -> None:
    if verb == "transaction" and place.is_directory:
        pytest.skip("a directory changes one table at a time")
    if verb in ("overwrite", "delete", "upsert") and not place.is_directory:
        pytest.skip("files are written before the catalog is asked: the other catalog shows the same")
    lake = place.lake(s3)
    made(lake, "sales.whole", verb, properties)
    steps = killed(mortal, place, "sales.whole", verb)
    assert state_of(lake, "sales.whole") == AFTER[verb]
    visible = visible_from(steps, place)
    before = GONE if verb == "create" else BEFORE
    for at in range(1, len(steps) + 1):
        name = f"sales.orders{at}"
        made(lake, name, verb, properties)
        taken = killed(mortal, place, name, verb, at)
        check(place.lake(s3), name, verb, AFTER[verb] if at >= visible else before, f"step {at}, {taken[-1]}")


def test_f06_a_writer_killed_after_it_sent_the_commit_and_before_the_answer(
    mortal: Mortal, s3: S3Server, place: Place
) -> None:
    """The store makes the object when its writer is gone. Whoever comes next sees the old version or the new one."""
    lake = place.lake(s3)
    made(lake, "sales.whole", "append", {})
    at = killed(mortal, place, "sales.whole", "append").index("before create metadata") + 1
    made(lake, "sales.orders", "append", {})
    s3.fail(DELAY, method="PUT", key=r"metadata\.json")
    killed(mortal, place, "sales.orders", "append", at, lag=0.4)
    expected = AFTER["append"] if place.is_directory else BEFORE  # a pointer that nobody moved
    deadline = time.monotonic() + 20
    while state_of(lake, "sales.orders") != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    check(lake, "sales.orders", "append", expected, "a commit of the dead")
