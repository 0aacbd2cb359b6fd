"""A plan of the catalog never changes an answer: whole tables with their rows as oracle, every request and every plan
through the protocol's own documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from delete_strategies import with_deletes
from held_rows import held_rows, telling
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from query_strategies import queries
from row_oracle import row_truth
from schema_strategies import KEY
from served_scans import ServedLocally
from table_strategies import Story, stories

from esker.catalogs.rest.scans.filter_documents import filter_document
from esker.model.predicates.predicate import TRUE
from esker.model.predicates.unbound_predicate import Unbound
from esker.ports.engine import ReadRequest, ScanTask
from esker.read.scan import Scan
from esker.serve.scan_documents import Residuals, read_filter, task_documents

EXAMPLES = settings(max_examples=40 if settings.default.max_examples == 100 else settings.default.max_examples)
QUESTIONS = 4


def in_order(rows: list[dict[int, Any]]) -> list[Any]:
    return [telling(row) for row in sorted(rows, key=lambda row: row[KEY.id])]


def ask(draw: st.DataObject, story: Story) -> None:
    rows = story.live_rows()
    table = story.maker.table()
    service = ServedLocally(table.scan())
    for number in range(QUESTIONS):
        predicate: Unbound | None = draw.draw(queries(story.schema, rows)) if number else None
        note(f"where {predicate!r}")
        scan = replace(table.scan(predicate), service=service)
        expected = [row for row in rows if predicate is None or row_truth(predicate, row, story.schema) is True]
        assert in_order(held_rows(story.schema, scan.to_arrow())) == in_order(expected)
        assert scan.count() == len(expected)
        assert scan.plan().planner == "a test"
        kept = scan.plan().funnel.files_kept
        event(f"{bool(expected)} rows, {'some' if kept < len(story.files) else 'no'} files pruned")


@EXAMPLES
@given(stories(), st.data())
def test_a_served_plan_gives_the_rows_of_a_local_plan(story: Story, data: st.DataObject) -> None:
    ask(data, story)


@EXAMPLES
@given(with_deletes(stories(versions=(2, 3))), st.data())
def test_a_served_plan_gives_the_rows_of_a_local_plan_whatever_was_deleted(story: Story, data: st.DataObject) -> None:
    ask(data, story)


def read(scan: Scan, tasks: list[ScanTask]) -> list[Any]:
    schema = scan.projection
    request = ReadRequest(metadata=scan.metadata, tasks=tasks, row_schema=scan.resolved.schema, projection=schema)
    table = pa.Table.from_batches(scan.engine.read(request), scan.engine.arrow_schema(schema))
    return in_order(held_rows(schema, table))


@EXAMPLES
@given(with_deletes(stories(versions=(2, 3))), st.data())
def test_a_client_that_applies_the_residual_of_each_file_has_the_rows_of_the_whole_filter(
    story: Story, data: st.DataObject
) -> None:
    scan = story.maker.table().scan()
    schema = scan.resolved.schema
    rows = story.live_rows()
    for _ in range(QUESTIONS):
        asked = story.maker.table().scan(data.draw(queries(story.schema, rows))).filter
        document = filter_document(asked, schema.name_by_id)
        note(f"where {document!r}")
        wanted = read_filter(document, schema)
        tasks = list(replace(scan, filter=wanted).plan().tasks)
        planned = task_documents(tasks, scan.metadata, Residuals(document, schema))["file-scan-tasks"]
        left = [read_filter(one["residual-filter"], schema) for one in planned]
        ours = [replace(task, residual=residual) for task, residual in zip(tasks, left, strict=True)]
        whole = [replace(task, residual=wanted) for task in scan.plan().tasks]
        assert read(scan, ours) == read(scan, whole)
        if wanted != TRUE:
            event(f"some residual is true: {TRUE in left}, some is a part: {not set(left) <= {TRUE, wanted}}")
