"""The server's side of scan planning, for tests: it reads a request as Iceberg's own servers do, plans with Esker's own
planner, and writes the answer as the protocol has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from esker.catalogs.rest.scans.plan_scan import plan_request
from esker.catalogs.rest.scans.planned_files import planned_files, tasks_in
from esker.iceberg.metadata.single_values import decode_single_value, encode_single_value
from esker.model.partition_and_sort import partition_value_type
from esker.model.predicates.predicate import (
    Always,
    Bound,
    Compare,
    IsNaN,
    IsNull,
    OneOf,
    Op,
    StartsWith,
    all_of,
    any_of,
)
from esker.model.schema import Schema
from esker.ports.engine import ScanTask
from esker.ports.scan_service import NotServed, ScanQuestion, ServedPlan
from esker.read.scan import Scan
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

_OPS = {"eq": Op.EQ, "not-eq": Op.NE, "lt": Op.LT, "lt-eq": Op.LE, "gt": Op.GT, "gt-eq": Op.GE}
_CONTENTS = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}


def filter_in(document: Any, schema: Schema) -> Bound:
    """A filter of a request, with Iceberg's own meaning: a negated test selects null, too."""
    if isinstance(document, bool):
        return Always(document)
    kind = document["type"]
    if kind in ("and", "or"):
        parts = [filter_in(document[side], schema) for side in ("left", "right")]
        return all_of(parts) if kind == "and" else any_of(parts)
    column = schema.by_id[schema.id_by_name[document["term"]]]
    null = IsNull(column)

    def held(value: Any) -> Any:
        return decode_single_value(column.type, value)

    match kind:
        case "is-null" | "not-null":
            return IsNull(column, kind == "not-null")
        case "is-nan" | "not-nan":
            return IsNaN(column, kind == "not-nan")
        case "in" | "not-in":
            found = OneOf(column, frozenset(map(held, document["values"])), kind == "not-in")
            return any_of((found, null)) if kind == "not-in" else found
        case "starts-with":
            return StartsWith(column, document["value"])
        case "not-starts-with":
            return any_of((StartsWith(column, document["value"], True), null))
        case _:
            compared = Compare(column, _OPS[kind], held(document["value"]))
            return any_of((compared, null)) if kind == "not-eq" else compared


def file_document(file: DataFile, metadata: TableMetadata) -> dict[str, Any]:
    """A file, as the protocol writes it: without sequence numbers and statistics."""
    spec = metadata.spec_by_id[file.spec_id]
    types = [partition_value_type(part, metadata.any_field_by_id) for part in spec.fields]
    values = [encode_single_value(type_, value) for type_, value in zip(types, file.partition, strict=True)]
    found: dict[str, Any] = {
        "content": _CONTENTS[file.content],
        "file-path": file.path,
        "file-format": file.file_format,
        "spec-id": file.spec_id,
        "partition": values,
        "file-size-in-bytes": file.file_size,
        "record-count": file.record_count,
        "equality-ids": list(file.equality_ids),
        "first-row-id": file.first_row_id,
        "referenced-data-file": file.referenced_data_file,
        "content-offset": file.content_offset,
        "content-size-in-bytes": file.content_size,
    }
    return {name: value for name, value in found.items() if (value is not None and value != []) or name == "partition"}


def task_documents(tasks: Sequence[ScanTask], metadata: TableMetadata) -> dict[str, Any]:
    """Tasks of a plan as one answer: the deletes once, and each task with their numbers."""
    deletes: dict[Any, int] = {}
    listed: list[DataFile] = []
    found = []
    for task in tasks:
        numbers = []
        for one in task.deletes:
            key = (one.path, one.content_offset)
            if key not in deletes:
                deletes[key] = len(listed)
                listed.append(one)
            numbers.append(deletes[key])
        entry: dict[str, Any] = {"data-file": file_document(task.data_file, metadata)}
        found.append({**entry, "delete-file-references": numbers} if numbers else entry)
    return {"file-scan-tasks": found, "delete-files": [file_document(one, metadata) for one in listed]}


def planned(request: Mapping[str, Any], scan: Scan) -> Sequence[ScanTask]:
    """What a request asks for. ``scan`` is a scan of the whole table at the right snapshot."""
    own = scan.metadata.schema_by_id[scan.resolved.snapshot.schema_id or 0] if scan.resolved.snapshot else None
    schema = own if request["use-snapshot-schema"] and own is not None else scan.metadata.schema
    resolved = replace(scan.resolved, schema=schema)
    return replace(scan, resolved=resolved, filter=filter_in(request["filter"], schema), service=None).plan().tasks


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
