"""Paths of data files: when two forms of a location mean the same file, and partition values in folder names."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from esker.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

# ---------------------------------------------------------------- Locations of the same file
#
# By the spec, a position delete names a data file by the same bytes as its manifest (checklist H5). But in tables that
# were moved, deletes have ``hdfs://host:8020/t/x`` where the manifest has ``/t/x``, and Spark writes ``file:/t/x`` for
# ``file:///t/x``. If such deletes were ignored, deleted rows would come back. So a missing scheme or host matches any;
# two that differ are different places.


_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


@lru_cache(maxsize=4096)
def split_location(location: str) -> tuple[str, str, str]:
    """Scheme, host and path. Empty text for a missing part."""
    match = _LOCATION.fullmatch(location)
    if match is None:
        return "", "", location
    scheme = (match[1] or "").lower()
    path = match[3]
    if not path.startswith("/"):  # a colon inside a relative path does not end a scheme
        return "", "", location
    return _SAME_STORE.get(scheme, scheme), match[2] or "", path


def same_file(one: str, other: str) -> bool:
    """Whether both locations mean the same file."""
    if one == other:
        return True
    first, second = split_location(one), split_location(other)
    return first[2] == second[2] and all(a == b or not (a and b) for a, b in zip(first[:2], second[:2], strict=True))


# ---------------------------------------------------------------- Partition values in folder names
#
# ``day=2026-01-01/region=eu``.


HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(r"[+-]?[0-9]+")


def hive_values(location: str) -> dict[str, str | None]:
    """The ``name=value`` folders of a location, outermost first. Hive's name for null becomes None."""
    found: dict[str, str | None] = {}
    for folder in location.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign:
            text = unquote(value)  # Hive's writers do not encode a plus; Iceberg's writers keep the column in the file
            found[unquote(name)] = None if text == HIVE_NULL else text
    return found


def value_of_text(type_: Type, text: str | None) -> Any:
    """The held value of a folder's text in a column of the type. Raises ``ValueError`` if the text is not valid."""
    if text is None or (text == "null" and not isinstance(type_, StringType)):
        return None
    try:
        return _held(type_, text)
    except (ValueError, InvalidOperation, OverflowError):
        raise ValueError(f"{text!r} is no {type_}") from None


def type_of_texts(texts: set[str | None]) -> str:
    """The type, in DDL, that Spark infers for a partition column with these values: number, date or string."""
    there = {text for text in texts if text is not None}
    if not there:
        return "string"
    if all(_NUMBER.fullmatch(text) for text in there):
        largest = max(abs(int(text)) for text in there)
        return "int" if largest < 2**31 else "bigint" if largest < 2**63 else "string"
    if all(_is(FloatType(), text) and re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", text) for text in there):
        return "double"
    is_date = all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) and _is(DateType(), text) for text in there)
    return "date" if is_date else "string"


def _is(type_: Type, text: str) -> bool:
    try:
        value_of_text(type_, text)
    except ValueError:
        return False
    return True


def _held(type_: Type, text: str) -> Any:
    match type_:
        case StringType():
            return text
        case BooleanType() if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case IntType() | LongType() if _NUMBER.fullmatch(text):
            bits = 31 if isinstance(type_, IntType) else 63
            number = int(text)
            if not -(2**bits) <= number < 2**bits:
                raise ValueError(text)
            return number
        case FloatType() | DoubleType() if not math.isnan(float(text)):
            return float(text)
        case DecimalType(precision, scale):
            found = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(prec=76))
            if found != Decimal(text) or len(found.as_tuple().digits) > precision:
                raise ValueError(text)
            return found
        case DateType():
            return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
        case TimeType():
            found_time = time.fromisoformat(text)
            return (datetime.combine(_EPOCH, found_time) - _EPOCH) // timedelta(microseconds=1)
        case TimestampType(zoned=zoned):
            moment = datetime.fromisoformat(text)
            if (moment.tzinfo is not None) != zoned:
                raise ValueError(text)
            moment = moment.astimezone(UTC).replace(tzinfo=None) if zoned else moment
            return (moment - _EPOCH) // timedelta(microseconds=1) * (1000 if type_.nanos else 1)
        case UuidType():
            return UUID(text).bytes
        case _:
            raise ValueError(text)
