"""From partition values back to the column: which values can a file hold whose partition value is this?

Each transform but bucket keeps order, so its value, or a range of them, is an interval of the source column.
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
_INFINITY = b"\xff"  # after any UTF-8 text: no character's bytes start with it


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds on every value that is neither null nor NaN, both included, each where it is known."""

    lower: Orderable
    upper: Orderable
    shortened: bool = True  # whether text bounds may have been cut; a partition value never is

    def checked(self) -> Interval:
        """Without the bounds that contradict each other (G7)."""
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
    """Near the top the range would leave the type. There some writers wrap the lowest values around to."""
    if width > _INT32_MAX:
        return Interval(partition.lower.only(_nowhere(partition)), partition.upper.only(_nowhere(partition)))
    top = partition.upper.values
    wraps = top > _INT64_MAX - (width - 1)
    # a long column may have been an int when the file was written
    wraps |= (top <= _INT32_MAX) & (top > _INT32_MAX - (width - 1))
    if isinstance(source, IntType):
        wraps |= top > _INT32_MAX - (width - 1)
    raised = np.where(wraps, top, top + np.where(wraps, 0, width - 1))
    sound = partition.upper.known & ~wraps
    return Interval(partition.lower.only(sound), Orderable(raised, sound))


def _nowhere(partition: Interval) -> npt.NDArray[np.bool_]:
    return np.zeros(len(partition.lower.known), dtype=bool)


def _raised(bound: Orderable, by: int) -> Orderable:
    """Unscaled decimals, a little higher; as Python integers, which have no end to run into."""
    return Orderable(bound.values.astype(object) + by, bound.known)


def _longest(bound: Orderable, width: int, beyond: Any) -> Orderable:
    """The last value that is cut to the bound: itself where it was too short to be cut.

    Lengths are counted in bytes, at least as many as characters by any count: a writer that cut text by bytes
    or UTF-16 units rather than characters is then still understood.
    """
    out = np.empty(len(bound.values), dtype=object)
    out[:] = [value if len(value) < width else beyond(value) for value in bound.values]
    known = bound.known & np.array([value is not None for value in out], dtype=bool)
    out[~known] = b""
    return Orderable(out, known)


def after_prefix(prefix: bytes) -> bytes | None:
    """The least byte string above all that begin so; None where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def time_preimage(source: Type, unit: TimeUnit, partition: Interval) -> Interval:
    """From the start of the lower unit to the end of the upper.

    Writers of old cut towards 1970 rather than flooring (F3): what they put in unit 0 or below may be of the
    unit before, so there the interval starts one unit early.
    """
    lower = partition.lower
    early = np.where(lower.values <= 0, lower.values - 1, lower.values)
    start = _start(source, unit, Orderable(early, lower.known))
    after = _start(source, unit, Orderable(partition.upper.values + 1, partition.upper.known))
    return Interval(start, Orderable(after.values - 1, after.known))


def _start(source: Type, unit: TimeUnit, ordinals: Orderable) -> Orderable:
    """The first tick of each unit; unknown where the source could not hold it."""
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
    """``days_from_month`` of many: distinct ones are few."""
    distinct, index = np.unique(months, return_inverse=True)
    return np.array([days_from_month(int(month)) for month in distinct], dtype=np.int64)[index.reshape(-1)]
