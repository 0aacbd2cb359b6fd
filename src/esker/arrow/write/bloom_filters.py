"""Bloom filters of Parquet columns, from the properties ``write.parquet.bloom-filter-*``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.errors import InvalidInput, Unsupported
from esker.model.schema import Schema
from esker.model.types import BooleanType, VariantType, is_nested
from esker.write.properties import switch, whole_number

_PARQUET = "write.parquet."


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """The bloom filter of one column."""

    false_positives: float
    distinct: int | None
    max_bytes: int

    def options(self, rows: int | None) -> dict[str, Any]:
        """The arguments for pyarrow. ``rows`` is the number of rows of the file, if known."""
        # A filter of m bits with 8 hashes per value has room for this many values at the wanted rate.
        bits = 8 * (1 << (self.max_bytes.bit_length() - 1))
        most = max(1, math.floor(-bits * math.log(1 - self.false_positives ** (1 / 8)) / 8))
        wanted = self.distinct if self.distinct is not None else rows
        return {"ndv": most if wanted is None else max(1, min(most, wanted)), "fpp": self.false_positives}


def bloom_filters(properties: Mapping[str, str], schema: Schema) -> dict[int, BloomFilter]:
    """The filters that the table's properties ask for, by field id."""
    prefix = f"{_PARQUET}bloom-filter-enabled.column."
    max_bytes = whole_number(properties, f"{_PARQUET}bloom-filter-max-bytes", 1 << 20, at_least=32)
    found = {}
    for key in properties:
        if not key.startswith(prefix) or not switch(properties, key, default=False):
            continue
        name = key.removeprefix(prefix)
        field_id = schema.id_by_name.get(name)
        if field_id is None:  # the column was dropped or renamed
            continue
        _refuse_bloom_filter(key, schema, field_id)
        found[field_id] = BloomFilter(
            false_positives=_probability(properties, f"{_PARQUET}bloom-filter-fpp.column.{name}"),
            distinct=whole_number(properties, f"{_PARQUET}bloom-filter-ndv.column.{name}", 0) or None,
            max_bytes=max_bytes,
        )
    return found


def _refuse_bloom_filter(key: str, schema: Schema, field_id: int) -> None:
    type_ = schema.by_id[field_id].type
    if is_nested(type_) or isinstance(type_, BooleanType | VariantType):
        raise InvalidInput(f"cannot use {key}: a {type_} has no bloom filter", property=key)
    if "bloom_filter_options" not in inspect.signature(pq.ParquetWriter.__init__).parameters:
        raise Unsupported(
            f"cannot honour {key}: pyarrow {pa.__version__} writes no bloom filters; upgrade pyarrow",
            feature="bloom filters",
            property=key,
        )


def _probability(properties: Mapping[str, str], key: str) -> float:
    text = properties.get(key, "0.01")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < 1.0:
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes a number between 0 and 1", property=key)
    return number
