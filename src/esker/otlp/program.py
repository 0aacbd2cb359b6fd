"""What the walk does with each field of the protocol, as a tree that the compiled walk and its twin both follow.

A program is a list of nodes in pre-order, each a tuple that ``_walk.c`` reads: op, field number, first slot, argument,
the node after its subtree, oneof, name in JSON, names of enum members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

Row = tuple[int, int, int, int, int, int, str, str]


class Op(IntEnum):
    """What a field becomes; by protobuf's own names where it is a plain value."""

    LEVEL = 0  # a message whose occurrences are rows of a table of their own; argument 1: it comes once
    MESSAGE = 1  # a message that comes once: its fields are columns of the row it stands in
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
    ID = 12  # bytes of a fixed length, its argument, or none
    ANY = 13  # an AnyValue: its text, and its kind
    ATTRIBUTES = 14  # repeated KeyValue: a map of texts, and a map of the kinds of those that are no strings
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
    optional: bool = False  # a number that is absent is null, not zero
    once: bool = False  # a level that is no repeated field
    size: int = 0  # of an id
    oneof: int = 0  # fields of a message that share a number here exclude each other
    members: tuple[tuple[str, int], ...] = ()  # of an enum


@dataclass(frozen=True, slots=True)
class Node:
    """A field in its place: where its values are found."""

    index: int
    field: Field
    slot: int
    next: int
    children: tuple[Node, ...]

    @property
    def levels(self) -> Iterator[Node]:
        """The levels right below."""
        return (child for child in self.children if child.field.op is Op.LEVEL)


@dataclass(frozen=True, slots=True)
class Program:
    """What a walker is made from, and the tree that tells what its buffers mean."""

    rows: list[Row]
    slots: int
    root: Node
    nodes: tuple[Node, ...]


def json_name(name: str) -> str:
    """A field's name in JSON: lowerCamelCase."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def compile_program(root: Field) -> Program:
    """The program of a request."""
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
