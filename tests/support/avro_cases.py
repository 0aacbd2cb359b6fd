"""Random Avro schemas with records for them, and what their columns should say."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import fastavro
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from esker.avro.schema import Array, Field, Map, Node, Record, Union, map_entry

# A loaded machine is no failure: neither a slow draw nor a slow example says anything here.
calm = settings(
    deadline=None,
    max_examples=min(80, settings.default.max_examples),
    suppress_health_check=[HealthCheck.too_slow],
)

_LEAVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"]
_TEXT = st.text("ab\0é€😀", max_size=8)
_NAMES = st.sampled_from(["a", "b", "c", "d", "e", "key", "value", "π"])


def _leaf(kind: str) -> Any:
    if kind == "fixed":
        return {"type": "fixed", "size": 3}
    if kind == "enum":
        return {"type": "enum", "symbols": ["X", "Y", "Z"]}
    return kind


def _record(types: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}


def _optional(inner: Any, first: bool) -> Any:
    if inner == "null" or isinstance(inner, list):
        return inner
    return ["null", inner] if first else [inner, "null"]


def _entries(key: str, value: Any) -> dict[str, Any]:
    return {"type": "array", "logicalType": "map", "items": _record({"key": key, "value": value})}


_types = st.recursive(
    st.sampled_from(_LEAVES).map(_leaf),
    lambda inner: st.one_of(
        st.builds(_optional, inner, st.booleans()),
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.builds(_entries, st.sampled_from(["int", "long", "string"]), inner),
        st.dictionaries(_NAMES, inner, max_size=4).map(_record),
    ),
    max_leaves=8,
)


def _finished(raw: Any, number: itertools.count[int]) -> Any:
    """The schema with every node named and numbered, on copies: strategies may share parts."""
    if isinstance(raw, list):
        return [_finished(branch, number) for branch in raw]
    if not isinstance(raw, dict):
        return raw
    out = dict(raw)
    match out["type"]:
        case "record":
            out["name"] = f"r{next(number)}"
            out["fields"] = [
                {**field, "field-id": next(number), "type": _finished(field["type"], number)} for field in out["fields"]
            ]
        case "array":
            out |= {"element-id": next(number), "items": _finished(out["items"], number)}
        case "map":
            out |= {"key-id": next(number), "value-id": next(number), "values": _finished(out["values"], number)}
        case _:
            out["name"] = f"n{next(number)}"
    return out


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values that fit a schema, as fastavro takes them."""
    match schema:
        case list():
            return st.one_of([values(branch) for branch in schema])
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in fields})
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=3)
        case {"type": "map", "values": inner}:
            return st.dictionaries(_TEXT, values(inner), max_size=3)
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(1 << 31), (1 << 31) - 1),
        "long": st.integers(-(1 << 63), (1 << 63) - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=12),
        "string": _TEXT,
    }[schema]


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of containers: a record at the root, ids everywhere."""
    roots = st.dictionaries(_NAMES, _types, min_size=1, max_size=5).map(_record)
    return roots.map(lambda raw: _finished(raw, itertools.count(1)))


@st.composite
def containers(draw: st.DrawFn, codec: str = "null") -> tuple[dict[str, Any], list[Any], bytes]:
    """A schema, records, and the container fastavro makes of them, in blocks of any number."""
    schema = draw(schemas())
    records = draw(st.lists(values(schema), max_size=6))
    return schema, records, container(schema, records, codec=codec, sync_interval=draw(st.sampled_from([1, 16_000])))


def container(schema: Any, records: list[Any], codec: str = "null", sync_interval: int = 16_000) -> bytes:
    """The container fastavro writes."""
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_marker=SYNC, sync_interval=sync_interval)
    return out.getvalue()


SYNC = b"0123456789abcdef"


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def raw_container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null", sync: bytes = SYNC) -> bytes:
    """A container of these (row count, stored bytes) blocks, whatever they say."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    out = b"Obj\x01" + long(2)
    for key, value in ((b"avro.schema", text), (b"avro.codec", codec.encode())):
        out += long(len(key)) + key + long(len(value)) + value
    out += long(0) + SYNC
    for rows, data in blocks:
        out += long(rows) + long(len(data)) + data + sync
    return out


def read_by_fastavro(data: bytes) -> list[Any]:
    """The records as the reference implementation reads them."""
    return list(fastavro.reader(io.BytesIO(data)))


def as_column(node: Node, value: Any) -> Any:
    """A record's value as ``to_pylist`` of its column shows it: maps are lists of pairs there."""
    match node:
        case Union(branches):
            inner = [branch for branch in branches if getattr(branch, "kind", "") != "null"]
            return None if value is None else as_column(inner[0], value)
        case Record(_, fields):
            return {field.name: as_column(field.type, value[field.name]) for field in fields}
        case Array(items) if map_entry(node) is not None:
            return [tuple(as_column(items, entry).values()) for entry in value]
        case Array(items):
            return [as_column(items, item) for item in value]
        case Map(inner):
            return [(key, as_column(inner, item)) for key, item in value.items()]
        case _:
            return value


def ids_below(node: Node) -> set[int]:
    """Every id that can be chosen below a node."""
    match node:
        case Union(branches):
            return set().union(*(ids_below(branch) for branch in branches))
        case Record(_, fields):
            return {field.id for field in fields if field.id} | set().union(*(ids_below(f.type) for f in fields))
        case Array(items, element_id):
            return ids_below(items) | ({element_id} if element_id else set())
        case Map(inner, key_id, value_id):
            return ids_below(inner) | {id_ for id_ in (key_id, value_id) if id_}
        case _:
            return set()


def pruned(node: Node, ids: set[int]) -> Node:
    """The schema with only what is chosen, by the rule of ``Projection`` said in other words."""
    match node:
        case Union(branches):
            return Union(tuple(pruned(branch, ids) for branch in branches))
        case Record(name, fields):
            return Record(name, tuple(_pruned_field(field, ids) for field in fields if _is_kept(field, ids)))
        case Array(items, element_id, logical) if (entry := map_entry(node)) is not None:
            key, value = entry.fields
            kept = Record(entry.name, (key, Field(value.name, _pruned_below(value.type, ids), value.id)))
            return Array(kept, element_id, logical)
        case Array(items, element_id, logical):
            return Array(_pruned_below(items, ids), element_id, logical)
        case Map(inner, key_id, value_id):
            return Map(_pruned_below(inner, ids), key_id, value_id)
        case _:
            return node


def _pruned_below(node: Node, ids: set[int]) -> Node:
    return pruned(node, ids) if ids_below(node) & ids else node


def _is_kept(field: Field, ids: set[int]) -> bool:
    return field.id in ids or bool(ids_below(field.type) & ids)


def _pruned_field(field: Field, ids: set[int]) -> Field:
    return Field(field.name, _pruned_below(field.type, ids), field.id)
