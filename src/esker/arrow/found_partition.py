"""The partition that an existing file is in, decided without reading its rows, or not at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from esker.arrow.footer_metrics import Seen
from esker.errors import InvalidInput
from esker.model.partition import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, IdentityTransform, VoidTransform, apply_transform
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
    is_floating,
)

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = datetime(1970, 1, 1)


def hive_values(location: str) -> dict[str, str | None]:
    """The ``name=value`` folders of a location; None for Hive's name of null."""
    found: dict[str, str | None] = {}
    for folder in location.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign:
            text = unquote(value)  # Hive's writers leave a plus as it is; Iceberg's keep the column in the file
            found[unquote(name)] = None if text == _HIVE_NULL else text
    return found


def found_partition(
    location: str, spec: PartitionSpec, schema: Schema, seen: Mapping[int, Seen], hive: Mapping[str, str | None]
) -> tuple[Any, ...]:
    """The partition tuple; ``InvalidInput`` says why a member of it cannot be known."""
    return tuple(_member(location, field, schema, seen.get(field.source_id), hive) for field in spec.fields)


def _member(
    location: str, field: PartitionField, schema: Schema, seen: Seen | None, hive: Mapping[str, str | None]
) -> Any:
    if isinstance(field.transform, VoidTransform):
        return None
    source = schema.by_id[field.source_id]
    name = schema.name_by_id[field.source_id]
    if seen is None:
        return _from_folder(location, field, name, source.type, hive)
    if not seen.values:
        raise _undecided(location, field, f"the file has no rows to tell {name!r} by")
    if seen.nulls is None:
        raise _undecided(location, field, f"its footer has no statistics of {name!r}")
    if seen.nulls == seen.values:
        return None
    if seen.nulls:
        raise _undecided(location, field, f"column {name!r} holds both nulls and values")
    if is_floating(source.type):
        raise _undecided(location, field, f"statistics of the float column {name!r} do not show NaN")
    if seen.low is None:
        raise _undecided(location, field, f"its footer has no bounds of {name!r}")
    low, high = (apply_transform(field.transform, source.type, value) for value in (seen.low, seen.high))
    # A bucket has no order: only where there is one value all rows are in its bucket.
    if low != high or (isinstance(field.transform, BucketTransform) and seen.low != seen.high):
        raise _undecided(location, field, f"{name!r} runs from {seen.low!r} to {seen.high!r}, over several partitions")
    return low


def _from_folder(location: str, field: PartitionField, name: str, type_: Type, hive: Mapping[str, str | None]) -> Any:
    if not isinstance(field.transform, IdentityTransform):
        raise _undecided(location, field, f"the file does not have column {name!r}")
    for key in (field.name, name):
        if key in hive:
            text = hive[key]
            return None if text is None else _parsed(location, field, type_, text)
    raise _undecided(location, field, f"the file does not have column {name!r}, nor a folder {field.name}=… above it")


def _undecided(location: str, field: PartitionField, why: str) -> InvalidInput:
    return InvalidInput(
        f"cannot add {location}: its partition {field.name!r} ({field.transform}) cannot be decided, because {why}",
        file=location,
        column=field.name,
    )


def _parsed(location: str, field: PartitionField, type_: Type, text: str) -> Any:
    try:
        value = None if text == "null" and not isinstance(type_, StringType) else _held(type_, text)
    except (ValueError, InvalidOperation, OverflowError):
        raise _undecided(location, field, f"the folder's value {text!r} is no {type_}") from None
    return value


def _held(type_: Type, text: str) -> Any:
    match type_:
        case StringType():
            return text
        case BooleanType() if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case IntType() | LongType():
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
