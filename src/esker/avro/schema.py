"""The writer's schema as a tree of immutable nodes, with named references resolved.

A schema may come from an untrusted file. A few lines of references can describe a huge tree. So the number of nodes is
counted as if every reference were written in full.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
MAX_DEPTH = 64
MAX_NODES = 1 << 16
_MAX_FIXED = 1 << 24  # a null value needs as much space as any other


class SchemaError(ValueError):
    """The schema is malformed. The caller, which knows the file's name, raises ``Corrupt``."""


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type as written. The code that applies it decides whether it fits its node."""

    name: str
    precision: int | None = None
    scale: int = 0
    adjust_to_utc: bool = False  # absent means false (checklist A10)


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of Avro's eight primitive types."""

    kind: str
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One symbol of a list."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. ``id`` is its ``field-id``."""

    name: str
    type: Node
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An array. With ``logical.name == "map"`` it is a map with keys of any type."""

    items: Node
    element_id: int | None = None
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """A native map. Its keys are strings."""

    values: Node
    key_id: int | None = None
    value_id: int | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """A choice of branches. ``[null, T]`` and ``[T, null]`` are a nullable T."""

    branches: tuple[Node, ...]

    @property
    def null_branch(self) -> int | None:
        """The position of null in a nullable T. None for any other union."""
        nulls = [i for i, branch in enumerate(self.branches) if isinstance(branch, Primitive) and branch.kind == "null"]
        return nulls[0] if len(self.branches) == 2 and len(nulls) == 1 else None


Node = Primitive | Fixed | Enum | Record | Array | Map | Union


def map_entry(array: Array) -> Record | None:
    """The key-value record of an array that is a map (checklist A2). None for a plain array."""
    items = array.items
    is_map = array.logical is not None and array.logical.name == "map"
    if is_map and isinstance(items, Record) and [field.name for field in items.fields] == ["key", "value"]:
        return items
    return None


@lru_cache(maxsize=128)
def parse_schema(text: bytes) -> Record:
    """The schema of a container. Raises `SchemaError` if its root is not a record."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"its avro.schema is not JSON: {error}") from None
    node = _Parser().node(raw, namespace="", depth=0).node
    if not isinstance(node, Record):
        raise SchemaError("the root of its avro.schema is not a record")
    return node


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A node, with its size and height as if every reference were written in full."""

    node: Node
    size: int = 1
    height: int = 1


class _Parser:
    """Parses one schema. ``_named`` has the types that may be referred to, ``_open`` those that are being defined."""

    def __init__(self) -> None:
        self._named: dict[str, _Parsed] = {}
        self._open: set[str] = set()

    def node(self, raw: Any, *, namespace: str, depth: int) -> _Parsed:
        """The node that ``raw`` describes."""
        if depth > MAX_DEPTH:
            raise SchemaError(f"its avro.schema nests deeper than {MAX_DEPTH}")
        match raw:
            case str():
                parsed = self._reference(raw, namespace)
            case list():
                parsed = self._union(raw, namespace, depth)
            case {"type": str(kind)}:
                parsed = self._typed(kind, raw, namespace, depth)
            case {"type": dict() | list() as inner}:
                parsed = self.node(inner, namespace=namespace, depth=depth + 1)
            case _:
                raise SchemaError(f"its avro.schema has {_short(raw)} where a type is expected")
        if depth + parsed.height > MAX_DEPTH + 1:
            raise SchemaError(f"its avro.schema nests deeper than {MAX_DEPTH}")
        return parsed

    def _reference(self, name: str, namespace: str) -> _Parsed:
        if name in PRIMITIVES:
            return _Parsed(Primitive(name))
        for full in dict.fromkeys((name if "." in name or not namespace else f"{namespace}.{name}", name)):
            if full in self._open:
                raise SchemaError(f"its avro.schema is recursive: {_short(full)} contains itself")
            if full in self._named:
                return self._named[full]
        raise SchemaError(f"its avro.schema names an unknown type {_short(name)}")

    def _union(self, raw: list[Any], namespace: str, depth: int) -> _Parsed:
        if not raw or any(isinstance(branch, list) for branch in raw):
            raise SchemaError("its avro.schema has a union that is empty or directly contains another")
        branches = [self.node(branch, namespace=namespace, depth=depth + 1) for branch in raw]
        return self._above(Union(tuple(branch.node for branch in branches)), branches)

    def _typed(self, kind: str, raw: dict[str, Any], namespace: str, depth: int) -> _Parsed:
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._definition(kind, raw, namespace, depth)
            case "array":
                items = self.node(raw.get("items"), namespace=namespace, depth=depth + 1)
                return self._above(Array(items.node, _id(raw, "element-id"), _logical(raw)), [items])
            case "map":
                values = self.node(raw.get("values"), namespace=namespace, depth=depth + 1)
                return self._above(Map(values.node, _id(raw, "key-id"), _id(raw, "value-id")), [values])
            case _ if kind in PRIMITIVES:
                return _Parsed(Primitive(kind, _logical(raw)))
            case _:
                return self._reference(kind, namespace)

    def _definition(self, kind: str, raw: dict[str, Any], namespace: str, depth: int) -> _Parsed:
        name = raw.get("name")
        if not isinstance(name, str) or not name or name in PRIMITIVES:
            raise SchemaError(f"its avro.schema has a {kind} named {_short(name)}")
        outer = raw.get("namespace", namespace)
        if not isinstance(outer, str):
            raise SchemaError(f"its avro.schema gives {_short(name)} a namespace that is not text")
        full = name if "." in name or not outer else f"{outer}.{name}"
        if full in self._named or full in self._open:
            raise SchemaError(f"its avro.schema defines {_short(full)} twice")
        self._open.add(full)
        match kind:
            case "enum":
                parsed = _Parsed(Enum(full, _symbols(raw, full)))
            case "fixed":
                parsed = _Parsed(Fixed(full, _size(raw, full), _logical(raw)))
            case _:
                parsed = self._record(full, raw, full.rpartition(".")[0], depth)
        self._open.remove(full)
        self._named[full] = parsed
        return parsed

    def _record(self, full: str, raw: dict[str, Any], namespace: str, depth: int) -> _Parsed:
        fields, children, seen = [], [], set()
        if not isinstance(raw.get("fields"), list):
            raise SchemaError(f"its avro.schema has a record {_short(full)} without a list of fields")
        for field in raw["fields"]:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise SchemaError(f"its avro.schema has a field without name or type in record {_short(full)}")
            if field["name"] in seen:
                raise SchemaError(f"its avro.schema has two fields {_short(field['name'])} in record {_short(full)}")
            seen.add(field["name"])
            child = self.node(field["type"], namespace=namespace, depth=depth + 1)
            children.append(child)
            fields.append(Field(field["name"], child.node, _id(field, "field-id")))
        return self._above(Record(full, tuple(fields)), children)

    def _above(self, node: Node, children: list[_Parsed]) -> _Parsed:
        size = 1 + sum(child.size for child in children)
        if size > MAX_NODES:
            raise SchemaError(f"its avro.schema describes more than {MAX_NODES} nodes")
        return _Parsed(node, size, 1 + max((child.height for child in children), default=0))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _id(raw: dict[str, Any], key: str) -> int | None:
    value = raw.get(key)
    if value is not None and (type(value) is not int or not -(1 << 31) <= value < 1 << 31):
        raise SchemaError(f"its avro.schema has a {key} that is not an int: {_short(value)}")
    return value


def _symbols(raw: dict[str, Any], name: str) -> tuple[str, ...]:
    symbols = raw.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise SchemaError(f"its avro.schema has an enum {_short(name)} without a list of symbols")
    if len(set(symbols)) != len(symbols):
        raise SchemaError(f"its avro.schema has an enum {_short(name)} that repeats a symbol")
    return tuple(symbols)


def _size(raw: dict[str, Any], name: str) -> int:
    size = raw.get("size")
    if type(size) is not int or not 0 <= size <= _MAX_FIXED:
        raise SchemaError(f"its avro.schema has a fixed {_short(name)} of size {_short(size)}")
    return size


def _logical(raw: dict[str, Any]) -> Logical | None:
    """The logical type. None if it is absent or invalid: Avro says that invalid ones are ignored."""
    name = raw.get("logicalType")
    precision, scale = raw.get("precision"), raw.get("scale", 0)
    if not isinstance(name, str) or type(scale) is not int:
        return None
    return Logical(name, precision if type(precision) is int else None, scale, raw.get("adjust-to-utc") is True)
