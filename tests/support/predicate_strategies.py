"""Random columns, rows and predicates, with the values that break things: bounds of types, zeros, NaN, nothing."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from esker.model.predicates.literal import decimal_literal
from esker.model.predicates.predicate import Op, escaped
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
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
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
)
from esker.model.values import from_unscaled

COLUMN = Name(("x",))
TYPES: tuple[Type, ...] = (
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DecimalType(4, 2), DecimalType(18, 0), DecimalType(38, 10), DATE, TIME,
    TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING, UUID, FixedType(2), BINARY,
)  # fmt: skip
DAY_US = 86_400_000_000

texts = st.text(alphabet="ab%_\\é\uffff😀\x00", max_size=5)
blobs = st.lists(st.sampled_from([b"\x00", b"\x01", b"\x7f", b"\xff"]), max_size=4).map(b"".join)
doubles = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 5.5, 1e300, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63]),
    st.floats(width=32),
)


def float32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf


def integers(low: int, high: int, *near: int) -> st.SearchStrategy[int]:
    edges = [edge for edge in (low, low + 1, high - 1, high, *near) if low <= edge <= high]
    return st.one_of(st.integers(max(low, -12), min(high, 12)), st.sampled_from(edges), st.integers(low, high))


def values(type_: Type) -> st.SearchStrategy[Any]:
    """Held values of a type."""
    match type_:
        case BooleanType():
            return st.booleans()
        case IntType():
            return integers(-(2**31), 2**31 - 1)
        case LongType():
            return integers(-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -(2**31) - 1)
        case FloatType():
            return doubles.map(float32)
        case DoubleType():
            return doubles
        case DecimalType(precision, scale):
            return integers(1 - 10**precision, 10**precision - 1, 2**63).map(lambda n: from_unscaled(n, scale))
        case DateType():
            return st.one_of(st.integers(-800, 800), st.sampled_from([-(2**31), 2**31 - 1]))
        case TimeType():
            return integers(0, DAY_US - 1)
        case TimestampType(nanos=nanos):
            unit = 1000 if nanos else 1
            days = st.integers(-800, 800).map(lambda day: day * DAY_US * unit)
            near = st.sampled_from([-1, 0, 1, 3_600_000_000, -3_600_000_001]).map(lambda us: us * unit)
            return st.one_of(st.builds(lambda day, us: day + us, days, near), integers(-(2**63), 2**63 - 1))
        case StringType():
            return texts
        case FixedType(length):
            return st.lists(st.sampled_from([b"\x00", b"\x7f", b"\xff"]), min_size=length, max_size=length).map(
                b"".join
            )
        case BinaryType():
            return blobs
        case _:
            return st.sampled_from([b"\x00" * 16, b"\xff" * 16, b"\x80" + b"\x00" * 15, b"\x7f" * 16])


def pools(type_: Type) -> st.SearchStrategy[list[Any]]:
    """A few values that rows and literals are then taken from, or they would hardly ever meet."""
    found = st.lists(values(type_), min_size=1, max_size=4)
    if isinstance(type_, FloatType | DoubleType):
        return found.map(lambda pool: [*pool, math.nan, -0.0])
    return found


def literals(type_: Type, pool: list[Any]) -> st.SearchStrategy[Literal]:
    """Literals that such a column can be compared with, mostly but not always of its own type."""
    known = st.sampled_from(pool)
    own = st.one_of(known, known, values(type_)).map(lambda value: own_literal(type_, value))
    number = st.one_of(
        st.integers(-(2**65), 2**65).map(lambda value: Literal(value, LONG)),
        st.integers(-12, 12).map(lambda value: Literal(value, LONG)),
        doubles.map(lambda value: Literal(value, DOUBLE)),
        st.decimals(-1000, 1000, places=3).map(decimal_literal),
        st.sampled_from([Decimal("1e90"), Decimal("-1e90"), Decimal("1e-90"), Decimal("-1e-90")]).map(decimal_literal),
    )
    moment = st.one_of(
        values(DATE).map(lambda value: Literal(value, DATE)),
        values(TIMESTAMP_NS).map(lambda value: Literal(value, TIMESTAMP_NS)),
        values(TIMESTAMPTZ).map(lambda value: Literal(value * 1000, TIMESTAMPTZ_NS)),
    )
    match type_:
        case FloatType():
            small = number.filter(lambda literal: literal.type != LONG or abs(literal.value) < 2**63)
            return st.one_of(own, small)
        case IntType() | LongType() | DoubleType() | DecimalType():
            return st.one_of(own, number)
        case DateType() | TimestampType():
            return st.one_of(own, moment)
        case FixedType():
            return st.one_of(own, blobs.map(lambda value: Literal(value, BINARY)))
        case _:
            return own


def own_literal(type_: Type, value: Any) -> Literal:
    """The literal that means just this held value."""
    match type_:
        case IntType() | LongType():
            return Literal(value, LONG)
        case FloatType():
            return Literal(value, DOUBLE)
        case DecimalType():
            return decimal_literal(value)
        case TimestampType(zoned, nanos):
            return Literal(value if nanos else value * 1000, TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS)
        case TimeType():
            return Literal(value * 1000, TIME)
        case FixedType():
            return Literal(value, BINARY)
        case _:
            return Literal(value, type_)


def patterns() -> st.SearchStrategy[LikeTest]:
    pieces = st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "a", "b", "é", "😀"])
    return st.lists(pieces, max_size=5).map(lambda found: LikeTest(COLUMN, "".join(found)))


def leaves(type_: Type, pool: list[Any]) -> st.SearchStrategy[Unbound]:
    given = literals(type_, pool)
    literal = st.one_of(given, given, st.just(Literal(None, None)))
    tests: list[st.SearchStrategy[Any]] = [
        st.builds(Comparison, st.just(COLUMN), st.sampled_from(Op), given),
        st.builds(Comparison, st.just(COLUMN), st.sampled_from(Op), literal),
        st.builds(Same, st.just(COLUMN), literal),
        st.builds(Among, st.just(COLUMN), st.lists(given, min_size=1, max_size=4).map(tuple)),
        st.builds(Among, st.just(COLUMN), st.lists(literal, min_size=1, max_size=4).map(tuple)),
        st.one_of(st.just(NullTest(COLUMN)), st.sampled_from([Constant(True), Constant(False), Constant(None)])),
    ]
    if isinstance(type_, FloatType | DoubleType):
        tests.append(st.just(NaNTest(COLUMN)))
    if isinstance(type_, StringType):
        tests += [patterns(), patterns()]
    return st.one_of(tests)


def rows(type_: Type, pool: list[Any], *, min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[list[Any]]:
    """Rows that may be null, often all of one value so that bounds are tight."""
    known = st.sampled_from(pool)
    row = st.one_of(known, known, st.none(), values(type_))
    return st.one_of(st.lists(row, min_size=min_size, max_size=max_size), row.map(lambda one: [one, one]))


def every_test(type_: Type, pool: list[Any]) -> list[Unbound]:
    """Each single test there is, over the values of the pool: chance alone seldom asks just the one that matters."""
    given = [own_literal(type_, value) for value in pool]
    pairs = [Among(COLUMN, (one, other)) for one in given for other in given]
    found: list[Unbound] = [Comparison(COLUMN, op, literal) for op in Op for literal in given]
    found += [*pairs, *map(Not, pairs), NullTest(COLUMN), Not(NullTest(COLUMN))]
    found += [Not(Same(COLUMN, literal)) for literal in given]
    if isinstance(type_, FloatType | DoubleType):
        found += [NaNTest(COLUMN), Not(NaNTest(COLUMN))]
    if isinstance(type_, StringType):
        starts = {escaped(value[:end]) + rest for value in pool for end in range(4) for rest in ("%", "%b", "_", "")}
        likes = [LikeTest(COLUMN, pattern) for pattern in sorted(starts)]
        found += [*likes, *map(Not, likes)]
    return found


def predicates(type_: Type, pool: list[Any]) -> st.SearchStrategy[Unbound]:
    """Conditions on a column ``x`` of this type, nested a little."""
    return st.recursive(
        leaves(type_, pool),
        lambda part: st.one_of(
            part.map(Not),
            st.lists(part, min_size=1, max_size=3).map(lambda parts: AllOf(tuple(parts))),
            st.lists(part, min_size=1, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        ),
        max_leaves=5,
    )


def arrow_type(type_: Type) -> pa.DataType:
    match type_:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case TimestampType(zoned, nanos):
            return pa.timestamp("ns" if nanos else "us", "UTC" if zoned else None)
        case FixedType(length):
            return pa.binary(length)
        case _:
            return {
                BOOLEAN: pa.bool_(), INT: pa.int32(), LONG: pa.int64(), FLOAT: pa.float32(), DOUBLE: pa.float64(),
                DATE: pa.date32(), TIME: pa.time64("us"), STRING: pa.string(), UUID: pa.binary(16), BINARY: pa.binary(),
            }[type_]  # fmt: skip


def arrow_array(type_: Type, held: list[Any]) -> pa.Array:
    """Held values as the array a data file would give."""
    kind = arrow_type(type_)
    if pa.types.is_temporal(kind):
        return pa.array(held, pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)
    return pa.array(held, kind)
