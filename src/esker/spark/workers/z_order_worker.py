"""Computes, in a worker, the z-order of rows. ``ship`` sends it there."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from esker.arrow.z_order import comparable, z_values
from esker.model.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class ZOrder:
    """The types of the columns, and the values that divide each into equal parts."""

    types: tuple[Type, ...]
    cuts: tuple[bytes, ...]  # arrays of 64-bit numbers

    @classmethod
    def of(cls, types: tuple[Type, ...], cuts: list[Any]) -> ZOrder:
        """An order that can be sent to workers."""
        return cls(types=types, cuts=tuple(cut.tobytes() for cut in cuts))


def run(order: bytes, rows: pa.Array) -> pa.Array:
    """The z-order of each row. ``rows`` are structs of the columns."""
    told: ZOrder = pickle.loads(order)
    columns = [comparable(rows.field(at), type_) for at, type_ in enumerate(told.types)]
    cuts = [np.frombuffer(cut, dtype=np.int64) for cut in told.cuts]
    return pa.array(z_values(columns, cuts), pa.int64())
