"""The walk over OTLP requests in Python, equivalent to the compiled one: same rows, same errors, slower.

It keeps rows as objects and makes buffers of them at the end, so that undoing a request is dropping rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Protocol

from esker.otlp.protocol._json_py import transcode
from esker.otlp.protocol._values_py import KINDS, NOTHING, STRING, Tally, read_entry, text_of, value_of
from esker.otlp.protocol.walk import (
    CUT,
    FULL,
    LENGTH,
    MANY,
    MAX_BAD,
    MAX_BYTES,
    OK,
    RANGE,
    SLOTS,
    Bad,
    Data,
    Op,
    Place,
    Row,
    SlotBuffers,
)
from esker.otlp.protocol.wire import FIXED32, FIXED64, SIZED, VARINT, Malformed, WireField, fields, read_varint

# ---------------------------------------------------------------- Arrow buffers, filled like in ``_walk_columns.h``


_WIDE = frozenset((Op.FIXED64, Op.SFIXED64, Op.DOUBLE, Op.FIXED32, Op.UINT32))


class ProgramNode(Protocol):
    """The attributes of a node that are used here."""

    op: Op
    index: int
    slot: int
    arg: int
    children: list[Any]


class _Slot:
    """The growing buffers of one slot."""

    __slots__ = ("bits", "data", "items", "main", "valid")

    def __init__(self) -> None:
        self.valid: list[bool] = []
        self.main = array("i")
        self.bits: list[bool] = []
        self.data = bytearray()
        self.items = 0

    def offset(self, at: int, valid: bool) -> None:
        self.main.append(at)
        self.valid.append(valid)

    def text(self, text: bytes | None) -> None:
        self.data += text or b""
        self.offset(len(self.data), text is not None)

    def number(self, value: int, valid: bool) -> None:
        self.main.append(value)
        self.valid.append(valid)


class Slots:
    """All slots of a program."""

    def __init__(self, root: ProgramNode, count: int) -> None:
        self.at = [_Slot() for _ in range(count)]
        self.nodes: dict[int, ProgramNode] = {}
        self._prepare(root)

    def _prepare(self, node: ProgramNode) -> None:
        self.nodes[node.index] = node
        op, slot = node.op, node.slot
        wide = [slot] if op in _WIDE else [slot + 1] if op in (Op.FIXED64S, Op.UINT64S, Op.DOUBLES) else []
        for at in wide:
            self.at[at].main = array("Q")
        if op in (Op.LIST, Op.STRING, Op.ID, Op.ANY, Op.ATTRIBUTES, Op.STRINGS, Op.FIXED64S, Op.UINT64S, Op.DOUBLES):
            for at in range(slot, slot + SLOTS.get(op, 1)):
                if at not in wide:
                    self.at[at].main.append(0)
        for child in node.children:
            self._prepare(child)

    def level(self, node: int, parent: int) -> None:
        """Add a row to a level."""
        self.at[self.nodes[node].slot].number(parent, True)

    def buffers(self) -> list[SlotBuffers]:
        """The buffers in the form of the compiled walk."""
        return [
            (len(s.valid), _packed(s.valid), _packed(s.bits) if s.bits else s.main.tobytes(), bytes(s.data))
            for s in self.at
        ]


def close_row(slots: Slots, node: ProgramNode, cells: Mapping[int, Any] | None) -> None:
    """Add a value to every column of a level, message or list; nulls if ``cells`` is None."""
    for child in node.children:
        _close(slots, child, None if cells is None else cells.get(child.index), cells is not None)


def _close(slots: Slots, node: ProgramNode, cell: Any, present: bool) -> None:
    slot = slots.at[node.slot] if node.op is not Op.MESSAGE else None
    match node.op:
        case Op.LEVEL:
            return
        case Op.MESSAGE:
            close_row(slots, node, cell)
            return
    assert slot is not None
    valid = present and (cell is not None or not node.arg)
    match node.op:
        case Op.LIST:
            for item in cell or ():
                close_row(slots, node, item)
            slot.items += len(cell or ())
            slot.offset(slot.items, present)
        case Op.ATTRIBUTES:
            _close_attributes(slots.at[node.slot : node.slot + 6], cell or (), present)
        case Op.ANY:
            kind, text = cell or ("", b"")
            slot.text(text if kind else None)
            slots.at[node.slot + 1].text(kind.encode() if kind else None)
        case Op.STRING | Op.ID:
            slot.text(cell or None)
        case Op.STRINGS:
            for item in cell or ():
                slots.at[node.slot + 1].text(item)
            slot.offset(len(slots.at[node.slot + 1].valid), present)
        case Op.FIXED64S | Op.UINT64S | Op.DOUBLES:
            for item in cell or ():
                slots.at[node.slot + 1].number(item, True)
            slot.offset(len(slots.at[node.slot + 1].valid), present)
        case Op.BOOL:
            slot.bits.append(bool(cell))
            slot.valid.append(valid)
        case _:
            slot.number(cell or 0, valid)


def _close_attributes(slots: list[_Slot], entries: Any, present: bool) -> None:
    maps, keys, values, typed, typed_keys, kinds = slots
    before = len(kinds.valid)
    for key, text, kind in entries:
        keys.text(key)
        values.text(text)
        if kind and text is not None:
            typed_keys.text(key)
            kinds.text(kind.encode())
    maps.offset(len(keys.valid), present)
    typed.offset(len(kinds.valid), len(kinds.valid) > before)


def _packed(bits: list[bool]) -> bytes:
    """Eight bits in a byte, the first in the lowest place."""
    value = int("".join("1" if bit else "0" for bit in reversed(bits)) or "0", 2)
    return value.to_bytes((len(bits) + 7) // 8, "little")


# ---------------------------------------------------------------- the walk


_WIRES = {
    Op.FIXED64: FIXED64,
    Op.SFIXED64: FIXED64,
    Op.DOUBLE: FIXED64,
    Op.FIXED32: FIXED32,
    Op.UINT32: VARINT,
    Op.INT32: VARINT,
    Op.SINT32: VARINT,
    Op.BOOL: VARINT,
}
_LISTS = (Op.FIXED64S, Op.UINT64S, Op.DOUBLES)

Cells = dict[int, Any]  # by node: what was sent for it


class Node:
    """A node of the program with its children."""

    __slots__ = ("arg", "children", "index", "kids", "members", "name", "next", "number", "oneof", "op", "slot")

    def __init__(self, rows: list[Row], index: int) -> None:
        op, self.number, self.slot, self.arg, self.next, self.oneof, self.name, names = rows[index]
        self.index, self.op = index, Op(op)
        self.members = {name: int(value) for name, _, value in (one.partition("=") for one in names.splitlines())}
        self.children: list[Node] = []
        child = index + 1
        while child < self.next:
            self.children.append(Node(rows, child))
            child = rows[child][4]
        self.kids = {child.number: child for child in self.children}


class _Overfull(Exception):
    """The request needs more memory than is allowed, or has more bad records than are reported."""

    def __init__(self, code: int) -> None:
        self.code = code


class Walker:
    """The walk of one program, with the rows of the current batch."""

    def __init__(self, rows: list[Row], slots: int, limit: int, strict: bool) -> None:
        self._root = Node(rows, 0)
        self._slots = slots
        self._limit = min(max(limit, 0), MAX_BYTES)
        self._strict = strict
        self._begin()

    def _begin(self) -> None:
        self._rows: dict[int, list[tuple[int, Cells]]] = {}
        self._bytes = 0
        self._tally = Tally()
        self._mark()

    def _mark(self) -> None:
        self._before = ({node: len(rows) for node, rows in self._rows.items()}, self._bytes, self._tally)
        self._tally = Tally(self._tally.unknown, self._tally.repeated)

    def feed(self, data: Data, parent: int, json: bool, /) -> tuple[int, int, int, list[Bad]]:
        """Walk one request; see ``esker.otlp.protocol.walk.Walker``."""
        self._mark()
        self._records, self._bad = 0, []  # type: tuple[int, list[Bad]]
        try:
            if json:
                request = transcode(self._root, data, self._strict, self._tally)
                self._bad = request.bad
                if request.data is None:
                    return OK, 0, self._bytes, self._bad
                data = request.data
            self._data = bytes(data)
            self._level(self._root, parent, 0, len(self._data), ())
        except (_Overfull, Malformed) as failure:
            self.undo()
            return failure.code, 0, self._bytes, []
        return OK, self._records, self._bytes, self._bad

    def undo(self) -> None:
        """Undo the last request."""
        lengths, self._bytes, self._tally = self._before
        for node, rows in self._rows.items():
            del rows[lengths.get(node, 0) :]

    def finish(self) -> tuple[list[SlotBuffers], int, int]:
        """The buffers; see ``esker.otlp.protocol.walk.Walker``."""
        slots = Slots(self._root, self._slots)
        for level, rows in self._rows.items():
            for parent, cells in rows:
                slots.level(level, parent)
                close_row(slots, slots.nodes[level], cells)
        unknown, repeated = self._tally.unknown, self._tally.repeated
        self._begin()
        return slots.buffers(), unknown, repeated

    # ---- levels ----

    def _level(
        self, node: Node, parent: int, start: int, end: int, above: tuple[Place, ...], repeated_bytes: int = 0
    ) -> None:
        """Walk a row and the rows below it. ``repeated_bytes`` of the rows above are repeated beside each record in the
        end."""
        places = (*above, Place(node.index, start, end))
        before = self._bytes
        rows = self._rows.setdefault(node.index, [])
        unknown, repeated = self._tally.unknown, self._tally.repeated
        try:
            cells = self._scan(node, start, end)
            self._settle(node, cells)
        except Malformed as failure:
            if len(self._bad) >= MAX_BAD:
                raise _Overfull(MANY) from None
            self._bad.append((failure.code, places))
            self._tally.unknown, self._tally.repeated = unknown, repeated
            return
        rows.append((parent, cells))
        row = len(rows) - 1
        below = [child for child in node.children if child.op is Op.LEVEL]
        if not below:
            self._records += 1
            self._grow(repeated_bytes)
            return
        repeated_bytes += self._bytes - before
        for field in fields(self._data, start, end):
            child = node.kids.get(field.number)
            if child is None or field.wire != SIZED or child.op is not Op.LEVEL:
                continue
            if not child.oneof or child.index in cells:
                self._level(child, row, field.start, field.end, places, repeated_bytes)

    def _grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limit:
            raise _Overfull(FULL)

    # ---- columns ----

    def _scan(self, node: Node, start: int, end: int, into: Cells | None = None) -> Cells:
        cells: Cells = {} if into is None else into
        self._grow(8 * len(node.children))
        for field in fields(self._data, start, end):
            child = node.kids.get(field.number)
            if child is None:
                self._tally.unknown += 1
            else:
                self._take(node, child, field, cells)
        return cells

    def _take(self, node: Node, child: Node, field: WireField, cells: Cells) -> None:
        if child.op in _LISTS and field.wire in (SIZED, VARINT if child.op is Op.UINT64S else FIXED64):
            self._items(child, field, cells.setdefault(child.index, []))
            return
        if field.wire != _WIRES.get(child.op, SIZED):
            self._tally.unknown += 1
            return
        if child.oneof:
            for other in node.children:
                if other.oneof == child.oneof:
                    cells.pop(other.index, None)
        match child.op:
            case Op.FIXED64:
                cells[child.index] = _natural(field.value)
            case Op.SFIXED64 | Op.DOUBLE | Op.FIXED32:
                cells[child.index] = field.value
            case Op.UINT32:
                cells[child.index] = field.value & 0xFFFF_FFFF
            case Op.INT32:
                cells[child.index] = _signed(field.value & 0xFFFF_FFFF)
            case Op.SINT32:
                zigzag = field.value & 0xFFFF_FFFF
                cells[child.index] = (zigzag >> 1) ^ -(zigzag & 1)
            case Op.BOOL:
                cells[child.index] = field.value != 0
            case _:
                self._grow(field.end - field.start)
                self._message(child, field, cells)

    def _message(self, child: Node, field: WireField, cells: Cells) -> None:
        index, place = child.index, (field.start, field.end)
        match child.op:
            case Op.LEVEL:
                cells[index] = True
            case Op.MESSAGE:
                cells[index] = self._scan(child, *place, into=cells.get(index))
            case Op.LIST:
                item = self._scan(child, *place)
                self._settle(child, item)
                cells.setdefault(index, []).append(item)
            case Op.ATTRIBUTES:
                read_entry(self._data, *place, cells.setdefault(index, {}), self._tally)
            case Op.ANY:
                cells[index] = place
            case Op.STRINGS:
                cells.setdefault(index, []).append(text_of(self._data, *place).encode())
            case Op.STRING:
                cells[index] = text_of(self._data, *place).encode()
            case _:  # Op.ID
                if field.start < field.end != field.start + child.arg:
                    raise Malformed(LENGTH)
                cells[index] = self._data[field.start : field.end]

    def _items(self, node: Node, field: WireField, into: list[int]) -> None:
        limited = node.op is not Op.DOUBLES
        self._grow(9 * max(1, (field.end - field.start) // (1 if node.op is Op.UINT64S else 8)))
        if field.wire != SIZED:
            into.append(_natural(field.value) if limited else field.value)
            return
        at = field.start
        if node.op is not Op.UINT64S and (field.end - at) % 8:
            raise Malformed(CUT)
        while at < field.end:
            if node.op is Op.UINT64S:
                value, at = read_varint(self._data, at, field.end)
            else:
                value, at = int.from_bytes(self._data[at : at + 8], "little"), at + 8
            into.append(_natural(value) if limited else value)

    def _settle(self, node: Node, cells: Cells) -> None:
        """Convert values to text in the order of the program, so that errors are found in the order of the compiled
        walk."""
        for child in node.children:
            found = cells.get(child.index)
            if found is None:
                continue
            match child.op:
                case Op.MESSAGE:
                    self._settle(child, found)
                case Op.ANY:
                    kind, text = value_of(self._data, found, self._tally)
                    cells[child.index] = (KINDS[kind], text.encode())
                case Op.ATTRIBUTES:
                    cells[child.index] = [self._attribute(key, place) for key, place in found.items()]

    def _attribute(self, key: str, place: tuple[int, int] | None) -> tuple[bytes, bytes | None, str]:
        kind, text = value_of(self._data, place, self._tally)
        self._grow(len(key) + len(text))
        return key.encode(), None if kind == NOTHING else text.encode(), "" if kind == STRING else KINDS[kind]


def _natural(value: int) -> int:
    if value >> 63:
        raise Malformed(RANGE)
    return value


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
