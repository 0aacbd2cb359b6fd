"""The row walk of ``_shred.c`` in Python, for systems where the C code was not compiled. Same rows, same errors,
slower."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from esker.avro.shred import FIELDS, MAX_BYTES, PLAIN, SINGLE, Data, Op, SlotBuffers

_CUT = "a row passes the end of its block"
_NUMBER = "a number is longer than 10 bytes"
_RANGE = "an int is longer than 32 bits"
_TRUTH = "a boolean is neither 0 nor 1"
_LENGTH = "a length is negative"
_TEXT = "a string is not UTF-8"
_BRANCH = "a union has no such branch"
_SYMBOL = "an enum has no such symbol"
_COUNT = "an array's count is impossible"
_SIZE = "an array's size is not what it says"
_EMPTY = "too many items take no bytes"
_FULL = "it decodes to too many bytes"

_MAX_EMPTY = 1 << 20
_UINT64 = (1 << 64) - 1
_INT32 = range(-(1 << 31), 1 << 31)
_WIDTH = {int(Op.BOOLEAN): 1, int(Op.FLOAT): 4, int(Op.DOUBLE): 8, int(Op.INT): 4, int(Op.ENUM): 4, int(Op.LONG): 8}
_OFFSETS = (Op.BYTES, Op.STRING, Op.ARRAY, Op.MAP)
_NUMBERS = frozenset(map(int, (Op.INT, Op.LONG, Op.ENUM)))
_LENGTHS = frozenset(map(int, (Op.BYTES, Op.STRING)))
_RUNS = frozenset(map(int, (Op.ARRAY, Op.MAP)))
_RECORD = int(Op.RECORD)


@dataclass(slots=True)
class _Slot:
    length: int = 0
    nulls: int = 0
    valid: bytearray = field(default_factory=bytearray)
    main: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class _Node:
    op: int
    union: int
    slot: int
    nullable: bool
    arg: int
    key: int
    children: tuple[_Node, ...]


def _load(code: bytes) -> _Node:
    rows = list(struct.iter_unpack(f"={FIELDS}q", code))

    def node(at: int) -> _Node:
        op, union, slot, nullable, arg, key, after = rows[at]
        children, child = [], at + 1
        while child < after:
            children.append(node(child))
            child = rows[child][6]
        return _Node(op, union, slot, bool(nullable), arg, key, tuple(children))

    return node(0)


class Shredder:
    """The walk of one program, and the buffers of the current batch."""

    def __init__(self, code: bytes, slots: int, limit: int) -> None:
        self._root = _load(code)
        self._limit = min(max(limit, 0), MAX_BYTES)
        self._count = slots
        self._data: Data = b""
        self._at = self._end = 0
        self._failed = False
        self._begin()

    def _begin(self) -> None:
        self._slots = [_Slot() for _ in range(self._count)]
        self._empty = _MAX_EMPTY
        self._bytes = 0
        todo = [self._root]
        while todo:
            node = todo.pop()
            todo += node.children
            if node.slot >= 0 and node.op in _OFFSETS:
                self._append_offset(self._slots[node.slot], 0)

    def feed(self, data: Data, at: int, rows: int, soft: int, /) -> tuple[int, int, int]:
        """Read rows from ``at`` until all are read or the buffers have more than ``soft`` bytes."""
        if self._failed:
            raise RuntimeError("the shredder is in use by another thread, or has failed")
        self._data, self._at, self._end = data, at, len(data)
        done = 0
        self._failed = True  # until the rows are complete: an incomplete row makes the batch unusable
        while done < rows:
            start = self._at
            self._keep(self._root)
            done += 1
            self._item_from(start)
            if self._bytes > soft:
                break
        self._failed = False
        self._data = b""
        return self._at, done, self._bytes

    def finish(self) -> list[SlotBuffers]:
        """The buffers of every slot. The next batch starts empty."""
        if self._failed:
            raise RuntimeError("the shredder is in use by another thread, or has failed")
        out = [(s.length, s.nulls, bytes(s.valid), bytes(s.main), bytes(s.data)) for s in self._slots]
        self._begin()
        return out

    # Appending

    def _append(self, buffer: bytearray, data: bytes | memoryview) -> None:
        if len(data) > self._limit - self._bytes:
            raise ValueError(_FULL)
        self._bytes += len(data)
        buffer += data

    def _append_zeros(self, buffer: bytearray, size: int) -> None:
        if size > self._limit - self._bytes:
            raise ValueError(_FULL)
        self._append(buffer, bytes(size))

    def _append_bit(self, buffer: bytearray, index: int, *, bit: bool) -> None:
        if not index & 7:
            self._append(buffer, b"\0")
        if bit:
            buffer[-1] |= 1 << (index & 7)

    def _append_offset(self, slot: _Slot, offset: int) -> None:
        self._append(slot.main, struct.pack("=i", offset))

    def _close(self, node: _Node, slot: _Slot, *, valid: bool) -> None:
        if node.nullable:
            self._append_bit(slot.valid, slot.length, bit=valid)
        slot.nulls += not valid
        slot.length += 1

    # Reading

    def _long(self) -> int:
        if self._at < self._end and (byte := self._data[self._at]) < 0x80:  # most numbers have one byte
            self._at += 1
            return (byte >> 1) ^ -(byte & 1)
        value = shift = 0
        while True:
            if self._at >= self._end:
                raise ValueError(_CUT)
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= _UINT64
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift == 70:
                raise ValueError(_NUMBER)

    def _pass(self, size: int) -> int:
        """Skip ``size`` bytes. Returns where they start."""
        if size < 0:
            raise ValueError(_LENGTH)
        if size > self._end - self._at:
            raise ValueError(_CUT)
        start, self._at = self._at, self._at + size
        return start

    def _take(self, size: int) -> memoryview:
        start = self._pass(size)
        return memoryview(self._data)[start : self._at]

    def _branch(self, node: _Node) -> bool:
        if node.union == PLAIN:
            return True
        branch = self._long()
        if not 0 <= branch <= (0 if node.union == SINGLE else 1):
            raise ValueError(_BRANCH)
        return node.union == SINGLE or branch != node.union

    def _run(self) -> tuple[int, int | None]:
        count = self._long()
        if count >= 0:
            return count, None
        if count == -(1 << 63):
            raise ValueError(_COUNT)
        size = self._long()
        if size < 0:
            raise ValueError(_LENGTH)
        if size > self._end - self._at:
            raise ValueError(_CUT)
        return -count, self._at + size

    def _item_from(self, start: int) -> None:
        if self._at == start:
            self._empty -= 1
            if self._empty < 0:
                raise ValueError(_EMPTY)

    # Skipping

    def _skip(self, node: _Node) -> None:
        # Planning spends most of its time here: plain comparisons, the most frequent ones first.
        if node.union != PLAIN and not self._branch(node):
            return
        op = node.op
        if op in _NUMBERS:
            self._long()
        elif op in _LENGTHS:
            self._pass(self._long())
        elif op == _RECORD:
            for child in node.children:
                self._skip(child)
        elif op in _RUNS:
            self._skip_runs(node)
        elif op == Op.UNION:
            branch = self._long()
            if not 0 <= branch < len(node.children):
                raise ValueError(_BRANCH)
            self._skip(node.children[branch])
        elif op != Op.NULL:
            self._pass(node.arg if op == Op.FIXED else _WIDTH[op])

    def _skip_runs(self, node: _Node) -> None:
        while True:
            count, stop = self._run()
            if not count:
                return
            if stop is not None:
                self._at = stop
                continue
            while count:
                start = self._at
                for child in node.children:
                    self._skip(child)
                self._item_from(start)
                count -= 1

    # Keeping

    def _keep_null(self, node: _Node) -> None:
        slot = self._slots[node.slot]
        match node.op:
            case Op.NULL:
                pass
            case Op.BOOLEAN:
                self._append_bit(slot.main, slot.length, bit=False)
            case Op.INT | Op.ENUM | Op.FLOAT | Op.LONG | Op.DOUBLE:
                self._append_zeros(slot.main, _WIDTH[node.op])
            case Op.FIXED:
                self._append_zeros(slot.main, node.arg)
            case Op.BYTES | Op.STRING:
                self._append_offset(slot, len(slot.data))
            case Op.ARRAY | Op.MAP:
                self._append_offset(slot, self._slots[node.children[0].slot].length)
            case _:
                for child in node.children:
                    if child.slot >= 0:
                        self._keep_null(child)
        self._close(node, slot, valid=False)

    def _keep(self, node: _Node) -> None:
        if not self._branch(node):
            self._keep_null(node)
            return
        slot = self._slots[node.slot]
        match node.op:
            case Op.NULL:
                self._close(node, slot, valid=False)
                return
            case Op.BOOLEAN:
                byte = self._take(1)[0]
                if byte > 1:
                    raise ValueError(_TRUTH)
                self._append_bit(slot.main, slot.length, bit=bool(byte))
            case Op.INT | Op.ENUM | Op.LONG:
                self._keep_number(node, slot)
            case Op.FLOAT | Op.DOUBLE:
                self._append(slot.main, self._take(_WIDTH[node.op]))
            case Op.FIXED:
                self._append(slot.main, self._take(node.arg))
            case Op.BYTES | Op.STRING:
                self._keep_bytes(node, slot)
            case Op.RECORD:
                for child in node.children:
                    (self._keep if child.slot >= 0 else self._skip)(child)
            case Op.PICK:
                self._keep_pick(node)
            case _:
                self._keep_runs(node, slot)
        self._close(node, slot, valid=True)

    def _keep_number(self, node: _Node, slot: _Slot) -> None:
        number = self._long()
        if node.op == Op.LONG:
            self._append(slot.main, struct.pack("=q", number))
            return
        if node.op == Op.ENUM and not 0 <= number < node.arg:
            raise ValueError(_SYMBOL)
        if number not in _INT32:
            raise ValueError(_RANGE)
        self._append(slot.main, struct.pack("=i", number))

    def _keep_bytes(self, node: _Node, slot: _Slot) -> None:
        data = self._take(self._long())
        if node.op == Op.STRING:
            try:
                str(data, "utf-8")
            except UnicodeDecodeError:
                raise ValueError(_TEXT) from None
        self._append(slot.data, data)
        self._append_offset(slot, len(slot.data))

    def _keep_runs(self, node: _Node, slot: _Slot) -> None:
        while True:
            count, stop = self._run()
            if not count:
                self._append_offset(slot, self._slots[node.children[0].slot].length)
                return
            while count:
                start = self._at
                for child in node.children:
                    self._keep(child)
                self._item_from(start)
                count -= 1
            if stop is not None and self._at != stop:
                raise ValueError(_SIZE)

    def _keep_pick(self, node: _Node) -> None:
        key_node, value, *wanted = node.children
        places = {child.key: -1 for child in wanted}
        while True:
            count, stop = self._run()
            if not count:
                break
            while count:
                key = self._long()
                if key_node.op == Op.INT and key not in _INT32:
                    raise ValueError(_RANGE)
                if key in places:
                    places[key] = self._at
                self._skip(value)
                count -= 1
            if stop is not None and self._at != stop:
                raise ValueError(_SIZE)
        after = self._at
        for child in wanted:
            if places[child.key] < 0:
                self._keep_null(child)
            else:
                self._at = places[child.key]
                self._keep(child)
        self._at = after
