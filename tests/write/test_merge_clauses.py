"""A merge as it is put together, before any engine sees it."""

from __future__ import annotations

from typing import Any

import pytest

from esker.errors import InvalidInput
from esker.ports.row_changes import RowChange, Side, SqlText
from esker.write.rows.row_change_verbs import Merge


def merge(plans: list[RowChange] | None = None, source: Any = "rows") -> Merge:
    return Merge.of(source, "t.id = s.id", lambda plan: None if plans is None else plans.append(plan))


def test_clauses_keep_their_order_and_a_merge_can_be_continued_twice() -> None:
    plans: list[RowChange] = []
    first = merge(plans).when_matched_update({"a": "s.a || '{x}'"}, "s.b > 1").when_matched_delete()
    first.when_not_matched_insert().commit()
    first.when_not_matched_by_source_delete("t.a = 1").commit()
    assert [[clause.side for clause in plan.clauses] for plan in plans] == [
        [Side.MATCHED, Side.MATCHED, Side.NOT_MATCHED],
        [Side.MATCHED, Side.MATCHED, Side.NOT_MATCHED_BY_SOURCE],
    ]


def test_braces_of_a_users_text_are_no_frames() -> None:
    assert SqlText.plain("a = '{x}'").text == "a = '{{x}}'"
    assert SqlText.plain("a = '{x}'").shown == "a = '{x}'"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: merge(source=None), "cannot merge nothing"),
        (lambda: merge().when_matched_update("all"), "cannot set columns to 'all'"),
        (lambda: merge().when_matched_update({}), "cannot set no columns"),
        (lambda: merge().when_matched_update({"a": 5}), "cannot take 5 as the value of 'a'"),
        (lambda: merge().when_matched_delete(""), "cannot take '' as a condition"),
        (lambda: merge().when_not_matched_by_source_update("*"), "give its values"),
        (lambda: merge().commit(), "cannot merge without a clause"),
    ],
)
def test_what_cannot_be_a_merge_is_said_at_once(build: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()
