"""The walk over requests: its program, and the choice between the compiled walk and the one in Python.

A program is a tree that says what to do with each field of the protocol. Both walks follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

# ---------------------------------------------------------------- the program: nodes in pre-order
#
# Each node is a tuple that ``_walk.c`` reads: op, field number, first slot, argument, the node after its subtree,
# oneof, name in JSON, names of enum members.


Row = tuple[int, int, int, int, int, int, str, str]


class Op(IntEnum):
    """What a field becomes. Plain values have protobuf's names."""

    LEVEL = 0  # a message whose occurrences are rows of their own table; argument 1: it occurs once
    MESSAGE = 1  # a message that occurs once: its fields are columns of the row around it
    LIST = 2  # a repeated message: a list of structs
    FIXED64 = 3
    SFIXED64 = 4
    DOUBLE = 5
    FIXED32 = 6
    UINT32 = 7
    INT32 = 8  # and enums
    SINT32 = 9
    BOOL = 10
    STRING = 11
    ID = 12  # bytes of a fixed length, which is the argument, or none
    ANY = 13  # an AnyValue: its text, and its kind
    ATTRIBUTES = 14  # repeated KeyValue: a map of texts, and a map of the kinds of those that are not strings
    FIXED64S = 15
    UINT64S = 16
    DOUBLES = 17
    STRINGS = 18


SLOTS = {Op.MESSAGE: 0, Op.ANY: 2, Op.ATTRIBUTES: 6, Op.FIXED64S: 2, Op.UINT64S: 2, Op.DOUBLES: 2, Op.STRINGS: 2}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the protocol: the line of its .proto file, and what becomes of it."""

    number: int
    name: str
    op: Op
    fields: tuple[Field, ...] = ()
    optional: bool = False  # a missing number is null, not zero
    once: bool = False  # a level that is not a repeated field
    size: int = 0  # of an id
    oneof: int = 0  # fields of a message with the same number here exclude each other
    members: tuple[tuple[str, int], ...] = ()  # of an enum


@dataclass(frozen=True, slots=True)
class Node:
    """A field in the tree, with the slots of its values."""

    index: int
    field: Field
    slot: int
    next: int
    children: tuple[Node, ...]

    @property
    def levels(self) -> Iterator[Node]:
        """The levels directly below."""
        return (child for child in self.children if child.field.op is Op.LEVEL)


@dataclass(frozen=True, slots=True)
class Program:
    """The arguments of a walker, and the tree that explains its buffers."""

    rows: list[Row]
    slots: int
    root: Node
    nodes: tuple[Node, ...]


def json_name(name: str) -> str:
    """A field's name in JSON: lowerCamelCase."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def compile_program(root: Field) -> Program:
    """Return the program of a request."""
    nodes: list[Node] = []
    rows: list[Row] = []
    used = 0

    def place(field: Field) -> Node:
        nonlocal used
        index, slot = len(rows), used
        used += SLOTS.get(field.op, 1)
        rows.append((0, 0, 0, 0, 0, 0, "", ""))
        nodes.append(None)  # type: ignore[arg-type]  # its place; filled below, when its children are known
        children = tuple(place(child) for child in field.fields)
        node = Node(index, field, slot, len(rows), children)
        argument = field.size or int(field.optional or field.once)
        names = "".join(f"{name}={number}\n" for name, number in field.members)
        nodes[index] = node
        rows[index] = (
            int(field.op),
            field.number,
            slot,
            argument,
            node.next,
            field.oneof,
            json_name(field.name),
            names,
        )
        return node

    tree = place(root)
    return Program(rows, used, tree, tuple(nodes))


# ---------------------------------------------------------------- the walkers


MAX_BYTES = (1 << 31) - 1
MAX_BAD = 10_000
MAX_NESTED = 64
MAX_JSON = 512  # more than the deepest value that is kept needs

Data = bytes | bytearray | memoryview
SlotBuffers = tuple[int, bytes, bytes, bytes]  # length, validity, values or offsets, data


class Reason(NamedTuple):
    """Why something cannot be kept: a word for programs, and a sentence for people."""

    word: str
    sentence: str


# In the order of the walk's codes.
REASONS = (
    Reason("ok", ""),
    Reason("truncated", "a field extends beyond the end of its message"),
    Reason("malformed", "a number is longer than 10 bytes"),
    Reason("malformed", "a tag is not one that OTLP uses"),
    Reason("not_utf8", "a text is not UTF-8"),
    Reason("out_of_range", "a number does not fit its column: times and counts go up to 2^63 - 1"),
    Reason("bad_id", "a trace id is not 16 bytes long, or a span id not 8"),
    Reason("string_index", "a text is given as an index into a table, which only profiles have"),
    Reason("too_deep", f"a value is nested deeper than {MAX_NESTED} times"),
    Reason("not_json", "the text is not JSON"),
    Reason("bad_value", "a member has a value of another type than OTLP's"),
    Reason("too_many", f"more than {MAX_BAD} records of the request cannot be kept"),
    Reason("too_large", "it decodes to too many bytes"),
    Reason("too_deep", f"its JSON is nested deeper than {MAX_JSON} levels"),
)
OK, CUT, NUMBER, WIRE, TEXT, RANGE, LENGTH, INDEX, DEEP, SYNTAX, VALUE, MANY, FULL, LEVELS = range(14)


class Place(NamedTuple):
    """A level of a request: its node in the program, and where its bytes begin and end."""

    node: int
    start: int
    end: int


Bad = tuple[int, tuple[tuple[int, int, int], ...]]  # a code, and the places from the request down to the bad part


class Walker(Protocol):
    """The interface of both walks: requests go in, buffers come out."""

    def feed(self, data: Data, parent: int, json: bool, /) -> tuple[int, int, int, list[Bad]]:
        """Walk one request. Returns a code, how many records were kept, the bytes of all buffers, and the bad parts.

        If the code is not 0, the whole request was undone.
        """

    def undo(self) -> None:
        """Undo the last request."""

    def finish(self) -> tuple[list[SlotBuffers], int, int]:
        """Return the buffers of every slot, the number of unknown fields and of repeated keys. The next batch is
        empty."""


def walker(program: Program, *, limit: int = MAX_BYTES, strict: bool = False) -> Walker:
    """Return a walker for this program. It refuses requests that need more than ``limit`` bytes of buffers."""
    try:
        from esker.otlp._walk import Walker as Walk
    except ImportError:
        from esker.otlp.protocol._walk_py import Walker as Walk  # type: ignore[assignment]
    return Walk(program.rows, program.slots, limit, strict)
