"""Statistics of known rows, as exact, as loose or as lacking as writers make them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st
from predicate_strategies import arrow_array

from esker.model.pruning.evidence import PartitionSummary, PartitionValues
from esker.model.transform import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    BucketTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    accepts,
    apply_transform,
    result_type,
)
from esker.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, to_bytes, unscaled
from esker.tree.manifest import ColumnMetrics

TRANSFORMS: tuple[Transform, ...] = (
    IDENTITY, YEAR, MONTH, DAY, HOUR, VOID, BucketTransform(3), BucketTransform(16), TruncateTransform(1),
    TruncateTransform(2), TruncateTransform(10), UnknownTransform("zorder"),
)  # fmt: skip


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def ordinary(rows: list[Any]) -> list[Any]:
    return [row for row in rows if row is not None and not is_nan(row)]


@st.composite
def bounds(draw: st.DrawFn, type_: Type, rows: list[Any]) -> tuple[bytes | None, bytes | None]:
    """Bytes that enclose the rows: exact, shortened, loosened or missing."""
    found = ordinary(rows)
    if not found:
        return None, None
    low, high = min(found), max(found)
    lower, upper = to_bytes(type_, low), to_bytes(type_, high)
    way = draw(st.sampled_from(["exact", "loose", "no lower", "no upper", "neither"]))
    if way == "loose":
        lower, upper = loosened(draw, type_, low, high)
    return (None if way in ("no lower", "neither") else lower), (None if way in ("no upper", "neither") else upper)


def loosened(draw: st.DrawFn, type_: Type, low: Any, high: Any) -> tuple[bytes, bytes | None]:
    keep = draw(st.integers(0, 3))
    match type_:
        case StringType():
            return low[:keep].encode(), upper_text(high, keep)
        case BinaryType():
            cut = high[:keep].rstrip(b"\xff")
            shorter = cut[:-1] + bytes([cut[-1] + 1]) if cut else None
            return low[:keep], high if len(high) <= keep else shorter
        case DecimalType(precision, scale):
            limit = 10**precision - 1
            wide = max(unscaled(low, scale) - keep, -limit), min(unscaled(high, scale) + keep, limit)
            return to_bytes(type_, from_unscaled(wide[0], scale)), to_bytes(type_, from_unscaled(wide[1], scale))
        case FloatType() | DoubleType():
            return to_bytes(type_, -math.inf), to_bytes(type_, math.inf)
        case UuidType() | FixedType():
            return b"\x00" * len(low), b"\xff" * len(high)
        case IntType() | DateType():
            return to_bytes(type_, max(low - keep, -(2**31))), to_bytes(type_, min(high + keep, 2**31 - 1))
        case _ if isinstance(low, bool):
            return b"\x00", b"\x01"
        case _:
            return to_bytes(type_, max(low - keep, -(2**63))), to_bytes(type_, min(high + keep, 2**63 - 1))


def upper_text(text: str, keep: int) -> bytes | None:
    """Cut and rounded up by code point, as G2 says."""
    if len(text) <= keep:
        return text.encode()
    for at in range(keep - 1, -1, -1):
        following = ord(text[at]) + 1
        following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
        if following <= 0x10FFFF:
            return (text[:at] + chr(following)).encode()
    return None


@st.composite
def metrics(draw: st.DrawFn, type_: Type, files: list[list[Any]]) -> ColumnMetrics:
    """Metrics of every file, each part of them there or not."""
    pairs = [draw(bounds(type_, rows)) for rows in files]
    maybe = st.booleans()
    keep = [[draw(maybe) for _ in range(3)] for _ in files]
    counts = [(len(rows), sum(row is None for row in rows), sum(map(is_nan, rows))) for rows in files]
    columns = [[count[at] if has[at] else None for count, has in zip(counts, keep, strict=True)] for at in range(3)]
    return ColumnMetrics(
        lower=pa.array([low for low, _ in pairs], pa.binary()),
        upper=pa.array([high for _, high in pairs], pa.binary()),
        value_count=pa.array(columns[0], pa.int64()),
        null_count=pa.array(columns[1], pa.int64()),
        nan_count=pa.array(columns[2], pa.int64()),
    )


def usable(type_: Type) -> list[Transform]:
    return [transform for transform in TRANSFORMS if accepts(transform, type_)]


def partition_of(transform: Transform, type_: Type, value: Any, *, old: bool) -> Any:
    """The partition value; ``old`` writers cut time towards 1970, where one unit too high is too high."""
    if isinstance(transform, UnknownTransform):
        return None
    found = fitted(transform, type_, apply_transform(transform, type_, value))
    if not old or not isinstance(transform, TimeTransform) or found is None or found >= 0:
        return found
    return found if on_the_mark(transform, type_, value, found) else found + 1


def fitted(transform: Transform, type_: Type, found: Any) -> Any:
    """The value as the result type holds it: integers wrap as in Java, and what no writer could store is not asked."""
    match result_type(transform, type_):
        case IntType() | DateType() if isinstance(transform, TimeTransform):
            assume(found is None or abs(found) < 2**31)
        case IntType() if found is not None:
            return (found + 2**31) % 2**32 - 2**31
        case LongType() if found is not None:
            return (found + 2**63) % 2**64 - 2**63
        case DecimalType(precision, scale):
            assume(found is None or abs(unscaled(found, scale)) < 10**precision)
    return found


def on_the_mark(transform: Transform, type_: Type, value: int, found: int) -> bool:
    """Whether the value is the very start of its unit: then cutting and flooring agree."""
    before = value - 1
    return bool(apply_transform(transform, type_, before) != found)


def by_partition(transform: Transform, type_: Type, rows: list[Any], *, old: bool) -> list[tuple[Any, list[Any]]]:
    """Rows divided into files by partition value; the zeros apart, the NaNs together."""
    found: dict[Any, tuple[Any, list[Any]]] = {}
    for row in rows:
        value = partition_of(transform, type_, row, old=old)
        key = "nan" if is_nan(value) else (value, math.copysign(1, value)) if isinstance(value, float) else value
        found.setdefault(key, (value, []))[1].append(row)
    return list(found.values())


def partition_values(transform: Transform, type_: Type, found: list[Any]) -> PartitionValues:
    return PartitionValues(transform=transform, values=arrow_array(result_type(transform, type_), found))


@st.composite
def summary(draw: st.DrawFn, transform: Transform, type_: Type, manifests: list[list[Any]]) -> PartitionSummary:
    """Per manifest, what its files' partition values are."""
    result = result_type(transform, type_)
    exact = draw(st.booleans())
    pairs = [edges(result, found) if exact else draw(bounds(result, found)) for found in manifests]
    # leaving out both bounds says that there is nothing but null and NaN (C3), so nobody may do it for less
    pairs = [
        edges(result, found) if pair == (None, None) else pair for pair, found in zip(pairs, manifests, strict=True)
    ]
    nans = [any(map(is_nan, found)) for found in manifests]
    return PartitionSummary(
        transform=transform,
        lower=pa.array([low for low, _ in pairs], pa.binary()),
        upper=pa.array([high for _, high in pairs], pa.binary()),
        contains_null=pa.array([None in found for found in manifests], pa.bool_()),
        contains_nan=pa.array([nan if draw(st.booleans()) else None for nan in nans], pa.bool_()),
    )


def edges(type_: Type, found: list[Any]) -> tuple[bytes | None, bytes | None]:
    plain = ordinary(found)
    return (to_bytes(type_, min(plain)), to_bytes(type_, max(plain))) if plain else (None, None)
