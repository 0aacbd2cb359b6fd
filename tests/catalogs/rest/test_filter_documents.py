"""Filters as a server gets them: they select every row that the filter selects, by Iceberg's rules and by Spark's."""

from __future__ import annotations

from typing import Any

import pytest

from esker.catalogs.rest.scans.filter_documents import filter_document
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind
from esker.model.schema import Schema
from esker.model.types import BINARY, DATE, DOUBLE, LONG, STRING, TIMESTAMP_NS, DecimalType, Field
from esker.serve.scan_documents import read_filter

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="day", type=DATE),
        Field(id=4, name="score", type=DOUBLE),
        Field(id=5, name="price", type=DecimalType(9, 2)),
        Field(id=6, name="raw", type=BINARY),
        Field(id=7, name="ns", type=TIMESTAMP_NS),
    )
)


def sent(where: str, *names: str) -> Any:
    known = {id_: name for id_, name in SCHEMA.name_by_id.items() if not names or name in names}
    return filter_document(bind(parse(where), SCHEMA), known)


def test_terms_are_written_as_the_protocol_has_them() -> None:
    assert sent("id = 5") == {"type": "eq", "term": "id", "value": 5}
    assert sent("day < DATE '2026-02-03'") == {"type": "lt", "term": "day", "value": "2026-02-03"}
    assert sent("price >= 1.5") == {"type": "gt-eq", "term": "price", "value": "1.50"}
    assert sent("id IN (2, 1)") == {"type": "in", "term": "id", "values": [1, 2]}
    assert sent("name LIKE 'ab%'") == {"type": "starts-with", "term": "name", "value": "ab"}
    assert sent("name IS NULL OR id = 1") == {
        "type": "or",
        "left": {"type": "is-null", "term": "name"},
        "right": {"type": "eq", "term": "id", "value": 1},
    }
    assert sent("true") is True
    assert sent("id = 1 AND false") is False


def test_a_negated_test_says_that_null_is_not_meant() -> None:
    present = {"type": "not-null", "term": "id"}
    assert sent("id != 5") == {"type": "and", "left": present, "right": {"type": "not-eq", "term": "id", "value": 5}}
    assert sent("id NOT IN (1, 2)")["left"] == present


def test_floats_are_compared_with_care() -> None:
    nan = {"type": "is-nan", "term": "score"}
    assert sent("score > 5") == {"type": "or", "left": {"type": "gt", "term": "score", "value": 5.0}, "right": nan}
    assert sent("score >= 5")["right"] == nan
    assert sent("score < 5") == {"type": "lt", "term": "score", "value": 5.0}
    for zero in ("score = 0", "score >= 0.0", "score < -0.0", "score IN (0, 1)"):
        assert sent(zero) is True


@pytest.mark.parametrize(
    "where", ["raw = X'00'", "ns > TIMESTAMP_NTZ '2026-01-01'", "name LIKE '%b'", "name NOT LIKE 'a%b'"]
)
def test_what_cannot_be_said_is_left_out(where: str) -> None:
    assert sent(where) is True
    assert sent(f"id = 1 AND {where}") == {"type": "eq", "term": "id", "value": 1}
    assert sent(f"id = 1 OR {where}") is True


def test_a_column_that_the_server_may_know_otherwise_is_left_out() -> None:
    assert sent("id = 1 AND name = 'a'", "id") == {"type": "eq", "term": "id", "value": 1}


def test_many_parts_stay_flat() -> None:
    document = sent(" OR ".join(f"(id = {n} AND name = '{n}')" for n in range(500)))

    def depth(one: Any) -> int:
        return 1 + max((depth(one[side]) for side in ("left", "right") if side in one), default=0)

    assert depth(document) < 20
    assert read_filter(document, SCHEMA) == bind(
        parse(" OR ".join(f"(id = {n} AND name = '{n}')" for n in range(500))), SCHEMA
    )
