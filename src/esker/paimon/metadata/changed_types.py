"""Columns whose type was changed. Paimon casts the values of older files; Esker reads them if a cast keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from esker.errors import Unsupported
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.metadata.types import DataField, DataType, encode_type

_WIDER = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT"),
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
    "CHAR": ("VARCHAR",),
    "BINARY": ("VARBINARY",),
}
_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")
_MICROS = 6  # digits; a timestamp with more is stored otherwise


def check_types(
    schemas: Mapping[int, TableSchema], written: Iterable[int], now: TableSchema, *, in_place: bool = False
) -> None:
    """Raise ``Unsupported`` with the name of a column that files of these schemas have in a type whose values would be
    other ones in the current type, or might be. Columns that were dropped do not matter.

    ``in_place`` is for a reader that finds the fields of a row by their position: nested types must be the same.
    """
    for schema_id in sorted(set(written)):
        schema = schemas.get(schema_id)
        for field in () if schema is None else schema.fields:
            new = now.by_id.get(field.id)
            if new is None:
                continue
            moved = in_place and field.type.root in _NESTED and not _is_same(field.type, new.type)
            if moved or not _keeps_values(field.type, new.type):
                raise _changed(field, new)


def _changed(old: DataField, new: DataField) -> Unsupported:
    return Unsupported(
        f"cannot read column {new.name!r}: its type was changed from {_shown(old)} to {_shown(new)}, and there are "
        "files with the old type; Esker reads old values only if the new type holds each of them; let Paimon compact "
        "the table fully",
        feature="changed type",
        column=new.name,
    )


def _shown(field: DataField) -> str:
    found = encode_type(field.type)
    return found if isinstance(found, str) else str(found["type"])


def _keeps_values(old: DataType, new: DataType) -> bool:
    """Whether every value of the old type is the same value in the new type, and is stored in a form that is read."""
    if old.root != new.root:
        is_wider = new.root in _WIDER.get(old.root, ())
        return is_wider and (old.root not in ("CHAR", "BINARY") or old.length <= new.length)
    match new.root:
        case "DECIMAL":
            return (old.scale or 0) == (new.scale or 0) and old.digits <= new.digits
        case "VARCHAR" | "VARBINARY":
            return old.length <= new.length
        case "CHAR" | "BINARY":
            return old.length == new.length  # a longer one is padded
        case "TIME":
            return old.digits <= new.digits
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return old.digits <= new.digits and (old.digits > _MICROS) == (new.digits > _MICROS)
        case "ROW":
            names = {field.id: field for field in new.fields}
            return all(_keeps_values(field.type, names[field.id].type) for field in old.fields if field.id in names)
        case _:
            pairs = ((old.element, new.element), (old.key, new.key))
            return all(_keeps_values(one, other) for one, other in pairs if one is not None and other is not None)


def _is_same(old: DataType, new: DataType) -> bool:
    """Whether two nested types have the same fields at the same places. Whether a value may be null does not matter."""
    if (old.root, len(old.fields)) != (new.root, len(new.fields)):
        return False
    fields = zip(old.fields, new.fields, strict=True)
    if any((one.id, one.name) != (other.id, other.name) for one, other in fields):
        return False
    parts = [(old.element, new.element), (old.key, new.key)]
    parts += [(one.type, other.type) for one, other in zip(old.fields, new.fields, strict=True)]
    return all(_is_same(one, other) for one, other in parts if one is not None and other is not None)
