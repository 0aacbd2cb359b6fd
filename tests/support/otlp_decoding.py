"""Decoding in tests: one request in, plain rows out, by either walk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
from otlp_rows import INGESTED_AT_US

from esker.otlp.decoding.decode import Decoded, Options, decode
from esker.otlp.protocol import _walk_py
from esker.otlp.protocol.messages import Signal
from esker.otlp.protocol.walk import Program
from esker.otlp.source.requests import Request

try:
    from esker.otlp import _walk as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

WALKS = ["pure"] if compiled is None else ["pure", "compiled"]


@contextmanager
def using(walk: str) -> Iterator[None]:
    """Everything inside is decoded by that walk."""
    kind: Any = _walk_py.Walker if walk == "pure" else compiled.Walker

    def made(program: Program, *, limit: int, strict: bool = False) -> Any:
        return kind(program.rows, program.slots, limit, strict)

    with mock.patch("esker.otlp.decoding.decode.walker", made):
        yield


def request(data: bytes, *, json: bool = False, signal: Signal | None = None, source: str = "here") -> Request:
    return Request(source=source, offset=0, data=data, json=json, signal=signal)


def decoded(requests: Iterable[Request], options: Options | None = None) -> Decoded:
    """All of them in one batch."""
    [batch] = decode(requests, batch_id="q/1", ingested_at_us=INGESTED_AT_US, options=options)
    for table in (*batch.tables.values(), batch.dead_letters):
        table.validate(full=True)
    return batch


def plain_rows(table: pa.Table, *, without: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Rows of dictionaries: maps as such, times as microseconds, NaN as something that equals itself."""
    columns = [name for name in table.column_names if name not in without and not name.startswith("_")]
    values = [_plain_column(table.column(name)) for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    return [plain(value, column.type) for value in _without_times(column).to_pylist()]


def _without_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        fields = [
            pa.field(field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type)
            for field in type_.value_type
        ]
        return column.cast(pa.list_(pa.struct(fields)))
    return column


def plain(value: Any, type_: pa.DataType) -> Any:
    """A value as the oracle tells it."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return dict(value)
    if pa.types.is_list(type_):
        return [plain(one, type_.value_type) for one in value]
    if pa.types.is_struct(type_):
        return {field.name: plain(value[field.name], field.type) for field in type_}
    return comparable(value)


def comparable(value: Any) -> Any:
    """NaN equals itself, and the two zeros differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return value
