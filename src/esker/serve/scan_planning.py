"""The operations that plan scans for clients, with Esker's own planner.

A plan is completed in its first answer. A plan of many files comes in parts: the first answer names plan tasks, and
each task is fetched by a request of its own. Parts are kept in memory for some minutes. A client that comes later gets
404 and plans again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.model.table_names import TableName
from esker.read.scan import Scan
from esker.serve.call import NOTHING, Answer, Call, answer_json
from esker.serve.error_answers import NoSuchPlan
from esker.serve.scan_documents import read_filter, task_documents

if TYPE_CHECKING:
    from esker.lake import Lake

_FILES_AT_ONCE = 5_000
_KEPT_S = 600.0
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class _Part:
    table: TableName
    plan_id: str
    body: bytes
    until: float


class ScanPlanning:
    """Plans scans of the tables of a lake."""

    def __init__(
        self, lake: Lake, *, files_at_once: int = _FILES_AT_ONCE, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._lake = lake
        self._files_at_once = files_at_once
        self._now = now
        self._lock = threading.Lock()
        self._parts: OrderedDict[str, _Part] = OrderedDict()
        self._bytes = 0

    def plan(self, call: Call) -> Answer:
        """The files that a scan has to read. The plan is completed in this answer."""
        document = call.document()
        if "start-snapshot-id" in document or "end-snapshot-id" in document:
            raise InvalidInput("cannot plan the scan: this server plans scans of one snapshot, not of a range of them")
        scan = self._asked(call.table, document)
        tasks = scan.plan().tasks
        size = self._files_at_once
        first, rest = tasks[:size], [tasks[at : at + size] for at in range(size, len(tasks), size)]
        plan_id = str(uuid4())
        answer: dict[str, Any] = {"status": "completed", "plan-id": plan_id, **task_documents(first, scan.metadata)}
        if rest:
            bodies = [msgspec.json.encode(task_documents(part, scan.metadata)) for part in rest]
            answer["plan-tasks"] = self._kept(call.table, plan_id, bodies)
        return answer_json(answer)

    def _asked(self, name: TableName, document: JsonObject) -> Scan:
        """The scan of a request, with its filter. Columns are selected by the client."""
        snapshot_id = document.integer_or_none("snapshot-id")
        scan = self._lake.table(str(name)).scan(snapshot_id=snapshot_id)
        snapshot = scan.resolved.snapshot
        schema = scan.metadata.schema
        uses_own = document.boolean("use-snapshot-schema") if "use-snapshot-schema" in document else False
        if uses_own and snapshot is not None and snapshot.schema_id is not None:
            schema = scan.metadata.schema_by_id.get(snapshot.schema_id, schema)
        is_sensitive = document.boolean("case-sensitive") if "case-sensitive" in document else True
        value = document.raw("filter")
        wanted = read_filter(True if value is None else value, schema, is_case_sensitive=is_sensitive)
        return replace(scan, resolved=replace(scan.resolved, schema=schema), filter=wanted, service=None)

    def fetch(self, call: Call) -> Answer:
        """The state of a plan. Plans are completed at once, so there is none to wait for."""
        self._lake.catalog.load(call.table)
        raise NoSuchPlan(f"cannot find the plan {call.path['plan-id'][:60]}: it was completed in its first answer")

    def cancel(self, call: Call) -> Answer:
        """Forget what is kept of a plan."""
        with self._lock:
            gone = [key for key, part in self._parts.items() if part.plan_id == call.path["plan-id"]]
            for key in gone:
                self._forget(key)
        return NOTHING

    def tasks(self, call: Call) -> Answer:
        """The files of one plan task. It may be fetched again."""
        task = call.document().string("plan-task")
        with self._lock:
            self._tidy()
            part = self._parts.get(task)
        if part is None or part.table != call.table:
            raise NoSuchPlan("cannot find the plan task: it has expired, or it never existed; plan the scan again")
        return Answer(status=200, body=part.body)

    def _kept(self, table: TableName, plan_id: str, bodies: list[bytes]) -> list[str]:
        names = [f"{plan_id}:{number}" for number in range(1, len(bodies) + 1)]
        with self._lock:
            self._tidy()
            for name, body in zip(names, bodies, strict=True):
                self._parts[name] = _Part(table, plan_id, body, self._now() + _KEPT_S)
                self._bytes += len(body)
            while self._bytes > _MOST_BYTES and next(iter(self._parts)) not in names:
                self._forget(next(iter(self._parts)))
        return names

    def _tidy(self) -> None:
        while self._parts and (oldest := next(iter(self._parts.items())))[1].until < self._now():
            self._forget(oldest[0])

    def _forget(self, name: str) -> None:
        self._bytes -= len(self._parts.pop(name).body)
