"""Iceberg's data types, v1 to v3.

Every type is an immutable value: two types are equal if they mean the same. Metadata has a primitive type as the string
``str(type)``. Nested types have the ids of their parts, because columns are identified by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as member
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class BooleanType:
    """True or false."""

    def __str__(self) -> str:
        return "boolean"


@dataclass(frozen=True, slots=True)
class IntType:
    """32-bit signed integer."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class LongType:
    """64-bit signed integer."""

    def __str__(self) -> str:
        return "long"


@dataclass(frozen=True, slots=True)
class FloatType:
    """32-bit IEEE 754."""

    def __str__(self) -> str:
        return "float"


@dataclass(frozen=True, slots=True)
class DoubleType:
    """64-bit IEEE 754."""

    def __str__(self) -> str:
        return "double"


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Fixed-point number of at most 38 digits."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class DateType:
    """Calendar date, held as days from 1970-01-01."""

    def __str__(self) -> str:
        return "date"


@dataclass(frozen=True, slots=True)
class TimeType:
    """Time of day without zone, held as microseconds from midnight."""

    def __str__(self) -> str:
        return "time"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """A point in time, held as microseconds or nanoseconds from 1970-01-01T00:00.

    With ``zoned`` it is an instant in UTC. Without, it is a local time in no zone.
    """

    zoned: bool = False
    nanos: bool = False

    def __str__(self) -> str:
        return f"timestamp{'tz' if self.zoned else ''}{'_ns' if self.nanos else ''}"

    @property
    def ticks_per_second(self) -> int:
        """How many held units are in a second."""
        return 1_000_000_000 if self.nanos else 1_000_000


@dataclass(frozen=True, slots=True)
class StringType:
    """UTF-8 text."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class UuidType:
    """Universally unique identifier, held as 16 big-endian bytes."""

    def __str__(self) -> str:
        return "uuid"


@dataclass(frozen=True, slots=True)
class FixedType:
    """Exactly ``length`` bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class BinaryType:
    """Any number of bytes."""

    def __str__(self) -> str:
        return "binary"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A column that is always null and is not stored in files (v3)."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class VariantType:
    """Semi-structured value: two binaries, metadata and value (v3)."""

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class GeometryType:
    """Planar features as WKB (v3). ``crs`` None means the default, OGC:CRS84."""

    crs: str | None = None

    def __str__(self) -> str:
        return "geometry" if self.crs is None else f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType:
    """Features on the globe as WKB (v3). None means the default CRS or edge algorithm."""

    crs: str | None = None
    algorithm: str | None = None

    def __str__(self) -> str:
        if self.algorithm is not None:  # the second parameter needs the first
            return f"geography({self.crs or 'OGC:CRS84'}, {self.algorithm})"
        return "geography" if self.crs is None else f"geography({self.crs})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of a table or a field of a struct. Its ``id`` never changes."""

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    # Defaults may be dicts and lists, and a field must still be hashable.
    initial_default: Any = member(default=None, hash=False)  # the value in rows from before the field existed
    write_default: Any = member(default=None, hash=False)  # the value that a writer uses if none is given

    def __str__(self) -> str:
        return f"{self.id}: {self.name}: {'required' if self.required else 'optional'} {self.type}"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListType:
    """A sequence of one element type."""

    element_id: int
    element: Type
    element_required: bool = False

    def __str__(self) -> str:
        return f"list<{self.element}>"

    @property
    def element_field(self) -> Field:
        """The element as a field named ``element``."""
        return Field(id=self.element_id, name="element", type=self.element, required=self.element_required)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """Pairs of a required key and a value."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"

    @property
    def key_field(self) -> Field:
        """The key as a field named ``key``."""
        return Field(id=self.key_id, name="key", type=self.key, required=True)

    @property
    def value_field(self) -> Field:
        """The value as a field named ``value``."""
        return Field(id=self.value_id, name="value", type=self.value, required=self.value_required)


NestedType: TypeAlias = StructType | ListType | MapType
PrimitiveType: TypeAlias = (
    BooleanType
    | IntType
    | LongType
    | FloatType
    | DoubleType
    | DecimalType
    | DateType
    | TimeType
    | TimestampType
    | StringType
    | UuidType
    | FixedType
    | BinaryType
    | UnknownType
    | VariantType
    | GeometryType
    | GeographyType
)
Type: TypeAlias = PrimitiveType | NestedType

BOOLEAN, INT, LONG, FLOAT, DOUBLE = BooleanType(), IntType(), LongType(), FloatType(), DoubleType()
DATE, TIME, STRING, UUID, BINARY = DateType(), TimeType(), StringType(), UuidType(), BinaryType()
TIMESTAMP, TIMESTAMPTZ = TimestampType(), TimestampType(zoned=True)
TIMESTAMP_NS, TIMESTAMPTZ_NS = TimestampType(nanos=True), TimestampType(zoned=True, nanos=True)
UNKNOWN, VARIANT = UnknownType(), VariantType()


def children(type_: Type) -> tuple[Field, ...]:
    """The fields directly inside a nested type. Empty for a primitive."""
    match type_:
        case StructType(fields):
            return fields
        case ListType():
            return (type_.element_field,)
        case MapType():
            return (type_.key_field, type_.value_field)
        case _:
            return ()


def is_nested(type_: Type) -> bool:
    """Whether the type has parts."""
    return isinstance(type_, StructType | ListType | MapType)


def is_floating(type_: Type) -> bool:
    """Whether values may be NaN."""
    return isinstance(type_, FloatType | DoubleType)
