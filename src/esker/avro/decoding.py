"""Avro containers decoded to Arrow columns: one container, many at once, or one as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from esker.avro.container import (
    LIMITS,
    Block,
    Header,
    Limits,
    Memory,
    Start,
    Stream,
    read_blocks,
    read_head,
    read_start,
)
from esker.avro.logical_types import convert
from esker.avro.schema import Record
from esker.avro.shred import MAX_BYTES, BlockShredder, Op, SlotBuffers, shredder
from esker.avro.shred_program import Layout, Program, Projection, compile_program
from esker.errors import Corrupt, EskerError, InvalidInput

# ---------------------------------------------------------------- Buffers to Arrow arrays, without a copy


def record_batch(layout: Layout, slots: list[SlotBuffers]) -> pa.RecordBatch:
    """The rows of the root record. Raises ``ValueError`` if a value does not fit its logical type."""
    return pa.RecordBatch.from_struct_array(_array(layout, slots))


def _array(layout: Layout, slots: list[SlotBuffers]) -> pa.Array:
    length, nulls, validity, main, data = slots[layout.slot]
    valid = pa.py_buffer(validity) if nulls and layout.nullable else None
    known = nulls if valid is not None else 0
    children = [_array(child, slots) for child in layout.children]
    if layout.op == Op.ARRAY and pa.types.is_map(layout.type) and children[0].field(0).null_count:
        raise ValueError("a map has a null key")
    match layout.op:
        case Op.NULL:
            return pa.nulls(length)
        case Op.BYTES | Op.STRING:
            buffers = [valid, pa.py_buffer(main), pa.py_buffer(data)]
        case Op.RECORD | Op.PICK:
            return pa.Array.from_buffers(layout.type, length, [valid], known, children=children)
        case Op.ARRAY:
            return pa.Array.from_buffers(layout.type, length, [valid, pa.py_buffer(main)], known, children=children)
        case Op.MAP:
            entry = pa.struct([layout.type.key_field, layout.type.item_field])
            entries = pa.Array.from_buffers(entry, len(children[0]), [None], 0, children=children)
            return pa.Array.from_buffers(layout.type, length, [valid, pa.py_buffer(main)], known, children=[entries])
        case _:
            buffers = [valid, pa.py_buffer(main)]
    if layout.conversion is None:
        return pa.Array.from_buffers(layout.type, length, buffers, known)
    stored = pa.Array.from_buffers(layout.conversion.stored, length, buffers, known)
    return convert(stored, layout.conversion, layout.type)


# ---------------------------------------------------------------- Containers to columns


Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
_EVERYTHING = Projection()
# Nulls and missing keys need more space in columns than in rows, but only up to this factor.
_GROWTH, _GROWTH_FROM = 256, 64 << 20
_COMPILED_CODECS = {"null": False, "deflate": True}  # whether the walk of whole blocks inflates


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a batch that is from one container. Its rows follow those of the parts before it."""

    index: int  # its position among the given containers
    file: str
    header: dict[str, bytes]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumns:
    """The decoded rows of one container, or of several with the same writer's schema."""

    schema: Record
    batch: pa.RecordBatch
    parts: tuple[Part, ...]

    @property
    def header(self) -> dict[str, bytes]:
        """The header metadata of the first container."""
        return self.parts[0].header


def decode(
    data: Data, *, file: str, want: Projection | None = None, logical: bool = False, limits: Limits = LIMITS
) -> AvroColumns:
    """All rows of one container. ``file`` is its name in errors.

    Records become structs, arrays become lists. Native maps, and arrays with ``logicalType: map``, become maps.
    ``["null", T]`` becomes a nullable T, and enums become utf8. Arrow fields have the Avro id under ``b"field-id"``,
    also at list elements, map keys and map values. A field below a nullable record is nullable. With ``logical``,
    logical types are applied (date, time, timestamp, decimal, uuid as fixed_size_binary(16)). Without it, values stay
    as stored.
    """
    [columns] = decode_many([(file, data)], want=want, logical=logical, limits=limits)
    return columns


def decode_many(
    containers: Iterable[tuple[str, Data]],
    *,
    want: Projection | None = None,
    logical: bool = False,
    limits: Limits = LIMITS,
) -> list[AvroColumns]:
    """The rows of many ``(file, data)`` containers, in one batch per distinct writer's schema.

    If a batch becomes larger than ``limits.batch_bytes``, it ends after the current container and another one starts.
    So there may be more results than schemas. ``parts`` records which rows are from which container.
    """
    done: list[AvroColumns] = []
    groups: dict[bytes, _Group] = {}
    start: Start | None = None
    for index, (file, data) in enumerate(containers):
        source = Memory(memoryview(data).cast("B"), file)
        start = read_start(source, limits, start)
        header = start.header
        key = header.metadata["avro.schema"]
        if key not in groups:
            groups[key] = _Group(header.schema, _Walk(_program(header.schema, want, logical, file), limits))
        group = groups[key]
        rows = group.walk.feed_container(source, header)
        group.parts.append(Part(index=index, file=file, header=header.metadata, rows=rows))
        if group.walk.bytes > limits.batch:
            done.append(groups.pop(key).columns())
    return done + [group.columns() for group in groups.values()]


def iter_batches(
    source: BinaryIO,
    *,
    file: str,
    want: Projection | None = None,
    logical: bool = True,
    batch_rows: int = 65_536,
    limits: Limits = LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a container of any size, block by block, in file order. Logical types are applied.

    ``source`` is seekable and is read from its start. A batch has at most ``batch_rows`` rows and about
    ``limits.batch_bytes``. Memory is limited to one batch and one block.
    """
    if batch_rows < 1:
        raise InvalidInput(f"Cannot read batches of {batch_rows} rows: a batch needs at least one row")
    stream = Stream(source, file)
    header = read_head(stream, limits)
    walk = _Walk(_program(header.schema, want, logical, file), limits)
    for block in read_blocks(stream, header, limits):
        at = done = 0
        while done < block.rows:
            at, more = walk.feed(block, at, min(block.rows - done, batch_rows - walk.rows), limits.batch, file)
            done += more
            if walk.rows >= batch_rows or done < block.rows:
                yield walk.finish(file)
        walk.check_end(block, at, file)
    if walk.rows:
        yield walk.finish(file)


def read_header(source: Data | BinaryIO, *, file: str, limits: Limits = LIMITS) -> Header:
    """The header of a container, without its rows."""
    if isinstance(source, bytes | bytearray | memoryview | pa.Buffer):
        return read_head(Memory(memoryview(source).cast("B"), file), limits)
    return read_head(Stream(source, file), limits)


def arrow_schema(schema: Record, *, want: Projection | None = None, logical: bool = True) -> pa.Schema:
    """The Arrow schema of the result of decoding with these arguments."""
    return pa.schema(compile_program(schema, want or _EVERYTHING, logical).layout.type)


def _program(schema: Record, want: Projection | None, logical: bool, file: str) -> Program:
    try:
        return compile_program(schema, want or _EVERYTHING, logical)
    except EskerError as error:
        raise error.with_facts(file=file) from None


class _Walk:
    """A shredder whose errors are ``Corrupt``. It also checks that a block ends where its rows end."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self._program = program
        self._limits = limits
        self._shredder = shredder(program.code, program.slots, min(limits.buffers, MAX_BYTES))
        self._blocks = self._shredder if isinstance(self._shredder, BlockShredder) else None
        self._fed = 0
        self.rows = 0
        self.bytes = 0

    def feed(self, block: Block, at: int, rows: int, soft: int, file: str) -> tuple[int, int]:
        """Decode rows of the block from ``at`` on. Returns where they end, and how many there were."""
        try:
            end, done, self.bytes = self._shredder.feed(block.data, at, rows, soft)
        except ValueError as error:
            raise Corrupt(file, f"{error} (block {block.number})") from None
        self.rows += done
        return end, done

    def feed_container(self, source: Memory, header: Header) -> int:
        """Decode all blocks from the current position. Returns how many rows there were.

        The compiled walk takes the blocks that are plainly right. The first other one, and those after it, are read
        here, where it is said what is wrong.
        """
        number, rows, inflated = self._feed_compiled(source, header)
        for block in read_blocks(source, header, self._limits, number=number):
            inflated += len(block.data)
            if inflated > self._limits.container:
                raise Corrupt(source.file, f"it inflates to more than {self._limits.container} bytes")
            self.feed_all(block, source.file)
            rows += block.rows
        return rows

    def _feed_compiled(self, source: Memory, header: Header) -> tuple[int, int, int]:
        """The blocks, rows and inflated bytes that the compiled walk took."""
        deflated = _COMPILED_CODECS.get(header.codec)
        if deflated is None or self._blocks is None:
            return 0, 0, 0
        data, at = source.position
        sizes = self._limits.block, self._limits.container
        try:
            at, blocks, rows, inflated, self.bytes = self._blocks.feed_blocks(
                data, at, header.sync, deflated, sizes, (_GROWTH_FROM, _GROWTH, self._fed)
            )
        except ValueError as error:
            raise Corrupt(source.file, str(error)) from None
        source.move_to(at)
        self._fed += inflated
        self.rows += rows
        return blocks, rows, inflated

    def feed_all(self, block: Block, file: str) -> None:
        """Decode all rows of the block."""
        self._fed += len(block.data)
        at, done = self.feed(block, 0, block.rows, _GROWTH_FROM + _GROWTH * self._fed, file)
        if done < block.rows:
            raise Corrupt(file, f"it decodes to far more bytes than it has (block {block.number})")
        self.check_end(block, at, file)

    def check_end(self, block: Block, at: int, file: str) -> None:
        """Raise `Corrupt` if bytes are left after the rows: the row count or a row is wrong."""
        if at != len(block.data):
            raise Corrupt(file, f"block {block.number} has {len(block.data) - at} bytes left after its rows")

    def finish(self, file: str) -> pa.RecordBatch:
        """The rows so far, as a batch."""
        self.rows = self.bytes = self._fed = 0
        try:
            return record_batch(self._program.layout, self._shredder.finish())
        except ValueError as error:
            raise Corrupt(file, str(error)) from None


class _Group:
    """Containers with one writer's schema, which go into one batch."""

    def __init__(self, schema: Record, walk: _Walk) -> None:
        self._schema = schema
        self.walk = walk
        self.parts: list[Part] = []

    def columns(self) -> AvroColumns:
        """The decoded columns."""
        batch = self.walk.finish(self.parts[0].file if len(self.parts) == 1 else "one of several Avro files")
        return AvroColumns(schema=self._schema, batch=batch, parts=tuple(self.parts))
