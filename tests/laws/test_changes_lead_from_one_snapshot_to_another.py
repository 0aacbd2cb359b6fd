"""A change feed is the difference: applied to the rows of one snapshot it gives the rows of another.

Histories are random and wilder than any writer's: every snapshot lists some of the manifests there are, so that data
and deletes come, go and come back.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from change_feeds import applied, is_minimal, rows_at
from delete_strategies import with_deletes
from history_strategies import histories
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from query_strategies import queries, spelt
from table_strategies import Story, stories

from esker.table import Table

EXAMPLES = settings(max_examples=50 if settings.default.max_examples == 100 else settings.default.max_examples)


def check(draw: st.DataObject, story: Story) -> None:
    table = story.maker.table()
    snapshots = list(table.snapshots)
    states = [None, *snapshots]
    for before, after in pairwise(states):
        feed = table.scan_changes(None if before is None else before.snapshot_id, after.snapshot_id)
        assert_leads(table, before, after, feed)
        assert is_minimal(feed)
    first = draw.draw(st.sampled_from(states))
    last = draw.draw(st.sampled_from(snapshots[states.index(first) - 1 if first else 0 :]))
    assert_leads(table, first, last, table.scan_changes(first and first.snapshot_id, last.snapshot_id))
    where = spelt(draw.draw(queries(story.schema, story.live_rows())), draw.draw(st.sampled_from(["sql", "as it is"])))
    note(f"where {where!r}")
    assert_leads(table, first, last, table.scan_changes(first and first.snapshot_id, last.snapshot_id, where), where)


def assert_leads(table: Table, before: Any, after: Any, feed: Any, where: Any = None) -> None:
    schema = feed.range.schema
    start, end = (rows_at(table, snapshot, schema, where) for snapshot in (before, after))
    note(f"{feed.plan()}")
    assert applied(start, feed) == end
    changes = feed.to_arrow().num_rows
    assert feed.count() == changes
    event(f"{'some' if changes else 'no'} changes")


@EXAMPLES
@given(histories(stories()), st.data())
def test_a_feed_leads_from_one_snapshot_to_another(story: Story, data: st.DataObject) -> None:
    check(data, story)


@EXAMPLES
@given(histories(with_deletes(stories(versions=(2, 3)))), st.data())
def test_a_feed_leads_from_one_snapshot_to_another_whatever_deletes_do(story: Story, data: st.DataObject) -> None:
    check(data, story)
