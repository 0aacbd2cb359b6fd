"""Between numpy and Arrow without ``pyarrow.array``, ``pyarrow.scalar``, ``fill_null`` and ``to_numpy``.

These import pandas wherever pandas is installed: a quarter of a second in every new process, half of what it takes to
plan over a hundred thousand files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def arrow_array(values: npt.NDArray[Any], *, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array over the same memory, null where ``null`` holds."""
    import numpy as np
    import pyarrow as pa

    given = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(given)])


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Where an array is null."""
    import numpy as np

    if array.null_count in (0, len(array)):
        return np.full(len(array), array.null_count > 0)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)] == 0


def numbers_of(array: pa.Array, *, null: float) -> npt.NDArray[Any]:
    """An array of numbers as numpy, nulls as the number given; without nulls a view, not to be written to."""
    import numpy as np

    dtype = np.dtype(array.type.to_pandas_dtype())  # the name misleads: it is numpy's, and imports nothing
    if array.null_count == len(array):
        return np.full(len(array), null, dtype)
    values = np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]
    if array.null_count == 0:
        return values
    return np.where(null_mask(array), np.array(null, dtype), values)
