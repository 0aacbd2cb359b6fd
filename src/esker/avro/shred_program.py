"""The program of the walk: which fields of an Avro file to keep, compiled together with the file's schema.

A `Projection` selects fields by id. `compile_program` makes the instructions of the walk, and the Arrow layout of the
columns that it keeps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import pyarrow as pa

from esker.avro.logical_types import Conversion, arrow_type
from esker.avro.schema import Array, Enum, Field, Fixed, Map, Node, Primitive, Record, Union, map_entry
from esker.avro.shred import FIELDS, NULL_FIRST, NULL_LAST, PLAIN, SINGLE, Op
from esker.errors import InvalidInput, Unsupported

# ---------------------------------------------------------------- What to keep, by field id
#
# Names differ between writers.


@dataclass(frozen=True, slots=True)
class Projection:
    """The fields to keep. Other fields are skipped without an allocation.

    A field is kept if its id is selected, or if something below it is selected. A selected field keeps everything below
    it. But if something below it is selected or picked from as well, only that is kept. List elements and map values
    are selected by their ``element-id`` and ``value-id``. A kept map always keeps its keys.
    """

    ids: frozenset[int] | None = None  # None: every field
    picks: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (id of the map field, the int keys to keep)
    names: tuple[tuple[str, int], ...] = ()  # (dotted path, id) for fields without an id

    @classmethod
    def of(
        cls,
        ids: Iterable[int] | None = None,
        *,
        map_keys: Mapping[int, Sequence[int]] | None = None,
        names: Mapping[str, int] | None = None,
    ) -> Self:
        """A projection from plain collections.

        ``map_keys`` selects keys of maps with int keys, by field id (125: lower_bounds). Such a column becomes a struct
        with one nullable child per key, named ``str(key)``, in the given order. A null map is a null struct of nulls,
        and a missing key is null. If a key is repeated, the last one is used. ``names`` gives ids to fields whose
        writer wrote no ids, by dotted path ("data_file.file_path").
        """
        return cls(
            ids=None if ids is None else frozenset(ids),
            picks=tuple(sorted((id_, tuple(dict.fromkeys(keys))) for id_, keys in (map_keys or {}).items())),
            names=tuple(sorted((names or {}).items())),
        )


# ---------------------------------------------------------------- The compiler


MAX_PROGRAM = 1 << 18
_PRIMITIVES = {
    "null": Op.NULL,
    "boolean": Op.BOOLEAN,
    "int": Op.INT,
    "long": Op.LONG,
    "float": Op.FLOAT,
    "double": Op.DOUBLE,
    "bytes": Op.BYTES,
    "string": Op.STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the buffers of one slot become an Arrow array of ``type``."""

    op: Op
    slot: int
    type: pa.DataType
    nullable: bool
    children: tuple[Layout, ...] = ()
    conversion: Conversion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The code of the walk (see ``shred``) and the layout of its slots, root first."""

    code: bytes
    slots: int
    layout: Layout


@lru_cache(maxsize=128)
def compile_program(schema: Record, want: Projection, logical: bool) -> Program:
    """The program that keeps the wanted fields. ``logical`` applies logical types."""
    compiler = _Compiler(want, logical=logical)
    layout = compiler.keep(schema, "", whole=want.ids is None, below_null=False)
    return Program(code=compiler.code(), slots=compiler.slots, layout=layout)


class _Compiler:
    """One compilation: the instructions so far, and the slots in use."""

    def __init__(self, want: Projection, *, logical: bool) -> None:
        self._ids = want.ids or frozenset()
        self._picks = dict(want.picks)
        self._names = dict(want.names)
        self._logical = logical
        self._rows: list[list[int]] = []
        self.slots = 0

    def code(self) -> bytes:
        """The program as bytes for the walk."""
        return b"".join(struct.pack(f"={FIELDS}q", *row) for row in self._rows)

    # Which fields are wanted

    def _id(self, field: Field, path: str) -> int | None:
        return self._names.get(path) if field.id is None else field.id

    def _chosen(self, node: Node, path: str) -> bool:
        """Whether something below the node is selected or picked from."""
        match node:
            case Union(branches):
                return any(self._chosen(branch, path) for branch in branches)
            case Record(_, fields):
                return any(self._is_chosen(field, path) for field in fields)
            case Array(items, element_id):
                return element_id in self._ids or self._chosen(items, _join(path, "element"))
            case Map(values, key_id, value_id):
                chosen = key_id in self._ids or value_id in self._ids
                return chosen or self._chosen(values, _join(path, "value"))
            case _:
                return False

    def _is_chosen(self, field: Field, path: str) -> bool:
        below = _join(path, field.name)
        id_ = self._id(field, below)
        return id_ in self._ids or id_ in self._picks or self._chosen(field.type, below)

    # Instructions

    def _open(self, op: Op, union: int, *, nullable: bool | None, arg: int = 0) -> int:
        """Add an instruction whose ``next`` is set later. It gets a slot if ``nullable`` is not None."""
        self._refuse_more_than(len(self._rows) + 1)
        slot = -1
        if nullable is not None:
            slot, self.slots = self.slots, self.slots + 1
        self._rows.append([op, union, slot, int(bool(nullable)), arg, 0, 0])
        return len(self._rows) - 1

    def _refuse_more_than(self, rows: int) -> None:
        if rows > MAX_PROGRAM:
            raise InvalidInput(f"Cannot decode an Avro file into more than {MAX_PROGRAM} columns")

    def _close(self, row: int) -> None:
        self._rows[row][6] = len(self._rows)

    def skip(self, node: Node) -> None:
        """Skip the node."""
        inner, union = _unwrap(node)
        match inner:
            case Union(branches):
                row, children = self._open(Op.UNION, union, nullable=None), branches
            case Record(_, fields):
                row, children = self._open(Op.RECORD, union, nullable=None), tuple(field.type for field in fields)
            case Array(items):
                row, children = self._open(Op.ARRAY, union, nullable=None), (items,)
            case Map(values):
                row, children = self._open(Op.MAP, union, nullable=None), (Primitive("string"), values)
            case _:
                row, children = self._open(*_leaf(inner, union), nullable=None, arg=_arg(inner)), ()
        for child in children:
            self.skip(child)
        self._close(row)

    def keep(self, node: Node, path: str, *, whole: bool, below_null: bool) -> Layout:
        """Keep the node: all of it if ``whole``, else what is selected below it.

        Below a null record there are only nulls, so every field there has its own validity bits.
        """
        inner, union = _unwrap(node)
        nullable = below_null or union in (NULL_FIRST, NULL_LAST)
        match inner:
            case Union():
                raise Unsupported(
                    f"Cannot read the Avro field {path!r}: it is a union of several types", feature="avro unions"
                )
            case Record():
                return self._keep_record(inner, path, union, whole=whole, nullable=nullable)
            case Array():
                return self._keep_array(inner, path, union, whole=whole, nullable=nullable)
            case Map():
                return self._keep_map(inner, path, union, whole=whole, nullable=nullable)
            case _:
                op, _ = _leaf(inner, union)
                row = self._open(op, union, nullable=nullable, arg=_arg(inner))
                self._close(row)
                type_, conversion = arrow_type(inner, logical=self._logical)
                return self._layout(row, type_, nullable, conversion=conversion)

    def _layout(
        self,
        row: int,
        type_: pa.DataType,
        nullable: bool,
        children: tuple[Layout, ...] = (),
        conversion: Conversion | None = None,
    ) -> Layout:
        op, _, slot, *_ = self._rows[row]
        return Layout(op=Op(op), slot=slot, type=type_, nullable=nullable, children=children, conversion=conversion)

    def _keep_record(self, record: Record, path: str, union: int, *, whole: bool, nullable: bool) -> Layout:
        row = self._open(Op.RECORD, union, nullable=nullable)
        fields, children = [], []
        for field in record.fields:
            below = _join(path, field.name)
            child = self._keep_field(field, below, whole=whole, below_null=nullable)
            if child is None:
                self.skip(field.type)
                continue
            children.append(child)
            fields.append(_field(field.name, child, self._id(field, below)))
        self._close(row)
        return self._layout(row, pa.struct(fields), nullable, tuple(children))

    def _keep_field(self, field: Field, path: str, *, whole: bool, below_null: bool) -> Layout | None:
        id_ = self._id(field, path)
        if id_ in self._picks:
            return self._keep_pick(field.type, path, self._picks[id_], below_null=below_null)
        if whole:
            return self.keep(field.type, path, whole=True, below_null=below_null)
        if self._chosen(field.type, path):
            return self.keep(field.type, path, whole=False, below_null=below_null)
        if id_ in self._ids:
            return self.keep(field.type, path, whole=True, below_null=below_null)
        return None

    def _keep_array(self, array: Array, path: str, union: int, *, whole: bool, nullable: bool) -> Layout:
        entry = map_entry(array)
        if entry is not None:
            return self._keep_entries(entry, path, union, whole=whole, nullable=nullable)
        row = self._open(Op.ARRAY, union, nullable=nullable)
        below = _join(path, "element")
        whole = whole or not self._chosen(array.items, below)
        item = self.keep(array.items, below, whole=whole, below_null=False)
        self._close(row)
        return self._layout(row, pa.list_(_field("element", item, array.element_id)), nullable, (item,))

    def _keep_entries(self, entry: Record, path: str, union: int, *, whole: bool, nullable: bool) -> Layout:
        """Keep an array of key-value records that is a map. Paimon writes a nullable key, which is never null."""
        row = self._open(Op.ARRAY, union, nullable=nullable)
        record = self._open(Op.RECORD, PLAIN, nullable=False)
        key_field, value_field = entry.fields
        key = self.keep(key_field.type, _join(path, "key"), whole=True, below_null=False)
        value = self._keep_value(value_field.type, path, whole=whole)
        self._close(record)
        self._close(row)
        fields = _field("key", key, key_field.id).with_nullable(False), _field("value", value, value_field.id)
        item = self._layout(record, pa.struct(fields), False, (key, value))
        return self._layout(row, pa.map_(*fields), nullable, (item,))

    def _keep_map(self, map_: Map, path: str, union: int, *, whole: bool, nullable: bool) -> Layout:
        row = self._open(Op.MAP, union, nullable=nullable)
        key = self.keep(Primitive("string"), _join(path, "key"), whole=True, below_null=False)
        value = self._keep_value(map_.values, path, whole=whole)
        self._close(row)
        fields = _field("key", key, map_.key_id), _field("value", value, map_.value_id)
        return self._layout(row, pa.map_(*fields), nullable, (key, value))

    def _keep_value(self, node: Node, path: str, *, whole: bool) -> Layout:
        below = _join(path, "value")
        return self.keep(node, below, whole=whole or not self._chosen(node, below), below_null=False)

    def _keep_pick(self, node: Node, path: str, keys: tuple[int, ...], *, below_null: bool) -> Layout:
        """Keep some keys of a map: a struct with a nullable child for each."""
        array, union = _unwrap(node)
        entry = array.items if isinstance(array, Array) else None
        if not isinstance(entry, Record) or len(entry.fields) != 2:
            raise _not_pickable(path, "it is not a map")
        key_field, value_field = entry.fields
        if not isinstance(key_field.type, Primitive) or key_field.type.kind not in ("int", "long"):
            raise _not_pickable(path, "its keys are not ints")
        nullable = below_null or union in (NULL_FIRST, NULL_LAST)
        self._refuse_more_than(len(self._rows) + len(keys))
        row = self._open(Op.PICK, union, nullable=nullable, arg=len(keys))
        self.skip(key_field.type)
        self.skip(value_field.type)
        found: dict[int, Layout] = {}
        for key in sorted(keys):
            child = len(self._rows)
            found[key] = self.keep(value_field.type, _join(path, "value"), whole=True, below_null=True)
            self._rows[child][5] = key
        self._close(row)
        fields = [_field(str(key), found[key], value_field.id) for key in keys]
        return self._layout(row, pa.struct(fields), nullable, tuple(found[key] for key in keys))


def _not_pickable(path: str, why: str) -> Unsupported:
    return Unsupported(f"Cannot pick keys of the Avro field {path!r}: {why}", feature="avro map keys")


def _unwrap(node: Node) -> tuple[Node, int]:
    """The type inside a union of null and one type, or of one type alone. Other unions are returned unchanged."""
    match node:
        case Union((single,)):
            return single, SINGLE
        case Union(branches) if node.null_branch is not None:
            return branches[1 - node.null_branch], NULL_LAST if node.null_branch else NULL_FIRST
        case _:
            return node, PLAIN


def _leaf(node: Node, union: int) -> tuple[Op, int]:
    match node:
        case Primitive(kind):
            return _PRIMITIVES[kind], union
        case Fixed():
            return Op.FIXED, union
        case _:
            return Op.ENUM, union


def _arg(node: Node) -> int:
    match node:
        case Fixed(_, size):
            return size
        case Enum(_, symbols):
            return len(symbols)
        case _:
            return 0


def _field(name: str, layout: Layout, id_: int | None) -> pa.Field:
    nullable = layout.nullable or layout.op == Op.NULL
    return pa.field(name, layout.type, nullable=nullable, metadata=None if id_ is None else {b"field-id": b"%d" % id_})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
