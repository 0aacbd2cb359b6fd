"""Rules for schemas: allowed names, ids and types, allowed type promotions (T15),
and whether a table has the columns that a user described.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import DEEPEST
from esker.model.schema import MAX_FIELD_ID, Schema, walk
from esker.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    VariantType,
    is_floating,
    is_nested,
)

# ---------------------------------------------------------------- promotion
#
# Which types a column may grow into: those the spec lists, and no others (T15).


RULE = "int to long, float to double, a decimal to more digits at the same scale"
RULE_V3 = RULE + ", date to timestamp without zone, unknown to any"
SECONDS_PER_DAY = 86_400


def can_promote(old: Type, new: Type, format_version: int) -> bool:
    """Whether every value of the old type is one of the new, as the spec of that version has it."""
    match old, new:
        case (IntType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return new.scale == old.scale and new.precision > old.precision
        case DateType(), TimestampType(zoned=False):  # an instant needs a zone, which a date has not
            return format_version >= 3
        case UnknownType(), _:
            return format_version >= 3 and not isinstance(new, UnknownType)
        case _:
            return False


def changes_partition_values(old: Type, new: Type) -> bool:
    """Whether a partition value computed of the old type may differ from one of the new (E7)."""
    return isinstance(old, DateType) and isinstance(new, TimestampType)


def promoted_value(field: Field, new: Type, value: Any) -> Any:
    """A default of the column in the held form of its new type."""
    if value is not None and isinstance(field.type, DateType) and isinstance(new, TimestampType):
        return value * SECONDS_PER_DAY * new.ticks_per_second
    return value


# ---------------------------------------------------------------- schema fit
#
# Whether a table can stand in for one that was described: it has the columns asked for.


def misfit(asked: Schema, there: Schema, format_version: int) -> str | None:
    """The first column of ``asked`` that ``there`` does not have, or has with another type; None where all fit.

    Columns are compared by name, at every depth. A type that the one asked for can be widened to fits.
    """
    for id_, name in asked.name_by_id.items():
        found = there.id_by_name.get(name)
        if found is None:
            return f"it has no column {name!r}"
        wanted, given = asked.by_id[id_].type, there.by_id[found].type
        if not _fits(wanted, given, format_version):
            return f"its column {name!r} is {_word(given)}, not {_word(wanted)}"
    return None


def _fits(wanted: Type, given: Type, format_version: int) -> bool:
    if is_nested(wanted) or is_nested(given):  # what is inside has names of its own
        return type(wanted) is type(given)
    return wanted == given or can_promote(wanted, given, format_version)


def _word(type_: Type) -> str:
    return type(type_).__name__.removesuffix("Type").lower() if is_nested(type_) else str(type_)


# ---------------------------------------------------------------- schema rules
#
# What a schema must keep to, whoever made it: names, ids, identifier columns, and types its format version has.


NEWEST_VERSION = 3
MOST_FILE_LEVELS = 96  # of a Parquet file: Arrow writes files of more than 100, and does not read them
RESERVED_NAMES = frozenset(
    [
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    ]
)


def check_schema(schema: Schema, format_version: int) -> None:
    """Refuse a schema that a new table of that version cannot have."""
    check_siblings(schema.fields)
    seen: dict[int, str] = {}
    for field, path in walk(schema.fields):
        name = _dotted(path)
        check_depth(path)
        check_name(field.name, name)
        check_version(field, name, format_version)
        if isinstance(field.type, StructType):
            check_siblings(field.type.fields, name)
        if not 0 < field.id <= MAX_FIELD_ID:
            raise InvalidInput(
                f"cannot give column {name!r} the id {field.id}: ids are from 1 to {MAX_FIELD_ID}, "
                "those above are reserved",
                column=name,
            )
        if field.id in seen:
            raise InvalidInput(f"columns {seen[field.id]!r} and {name!r} have the same id {field.id}", column=name)
        seen[field.id] = name
    check_identifiers(schema)


def check_name(name: str, shown: str) -> None:
    """Refuse a name that no column may have."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"cannot name a column {shown!r}: a name may not be empty", column=shown)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"cannot name a column {shown!a}: it holds half a surrogate pair") from None
    if name.lower() in RESERVED_NAMES and name == shown:
        raise InvalidInput(f"cannot name a column {name!r}: Iceberg reserves that name for metadata", column=name)


def check_depth(path: tuple[Field, ...]) -> None:
    """Refuse a field that is so deep that a file with it could be written and not be read. A file has one level for a
    struct, and two for a list or map."""
    if 2 * len(path) <= DEEPEST:
        return
    in_file = len(path) + sum(isinstance(part.type, ListType | MapType) for part in path[:-1])
    if len(path) > DEEPEST or in_file > MOST_FILE_LEVELS:
        shown = _dotted(path[:3])
        limit = (
            f"{DEEPEST} levels deep"
            if len(path) > DEEPEST
            else f"{MOST_FILE_LEVELS} levels deep in a file, which counts two levels for a list or map"
        )
        raise InvalidInput(
            f"cannot make a column {path[0].name!r}: its types are nested more than {limit}, in {shown!r}",
            column=path[0].name,
        )


def check_siblings(fields: Iterable[Field], above: str = "") -> None:
    """Refuse two members of one struct whose names only case tells apart: Spark could not."""
    seen: dict[str, str] = {}
    for field in fields:
        folded = field.name.casefold()
        name = f"{above}.{field.name}" if above else field.name
        if folded in seen and seen[folded] == field.name:
            raise InvalidInput(f"column {name!r} is there twice", column=name)
        if folded in seen:
            raise InvalidInput(f"columns {seen[folded]!r} and {field.name!r} differ only in case", column=name)
        seen[folded] = field.name


def check_version(field: Field, name: str, format_version: int) -> None:
    """Refuse what only a later format version has."""
    if isinstance(field.type, UnknownType) and field.required:
        raise InvalidInput(
            f"cannot make column {name!r} required: a column of type unknown is always null", column=name
        )
    if format_version >= 3:
        return
    if needs_v3(field.type):
        raise InvalidInput(
            f"cannot have column {name!r} of type {field.type} in format version {format_version}: "
            "the type came with version 3",
            column=name,
        )
    if field.initial_default is not None or field.write_default is not None:
        raise InvalidInput(
            f"cannot give column {name!r} a default in format version {format_version}: defaults came with version 3",
            column=name,
        )


def needs_v3(type_: Type) -> bool:
    """Whether format versions 1 and 2 do not have the type."""
    match type_:
        case TimestampType(nanos=True) | UnknownType() | VariantType() | GeometryType() | GeographyType():
            return True
        case _:
            return False


def check_identifiers(schema: Schema) -> None:
    """Refuse identifier columns that cannot tell rows apart (E8)."""
    for field_id in sorted(schema.identifier_field_ids):
        if field_id not in schema.path_by_id:
            raise InvalidInput(f"cannot identify rows by field {field_id}: there is no such column")
        path = schema.path_by_id[field_id]
        why = _why_no_identifier(path)
        if why is not None:
            raise InvalidInput(f"cannot identify rows by column {_dotted(path)!r}: {why}", column=_dotted(path))


def _why_no_identifier(path: tuple[Field, ...]) -> str | None:
    field = path[-1]
    if is_nested(field.type):
        return f"it is a {type(field.type).__name__.removesuffix('Type').lower()}, not a primitive"
    if any(isinstance(part.type, ListType | MapType) for part in path[:-1]):
        return "it lies inside a list or map"
    if any(not part.required for part in path[:-1]):
        return "the struct it lies in is optional"
    if not field.required:
        return "it is optional"
    if is_floating(field.type):
        return f"a {field.type} has values that do not equal themselves"
    if isinstance(field.type, VariantType):
        return "values of type variant are not compared for equality"
    return None


def _dotted(path: tuple[Field, ...]) -> str:
    return ".".join(part.name for part in path)
