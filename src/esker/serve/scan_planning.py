"""The operations that plan scans for clients, with Esker's own planner.

A plan is completed in its first answer. A plan of many files comes in parts: the first answer names plan tasks, and
each task is fetched by a request of its own. The first answer can be fetched again. All parts are kept in memory for
some minutes. A client that comes later gets 404 and plans again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from esker.errors import EskerError, InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.model.table_names import TableName
from esker.ports.engine import ScanTask
from esker.read.plan_changes import ChangePlanner
from esker.read.scan import Scan
from esker.read.snapshot_range import snapshot_range
from esker.serve.call import NOTHING, Answer, Call
from esker.serve.error_answers import NoSuchPlan, NoSuchPlanTask
from esker.serve.scan_documents import Residuals, read_filter, task_documents

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
    """Plans scans of the tables of a lake. Without ``files_at_once`` the first answer has all files."""

    def __init__(
        self, lake: Lake, *, files_at_once: int | None = _FILES_AT_ONCE, now: Callable[[], float] = time.monotonic
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
        scan, residuals, tasks = self._planned(call.table, document)
        size = self._files_at_once or max(len(tasks), 1)
        first, rest = tasks[:size], [tasks[at : at + size] for at in range(size, len(tasks), size)]
        plan_id = str(uuid4())
        result: dict[str, Any] = {"status": "completed", **task_documents(first, scan.metadata, residuals)}
        parts = {
            f"{plan_id}:{number}": msgspec.json.encode(task_documents(part, scan.metadata, residuals))
            for number, part in enumerate(rest, 1)
        }
        if parts:
            result["plan-tasks"] = list(parts)
        body = msgspec.json.encode(result)
        if self._files_at_once is not None:  # otherwise another process may be asked for it
            self._keep(call.table, plan_id, {**parts, plan_id: body})
        return Answer(status=200, body=b'{"plan-id":"%s",%s' % (plan_id.encode(), body[1:]))

    def _planned(self, name: TableName, document: JsonObject) -> tuple[Scan, Residuals, Sequence[ScanTask]]:
        """The scan of one snapshot, its residuals and its tasks. With ``end-snapshot-id`` the tasks are the files that
        were appended up to it."""
        start, end = (document.integer_or_none(f"{which}-snapshot-id") for which in ("start", "end"))
        if start is None and end is None:
            scan, residuals = self._asked(name, document)
            return scan, residuals, scan.plan().tasks
        if "snapshot-id" in document:
            raise InvalidInput("cannot plan the scan: give snapshot-id, or start-snapshot-id and end-snapshot-id")
        if end is None:
            raise InvalidInput("cannot plan the scan: start-snapshot-id needs an end-snapshot-id")
        scan, residuals = self._asked(name, document, end)
        steps = snapshot_range(scan.metadata, start, end).steps
        planner = ChangePlanner(
            metadata=scan.metadata,
            table_format=scan.table_format,
            schema=scan.resolved.schema,
            predicate=scan.filter,
            by_partition=True,
        )
        return scan, residuals, planner.plan([step for step in steps if step.after.operation == "append"]).tasks

    def _asked(self, name: TableName, document: JsonObject, end: int | None = None) -> tuple[Scan, Residuals]:
        """The scan of a request, with its filter, and the writer of its residuals."""
        snapshot_id = document.integer_or_none("snapshot-id") if end is None else end
        scan = self._lake.table(str(name)).scan(snapshot_id=snapshot_id)
        snapshot = scan.resolved.snapshot
        schema = scan.metadata.schema
        uses_own = document.boolean("use-snapshot-schema") if "use-snapshot-schema" in document else False
        if uses_own and snapshot is not None and snapshot.schema_id is not None:
            schema = scan.metadata.schema_by_id.get(snapshot.schema_id, schema)
        is_sensitive = document.boolean("case-sensitive") if "case-sensitive" in document else True
        for field in ("select", "stats-fields"):  # the client selects columns, from whole files
            if not all(isinstance(one, str) for one in document.items_or_none(field) or ()):
                raise InvalidInput(f"cannot read the request: {field!r} must be an array of names")
        value = document.raw("filter")
        value = True if value is None else value
        wanted = read_filter(value, schema, is_case_sensitive=is_sensitive)
        scan = replace(scan, resolved=replace(scan.resolved, schema=schema), filter=wanted, service=None)
        return scan, Residuals(value, schema, is_case_sensitive=is_sensitive)

    def fetch(self, call: Call) -> Answer:
        """The result of a plan, as long as it is kept. ``NoSuchPlan`` later, and for a plan that was cancelled."""
        self._lake.catalog.load(call.table)
        return Answer(status=200, body=self._find(call.table, call.path["plan-id"]).body)

    def cancel(self, call: Call) -> Answer:
        """Forget what is kept of a plan of the table. One that has expired needs nothing more."""
        table, plan_id = call.table, call.path["plan-id"]
        self._lake.catalog.load(table)
        with self._lock:
            found = self._parts.items()
            for key in [key for key, part in found if part.plan_id == plan_id and part.table == table]:
                self._forget(key)
        return NOTHING

    def tasks(self, call: Call) -> Answer:
        """The files of one plan task. It may be fetched again. Raises ``NoSuchPlanTask`` if it is not kept."""
        task = call.document().string("plan-task")
        self._lake.catalog.load(call.table)
        return Answer(status=200, body=self._find(call.table, task, NoSuchPlanTask).body)

    def _find(self, table: TableName, name: str, missing: type[EskerError] = NoSuchPlan) -> _Part:
        with self._lock:
            self._tidy()
            part = self._parts.get(name)
        if part is None or part.table != table:
            what = "plan" if missing is NoSuchPlan else "plan task"
            raise missing(f"cannot find the {what}: it has expired, or it never existed; plan the scan again")
        return part

    def _keep(self, table: TableName, plan_id: str, bodies: Mapping[str, bytes]) -> None:
        with self._lock:
            self._tidy()
            for name, body in bodies.items():
                self._parts[name] = _Part(table, plan_id, body, self._now() + _KEPT_S)
                self._bytes += len(body)
            while self._bytes > _MOST_BYTES and next(iter(self._parts)) not in bodies:
                self._forget(next(iter(self._parts)))

    def _tidy(self) -> None:
        while self._parts and (oldest := next(iter(self._parts.items())))[1].until < self._now():
            self._forget(oldest[0])

    def _forget(self, name: str) -> None:
        self._bytes -= len(self._parts.pop(name).body)
