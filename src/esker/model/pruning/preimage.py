"""From partition values back to the column: which values can a file with this partition value contain?

All transforms except bucket keep the order, so a partition value, or a range of them, is an interval of the source
column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from esker.model.pruning.orderable import Orderable
from esker.model.transform import TimeUnit, days_from_month
from esker.model.types import DateType, DecimalType, IntType, LongType, StringType, TimestampType, Type

if TYPE_CHECKING:
    import numpy.typing as npt

_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_INFINITY = b"\xff"  # after any UTF-8 text: no character starts with this byte


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of all values except null and NaN, both included, where they are known."""

    lower: Orderable
    upper: Orderable
    shortened: bool = True  # whether text bounds may be cut; a partition value never is

    def checked(self) -> Interval:
        """The interval without bounds that contradict each other (G7)."""
        both = self.lower.known & self.upper.known
        sound = ~both
        sound[both] = self.lower.values[both] <= self.upper.values[both]
        return Interval(self.lower.only(sound), self.upper.only(sound), self.shortened)


def truncate_preimage(source: Type, width: int, partition: Interval) -> Interval:
    """The interval that ``truncate[width]`` maps into the given one."""
    match source:
        case IntType() | LongType():
            return _truncated_integers(source, width, partition)
        case DecimalType():
            return Interval(partition.lower, _raised(partition.upper, width - 1))
        case StringType():
            longest = _longest(partition.upper, width, lambda value: value + _INFINITY)
            return Interval(partition.lower, longest, partition.shortened)
        case _:
            return Interval(partition.lower, _longest(partition.upper, width, after_prefix))


def _truncated_integers(source: Type, width: int, partition: Interval) -> Interval:
    """The interval of a truncated number. Near the top of the range, some writers wrap around the lowest values."""
    if width > _INT32_MAX:
        return Interval(partition.lower.only(_nowhere(partition)), partition.upper.only(_nowhere(partition)))
    top = partition.upper.values
    wraps = top > _INT64_MAX - (width - 1)
    # A long column may have been an int when the file was written.
    wraps |= (top <= _INT32_MAX) & (top > _INT32_MAX - (width - 1))
    if isinstance(source, IntType):
        wraps |= top > _INT32_MAX - (width - 1)
    raised = np.where(wraps, top, top + np.where(wraps, 0, width - 1))
    sound = partition.upper.known & ~wraps
    return Interval(partition.lower.only(sound), Orderable(raised, sound))


def _nowhere(partition: Interval) -> npt.NDArray[np.bool_]:
    return np.zeros(len(partition.lower.known), dtype=bool)


def _raised(bound: Orderable, by: int) -> Orderable:
    """Unscaled decimals plus ``by``, as Python integers, which cannot overflow."""
    return Orderable(bound.values.astype(object) + by, bound.known)


def _longest(bound: Orderable, width: int, beyond: Any) -> Orderable:
    """The last value that is cut to the bound. If the bound is too short to be cut, it is the value itself.

    Lengths are in bytes, which is at least the number of characters. So writers that cut text by bytes or UTF-16 units
    are handled too.
    """
    out = np.empty(len(bound.values), dtype=object)
    out[:] = [value if len(value) < width else beyond(value) for value in bound.values]
    known = bound.known & np.array([value is not None for value in out], dtype=bool)
    out[~known] = b""
    return Orderable(out, known)


def after_prefix(prefix: bytes) -> bytes | None:
    """The least byte string above all that start with the prefix. None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def time_preimage(source: Type, unit: TimeUnit, partition: Interval) -> Interval:
    """From the start of the lower unit to the end of the upper one.

    Old writers rounded towards 1970 instead of down (F3). A value in unit 0 or below may be of the unit before, so
    there the interval starts one unit early.
    """
    lower = partition.lower
    early = np.where(lower.values <= 0, lower.values - 1, lower.values)
    start = _start(source, unit, Orderable(early, lower.known))
    after = _start(source, unit, Orderable(partition.upper.values + 1, partition.upper.known))
    return Interval(start, Orderable(after.values - 1, after.known))


def _start(source: Type, unit: TimeUnit, ordinals: Orderable) -> Orderable:
    """The first tick of each unit. Unknown if the source type cannot store it."""
    values = np.clip(ordinals.values, -_INT32_MAX, _INT32_MAX)
    known = ordinals.known & (values == ordinals.values)
    ticks = source.ticks_per_second if isinstance(source, TimestampType) else 0
    match unit:
        case TimeUnit.HOUR:
            units, ticks_per_unit = values, 3600 * ticks
        case TimeUnit.DAY:
            units, ticks_per_unit = values, 86_400 * ticks
        case TimeUnit.MONTH:
            units, ticks_per_unit = first_days(values), 86_400 * ticks
        case TimeUnit.YEAR:
            units, ticks_per_unit = first_days(values * 12), 86_400 * ticks
    if isinstance(source, DateType):
        return Orderable(units, known)
    fits = np.abs(units) < _INT64_MAX // max(ticks_per_unit, 1)
    return Orderable(np.where(fits, units, 0) * ticks_per_unit, known & fits)


def first_days(months: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``days_from_month`` of many months: there are few distinct ones."""
    distinct, index = np.unique(months, return_inverse=True)
    return np.array([days_from_month(int(month)) for month in distinct], dtype=np.int64)[index.reshape(-1)]
