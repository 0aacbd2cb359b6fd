"""Converts a condition of Spark SQL to Esker's predicate, with the meaning that it has in the user's session.

When Spark converts text without a zone to an instant, it uses the session's time zone. Esker uses UTC. So instants are
computed here, as Java computes them for Spark. A comparison that depends on the zone in a way that no single instant
expresses is refused: pruning then ignores it, and DELETE reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from uuid import UUID

from esker.errors import InvalidInput
from esker.model.parsing.predicate_text import parse
from esker.model.parsing.tokens import Kind, Token, tokens_of
from esker.model.predicates.bind import bind, operand_type
from esker.model.predicates.literal import NANOS_PER_DAY, read_timestamp
from esker.model.predicates.predicate_sql import literal_sql
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Literal,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.schema import Schema
from esker.model.types import (
    TIMESTAMPTZ_NS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

_UTC = frozenset(("UTC", "GMT", "UT", "Z", "ETC/UTC", "ETC/GMT", "ETC/UCT", "ZULU", "+00:00", "-00:00", "UNIVERSAL"))
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_FIRST, _LAST = datetime(1, 1, 2), datetime(9999, 12, 30)


def is_utc(zone: str) -> bool:
    """Return whether the zone's clocks always show UTC."""
    return zone.strip().upper() in _UTC


def instant_of(wall_nanos: int, zone: str) -> int:
    """Return the nanoseconds from 1970 in UTC at which the zone's clocks show ``wall_nanos``.

    If clocks were set back, it is the earlier of the two times. If clocks were set forward, the skipped time is added.
    Java and Python (with ``fold=0``) do the same.
    """
    if is_utc(zone):
        return wall_nanos
    seconds, rest = divmod(wall_nanos, 1_000_000_000)
    try:
        wall = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        if not _FIRST <= wall <= _LAST:
            raise OverflowError
        ahead = _zone(zone).utcoffset(wall)
    except OverflowError:
        raise InvalidInput(f"cannot place a time so far off in the time zone {zone}") from None
    assert ahead is not None
    return (seconds - round(ahead.total_seconds())) * 1_000_000_000 + rest


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if match := _OFFSET.fullmatch(name.strip()):
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-ahead if match[1] == "-" else ahead)
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(f"the session's time zone {name!r} is not known here") from None


_NUMBERS = (IntType, LongType, FloatType, DoubleType, DecimalType)
_BYTES = (BinaryType, FixedType)
_INSTANT_WORDS = ("timestamp", "timestamp_ltz", "timestamptz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How conditions are read: the session's time zone, and whether a literal must have its column's own type."""

    zone: str
    strict: bool = False  # allow no conversion whose result depends on Spark's settings


def predicate_of(text: str, schema: Schema, reading: Reading, qualifiers: Iterable[str] = ()) -> Unbound:
    """Return the bound condition. Raises ``InvalidInput`` if Esker cannot evaluate it exactly as Spark does."""
    found = parse(text)  # first as written, so that an error has the right place in the text
    if not is_utc(reading.zone):
        found = parse(_with_zones(text, reading.zone))
    found = _mapped(found, lambda name: _unqualified(name, schema, tuple(qualifiers)))
    found = _suited(found, schema, reading)
    bind(found, schema)
    return found


def rejects_nulls(term: Unbound) -> bool:
    """Return whether a row of nulls never matches."""
    return _of_nulls(term) is not True


def _of_nulls(term: Unbound) -> bool | None:
    """Return the value of the term if every column is null, in three-valued logic."""
    match term:
        case Constant(value):
            return value
        case Comparison() | Among() | LikeTest():
            return None
        case Same(_, literal):
            return literal.type is None
        case NullTest():
            return True
        case NaNTest():
            return False
        case Not(part):
            inner = _of_nulls(part)
            return None if inner is None else not inner
        case AllOf(parts):
            found = [_of_nulls(part) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts):
            found = [_of_nulls(part) for part in parts]
            return True if True in found else None if None in found else False


def _with_zones(text: str, zone: str) -> str:
    """Return the text with TIMESTAMP literals, and casts to TIMESTAMP, as instants in UTC."""
    tokens = tokens_of(text)
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].kind is not Kind.STRING or not _means_instant(tokens, at):
            continue
        try:
            moment = read_timestamp(tokens[at].text)
        except ValueError:
            continue
        if moment.ahead is None:
            shown = literal_sql(TIMESTAMPTZ_NS, instant_of(moment.wall, zone)).removeprefix("TIMESTAMP ")
            text = text[: tokens[at].start] + shown + text[tokens[at].end + 1 :]
    return text


def _means_instant(tokens: list[Token], at: int) -> bool:
    """Return the text of ``TIMESTAMP '…'``, ``timestamp('…')`` or ``CAST('…' AS TIMESTAMP)``."""
    before = [token.word or token.text for token in tokens[max(0, at - 2) : at]]
    behind = [token.word or token.text for token in tokens[at + 1 : at + 3]]
    if before and before[-1] in _INSTANT_WORDS:
        return True
    if before[-1:] != ["("]:
        return False
    return before[0] in _INSTANT_WORDS or (len(behind) == 2 and behind[0] == "as" and behind[1] in _INSTANT_WORDS)


def _mapped(node: Unbound, rename: Callable[[Name], Name]) -> Unbound:
    match node:
        case Constant():
            return node
        case Not(part):
            return Not(_mapped(part, rename))
        case AllOf(parts):
            return AllOf(tuple(_mapped(part, rename) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_mapped(part, rename) for part in parts))
        case _:
            return replace(node, column=rename(node.column))


def _unqualified(name: Name, schema: Schema, qualifiers: tuple[str, ...]) -> Name:
    known = {qualifier.lower() for qualifier in qualifiers}
    columns = {field.name.lower() for field in schema.fields}
    if len(name.parts) > 1 and name.parts[0].lower() in known and name.parts[1].lower() in columns:
        return replace(name, parts=name.parts[1:])
    return name


def _suited(node: Unbound, schema: Schema, reading: Reading) -> Unbound:
    match node:
        case Not(part):
            return Not(_suited(part, schema, reading))
        case AllOf(parts):
            return AllOf(tuple(_suited(part, schema, reading) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_suited(part, schema, reading) for part in parts))
        case Comparison(column, _, literal) | Same(column, literal):
            return replace(node, literal=_literal(literal, operand_type(schema, column), column, reading))
        case Among(column, literals):
            type_ = operand_type(schema, column)
            return replace(node, literals=tuple(_literal(one, type_, column, reading) for one in literals))
        case _:
            return node


def _literal(literal: Literal, type_: Type, column: Name, reading: Reading) -> Literal:
    """Return the literal with the value that Spark would convert it to, beside such a column."""
    match type_, literal.type:
        case _, None:
            return literal
        case TimestampType(zoned=True), _:
            return _instant(literal, column, reading.zone)
        case TimestampType(), StringType() if read_zone(literal.value):
            raise _refused(column, "its times have no zone, and the text has one")
        case ((TimestampType() | DateType()), TimestampType()) if literal_needs_zone(type_, literal.type):
            if is_utc(reading.zone):
                return literal
            raise _refused(column, f"that depends on the session's time zone {reading.zone}")
        case _ if reading.strict and not _same_kind(type_, literal):
            raise _refused(column, "the two are of different kinds")
        case _:
            return literal


def literal_needs_zone(type_: Type, literal: Type) -> bool:
    """Return whether Spark needs the time zone to compare a column without one with such a literal."""
    assert isinstance(literal, TimestampType)
    return literal.zoned or isinstance(type_, DateType)


def read_zone(text: str) -> bool:
    """Return whether the text of a time contains a zone."""
    try:
        return read_timestamp(text).ahead is not None
    except ValueError:
        return False


def _instant(literal: Literal, column: Name, zone: str) -> Literal:
    match literal.type:
        case StringType():
            try:
                moment = read_timestamp(literal.value)
            except ValueError as error:
                raise _refused(column, str(error)) from None
            nanos = moment.instant if moment.ahead is not None else instant_of(moment.wall, zone)
        case DateType():
            nanos = instant_of(literal.value * NANOS_PER_DAY, zone)
        case TimestampType(zoned=False):
            nanos = instant_of(literal.value, zone)
        case _:
            return literal
    return Literal(nanos, TIMESTAMPTZ_NS, literal.place)


def _same_kind(type_: Type, literal: Literal) -> bool:
    match type_:
        case IntType() | LongType() | FloatType() | DoubleType() | DecimalType():
            return isinstance(literal.type, _NUMBERS)
        case StringType() | DateType() | BooleanType():
            return isinstance(literal.type, type(type_)) or (
                isinstance(type_, DateType) and isinstance(literal.type, StringType)
            )
        case TimestampType():
            return isinstance(literal.type, StringType | DateType | TimestampType)
        case UuidType():  # text in Spark, so only the canonical text of a uuid compares equal
            return isinstance(literal.type, StringType) and _is_canonical(literal.value)
        case BinaryType() | FixedType():
            return isinstance(literal.type, _BYTES)
        case TimeType():
            return isinstance(literal.type, TimeType)
        case _:
            return False


def _is_canonical(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _refused(column: Name, why: str) -> InvalidInput:
    where = f" at {column.place}" if column.place else ""
    return InvalidInput(f"cannot compare column {str(column)!r}{where}: {why}", place=column.place)
