"""Records that a sender sent again: left out where the table has them, or an earlier part of the same batch.

A span is known by its ids and its start, a log record by a digest of everything that was sent of it. The look-up is
limited to files of the periods that a batch touches.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from esker.errors import InvalidInput
from esker.ingest.job import DataFiles
from esker.ingest.otlp.telemetry_tables import TelemetryTables, full_name
from esker.model.predicates.column import Expression, col
from esker.otlp.schemas import LOGS, SPANS, Profile

if TYPE_CHECKING:
    from esker.ports.storage import Storage
    from esker.table import Table


# ---------------------------------------------------------------- identity
#
# What makes a record the same as another: senders that miss an answer send again, and that is how it shows.
#
# A span is known by its ids and its start, a log record by a digest of all that was sent of it. What names nothing is
# never the same: spans without ids or with ids of nothing but zeros, logs without any time. Points of metrics have no
# identity at all.


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


# ---------------------------------------------------------------- resent
#
# Records that a sender sent again: left out where the table has them, or an earlier part of the same batch.
#
# What is looked up is limited to what may match: files of the periods that a batch touches, of these the parts whose
# times overlap the batch's, and of these the columns that tell records apart. Memory holds the keys of one batch.


WAYS = ("span_id",)
_EPOCH, _DAY_US = datetime(1970, 1, 1, tzinfo=UTC), 86_400_000_000
_MOST_RANGES = 64  # of times that are looked up one by one


def check_way(dedup: str | None) -> None:
    """Refuse a way to tell records apart that there is none of."""
    if dedup is not None and dedup not in WAYS:
        raise InvalidInput(f"cannot leave out what was sent again by {dedup!r}: use {', '.join(WAYS)}", dedup=dedup)


class _Seen(NamedTuple):
    """Keys of an earlier part, and the times it is of: what is the same is of the same time."""

    low: int
    high: int
    keys: pa.Array


class Resent:
    """What one batch must leave out. Its own rows in a table, of a try that came to nothing, do not count."""

    def __init__(self, tables: TelemetryTables, *, profile: Profile, batch_id: str) -> None:
        self._tables = tables
        self._profile = profile
        self._batch_id = batch_id
        self._seen: dict[str, list[_Seen]] = {}
        self.left_out: Counter[str] = Counter()  # by table

    def without(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows of a table that are new."""
        if name not in IDENTIFIED or not rows.num_rows:
            return rows
        return rows.filter(self._new(name, rows))

    def sift(self, name: str, files: DataFiles, storage: Storage) -> None:
        """Leave out of files that are written already: those that hold such rows are written anew."""
        columns = ["Timestamp", *key_columns(name, self._profile)] if name in IDENTIFIED else []
        for file in files.files if columns else ():
            with storage.open(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                keep = self._new(name, parquet.read(columns))
                if not pc.all(keep).as_py():
                    files.replace(file, parquet.read().filter(keep))

    def _new(self, name: str, rows: pa.Table) -> pa.Array:
        """Which rows are to be kept: the first of each key that nobody has, and those without a key."""
        keys = keys_of(rows, key_columns(name, self._profile))
        low, high = pc.min_max(rows.column("Timestamp").cast(pa.int64())).as_py().values()
        seen = self._seen.setdefault(name, [])
        earlier = (one.keys for one in seen if one.low <= high and low <= one.high)
        known = common(keys, chain(earlier, self._in_table(name, rows)))
        places = pc.index_in(keys, value_set=keys)
        is_first = pc.equal(places, pa.array(range(len(keys)), places.type))
        keep = pc.or_(keys.is_null(), pc.and_not(is_first, pc.is_in(keys, value_set=known)))
        seen.append(_Seen(low, high, keys.filter(keep).drop_null()))
        self.left_out[full_name(name)] += len(keep) - keep.true_count
        return keep

    def _in_table(self, name: str, rows: pa.Table) -> Iterator[pa.Array]:
        """Keys of rows of the table that may be among these."""
        table = self._tables.existing(name)
        if table is None:
            return
        columns = key_columns(name, self._profile)
        if name == LOGS.name:  # to compare these takes every column: see first whether times are alike
            rows = self._alike(name, table, rows)
        if rows.num_rows:
            yield from (keys_of(pa.table(batch), columns) for batch in self._read(table, rows, columns))

    def _alike(self, name: str, table: Table, rows: pa.Table) -> pa.Table:
        """Those of the rows that have the hints of some in the table."""
        hints = hints_of(rows, name)
        found = common(hints, (hints_of(pa.table(b), name) for b in self._read(table, rows, hint_columns(name))))
        return rows.filter(pc.is_in(hints, value_set=found))

    def _read(self, table: Table, rows: pa.Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        others = (col("_batch_id") != self._batch_id) | col("_batch_id").is_null()
        yield from table.scan(_when(rows.column("Timestamp")) & others, columns=list(columns)).to_batches()


def _when(times: pa.ChunkedArray) -> Expression:
    """The spans of time, one for each day, that the rows are of."""
    at = times.cast(pa.int64())
    ranges = (
        pa.table({"day": pc.divide(at, _DAY_US), "at": at}).group_by("day").aggregate([("at", "min"), ("at", "max")])
    )
    lows, highs = ranges.column("at_min").to_pylist(), ranges.column("at_max").to_pylist()
    if len(lows) > _MOST_RANGES:
        lows, highs = [min(lows)], [max(highs)]
    return reduce(or_, (_between(low, high) for low, high in zip(lows, highs, strict=True)))


def _between(low: int, high: int) -> Expression:
    return col("Timestamp").between(_EPOCH + timedelta(microseconds=low), _EPOCH + timedelta(microseconds=high))
