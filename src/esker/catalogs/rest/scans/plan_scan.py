"""One plan on the server: ask for it, wait for it, fetch every task of it. A plan comes whole or raises.

A server that refuses before it answers is reported as ``Refused``; then the caller may plan itself. After the first
answer nothing is replaced by a guess: a plan that fails, is cancelled, expires or is not as the protocol has it raises.
A plan that is given up is cancelled on the server.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from esker.catalogs.rest.loaded import credentials_in
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans.filter_documents import filter_document
from esker.catalogs.rest.scans.planned_files import TasksDocument, planned_files, tasks_in
from esker.catalogs.rest.server_errors import error_in
from esker.catalogs.rest.service import RestService, Sleep
from esker.catalogs.rest.transport import Answer
from esker.errors import Corrupt, EskerError, NoSuchTable, StorageFailed
from esker.model.table_names import TableName
from esker.ports.credentials import StorageCredentials
from esker.ports.scan_service import PlannedFile, ScanQuestion

_REFUSALS = frozenset((400, 405, 406, 501))
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0
_TIMEOUT_MS = 300_000
_AT_ONCE = 8


class Refused(Exception):
    """The server answered that it does not plan this scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePlan:
    """Every file of a scan, and credentials to read the files with where the server sent some."""

    files: tuple[PlannedFile, ...]
    plan_id: str | None
    credentials: tuple[StorageCredentials, ...] = ()


class Planning:
    """One plan that is under way."""

    def __init__(
        self, service: RestService, name: TableName, question: ScanQuestion, *, sleep: Sleep = time.sleep
    ) -> None:
        self._service = service
        self._name = name
        self._question = question
        self._sleep = sleep
        self._doing = f"plan a scan of {name}"
        self._source = f"the answer of {service.address} for {name}"
        self._plan_id: str | None = None

    def run(self) -> WholePlan:
        """The whole plan. Raises ``Refused`` where the server does not plan, and an error where it fails."""
        first = self._submit()
        self._plan_id = first.plan_id
        try:
            done = self._completed(first)
            files = planned_files(done, self._question.metadata, self._source)
            files += self._fetched(done.plan_tasks or ())
        except BaseException:  # also where the user stops it: the server need not go on
            self._cancel()
            raise
        _check_once(files, self._source)
        location = self._question.metadata.location
        credentials = credentials_in(self._source, done.storage_credentials, {}, location)
        return WholePlan(files=tuple(files), plan_id=self._plan_id, credentials=credentials)

    # ------------------------------------------------------------ the steps

    def _submit(self) -> TasksDocument:
        try:
            answer = self._service.ask(Operation.PLAN_SCAN, self._name, self._doing, body=plan_request(self._question))
        except EskerError as error:
            if error.facts.get("status") in _REFUSALS:
                raise Refused(error.message) from None
            raise
        if answer.status == 404:
            raise self._gone(answer)
        return tasks_in(answer.body, self._source)

    def _completed(self, first: TasksDocument) -> TasksDocument:
        """The completed plan; the server is asked until it is."""
        document = first
        ends = (
            time.monotonic() + self._service.settings.number("rest-scan-planning.poll-timeout-ms", _TIMEOUT_MS) / 1000
        )
        wait = _FIRST_WAIT_S
        while document.status == "submitted":
            if self._plan_id is None:
                raise Corrupt(self._source, "the plan is submitted and has no plan-id")
            if time.monotonic() + wait > ends:
                raise StorageFailed(
                    f"cannot {self._doing}: the plan is not ready in time; try again, or raise the property "
                    "rest-scan-planning.poll-timeout-ms",
                    retryable=True,
                    operation=self._doing,
                    reason="the plan is not ready",
                )
            self._sleep(wait)
            answer = self._service.ask(Operation.FETCH_PLAN, self._name, self._doing, plan_id=self._plan_id)
            if answer.status == 404:
                raise self._gone(answer)
            wait = answer.wait_s(min(wait * 2, _LONGEST_WAIT_S))
            document = tasks_in(answer.body, self._source)
        if document.status != "completed":
            raise self._failed(document)
        return document

    def _fetched(self, waiting: Sequence[str]) -> list[PlannedFile]:
        """The files of all plan tasks. A task may lead to further tasks."""
        found: list[PlannedFile] = []
        seen: set[str] = set()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="esker-plan") as pool:
            while waiting:
                if len(seen.union(waiting)) != len(seen) + len(waiting):
                    raise Corrupt(self._source, "the plan names the same plan task twice")
                seen.update(waiting)
                answers = list(pool.map(self._fetch, waiting))
                waiting = [task for one in answers for task in one.plan_tasks or ()]
                for one in answers:
                    found += planned_files(one, self._question.metadata, self._source)
        return found

    def _fetch(self, task: str) -> TasksDocument:
        answer = self._service.ask(Operation.FETCH_TASKS, self._name, self._doing, body={"plan-task": task})
        if answer.status == 404:
            raise self._gone(answer)
        return tasks_in(answer.body, self._source)

    def _cancel(self) -> None:
        if self._plan_id is None or not self._service.offers(Operation.CANCEL_PLAN):
            return
        with suppress(EskerError):  # what fails here must not hide why the plan was given up
            self._service.tell(Operation.CANCEL_PLAN, self._name, None, resend=False, plan_id=self._plan_id)

    # ------------------------------------------------------------ errors

    def _failed(self, document: TasksDocument) -> EskerError:
        if document.status not in ("failed", "cancelled"):
            return Corrupt(self._source, f"the plan has the status {str(document.status)[:40]!r}")
        said = error_in(Answer(status=200, body=msgspec.json.encode(document.error or {})), self._service.secrets)
        why = ": ".join(part for part in (said.kind, said.message) if part)
        text = f"cannot {self._doing}: the REST catalog at {self._service.address} says that the plan is "
        return StorageFailed(
            f"{text}{document.status}{f' ({why})' if why else ''}; try again",
            retryable=True,
            operation=self._doing,
            reason=f"the plan is {document.status}",
        )

    def _gone(self, answer: Answer) -> EskerError:
        said = error_in(answer, self._service.secrets)
        if "NoSuchTable" in said.kind or "NoSuchNamespace" in said.kind:
            return NoSuchTable(f"cannot {self._doing}: {said}", table=str(self._name))
        return StorageFailed(
            f"cannot {self._doing}: the plan, or a task of it, has expired on the server ({said}); try again",
            retryable=True,
            operation=self._doing,
            reason="the plan has expired",
        )


def plan_request(question: ScanQuestion) -> dict[str, Any]:
    """The body of the request. Only columns that have one name in both schemas are named: the server may use the
    snapshot's own schema, or the current one."""
    metadata, snapshot = question.metadata, question.snapshot
    own = metadata.schema if snapshot.schema_id is None else metadata.schema_by_id.get(snapshot.schema_id)
    schemas = [question.schema, metadata.schema, *([] if own is None else [own])]
    names = {
        id_: name
        for id_, name in question.schema.name_by_id.items()
        if all(schema.name_by_id.get(id_) == name for schema in schemas)
    }
    return {
        "snapshot-id": snapshot.snapshot_id,
        "case-sensitive": True,
        "use-snapshot-schema": question.schema.schema_id != metadata.current_schema_id,
        "filter": filter_document(question.filter, names),
    }


def _check_once(files: Sequence[PlannedFile], source: str) -> None:
    seen: set[str] = set()
    for one in files:
        if one.data_file.path in seen:
            raise Corrupt(source, f"the plan lists {one.data_file.path} twice")
        seen.add(one.data_file.path)
