"""Values of SQL expressions over Arrow columns, and their assignment to a column of the table.

Whole numbers are computed as long and floats as double. A number that is too large for its column is refused, as in
Spark's ANSI mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow
from esker.arrow.input.fit_data import fit_batches
from esker.arrow.value_arrays import repeated
from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.value_text import Arithmetic, Value
from esker.model.predicates.unbound_predicate import Literal, Name
from esker.model.schema import Schema
from esker.model.types import DecimalType, Field, TimestampType, TimeType, is_floating

_KERNELS: Mapping[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def bind_value(value: Value, schema: Schema) -> Value:
    """The value with its columns named as in the table. Raises ``InvalidInput`` for an unknown column."""
    match value:
        case Name(parts, place):
            field = schema.find(str(value))
            if schema.id_by_name.get(field.name) != field.id or len(parts) > 1:
                raise Unsupported(
                    f"cannot compute with {value}, which is inside another column, without Spark; update the table "
                    "with lake.sql('UPDATE …')",
                    feature="nested columns in updates",
                )
            return Name((field.name,), place)
        case Arithmetic(sign, left, right):
            return Arithmetic(sign, bind_value(left, schema), bind_value(right, schema))
        case Literal():
            return value


def assigned(field: Field, value: Value, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """The values as a column of the table. Raises ``InvalidInput`` if one does not fit."""
    array = _literal_for(field, value, rows) if isinstance(value, Literal) else _computed(value, columns, rows)
    if isinstance(field.type, DecimalType) and pa.types.is_decimal(array.type) and array.type.scale > field.type.scale:
        array = _rounded(array, field.type.scale)
    if is_floating(field.type) and not pa.types.is_floating(array.type):
        array = _told(lambda: array.cast(pa.float64()))
    if is_floating(field.type) and pa.types.is_floating(array.type):
        return array.cast(to_arrow(field.type), safe=False)
    fitted = fit_batches(Schema(fields=(field,)), [pa.record_batch([array], names=[field.name])])
    return next(iter(fitted)).column(0)


def _rounded(array: pa.Array, scale: int) -> pa.Array:
    """A decimal with fewer digits after the point. Halves round away from zero."""
    return _told(
        lambda: pc.round(array, ndigits=scale, round_mode="half_towards_infinity").cast(pa.decimal128(38, scale))
    )


def _literal_for(field: Field, literal: Literal, rows: int) -> pa.Array:
    if literal.type is None:
        return pa.nulls(rows, to_arrow(field.type))
    if isinstance(literal.type, TimestampType | TimeType):
        if isinstance(field.type, TimestampType | TimeType):  # literals of times are in nanoseconds, for any column
            nanos = isinstance(field.type, TimestampType) and field.type.nanos
            return repeated(field.type, literal.value if nanos else literal.value // 1000, rows)
        raise InvalidInput(f"cannot set column {field.name!r} to a time: it is a {field.type}", column=field.name)
    return repeated(literal.type, literal.value, rows)


def _computed(value: Value, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    match value:
        case Literal(held, type_):
            return pa.nulls(rows, pa.int64()) if type_ is None else repeated(type_, held, rows)
        case Name(parts):
            return columns[parts[0]]
        case Arithmetic(sign, left, right):
            one, other = _numeric(_computed(left, columns, rows)), _numeric(_computed(right, columns, rows))
            return _told(lambda: _apply(sign, *_alike(one, other)))


def _numeric(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        return array.cast(pa.float64())
    if pa.types.is_decimal(array.type):
        return array
    raise Unsupported(
        f"cannot compute with values of type {array.type} without Spark; update the table with lake.sql('UPDATE …')",
        feature=f"arithmetic on {array.type}",
    )


def _alike(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as doubles if one is a double, both as decimals if one is a decimal."""
    if pa.types.is_floating(one.type) or pa.types.is_floating(other.type):
        return one.cast(pa.float64()), other.cast(pa.float64())
    if pa.types.is_decimal(one.type) and not pa.types.is_decimal(other.type):
        return one, _as_decimal(other)
    if pa.types.is_decimal(other.type) and not pa.types.is_decimal(one.type):
        return _as_decimal(one), other
    return one, other


def _as_decimal(whole: pa.Array) -> pa.Array:
    """The narrowest decimal for the values: the result of a product is as wide as both together."""
    largest = max((abs(int(end.as_py())) for end in pc.min_max(whole).values() if end.is_valid), default=0)
    return whole.cast(pa.decimal128(19, 0)).cast(pa.decimal128(len(str(largest)), 0))


def _apply(sign: str, one: pa.Array, other: pa.Array) -> pa.Array:
    if sign != "/":
        return _KERNELS[sign](one, other)
    if pa.types.is_decimal(one.type):
        raise Unsupported(
            "cannot divide decimals without Spark; update the table with lake.sql('UPDATE …')",
            feature="decimal division",
        )
    zero = pc.and_(pc.equal(other, Decimal(0) if pa.types.is_decimal(other.type) else 0), one.is_valid())
    if pc.any(zero).as_py():
        raise InvalidInput("cannot update: an expression divides by zero; exclude these rows with a condition")
    return pc.divide(one.cast(pa.float64()), other.cast(pa.float64()))


def _told(compute: Callable[[], pa.Array]) -> pa.Array:
    try:
        return compute()
    except pa.ArrowException as error:
        raise InvalidInput(f"cannot update: the result of an expression is too large: {error}") from error
