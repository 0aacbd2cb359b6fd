"""Paimon's data types: their text in a schema file, and the model's type that has the same values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from esker.errors import Unsupported
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
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
    TimestampType,
    Type,
)

_TEXT = re.compile(
    r"([A-Z_]+(?: PRECISION)?)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?"
    r"( WITH LOCAL TIME ZONE| WITHOUT TIME ZONE)?( NOT NULL)?"
)
_OTHER_NAMES = {
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "DOUBLE PRECISION": "DOUBLE",
    "STRING": "VARCHAR",
    "BYTES": "VARBINARY",
}
_PLAIN: dict[str, Type] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": INT,
    "SMALLINT": INT,
    "INT": INT,
    "BIGINT": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "TIME": TIME,
    "CHAR": STRING,
    "VARCHAR": STRING,
    "BINARY": BINARY,
    "VARBINARY": BINARY,
}
_LONGEST = 2147483647  # the length of STRING and BYTES
_DEFAULTS = {"DECIMAL": 10, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "TIME": 0, "CHAR": 1, "BINARY": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """A type as Paimon has it. ``root`` is its name without parameters: ``BIGINT``, ``TIMESTAMP_LTZ``, ``ROW``."""

    root: str
    nullable: bool = True
    precision: int | None = None  # of decimals and times; the length of texts and binaries
    scale: int | None = None
    element: DataType | None = None  # of arrays and multisets; the value of maps
    key: DataType | None = None
    fields: tuple[DataField, ...] = ()

    @property
    def digits(self) -> int:
        """The precision, or Paimon's default for the type."""
        return _DEFAULTS.get(self.root, 0) if self.precision is None else self.precision

    @property
    def length(self) -> int:
        """The most characters or bytes of a text or a binary."""
        return _DEFAULTS.get(self.root, _LONGEST) if self.precision is None else self.precision

    @property
    def is_time_point(self) -> bool:
        """Whether it is a timestamp, with or without a zone."""
        return self.root in ("TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A column of a table or a field of a row type. Its ``id`` never changes."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None  # what writers put in the place of a null


# ---------------------------------------------------------------- JSON


def decode_type(given: object) -> DataType:
    """The type of its JSON form. Raises ``ValueError`` if the text is no type, and ``Unsupported`` for a type that is
    not known."""
    if isinstance(given, Mapping):
        return _nested(given)
    match = _TEXT.fullmatch(str(given).strip())
    if not match:
        raise ValueError(f"{str(given)[:60]!r} is no type")
    name, first, second, zone, required = match.groups()
    root = _OTHER_NAMES.get(name, name)
    if root == "TIMESTAMP" and zone == " WITH LOCAL TIME ZONE":
        root = "TIMESTAMP_LTZ"
    if root not in _PLAIN and root not in ("DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ"):
        raise Unsupported(f"cannot read a column of Paimon's type {name}: Esker does not have it", feature=name)
    return DataType(
        root=root,
        nullable=required is None,
        precision=_LONGEST if name in ("STRING", "BYTES") else None if first is None else int(first),
        scale=None if second is None else int(second),
    )


def _nested(given: Mapping[str, Any]) -> DataType:
    name = str(given.get("type", ""))
    root, required = name.removesuffix(" NOT NULL"), name.endswith(" NOT NULL")
    match root:
        case "ARRAY" | "MULTISET":
            return DataType(root=root, nullable=not required, element=decode_type(given["element"]))
        case "MAP":
            key, value = decode_type(given["key"]), decode_type(given["value"])
            return DataType(root=root, nullable=not required, key=key, element=value)
        case "ROW":
            return DataType(root=root, nullable=not required, fields=tuple(map(decode_field, given["fields"])))
        case _:
            raise Unsupported(f"cannot read a column of Paimon's type {name}: Esker does not have it", feature=name)


def decode_field(given: Mapping[str, Any]) -> DataField:
    """A field of its JSON form."""
    return DataField(
        id=int(given["id"]),
        name=str(given["name"]),
        type=decode_type(given["type"]),
        description=given.get("description"),
        default=given.get("defaultValue"),
    )


def encode_type(type_: DataType) -> str | dict[str, Any]:
    """The JSON form of a type."""
    end = "" if type_.nullable else " NOT NULL"
    match type_.root:
        case "ARRAY" | "MULTISET":
            assert type_.element is not None
            return {"type": type_.root + end, "element": encode_type(type_.element)}
        case "MAP":
            assert type_.key is not None
            assert type_.element is not None
            return {"type": "MAP" + end, "key": encode_type(type_.key), "value": encode_type(type_.element)}
        case "ROW":
            return {"type": "ROW" + end, "fields": [encode_field(field) for field in type_.fields]}
        case _:
            return _text(type_) + end


def _text(type_: DataType) -> str:
    root = type_.root
    if root in ("VARCHAR", "VARBINARY") and type_.precision in (None, _LONGEST):
        return "STRING" if root == "VARCHAR" else "BYTES"
    if root == "DECIMAL":
        return f"DECIMAL({type_.digits}, {type_.scale or 0})"
    if type_.is_time_point:
        return f"TIMESTAMP({type_.digits}){' WITH LOCAL TIME ZONE' if root == 'TIMESTAMP_LTZ' else ''}"
    return root if type_.precision is None else f"{root}({type_.precision})"


def encode_field(field: DataField) -> dict[str, Any]:
    """The JSON form of a field."""
    found: dict[str, Any] = {"id": field.id, "name": field.name, "type": encode_type(field.type)}
    more = {"description": field.description, "defaultValue": field.default}
    return found | {name: value for name, value in more.items() if value is not None}


# ---------------------------------------------------------------- The model's types
#
# Paimon gives ids to the fields of rows, not to elements, keys and values. Their ids here are those of Paimon's own
# files with field ids: far away from the others, and a function of the column's id and the depth.


_BASE = 2147483647 // 4
_DEPTHS = 1 << 10


def model_field(field: DataField) -> Field:
    """The column as the model has it."""
    return Field(
        id=field.id,
        name=field.name,
        type=model_type(field.type, field.id),
        required=not field.type.nullable,
        doc=field.description,
    )


def model_type(type_: DataType, field_id: int, depth: int = 0) -> Type:
    """The model's type with the same values. ``field_id`` is the nearest column or field around it."""
    root = type_.root
    if root in _PLAIN:
        return _PLAIN[root]
    if root == "DECIMAL":
        return DecimalType(type_.digits, type_.scale or 0)
    if type_.is_time_point:
        return TimestampType(zoned=root == "TIMESTAMP_LTZ", nanos=type_.digits > 6)
    if root == "ROW":
        return StructType(tuple(map(model_field, type_.fields)))
    assert type_.element is not None
    own = field_id * _DEPTHS + depth + 1
    if root == "ARRAY":
        element = model_type(type_.element, field_id, depth + 1)
        return ListType(element_id=_BASE + own, element=element, element_required=not type_.element.nullable)
    key, value = (type_.element, DataType(root="INT")) if root == "MULTISET" else (type_.key, type_.element)
    assert key is not None
    return MapType(
        key_id=_BASE - own,
        key=model_type(key, field_id, depth + 1),
        value_id=_BASE + own,
        value=model_type(value, field_id, depth + 1),
        value_required=not value.nullable,
    )


def required(type_: DataType) -> DataType:
    """The type without null."""
    return replace(type_, nullable=False)
