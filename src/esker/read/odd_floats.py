"""Which float columns of a file may hold NaN or a zero: the values that an engine's own push-down may get wrong.

Parquet's minimum and maximum leave NaN out, and its dictionaries hold the two zeros as two values. Spark takes NaN for
the largest number and the zeros for one. So its reader drops row groups that hold matching rows, unless these values
are known to be absent. A manifest proves that: by the count of NaN, and by bounds that do not include zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.model.predicate import Compare, IsNaN, Op
from esker.model.schema import Schema
from esker.model.statistics import Statistics
from esker.model.types import Field, is_floating
from esker.model.verdict import judge
from esker.ports.engine import OddFloats

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]

MOST = 64  # columns beyond which decoding their statistics costs more than push-down saves


def float_columns(schema: Schema) -> tuple[Field, ...]:
    """The float columns outside lists and maps; none where there are too many to examine."""
    fields = tuple(f for f in schema.by_id.values() if is_floating(f.type) and not schema.in_repeated(f.id))
    return fields if len(fields) <= MOST else ()


@dataclass(frozen=True, slots=True)
class FoundFloats:
    """By column, whether each file may hold NaN, and whether it may hold a zero."""

    nan: dict[int, Bools]
    zero: dict[int, Bools]

    @classmethod
    def of(cls, fields: Sequence[Field], statistics: Statistics) -> FoundFloats:
        """What the statistics say of each file."""
        return cls(
            {f.id: judge(IsNaN(f), statistics).some for f in fields},
            {f.id: judge(Compare(f, Op.EQ, 0.0), statistics).some for f in fields},
        )

    def at(self, row: int) -> OddFloats:
        """Of one file."""
        return OddFloats(
            nan=frozenset(id_ for id_, may in self.nan.items() if may[row]),
            zero=frozenset(id_ for id_, may in self.zero.items() if may[row]),
        )
