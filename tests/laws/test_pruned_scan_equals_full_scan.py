"""Pruning never changes an answer: whole tables with their rows as oracle (checklist N9).

Long runs: ``HYPOTHESIS_PROFILE=thorough pytest tests/laws/test_pruned_scan_equals_full_scan.py``.
"""

from __future__ import annotations

from typing import Any

from delete_strategies import with_deletes
from held_rows import held_rows, telling
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from query_strategies import queries, spelt
from row_oracle import row_truth
from schema_strategies import KEY
from table_strategies import Story, stories

from esker.model.predicates.unbound_predicate import Unbound
from esker.model.schema import Schema
from esker.read.scan import Scan

# Each example is a table: fewer of them in a quick run, as many as the profile says in a short or a long one.
EXAMPLES = settings(max_examples=50 if settings.default.max_examples == 100 else settings.default.max_examples)

QUESTIONS = 4  # making a table costs more than asking it


def in_order(rows: list[dict[int, Any]]) -> list[Any]:
    return [telling(row) for row in sorted(rows, key=lambda row: row[KEY.id])]


def assert_answers(scan: Scan, schema: Schema, expected: list[dict[int, Any]]) -> None:
    found = in_order(held_rows(schema, scan.to_arrow()))
    assert found == in_order(expected)
    assert scan.count() == len(expected)


def ask(draw: st.DataObject, story: Story) -> None:
    """A whole scan, then some filtered ones, against the rows themselves."""
    rows = story.live_rows()
    table = story.maker.table()
    whole = table.scan()
    assert_answers(whole, story.schema, rows)
    assert whole.plan().funnel.files_total == len(story.files)
    for _ in range(QUESTIONS):
        predicate: Unbound = draw.draw(queries(story.schema, rows))
        where = spelt(predicate, draw.draw(st.sampled_from(["sql", "python", "as it is"])))
        note(f"where {where!r}")
        scan = table.scan(where)
        expected = [row for row in rows if row_truth(predicate, row, story.schema) is True]
        assert_answers(scan, story.schema, expected)
        funnel = scan.plan().funnel
        assert funnel.files_total == len(story.files) or story.version == 1  # whose lists may not count
        event(f"{bool(expected)} rows, {'some' if funnel.files_kept < funnel.files_total else 'no'} files pruned")
    wanted = draw.draw(st.lists(st.sampled_from([f for f in story.schema if "." not in f.name]), unique=True))
    part = Schema(fields=(KEY, *(f for f in wanted if f.id != KEY.id)))
    projected = table.scan(where, columns=[f.name for f in part])
    assert_answers(projected, part, [{f.id: row[f.id] for f in part} for row in expected])


@EXAMPLES
@given(stories(), st.data())
def test_n9_a_pruned_scan_equals_a_full_scan(story: Story, data: st.DataObject) -> None:
    ask(data, story)


@EXAMPLES
@given(with_deletes(stories(versions=(2, 3))), st.data())
def test_n9_a_pruned_scan_equals_a_full_scan_whatever_was_deleted(story: Story, data: st.DataObject) -> None:
    ask(data, story)
