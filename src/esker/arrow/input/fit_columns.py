"""Columns by name: how each column of the table is made from the user's data.

A converter checks everything that follows from the two schemas when it is made. So data that cannot fit is refused
before a row is read. The order is free, at every depth. Names are compared exactly, or without case if only one
matches.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow
from esker.arrow.convert import over, plain, values_inside
from esker.arrow.input.fit_values import Convert, Misfit, plain_type, value_converter
from esker.arrow.value_arrays import repeated, struct_array
from esker.arrow.variant_arrays import TYPE, first_unsound, variant_array
from esker.errors import InvalidInput
from esker.model.types import Field, ListType, MapType, StructType, Type, VariantType

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leniency:
    """Which number types of the data are only guessed (see ``Incoming``), and whether structs need every field."""

    whole_floats: bool = False
    round_floats: bool = False
    whole_structs: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """How one column or struct field is made."""

    field: Field
    at: int | None  # its index in the data; None if it is not there
    convert: Convert

    def array(self, parts: Sequence[pa.Array], length: int) -> pa.Array:
        """The array of the column, from the arrays of the data."""
        if self.at is None:
            return default_array(self.field, length)
        try:
            return self.convert(parts[self.at])
        except Misfit as misfit:
            raise Misfit(misfit.why, misfit.at, (self.field.name, *misfit.inside)) from None


def members(fields: Iterable[Field], found: Sequence[pa.Field], path: Path, lenient: Leniency) -> tuple[Member, ...]:
    """How each field is made. Raises ``InvalidInput`` with the column that is missing, unknown or of a wrong type."""
    fields = tuple(fields)
    places = _matched(fields, [field.name for field in found], path)
    made = []
    for field in fields:
        at = places.get(field.name)
        if at is None:
            _check_may_be_missing(field, path)
            if path and lenient.whole_structs:
                column = ".".join((*path, field.name))
                raise InvalidInput(
                    f"cannot write the rows: the member {column!r} is missing from the data; give it a value or null",
                    column=column,
                )
            made.append(Member(field, None, lambda array: array))
        else:
            made.append(Member(field, at, _converter(found[at].type, field, (*path, field.name), lenient)))
    return tuple(made)


def _matched(fields: tuple[Field, ...], names: list[str], path: Path) -> dict[str, int]:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        column = ".".join((*path, twice[0]))
        raise InvalidInput(f"cannot write the rows: column {column!r} is there twice in the data", column=column)
    wanted = {field.name for field in fields}
    places = {name: at for at, name in enumerate(names) if name in wanted}
    others = [name for name in names if name not in wanted]
    like = _by_folded_name(field.name for field in fields) if others else {}
    alike = _by_folded_name(others)
    for at, name in enumerate(names):
        if name in wanted:
            continue
        fits = [one for one in like.get(name.casefold(), ()) if one not in places]
        rivals = alike[name.casefold()]
        column = ".".join((*path, name))
        if not fits:
            raise InvalidInput(_unknown(column, name, fields), column=column)
        if len(fits) > 1 or len(rivals) > 1:
            raise InvalidInput(
                f"cannot write the rows: column {column!r} is ambiguous: it may mean "
                f"{', '.join(sorted((*fits, *rivals)))}",
                column=column,
            )
        places[fits[0]] = at
    return places


def _by_folded_name(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return found


def _unknown(column: str, name: str, fields: tuple[Field, ...]) -> str:
    near = difflib.get_close_matches(name, [field.name for field in fields], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"cannot write the rows: the data has a column {column!r} that the table does not have{hint}"


def _check_may_be_missing(field: Field, path: Path) -> None:
    if field.required and field.write_default is None:
        column = ".".join((*path, field.name))
        raise InvalidInput(
            f"cannot write the rows: the required column {column!r} is missing from the data", column=column
        )
    if isinstance(field.type, StructType) and field.write_default is not None:
        for member in field.type:
            if _given(member, field.write_default) is _ABSENT:
                _check_may_be_missing(member, (*path, field.name))


_ABSENT = object()


def _given(member: Field, value: Mapping[Any, Any]) -> Any:
    for key in (member.id, str(member.id), member.name):
        if key in value:
            return value[key]
    return _ABSENT


def default_array(field: Field, length: int) -> pa.Array:
    """The value of a column that is not given. ``{}`` is a struct of its fields' defaults (E5)."""
    if not isinstance(field.type, StructType) or field.write_default is None:
        return repeated(field.type, field.write_default, length)
    parts = []
    for member in field.type:
        given = _given(member, field.write_default)
        parts.append(default_array(member, length) if given is _ABSENT else repeated(member.type, given, length))
    return struct_array(field.type, parts, pa.array(np.zeros(length, dtype=bool)))


def _converter(source: pa.DataType, field: Field, path: Path, lenient: Leniency) -> Convert:
    convert = _type_converter(source, field.type, path, lenient)
    if not field.required:
        return convert

    def without_nulls(array: pa.Array) -> pa.Array:
        made = convert(array)
        if made.null_count:
            raise Misfit("it is required and cannot be null", int(pc.index(made.is_null(), True).as_py()))
        return made

    return without_nulls


def _type_converter(source: pa.DataType, type_: Type, path: Path, lenient: Leniency) -> Convert:
    held = plain_type(source)
    match type_:
        case StructType() if pa.types.is_struct(held):
            return _struct(held, type_, path, lenient)
        case ListType() if _is_list(held):
            inner = _converter(held.value_type, type_.element_field, (*path, "element"), lenient)
            return lambda array: _rebuilt(array, type_, lambda values: _inside(inner, values, "element"))
        case MapType() if (pair := _pair(held)) is not None:
            return _map(pair, type_, path, lenient)
        case VariantType() if _is_variant(held):
            return _variants
        case _:
            found = value_converter(source, type_, whole_floats=lenient.whole_floats, round_floats=lenient.round_floats)
            if found is not None:
                return found
    column, given = ".".join(path), "variant" if source == TYPE else source
    raise InvalidInput(
        f"cannot write the rows: column {column!r} is {given} in the data, which does not fit the "
        f"table's {type_}{_hint(held, type_)}",
        column=column,
    )


def _hint(held: pa.DataType, type_: Type) -> str:
    if pa.types.is_timestamp(held) and str(type_).startswith("timestamp"):
        return ": one has a time zone and the other has none"
    if isinstance(type_, VariantType):
        return ", which is written as a struct of the binaries metadata and value"
    return ""


def _struct(held: pa.DataType, type_: StructType, path: Path, lenient: Leniency) -> Convert:
    inside = members(type_, [held.field(at) for at in range(held.num_fields)], path, lenient)

    def present(array: pa.Array) -> pa.Array:
        parts = [array.field(at) for at in range(array.type.num_fields)]
        return struct_array(type_, [member.array(parts, len(array)) for member in inside], None)

    def run(array: pa.Array) -> pa.Array:
        array = plain(array)
        if not array.null_count:
            return present(array)
        # Values below a null struct are neither checked nor kept.
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        try:
            made = present(array.take(pa.array(rows)))
        except Misfit as misfit:
            at = None if misfit.at is None else int(rows[misfit.at])
            raise Misfit(misfit.why, at, misfit.inside) from None
        places = np.full(len(array), -1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return made.take(pa.array(places, mask=places < 0))

    return run


def _inside(convert: Convert, values: pa.Array, name: str) -> pa.Array:
    """Convert values inside lists. Their positions are not rows."""
    try:
        return convert(values)
    except Misfit as misfit:
        raise Misfit(misfit.why, None, (name, *misfit.inside)) from None


def _map(pair: tuple[pa.Field, pa.Field], type_: MapType, path: Path, lenient: Leniency) -> Convert:
    key = _converter(pair[0].type, type_.key_field, (*path, "key"), lenient)
    value = _converter(pair[1].type, type_.value_field, (*path, "value"), lenient)

    def entries(inner: pa.Array) -> pa.Array:
        parts = [_inside(key, inner.field(0), "key"), _inside(value, inner.field(1), "value")]
        return pa.StructArray.from_arrays(parts, fields=list(to_arrow(type_).field(0).type))

    return lambda array: _rebuilt(array, type_, entries)


def _rebuilt(array: pa.Array, type_: Type, convert: Convert) -> pa.Array:
    array = plain(array)
    return over(array, to_arrow(type_), convert(values_inside(array)))


def _pair(held: pa.DataType) -> tuple[pa.Field, pa.Field] | None:
    """Key and value of a map. Also of a list of pairs, which libraries without maps use."""
    if pa.types.is_map(held):
        return held.key_field, held.item_field
    if _is_list(held) and pa.types.is_struct(held.value_type) and held.value_type.num_fields == 2:
        first, second = held.value_type.field(0), held.value_type.field(1)
        return (first, second) if (first.name, second.name) == ("key", "value") else None
    return None


def _is_variant(held: pa.DataType) -> bool:
    """Whether a struct has the two binaries of a variant, in any order."""
    if not pa.types.is_struct(held) or sorted(field.name for field in held) != ["metadata", "value"]:
        return False
    return all(plain_type(field.type) == pa.binary() for field in held)


def _variants(array: pa.Array) -> pa.Array:
    array = plain(array)
    metadata, value = plain(array.field("metadata")), plain(array.field("value"))
    is_null = array.is_null() if array.null_count else None
    for name, part in (("metadata", metadata), ("value", value)):
        bare = part.is_null() if is_null is None else pc.and_not(part.is_null(), is_null)
        if part.null_count and pc.any(bare).as_py():
            raise Misfit(f"a variant has no {name}", int(pc.index(bare, True).as_py()))
    made = variant_array(metadata, value, is_null)
    unsound = first_unsound(made.field(0), made.field(1))
    if unsound is not None:
        raise Misfit(f"its bytes are not a variant: {unsound[1]}", unsound[0])
    return made


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_) and hasattr(type_, "value_field") and not pa.types.is_map(type_))
