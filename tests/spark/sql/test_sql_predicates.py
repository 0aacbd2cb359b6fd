"""Conditions of Spark SQL as Esker's predicates: the session's zone, kinds of literals, nulls."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_spelling import CannotSpell, as_sql
from predicate_strategies import TYPES, pools, predicates

from esker.errors import EskerError, InvalidInput
from esker.model.evolution.nested_fields import fresh_schema
from esker.model.parsing.column_definitions import parse_columns
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.predicate import FALSE, conjuncts
from esker.model.predicates.unbound_predicate import AllOf, Unbound
from esker.model.schema import Schema
from esker.model.types import Field, Type
from esker.spark.expressions.spark_predicate import Reading, instant_of, predicate_of, rejects_nulls
from esker.spark.sql.grammar.table_references import find_references, parse_query
from esker.spark.sql.queries.prune_conditions import find_conditions

NEW_YORK = Reading(zone="America/New_York", strict=True)
SCHEMA = fresh_schema(
    Schema(
        fields=parse_columns(
            "i int, f double, s string, d date, ts timestamp, ntz timestamp_ntz, u uuid, b binary, t time, yes boolean"
        )
    )
)


def bound(text: str, reading: Reading = NEW_YORK) -> str:
    return to_sql(bind(predicate_of(text, SCHEMA, reading), SCHEMA))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("ts >= '2026-01-01'", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= '2026-07-01 12:30:00'", "ts >= TIMESTAMP '2026-07-01 16:30:00+00:00'"),
        ("ts >= '2026-01-01 00:00:00+02:00'", "ts >= TIMESTAMP '2025-12-31 22:00:00+00:00'"),
        ("ts >= '2026-01-01 00:00:00Z'", "ts >= TIMESTAMP '2026-01-01 00:00:00+00:00'"),
        ("ts >= timestamp '2026-01-01 00:00:00'", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= timestamp_ltz '2026-01-01 00:00:00'", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= cast('2026-01-01 00:00:00' as timestamp)", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= timestamp('2026-01-01 00:00:00')", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= timestamp_ntz '2026-01-01 00:00:00'", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts >= date '2026-01-01'", "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("'2026-01-01' < ts", "ts > TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        (
            "ts between date '2026-01-01' and '2026-07-02'",
            "ts >= TIMESTAMP '2026-01-01 05:00:00+00:00' AND ts <= TIMESTAMP '2026-07-02 04:00:00+00:00'",
        ),
        ("not (ts = '2026-01-01')", "ts <> TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ts in ('2026-01-01', null)", "ts = TIMESTAMP '2026-01-01 05:00:00+00:00'"),
        ("ntz >= '2026-01-01'", "ntz >= TIMESTAMP_NTZ '2026-01-01 00:00:00'"),
        ("ntz >= date '2026-01-01'", "ntz >= TIMESTAMP_NTZ '2026-01-01 00:00:00'"),
        ("d >= '2026-01-01'", "d >= DATE '2026-01-01'"),
    ],
)
def test_times_without_a_zone_are_the_sessions(text: str, meaning: str) -> None:
    assert bound(text) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "ntz >= timestamp '2026-01-01 00:00:00'",
        "ntz >= '2026-01-01 00:00:00+02:00'",
        "d >= timestamp '2026-01-01 00:00:00'",
        "ts >= 'next week'",
        "i = '5'",
        "s = 5",
        "yes = 1",
        "f = '0.5'",
        "u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'",
        "t = '12:00:00'",
        "b = 'x'",
    ],
)
def test_what_depends_on_settings_of_the_session_prunes_nothing(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot compare column"):
        predicate_of(text, SCHEMA, NEW_YORK)


def test_a_session_in_utc_leaves_no_doubt_about_times() -> None:
    utc = Reading(zone="UTC", strict=True)
    assert bound("ntz >= timestamp '2026-01-01 00:00:00'", utc) == "ntz >= TIMESTAMP_NTZ '2026-01-01 00:00:00'"
    assert bound("ts >= '2026-01-01'", utc) == "ts >= TIMESTAMP '2026-01-01 00:00:00+00:00'"


def test_a_delete_takes_literals_of_other_kinds_and_the_alias_of_its_table() -> None:
    lenient = Reading(zone="UTC")
    found = predicate_of("o.i = 5 and O.s = 'x' and f > 1", SCHEMA, lenient, ["o"])
    assert to_sql(bind(found, SCHEMA)) == "i = 5 AND s = 'x' AND f > 1.0D"
    with pytest.raises(InvalidInput, match=r"p\.i"):
        predicate_of("p.i = 5", SCHEMA, lenient, ["o"])


@pytest.mark.parametrize(
    ("text", "rejects"),
    [
        ("i = 5", True),
        ("not i = 5", True),
        ("i is null", False),
        ("not i is null", True),
        ("i <=> null", False),
        ("i <=> 5", True),
        ("not (i <=> 5)", False),
        ("i = 5 or s is null", False),
        ("i = 5 and s is null", True),
        ("not (i = 5 and s is not null)", False),
        ("isnan(f)", True),
        ("not isnan(f)", False),
        ("true", False),
        ("s like 'a%'", True),
    ],
)
def test_a_term_rejects_nulls_unless_a_row_of_nulls_meets_it(text: str, rejects: bool) -> None:
    assert rejects_nulls(parse(text)) is rejects


@given(
    wall=st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),
    zone=st.sampled_from(["America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "+05:30", "-08"]),
)
def test_an_instant_shows_the_wall_clock_it_was_made_of_unless_it_was_skipped(
    wall: datetime.datetime, zone: str
) -> None:
    epoch = datetime.datetime(1970, 1, 1)
    nanos = (wall - epoch) // datetime.timedelta(microseconds=1) * 1000
    utc = epoch + datetime.timedelta(microseconds=instant_of(nanos, zone) // 1000)
    if zone[0] in "+-":
        assert (
            abs(utc - wall) == datetime.timedelta(hours=5, minutes=30) if ":" in zone else datetime.timedelta(hours=8)
        )
        return
    local = utc.replace(tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
    skipped = local - wall
    assert datetime.timedelta() <= skipped <= datetime.timedelta(hours=2)


def test_an_unknown_zone_is_said() -> None:
    with pytest.raises(InvalidInput, match="the session's time zone 'Mars/Base' is not known here"):
        instant_of(0, "Mars/Base")


# ---------------------------------------------------------------- sqlglot keeps what was said


def _through_sqlglot(text: str, schema: Schema) -> list[str]:
    """The conditions on the one table of a query, as they come out of sqlglot's tree."""
    query = f"SELECT * FROM t AS q WHERE ({text})"
    tree = parse_query(query)
    references = find_references(tree, query)
    return [one.text for found in find_conditions(tree, references, lambda _: schema).values() for one in found]


@settings(max_examples=100)
@given(data=st.data(), type_=st.sampled_from(TYPES))
def test_a_condition_read_through_sqlglot_means_what_was_written(data: st.DataObject, type_: Type) -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    wanted = data.draw(predicates(type_, data.draw(pools(type_))))
    try:
        text = as_sql(wanted)
        written = bind(parse(text), schema)
    except (CannotSpell, EskerError):
        return
    terms = [_parsed(term) for term in _through_sqlglot(text, schema)]
    if None in terms or not terms or written == FALSE:  # what cannot be read, or names no column, prunes nothing
        return
    found = bind(AllOf(tuple(term for term in terms if term is not None)), schema)
    assert {to_sql(part) for part in conjuncts(found)} == {to_sql(part) for part in conjuncts(written)}


def _parsed(text: str) -> Unbound | None:
    try:
        return parse(text)
    except EskerError:
        return None
