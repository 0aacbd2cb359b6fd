"""Values into columns by Spark's rules of store assignment, with columns and struct members matched by name.

A safe cast is made; an unsafe one is refused. Spark's cast takes struct members by place, so members are put in order
by name first. Names match exactly, or else without regard to case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.predicates.predicate_sql import literal_sql, quote_name
from esker.model.types import (
    STRING,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    is_nested,
)
from esker.spark.expressions.ddl_text import cast_text, type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- fitting names
#
# Names as Spark resolves them: as they are written, else without case. One index serves a thousand columns.


T = TypeVar("T")


class FittingNames(Generic[T]):
    """Things by their names, of which several may be alike."""

    def __init__(self, named: Iterable[tuple[str, T]]) -> None:
        self._exact: dict[str, list[T]] = {}
        self._folded: dict[str, list[T]] = {}
        for name, one in named:
            self._exact.setdefault(name, []).append(one)
            self._folded.setdefault(name.lower(), []).append(one)

    def fits(self, name: str) -> list[T]:
        """All that have exactly this name; where there is none, all whose names differ from it in case only."""
        return self._exact.get(name) or self._folded.get(name.lower(), [])


# ---------------------------------------------------------------- by name
#
# Structs into structs by the names of their members, at any depth, as Spark has it for ``BY NAME``, UPDATE and MERGE.
#
# A cast of Spark's takes members by place, so they are put in order before it. Names that do not fit are refused.


def in_order_of(source: Type, target: Type, name: str) -> Type:
    """The source's type with the members of its structs in the target's order.

    ``InvalidInput`` says which member of the column ``name`` has no value, or which value has no member.
    """
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target, name)
            return StructType(tuple(replace(a, type=in_order_of(a.type, b.type, f"{name}.{b.name}")) for a, b in pairs))
        case ListType(), ListType():
            return replace(source, element=in_order_of(source.element, target.element, f"{name}.element"))
        case MapType(), MapType():
            key = in_order_of(source.key, target.key, f"{name}.key")
            return replace(source, key=key, value=in_order_of(source.value, target.value, f"{name}.value"))
        case _:
            return source


def reordered(expression: str, source: Type, target: Type, name: str) -> str:
    """The expression with members in the target's order; itself where they are. Raises as ``in_order_of`` does."""
    return _reordered(expression, source, target, name, 0) or expression


def _reordered(expression: str, source: Type, target: Type, name: str, depth: int) -> str | None:
    """None where the members are in the target's order, at every depth."""
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target, name)
            parts = [f"{expression}.{quote_name(a.name)}" for a, _ in pairs]
            new = [
                _reordered(part, a.type, b.type, f"{name}.{b.name}", depth)
                for part, (a, b) in zip(parts, pairs, strict=True)
            ]
            if not any(new) and all(a is held for (a, _), held in zip(pairs, source.fields, strict=True)):
                return None
            members = ", ".join(
                f"{_literal(a.name)}, {inner or part}" for (a, _), inner, part in zip(pairs, new, parts, strict=True)
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            inner = _reordered(f"x{depth}", source.element, target.element, f"{name}.element", depth + 1)
            return None if inner is None else _each(expression, f"x{depth}", inner)
        case MapType(), MapType():
            key = _reordered(f"x{depth}", source.key, target.key, f"{name}.key", depth + 1)
            value = _reordered(f"x{depth}", source.value, target.value, f"{name}.value", depth + 1)
            if key is None:
                return None if value is None else f"transform_values({expression}, (k{depth}, x{depth}) -> {value})"
            keys = _each(f"map_keys({expression})", f"x{depth}", key)
            values = _each(f"map_values({expression})", f"x{depth}", value or f"x{depth}")
            return f"map_from_arrays({keys}, {values})"
        case _:
            return None


def _each(expression: str, item: str, of: str) -> str:
    """The text of an array with another value for each item; see ``column_expressions.each``, which needs PySpark."""
    return f"transform(slice({expression}, 1, {2**31 - 1}), {item} -> {of})"


def _paired(source: StructType, target: StructType, name: str) -> list[tuple[Field, Field]]:
    """Each member of the target with its own in the source: of the same spelling, else without regard to case."""
    wanted = {field.name for field in target.fields}
    exact: dict[str, list[Field]] = {}
    folded: dict[str, list[Field]] = {}
    for one in source.fields:
        if one.name in wanted:
            exact.setdefault(one.name, []).append(one)
        else:
            folded.setdefault(one.name.lower(), []).append(one)
    pairs: list[tuple[Field, Field]] = []
    for field in target.fields:
        fits = exact.get(field.name) or folded.pop(field.name.lower(), [])
        if len(fits) != 1:
            has = "several members" if fits else "no member"
            raise InvalidInput(f"its struct has {has} {field.name!r} for {name}.{field.name}")
        pairs.append((fits[0], field))
    left = next((one for rest in folded.values() for one in rest), None)
    if left is not None:
        raise InvalidInput(f"its struct has a member {left.name!r}, and {name} has none of that name")
    return pairs


def _literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ---------------------------------------------------------------- assignment
#
# Values into columns, by Spark's rules of store assignment: what may lose no meaning is cast, the rest is refused.


_NUMBERS = (IntType, LongType, FloatType, DoubleType, DecimalType)
_EXACT = (IntType, LongType, DecimalType)  # too large a number fits none of them
_TIMES = (DateType, TimestampType)


def assigned(
    frame: DataFrame, targets: Sequence[Field], constants: Sequence[tuple[Field, str]], *, by_name: bool
) -> DataFrame:
    """The frame's columns, in order, as these columns; constants are added from their text.

    Members of structs are taken by their names, or by place as Spark does for any other INSERT.
    """
    sources = columns_from_spark(frame.schema)
    ansi = casts_are_ansi(frame.sparkSession)
    inner = [quote_name(source.name) for source in sources]
    if len({source.name.casefold() for source in sources}) < len(sources):  # names of a query need not be unique
        inner = [f"esker_{at}" for at in range(len(sources))]
        frame = frame.toDF(*inner)
    expressions = [
        _by_name(name, source, target, ansi) if by_name else _expression(name, source, target, ansi)
        for name, source, target in zip(inner, sources, targets, strict=True)
    ]
    for target, value in constants:
        cast = _leaf(value, target.type, target.name, ansi)
        expressions.append(f"{cast} AS {quote_name(target.name)}")
    return frame.selectExpr(*expressions)


def _by_name(name: str, source: Field, target: Field, ansi: bool) -> str:
    try:
        ordered = replace(source, type=in_order_of(source.type, target.type, target.name))
        text = reordered(name, source.type, target.type, target.name)
    except InvalidInput as error:
        raise InvalidInput(
            f"cannot write column {source.name!r} into {target.name!r} by name: {error.message}", column=target.name
        ) from None
    return _expression(text, ordered, target, ansi)


def _expression(name: str, source: Field, target: Field, ansi: bool) -> str:
    if not can_assign(source.type, target.type):
        raise InvalidInput(
            f"cannot write column {source.name!r} of type {type_text(source.type)} into {target.name!r} of type "
            f"{type_text(target.type)}: cast it in the query",
            column=target.name,
        )
    same = cast_text(target.type) == cast_text(source.type)
    text = name if same else stored(name, source.type, target.type, target.name, ansi=ansi)
    return f"{text} AS {quote_name(target.name)}"


def casts_are_ansi(session: SparkSession) -> bool:
    """Whether a cast of the session fails where a value does not fit, as store assignment must in any session."""
    return str(session.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def stored(expression: str, source: Type, target: Type, name: str, *, ansi: bool, depth: int = 0) -> str:
    """The expression cast to the type of column ``name``, so that a value that does not fit ends the job.

    Without ``ansi``, a plain cast would wrap the value or make it null.
    """
    if ansi or not _may_fail(source, target):
        cast = cast_text(target)
        return expression if cast is None else f"CAST({expression} AS {cast})"
    match source, target:
        case StructType(), StructType():
            members = ", ".join(
                f"{literal_sql(STRING, b.name)}, "
                + stored(
                    f"{expression}.{quote_name(a.name)}", a.type, b.type, f"{name}.{b.name}", ansi=ansi, depth=depth
                )
                for a, b in zip(source.fields, target.fields, strict=True)
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            return _each_stored(expression, source.element, target.element, f"{name}.element", depth)
        case MapType(), MapType():
            keys = _each_stored(f"map_keys({expression})", source.key, target.key, f"{name}.key", depth)
            values = _each_stored(f"map_values({expression})", source.value, target.value, f"{name}.value", depth)
            return f"map_from_arrays({keys}, {values})"
        case _:
            return _leaf(expression, target, name, ansi)


def _each_stored(expression: str, source: Type, target: Type, name: str, depth: int) -> str:
    inner = stored(f"y{depth}", source, target, name, ansi=False, depth=depth + 1)
    return _each(expression, f"y{depth}", inner)


def _leaf(expression: str, target: Type, name: str, ansi: bool) -> str:
    cast = cast_text(target)
    if cast is None or ansi:
        return expression if cast is None else f"CAST({expression} AS {cast})"
    why = literal_sql(STRING, f"cannot write a value into column '{name}': it does not fit {cast}")
    otherwise = f"IF({expression} IS NULL, NULL, CAST(raise_error({why}) AS {cast}))"
    return f"coalesce(try_cast({expression} AS {cast}), {otherwise})"


def _may_fail(source: Type, target: Type) -> bool:
    match source, target:
        case StructType(), StructType():
            return any(_may_fail(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
        case ListType(), ListType():
            return _may_fail(source.element, target.element)
        case MapType(), MapType():
            return _may_fail(source.key, target.key) or _may_fail(source.value, target.value)
        case IntType(), LongType():
            return False
        case _:
            return isinstance(source, _NUMBERS) and isinstance(target, _EXACT) and source != target


def can_assign(source: Type, target: Type) -> bool:
    """Whether Spark's ANSI policy lets such a value into such a column."""
    match source, target:
        case UnknownType(), _:
            return True
        case StructType(), StructType():
            pairs = zip(source.fields, target.fields, strict=False)
            return len(source.fields) == len(target.fields) and all(can_assign(a.type, b.type) for a, b in pairs)
        case ListType(), ListType():
            return can_assign(source.element, target.element)
        case MapType(), MapType():
            return can_assign(source.key, target.key) and can_assign(source.value, target.value)
        case _ if isinstance(source, _NUMBERS) and isinstance(target, _NUMBERS):
            return True
        case _ if isinstance(source, _TIMES) and isinstance(target, _TIMES):
            return True
        case _, StringType():
            return not is_nested(source)
        case _:
            return cast_text(source) == cast_text(target)
