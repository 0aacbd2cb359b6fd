"""Rules for schemas: allowed names, ids and types, allowed type promotions (T15), and whether a table has the
columns that a user described."""

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

# ---------------------------------------------------------------- Type promotion: only what the spec lists (T15)


RULE = "int to long, float to double, a decimal to more digits at the same scale"
RULE_V3 = RULE + ", date to timestamp without zone, unknown to any"
SECONDS_PER_DAY = 86_400


def can_promote(old: Type, new: Type, format_version: int) -> bool:
    """Whether the spec of that version allows the change: every value of the old type is a value of the new type."""
    match old, new:
        case (IntType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return new.scale == old.scale and new.precision > old.precision
        case DateType(), TimestampType(zoned=False):  # an instant needs a zone, and a date has none
            return format_version >= 3
        case UnknownType(), _:
            return format_version >= 3 and not isinstance(new, UnknownType)
        case _:
            return False


def changes_partition_values(old: Type, new: Type) -> bool:
    """Whether partition values of the old type may differ from those of the new type (E7)."""
    return isinstance(old, DateType) and isinstance(new, TimestampType)


def promoted_value(field: Field, new: Type, value: Any) -> Any:
    """A default of the column in the held form of its new type."""
    if value is not None and isinstance(field.type, DateType) and isinstance(new, TimestampType):
        return value * SECONDS_PER_DAY * new.ticks_per_second
    return value


# ---------------------------------------------------------------- Whether a table has the columns that were asked for


def misfit(asked: Schema, there: Schema, format_version: int) -> str | None:
    """A sentence about the first column of ``asked`` that ``there`` does not have or has with another type. None if all
    fit.

    Columns are compared by name, at every depth. A type that the asked type can be promoted to fits.
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
    if is_nested(wanted) or is_nested(given):  # the fields inside are compared by their names
        return type(wanted) is type(given)
    return wanted == given or can_promote(wanted, given, format_version)


def _word(type_: Type) -> str:
    return type(type_).__name__.removesuffix("Type").lower() if is_nested(type_) else str(type_)


# ---------------------------------------------------------------- Rules for names, ids, identifier columns and types


NEWEST_VERSION = 3
MOST_FILE_LEVELS = 96  # in a Parquet file: Arrow writes files with more than 100 levels, but does not read them
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
    """Raise `InvalidInput` if a new table of that version cannot have the schema."""
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
            raise InvalidInput(
                f"cannot use the schema: columns {seen[field.id]!r} and {name!r} have the same id {field.id}",
                column=name,
            )
        seen[field.id] = name
    check_identifiers(schema)


def check_name(name: str, shown: str) -> None:
    """Raise `InvalidInput` for a name that no column may have."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"cannot name a column {shown!r}: a name may not be empty", column=shown)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"cannot name a column {shown!a}: it has half of a surrogate pair") from None
    if name.lower() in RESERVED_NAMES and name == shown:
        raise InvalidInput(f"cannot name a column {name!r}: Iceberg reserves that name for metadata", column=name)


def check_depth(path: tuple[Field, ...]) -> None:
    """Raise `InvalidInput` if a field is so deep that a file with it could be written but not read.

    In a file, a struct is one level, and a list or map is two levels.
    """
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
    """Raise `InvalidInput` if the names of two fields of one struct differ only in case: Spark could not distinguish
    them."""
    seen: dict[str, str] = {}
    for field in fields:
        folded = field.name.casefold()
        name = f"{above}.{field.name}" if above else field.name
        if folded in seen and seen[folded] == field.name:
            raise InvalidInput(f"cannot use the schema: column {name!r} is there twice", column=name)
        if folded in seen:
            raise InvalidInput(
                f"cannot use the schema: columns {seen[folded]!r} and {field.name!r} differ only in case", column=name
            )
        seen[folded] = field.name


def check_version(field: Field, name: str, format_version: int) -> None:
    """Raise `InvalidInput` for a type or default that only a later format version has."""
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
    """Whether the type needs format version 3."""
    match type_:
        case TimestampType(nanos=True) | UnknownType() | VariantType() | GeometryType() | GeographyType():
            return True
        case _:
            return False


def check_identifiers(schema: Schema) -> None:
    """Raise `InvalidInput` for identifier columns that cannot identify rows (E8)."""
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
        return "it is inside a list or map"
    if any(not part.required for part in path[:-1]):
        return "the struct around it is optional"
    if not field.required:
        return "it is optional"
    if is_floating(field.type):
        return f"a {field.type} has values that do not equal themselves"
    if isinstance(field.type, VariantType):
        return "values of type variant are not compared for equality"
    return None


def _dotted(path: tuple[Field, ...]) -> str:
    return ".".join(part.name for part in path)
