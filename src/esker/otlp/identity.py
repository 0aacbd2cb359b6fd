"""What makes a record the same as another: senders that miss an answer send again, and that is how it shows.

A span is known by its ids and its start, a log record by a digest of all that was sent of it. What names nothing is
never the same: spans without ids or with ids of nothing but zeros, logs without any time. Points of metrics have no
identity at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from esker.otlp.schemas import LOGS, SPANS, Profile

_SPAN = ("TraceId", "SpanId", "StartTimeUnixNano")
_LOG_TIMES = ("TimeUnixNano", "ObservedTimeUnixNano")
# Where the times of a log are not known, its event time is when it came in: another for each copy.
_NOT_SENT = ("Timestamp", "TimestampTime", "_source", "_batch_id", "_ingested_at")
_ROWS_AT_ONCE = 8192
_NOTHING = pa.scalar(None, pa.binary())
IDENTIFIED = (SPANS.name, LOGS.name)


def key_columns(name: str, profile: Profile) -> tuple[str, ...]:
    """The columns that tell a record of that table from others."""
    if name == SPANS.name:
        return _SPAN
    return tuple(column for column in LOGS.of(profile).schema.names if column not in _NOT_SENT)


def hint_columns(name: str) -> tuple[str, ...]:
    """Few columns that are alike wherever the keys are."""
    return _SPAN if name == SPANS.name else _LOG_TIMES


def keys_of(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """A key for each record by the columns of ``key_columns``; null where nothing tells it from others."""
    parts = [_keys(batch) for batch in rows.select(columns).to_batches(max_chunksize=_ROWS_AT_ONCE)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def hints_of(rows: pa.Table, name: str) -> pa.Array:
    """A hint for each record: where two differ, so do the keys."""
    columns = [rows.column(column).combine_chunks() for column in hint_columns(name)]
    return pc.binary_join_element_wise(*map(_bytes, columns), b"")


def _keys(batch: pa.RecordBatch) -> pa.Array:
    if tuple(batch.schema.names) == _SPAN:
        named = pc.and_(_names_something(batch.column(0)), _names_something(batch.column(1)))
        return pc.if_else(named, pc.binary_join_element_wise(*map(_bytes, batch.columns), b""), _NOTHING)
    timed = pc.or_(*(pc.not_equal(batch.column(name), 0) for name in _LOG_TIMES))
    texts = pc.binary_join_element_wise(*map(_text, batch.columns), b"")
    digests = (hashlib.blake2b(text, digest_size=16).digest() for text in texts.to_pylist())
    return pc.if_else(timed, pa.array(digests, pa.binary()), _NOTHING)


def _names_something(ids: pa.Array) -> pa.Array:
    zeros = pa.array([bytes(16), bytes(8)])
    return pc.fill_null(pc.invert(pc.is_in(ids, value_set=zeros)), False)


def _bytes(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.view(pa.binary(8)).cast(pa.binary())


def _text(column: pa.Array) -> pa.Array:
    """Each value in bytes that show where they end, so that values in a row cannot be taken for others."""
    kinds = pa.types
    if kinds.is_string(column.type) or kinds.is_binary(column.type):
        plain = column.cast(pa.binary())
        made = pc.binary_join_element_wise(_number(pc.binary_length(plain)), plain, b":")
    elif kinds.is_struct(column.type):
        made = _joined(_text(child) for child in column.flatten())
    elif kinds.is_map(column.type):
        offsets = column.offsets
        start, count = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
        entries = _joined(_text(child.slice(start, count)) for child in (column.keys, column.items))
        made = _listed(offsets, entries)
    elif kinds.is_list(column.type):
        made = _listed(column.offsets, _text(column.flatten()))
    else:
        made = pc.binary_join_element_wise(_number(column), b"", b",")
    return pc.if_else(column.is_valid(), made, pa.scalar(b"~", pa.binary()))


def _number(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _joined(parts: Iterable[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, b"")


def _listed(offsets: pa.Array, items: pa.Array) -> pa.Array:
    """Lists of texts, each with its length before it."""
    lists = pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), items)
    lengths = _number(pc.list_value_length(lists))
    return pc.binary_join_element_wise(lengths, pc.binary_join(lists, pa.scalar(b"", pa.binary())), b"*")


def common(keys: pa.Array, others: Iterable[pa.Array]) -> pa.Array:
    """The keys that are among the others too; those are looked at one array at a time."""
    found = [pa.array([], keys.type), *_common(keys, others)]
    return pa.concat_arrays(found).unique()


def _common(keys: pa.Array, others: Iterable[pa.Array]) -> Iterator[pa.Array]:
    wanted = keys.drop_null().unique()
    for other in others:
        yield other.filter(pc.is_in(other, value_set=wanted)).unique()
