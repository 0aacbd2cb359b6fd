"""The walk's buffers, put together as Arrow arrays without copying them."""

from __future__ import annotations

import pyarrow as pa

from esker.avro.logical import convert
from esker.avro.program import Layout
from esker.avro.shred import Op, SlotBuffers


def record_batch(layout: Layout, slots: list[SlotBuffers]) -> pa.RecordBatch:
    """The rows of the root record; ``ValueError`` where a logical type refuses a value."""
    return pa.RecordBatch.from_struct_array(_array(layout, slots))


def _array(layout: Layout, slots: list[SlotBuffers]) -> pa.Array:
    length, nulls, validity, main, data = slots[layout.slot]
    valid = pa.py_buffer(validity) if nulls and layout.nullable else None
    known = nulls if valid is not None else 0
    children = [_array(child, slots) for child in layout.children]
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
