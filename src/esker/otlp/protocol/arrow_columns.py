"""The walk's buffers as Arrow arrays, without copying them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from esker.otlp.protocol.walk import Node, Op, SlotBuffers

TEXTS = pa.map_(pa.string(), pa.string())
_TYPES = {
    Op.FIXED64: pa.int64(),
    Op.SFIXED64: pa.int64(),
    Op.DOUBLE: pa.float64(),
    Op.FIXED32: pa.int64(),
    Op.UINT32: pa.int64(),
    Op.INT32: pa.int32(),
    Op.SINT32: pa.int32(),
    Op.BOOL: pa.bool_(),
    Op.STRING: pa.string(),
    Op.ID: pa.binary(),
}
_ITEMS = {Op.FIXED64S: pa.int64(), Op.UINT64S: pa.int64(), Op.DOUBLES: pa.float64(), Op.STRINGS: pa.string()}


@dataclass(frozen=True, slots=True)
class Items:
    """A repeated message: one list for each row, and the columns of its items."""

    length: int
    validity: bytes
    offsets: bytes
    columns: Columns

    def of(self, items: pa.Array) -> pa.Array:
        """The lists with these items."""
        buffers = [pa.py_buffer(self.validity), pa.py_buffer(self.offsets)]
        return pa.Array.from_buffers(pa.list_(items.type), self.length, buffers, -1, children=[items])


Columns: TypeAlias = "dict[str, pa.Array | Items]"


@dataclass(frozen=True, slots=True)
class Level:
    """The rows of a level: each with its parent's number, and its own columns by the names of the protocol."""

    parent: pa.Array
    columns: Columns

    def array(self, name: str) -> pa.Array:
        """A column that is not a repeated message."""
        found = self.columns[name]
        assert not isinstance(found, Items)
        return found

    def items(self, name: str) -> Items:
        """A column that is a repeated message."""
        found = self.columns[name]
        assert isinstance(found, Items)
        return found


def levels_of(root: Node, slots: list[SlotBuffers]) -> dict[str, Level]:
    """All levels by path, such as ``resource_spans.scope_spans``. The path of the request is empty."""
    return dict(_levels(root, "", slots))


def _levels(node: Node, path: str, slots: list[SlotBuffers]) -> Iterator[tuple[str, Level]]:
    yield path, Level(_plain(pa.int32(), slots[node.slot]), dict(_columns(node, slots)))
    for child in node.levels:
        yield from _levels(child, f"{path}.{child.field.name}".lstrip("."), slots)


def _columns(node: Node, slots: list[SlotBuffers]) -> Iterator[tuple[str, pa.Array | Items]]:
    for child in node.children:
        name, slot = child.field.name, child.slot
        match child.field.op:
            case Op.LEVEL:
                continue
            case Op.MESSAGE:
                yield from ((f"{name}.{inner}", column) for inner, column in _columns(child, slots))
            case Op.LIST:
                length, validity, offsets, _ = slots[slot]
                yield name, Items(length, validity, offsets, dict(_columns(child, slots)))
            case Op.ANY:
                yield name, _text(pa.string(), slots[slot])
                yield f"{name}_type", _text(pa.string(), slots[slot + 1])
            case Op.ATTRIBUTES:
                yield name, _map(slots[slot : slot + 3])
                yield f"{name}_types", _map(slots[slot + 3 : slot + 6])
            case Op.FIXED64S | Op.UINT64S | Op.DOUBLES | Op.STRINGS as op:
                inner = (_text if op is Op.STRINGS else _plain)(_ITEMS[op], slots[slot + 1])
                length, validity, offsets, _ = slots[slot]
                yield name, Items(length, validity, offsets, {}).of(inner)
            case Op.STRING | Op.ID as op:
                yield name, _text(_TYPES[op], slots[slot])
            case op:
                yield name, _plain(_TYPES[op], slots[slot])


def _plain(type_: pa.DataType, slot: SlotBuffers) -> pa.Array:
    length, validity, values, _ = slot
    return pa.Array.from_buffers(type_, length, [pa.py_buffer(validity), pa.py_buffer(values)], -1)


def _text(type_: pa.DataType, slot: SlotBuffers) -> pa.Array:
    length, validity, offsets, data = slot
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, length, buffers, -1)


def _map(slots: list[SlotBuffers]) -> pa.Array:
    (length, validity, offsets, _), keys, values = slots
    children = [_text(pa.string(), keys), _text(pa.string(), values)]
    entry = pa.struct([TEXTS.key_field, TEXTS.item_field])
    entries = pa.Array.from_buffers(entry, len(children[0]), [None], 0, children=children)
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(TEXTS, length, buffers, -1, children=[entries])
