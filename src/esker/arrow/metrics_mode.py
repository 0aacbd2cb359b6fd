"""How much is kept of each column in a file's metrics: nothing, counts, bounds cut short, or whole bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.sort_order import SortOrder
from esker.model.transform import BucketTransform, UnknownTransform, VoidTransform
from esker.model.types import Field, children, is_nested
from esker.write.properties import whole_number

_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)")


class Keep(Enum):
    """What of a column's metrics is kept."""

    NONE = "none"
    COUNTS = "counts"
    BOUNDS = "bounds"


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """The mode of one column. ``width`` is where text and binary bounds are cut; None keeps them whole."""

    keep: Keep
    width: int | None = None


NONE, COUNTS, FULL, TRUNCATE_16 = (
    MetricsMode(Keep.NONE),
    MetricsMode(Keep.COUNTS),
    MetricsMode(Keep.BOUNDS),
    MetricsMode(Keep.BOUNDS, 16),
)


def metrics_modes(schema: Schema, order: SortOrder, properties: Mapping[str, str]) -> dict[int, MetricsMode]:
    """The mode of every field. A column's own property wins, then being sorted by, then the default."""
    chosen = properties.get(_DEFAULT)
    default = TRUNCATE_16 if chosen is None else parse_mode(_DEFAULT, chosen)
    modes = dict.fromkeys(schema.by_id, default)
    if chosen is None:
        limit = whole_number(properties, _INFERRED, 100)
        for field in islice(_leaves_level_by_level(schema.fields), limit, None):
            modes[field.id] = NONE
    for key in order.fields:
        # A bucket has no order, so bounds of its source say nothing of where a file lies.
        if not isinstance(key.transform, BucketTransform | VoidTransform | UnknownTransform) and key.source_id in modes:
            mode = modes[key.source_id]
            modes[key.source_id] = mode if mode.keep is Keep.BOUNDS else TRUNCATE_16
    for name, value in properties.items():
        if name.startswith(_COLUMN):
            mode = parse_mode(name, value)
            field_id = schema.id_by_name.get(name.removeprefix(_COLUMN))
            if field_id is not None:  # a column since dropped or renamed asks nothing of anyone
                modes[field_id] = mode
    return modes


def parse_mode(name: str, text: str) -> MetricsMode:
    """``none``, ``counts``, ``truncate(n)`` or ``full``; ``InvalidInput`` names the property otherwise."""
    folded = text.strip().lower()
    if folded in ("none", "counts", "full"):
        return {"none": NONE, "counts": COUNTS, "full": FULL}[folded]
    match = _TRUNCATE.fullmatch(folded)
    if match is None or int(match[1]) == 0:
        raise InvalidInput(f"cannot use {name} = {text!r}: it takes none, counts, truncate(n) or full", property=name)
    return MetricsMode(Keep.BOUNDS, int(match[1]))


def _leaves_level_by_level(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Leaves in the order that metrics are granted: those of a level, then what lies below each of its structs."""
    yield from (field for field in fields if not is_nested(field.type))
    for field in fields:
        yield from _leaves_level_by_level(children(field.type))
