"""Every request to an object store fails once, in every way that a network, a proxy or a store can make it fail.

An operation runs once per request that it makes: the first request fails, then the second, until a run is over before
the fault is due. After each run the invariants INV1 to INV7 are checked by a lake that nothing happens to.

By default each way to fail is tried once for each kind of request, at one of the requests of that kind in one of the
operations. With ``ESKER_EVERY_REQUEST=1`` it is tried at every request of every operation, which takes half an hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from object_stores import QUICK as QUICK_STORE
from orders import QUICK, SCHEMA, rows
from postgres_server import PostgresServer
from s3_server import (
    ANSWER_500,
    CONFLICT,
    CUT_BODY,
    DENY,
    DUPLICATE,
    FAIL_412,
    FAIL_500,
    HTML,
    HTML_AFTER,
    LATE,
    LOSE_ANSWER,
    LOSE_REQUEST,
    LOSE_TOKEN,
    NO_CONTENT,
    SHORT_PAGE,
    SLOW_DOWN,
    TOO_MANY,
    TWICE_LISTED,
    WRONG_LENGTH,
    S3Server,
)
from sound_tables import check_sound, rows_of

import esker
from esker.errors import Conflict, NoSuchTable, OutcomeUnknown, StorageFailed, Unsupported
from esker.lake import Lake
from esker.storage.objects import object_storage

EVERY = bool(os.environ.get("ESKER_EVERY_REQUEST"))
MANY = 60  # an operation that makes more requests than this has lost its way
ANY_REQUEST = (
    *(LOSE_REQUEST, LOSE_ANSWER, LATE, DUPLICATE, SLOW_DOWN, TOO_MANY),
    *(FAIL_500, ANSWER_500, HTML, HTML_AFTER, NO_CONTENT, WRONG_LENGTH),
)
FAULTS_OF = {
    "PUT": (*ANY_REQUEST, CONFLICT, FAIL_412),
    "PUT metadata": (*ANY_REQUEST, CONFLICT, FAIL_412),
    "GET": (*ANY_REQUEST, CUT_BODY),
    "GET metadata": (*ANY_REQUEST, CUT_BODY),
    "GET listing": (*ANY_REQUEST, CUT_BODY, SHORT_PAGE, LOSE_TOKEN, TWICE_LISTED),
}
OTHER = "_totals"
BESIDE = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
GONE = "gone"


@dataclass(frozen=True)
class Operation:
    """A change of the table ``name``, and of the one beside it, with the rows that it leads to."""

    act: Callable[[Lake, str], object]
    after: Any
    before: Any = (1, 2, 3, 4)
    format_version: int = 2
    properties: tuple[tuple[str, str], ...] = ()

    def prepare(self, lake: Lake, name: str) -> None:
        if self.before == GONE:
            return
        for table in (name, name + OTHER) if isinstance(self.after, dict) else (name,):
            made = lake.create_table(
                table,
                SCHEMA,
                partition_by=["region"],
                format_version=self.format_version,
                properties={**QUICK, **dict(self.properties)},
            )
            made.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))


def both(lake: Lake, name: str) -> None:
    with lake.transaction() as tx:
        tx.table(name).append(rows([10]))
        tx.table(name + OTHER).delete("id = 1")


OPERATIONS = {
    "append": Operation(lambda lake, name: lake.table(name).append(rows([10]), batch=("sweep", 1)), (1, 2, 3, 4, 10)),
    "overwrite": Operation(lambda lake, name: lake.table(name).overwrite(rows([12]), where="id = 1"), (2, 3, 4, 12)),
    "delete": Operation(lambda lake, name: lake.table(name).delete("id in (1, 4)"), (2, 3)),
    "delete beside": Operation(
        lambda lake, name: lake.table(name).delete("id in (1, 4)"), (2, 3), properties=tuple(BESIDE.items())
    ),
    "delete by vector": Operation(
        lambda lake, name: lake.table(name).delete("id in (1, 4)"),
        (2, 3),
        format_version=3,
        properties=tuple(BESIDE.items()),
    ),
    "merge": Operation(lambda lake, name: lake.table(name).upsert(rows([1, 10]), on=["id"]), (1, 2, 3, 4, 10)),
    "create": Operation(lambda lake, name: lake.create_table(name, SCHEMA, properties=QUICK), (), GONE),
    "drop": Operation(lambda lake, name: lake.drop_table(name), GONE),
    "purge": Operation(lambda lake, name: lake.drop_table(name, purge=True), GONE),
    "transaction": Operation(both, {"": (1, 2, 3, 4, 10), OTHER: (2, 3, 4)}),
}


Opened = Callable[[str], Callable[[], Lake]]


@pytest.fixture(params=["directory", "postgresql"])
def opened(request: pytest.FixtureRequest, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Opens the lake of a warehouse, again and again: an S3 directory, or PostgreSQL with its files in S3."""
    monkeypatch.setattr(object_storage, "_WAIT", 0.01)
    options: dict[str, Any] = {"properties": {**s3.properties, **QUICK_STORE}}
    if request.param == "directory":
        return lambda warehouse: lambda: esker.connect(warehouse, **options)
    postgres: PostgresServer = request.getfixturevalue("postgres")

    def on_postgres(warehouse: str) -> Callable[[], Lake]:
        uri = postgres.uri(catalog_name=uuid4().hex)
        return lambda: esker.connect(uri, warehouse=warehouse, **options)

    return on_postgres


def kind_of(request: str) -> str:
    """What a request is for: a commit of a directory catalog and of a table is the ``PUT`` of its metadata."""
    method, _, key = request.partition(" ")
    file, _, query = key.partition("?")
    if "list-type" in query:
        return "GET listing"
    return f"{method} metadata" if file.endswith(".metadata.json") else method


def outcome_of(act: Callable[[], object]) -> str:
    """How an attempt was reported. Another error than these three is a fault of Esker."""
    try:
        act()
    except OutcomeUnknown:
        return "unknown"
    except (Conflict, StorageFailed):
        return "failed"
    return "made"


def state_of(lake: Lake, operation: Operation, name: str) -> Any:
    """The rows of the table, or of both tables; ``GONE`` without a table. Each table found is whole."""

    def ids(table: str) -> Any:
        try:
            found = check_sound(lake, table)
        except NoSuchTable:
            return GONE
        return tuple(rows_of(found))

    if isinstance(operation.after, dict):
        return {part: ids(name + part) for part in operation.after}
    return ids(name)


class Sweep:
    """Runs operations with one fault each."""

    def __init__(self, s3: S3Server, opened: Opened) -> None:
        self.s3 = s3
        self.warehouse = s3.make_bucket(f"bucket-{uuid4().hex[:12]}") + "/w"  # a small one: listings stay quick
        self.connect = opened(self.warehouse)
        self.lake = self.connect()
        self.lake.create_namespace("sales")
        self.number = 0

    @property
    def swaps_all(self) -> bool:
        """Whether the catalog changes several tables in one step."""
        try:
            self.lake.transaction().abandon()
        except Unsupported:
            return False
        return True

    def new(self, operation: Operation) -> str:
        self.number += 1
        name = f"sales.orders{self.number}"
        operation.prepare(self.lake, name)
        return name

    def requests_of(self, operation: Operation) -> list[str]:
        """The requests of a run that nothing happens to."""
        name = self.new(operation)
        with self.s3.counted() as requests:
            operation.act(self.connect(), name)
        assert state_of(self.connect(), operation, name) == operation.after
        assert len(requests) < MANY
        return requests

    def run(self, operation: Operation, at: int, fault: str, *, times: int = 1) -> str:
        """One run with a fault at request ``at`` and maybe those after it, checked; how it was reported."""
        name = self.new(operation)
        before = self.objects(name)
        lake = self.connect()
        self.s3.fail(fault, skip=at - 1, times=times)
        with self.s3.counted() as requests:
            report = outcome_of(lambda: operation.act(lake, name))
        self.s3.heal()
        assert len(requests) >= at
        if fault == LATE:
            time.sleep(0.1)
        where = f"{fault} at request {at}, {requests[at - 1]}: {report}"
        self.check(operation, name, report, where)
        if operation is not OPERATIONS["purge"]:
            assert before <= self.objects(name), where  # INV6
        return report

    def check(self, operation: Operation, name: str, report: str, where: str) -> None:
        lake = self.connect()
        found = state_of(lake, operation, name)  # INV1, INV2, INV4, INV5
        old = dict.fromkeys(operation.after, operation.before) if isinstance(found, dict) else operation.before
        allowed = {"made": [operation.after], "failed": [old]}.get(report, [old, operation.after])
        assert found in allowed, where  # INV3
        if found == GONE:
            return
        table = lake.table(name)
        if operation is OPERATIONS["append"]:  # INV8
            operation.act(lake, name)
            assert tuple(rows_of(table.refresh())) == operation.after, where
        table.refresh().append(rows([99]))
        assert 99 in rows_of(table), where

    def objects(self, name: str) -> set[str]:
        place = f"{self.warehouse}/{name.replace('.', '/')}"
        return {file.location for file in self.lake.catalog.storage().list(place)}


def cases(requests: dict[str, list[str]]) -> Iterator[tuple[str, int, str]]:
    """The operation, the number of the request in it, and the fault: all there are, or one for each kind and fault."""
    candidates: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for title, made in requests.items():
        for at, request in enumerate(made, 1):
            kind = kind_of(request)
            for fault in FAULTS_OF.get(kind, ANY_REQUEST):
                candidates.setdefault((kind, fault), []).append((title, at))
    for number, ((_, fault), found) in enumerate(candidates.items()):
        for title, at in found if EVERY else [found[7 * number % len(found)]]:
            yield title, at, fault


def test_f16_f19_f23_f43_a_table_is_whole_whichever_request_fails(s3: S3Server, opened: Opened) -> None:
    sweep = Sweep(s3, opened)
    chosen = {title: one for title, one in OPERATIONS.items() if title != "transaction" or sweep.swaps_all}
    requests = {title: sweep.requests_of(operation) for title, operation in chosen.items()}
    tried = 0
    for title, at, fault in cases(requests):
        if sweep.number > 40:
            sweep = Sweep(s3, opened)
        # one failure of one request is always made good
        assert sweep.run(OPERATIONS[title], at, fault) == "made", (title, fault, at, requests[title][at - 1])
        tried += 1
    assert tried > 50


@pytest.mark.parametrize("fault", [DENY, FAIL_500, LOSE_ANSWER, HTML_AFTER])
def test_f16_f17_f41_a_store_that_fails_for_good_from_any_request_on_hides_no_outcome(
    s3: S3Server, opened: Opened, fault: str
) -> None:
    """A store that is full, that no longer knows the key, or that is out of reach: a typed error, and a whole table."""
    sweep = Sweep(s3, opened)
    requests = sweep.requests_of(OPERATIONS["append"])
    reports = {sweep.run(OPERATIONS["append"], at, fault, times=9999) for at in range(1, len(requests) + 1)}
    assert reports <= {"failed", "unknown"}
