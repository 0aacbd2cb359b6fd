"""Convert between numpy and Arrow without ``pyarrow.array``, ``pyarrow.scalar``, ``fill_null`` and ``to_numpy``.

These functions import pandas if it is installed. This costs a quarter of a second in every new process, which is half
of the time of a plan over a hundred thousand files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def arrow_array(values: npt.NDArray[Any], *, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or booleans as an Arrow array over the same memory. Null where ``null`` is true."""
    import numpy as np
    import pyarrow as pa

    given = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(given)])


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """True where an array is null."""
    import numpy as np

    if array.null_count in (0, len(array)):
        return np.full(len(array), array.null_count > 0)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)] == 0


def numbers_of(array: pa.Array, *, null: float) -> npt.NDArray[Any]:
    """An array of numbers as numpy, with the given number for null. Without nulls it is a view and must not be
    written to."""
    import numpy as np

    dtype = np.dtype(array.type.to_pandas_dtype())  # despite its name, it returns numpy's type and imports nothing
    if array.null_count == len(array):
        return np.full(len(array), null, dtype)
    values = np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]
    if array.null_count == 0:
        return values
    return np.where(null_mask(array), np.array(null, dtype), values)


def flags_of(array: pa.Array, *, null: bool = False) -> npt.NDArray[np.bool_]:
    """An array of booleans as numpy, with the given one for null."""
    import numpy as np

    if not len(array):
        return np.zeros(0, np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    values = bits[array.offset : array.offset + len(array)] == 1
    return values if array.null_count == 0 else np.where(null_mask(array), null, values)


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Bytes, or null, as an Arrow array."""
    import numpy as np
    import pyarrow as pa

    given = [value or b"" for value in values]
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, given), np.int64, len(given)), out=ends[1:])
    buffers = [_validity(values), pa.py_buffer(ends), pa.py_buffer(b"".join(given))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def boolean_array(values: Sequence[bool | None]) -> pa.Array:
    """Booleans, or null, as an Arrow array."""
    import numpy as np
    import pyarrow as pa

    given = np.packbits(np.fromiter(map(bool, values), np.bool_, len(values)), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(values), pa.py_buffer(given)])


def typed_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Python's values, or None, as an Arrow array: integers, text, bytes, and lists and maps of them. A map is given as
    a dict."""
    import numpy as np
    import pyarrow as pa

    valid = _validity(values)
    match type_:
        case pa.ListType():
            inner = typed_array([item for value in values for item in value or ()], type_.value_type)
        case pa.MapType():
            items = [item for value in values for item in (value or {}).items()]
            parts = [typed_array([item[at] for item in items], (type_.key_type, type_.item_type)[at]) for at in (0, 1)]
            entry = pa.struct([type_.key_field, type_.item_field])
            inner = pa.Array.from_buffers(entry, len(items), [None], children=parts)
        case _ if pa.types.is_integer(type_):
            given = (value or 0 for value in values)
            numbers = np.fromiter(given, type_.to_pandas_dtype(), len(values))
            return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(numbers)])
        case _:
            made = binary_array([value.encode() if isinstance(value, str) else value for value in values])
            return pa.Array.from_buffers(type_, len(values), made.buffers())
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value or ()) for value in values], out=ends[1:])
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(ends)], children=[inner])


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """The bits of the values that are not None. None if all are there."""
    import numpy as np
    import pyarrow as pa

    if None not in values:
        return None
    there = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return pa.py_buffer(np.packbits(there, bitorder="little"))
