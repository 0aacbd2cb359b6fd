"""Arrow buffers made from the rows of ``_walk_py``, as ``_walk_columns.h`` fills them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Protocol

from esker.otlp.program import SLOTS, Op
from esker.otlp.walk import SlotBuffers

_WIDE = frozenset((Op.FIXED64, Op.SFIXED64, Op.DOUBLE, Op.FIXED32, Op.UINT32))


class ProgramNode(Protocol):
    """What is needed to know of a node."""

    op: Op
    index: int
    slot: int
    arg: int
    children: list[Any]


class _Slot:
    """One slot as it grows."""

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
        """One more row of a level."""
        self.at[self.nodes[node].slot].number(parent, True)

    def buffers(self) -> list[SlotBuffers]:
        """As the compiled walk hands them out."""
        return [
            (len(s.valid), _packed(s.valid), _packed(s.bits) if s.bits else s.main.tobytes(), bytes(s.data))
            for s in self.at
        ]


def close_row(slots: Slots, node: ProgramNode, cells: Mapping[int, Any] | None) -> None:
    """One more value in every column of a level, message or list; none was sent if there are no cells."""
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
    """Eight to a byte, the first in the lowest place."""
    value = int("".join("1" if bit else "0" for bit in reversed(bits)) or "0", 2)
    return value.to_bytes((len(bits) + 7) // 8, "little")
