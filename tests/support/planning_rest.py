"""A REST catalog that plans scans. It plans with Esker's own planner: it is there for the protocol and its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from faulty_rest import FaultyRest, Route, error
from served_scans import planned

from esker.catalogs.rest.operations import Operation
from esker.model.predicates.predicate import TRUE
from esker.ports.storage import Storage
from esker.read.resolve_snapshot import resolve_snapshot
from esker.read.scan import Scan
from esker.serve.scan_documents import task_documents
from esker.storage.local import LocalStorage
from esker.wiring import workings_on

PLANNING = (Operation.PLAN_SCAN, Operation.FETCH_PLAN, Operation.CANCEL_PLAN, Operation.FETCH_TASKS)


@dataclass
class PlanningRest(FaultyRest):
    """Plans with ``polls`` answers "submitted" first, and ``page`` files to a plan task; 0 sends all at once."""

    polls: int = 0
    page: int = 0
    alter: Callable[[dict[str, Any]], Any] | None = None  # changes each answer that has tasks
    storage: Storage | None = None  # what it reads manifests with, where they are not on this machine
    credentials: list[Any] = field(default_factory=list)
    waiting: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def offer(self, *left_out: Operation) -> None:
        """Advertise all operations, except some."""
        self.config["endpoints"] = [one.value for one in Operation if one not in left_out]

    def inside(self, method: str, namespace: str, rest: list[str], headers: dict[str, str], body: Any) -> Any:
        match method, rest:
            case "POST", ["tables", name, "plan"]:
                return self.plan((namespace, name), body)
            case "GET", ["tables", _, "plan", id_] if id_ in self.waiting:
                return self.polled(id_)
            case "DELETE", ["tables", _, "plan", id_]:
                self.cancelled.append(id_)
                return 204, None
            case "POST", ["tables", _, "tasks"] if body["plan-task"] in self.pages:
                return 200, self.altered(self.pages.pop(body["plan-task"]))
            case _, ["tables", _, ("plan" | "tasks"), *_]:
                return error(404, "NoSuchPlanTaskException", "the plan is gone")
            case _:
                return super().inside(method, namespace, rest, headers, body)

    def plan(self, route: Route, request: dict[str, Any]) -> tuple[int, Any]:
        metadata = self.tables[route]
        workings = workings_on(self.storage or LocalStorage(roots=[self.warehouse]))
        resolved = resolve_snapshot(metadata, snapshot_id=request["snapshot-id"])
        whole = Scan(
            metadata=metadata,
            table_format=workings.format,
            engine=workings.engine,
            resolved=resolved,
            filter=TRUE,
            projection=metadata.schema,
        )
        tasks = planned(request, replace(whole))
        size = self.page or len(tasks) or 1
        parts = [tasks[at : at + size] for at in range(0, len(tasks), size)] or [()]
        answer: dict[str, Any] = task_documents(parts[0], metadata)
        names = []
        for part in parts[1:]:
            names.append(uuid4().hex)
            self.pages[names[-1]] = task_documents(part, metadata)
        # the second task leads to the others: tasks of tasks are allowed
        answer["plan-tasks"] = names[:1]
        if names[1:]:
            self.pages[names[0]]["plan-tasks"] = names[1:]
        plan_id = uuid4().hex
        answer |= {"status": "completed", "storage-credentials": self.credentials}
        if not self.polls:
            return 200, self.altered({**answer, "plan-id": plan_id})
        self.waiting[plan_id] = self.polls, answer
        return 200, {"status": "submitted", "plan-id": plan_id}

    def polled(self, id_: str) -> tuple[int, Any]:
        left, answer = self.waiting[id_]
        if left > 1:
            self.waiting[id_] = left - 1, answer
            return 200, {"status": "submitted"}
        return 200, self.altered(answer)

    def altered(self, answer: dict[str, Any]) -> Any:
        return answer if self.alter is None else self.alter(answer)
