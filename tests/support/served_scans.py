"""The server's side of scan planning without a server, for tests: the documents are those of ``esker serve``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from esker.catalogs.rest.scans.plan_scan import plan_request
from esker.catalogs.rest.scans.planned_files import planned_files, tasks_in
from esker.ports.engine import ScanTask
from esker.ports.scan_service import NotServed, ScanQuestion, ServedPlan
from esker.read.scan import Scan
from esker.serve.scan_documents import read_filter, task_documents


def planned(request: Mapping[str, Any], scan: Scan) -> Sequence[ScanTask]:
    """What a request asks for. ``scan`` is a scan of the whole table at the right snapshot."""
    own = scan.metadata.schema_by_id[scan.resolved.snapshot.schema_id or 0] if scan.resolved.snapshot else None
    schema = own if request["use-snapshot-schema"] and own is not None else scan.metadata.schema
    resolved = replace(scan.resolved, schema=schema)
    return replace(scan, resolved=resolved, filter=read_filter(request["filter"], schema), service=None).plan().tasks


@dataclass
class ServedLocally:
    """A scan service without a server: every request and every answer goes through JSON."""

    scan: Scan
    reports: list[Mapping[str, int]] = field(default_factory=list)

    def plan(self, question: ScanQuestion) -> ServedPlan | NotServed:
        request = json.loads(json.dumps(plan_request(question)))
        answer = json.dumps(task_documents(planned(request, self.scan), question.metadata)).encode()
        document = tasks_in(answer, "the plan")
        return ServedPlan(files=tuple(planned_files(document, question.metadata, "the plan")), by="a test")

    def clock_ns(self) -> int:
        return 0

    def report(self, question: ScanQuestion, counts: Mapping[str, int], duration_ns: int) -> None:
        self.reports.append(counts)
