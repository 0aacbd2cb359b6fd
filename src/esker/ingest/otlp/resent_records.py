"""Leaves out records that a sender sent again, if the table or an earlier part of the same batch has them.

A span is identified by its ids and its start, a log record by a digest of all its fields. The look-up is
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
# When two records are the same. A sender that misses an answer sends its request again.
#
# A span is identified by its ids and its start, a log record by a digest of all its fields. Spans without ids or with
# ids of zeros, and logs without any time, are never the same. Points of metrics have no identity.


_SPAN = ("TraceId", "SpanId", "StartTimeUnixNano")
_LOG_TIMES = ("TimeUnixNano", "ObservedTimeUnixNano")
# If a log has no time, its event time is the time of arrival, which differs for each copy.
_NOT_SENT = ("Timestamp", "TimestampTime", "_source", "_batch_id", "_ingested_at")
_ROWS_AT_ONCE = 8192
_NOTHING = pa.scalar(None, pa.binary())
IDENTIFIED = (SPANS.name, LOGS.name)


def key_columns(name: str, profile: Profile) -> tuple[str, ...]:
    """The columns that identify a record of this table."""
    if name == SPANS.name:
        return _SPAN
    return tuple(column for column in LOGS.of(profile).schema.names if column not in _NOT_SENT)


def hint_columns(name: str) -> tuple[str, ...]:
    """A few columns that are equal if the keys are equal."""
    return _SPAN if name == SPANS.name else _LOG_TIMES


def keys_of(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """A key for each record, from the columns of ``key_columns``; null if the record has no identity."""
    parts = [_keys(batch) for batch in rows.select(columns).to_batches(max_chunksize=_ROWS_AT_ONCE)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def hints_of(rows: pa.Table, name: str) -> pa.Array:
    """A hint for each record. If two hints differ, the keys differ."""
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
    """Each value as bytes with a marked end, so that adjacent values are not confused."""
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
    """Lists of texts, each text after its length."""
    lists = pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), items)
    lengths = _number(pc.list_value_length(lists))
    return pc.binary_join_element_wise(lengths, pc.binary_join(lists, pa.scalar(b"", pa.binary())), b"*")


def common(keys: pa.Array, others: Iterable[pa.Array]) -> pa.Array:
    """The keys that are also in ``others``, which is read one array at a time."""
    found = [pa.array([], keys.type), *_common(keys, others)]
    return pa.concat_arrays(found).unique()


def _common(keys: pa.Array, others: Iterable[pa.Array]) -> Iterator[pa.Array]:
    wanted = keys.drop_null().unique()
    for other in others:
        yield other.filter(pc.is_in(other, value_set=wanted)).unique()


# ---------------------------------------------------------------- resent
#
# The look-up reads only what may match: files of the periods of the batch, in these the row groups whose times overlap
# the batch, and of these the columns that identify records. Memory has the keys of one batch.


WAYS = ("span_id",)
_EPOCH, _DAY_US = datetime(1970, 1, 1, tzinfo=UTC), 86_400_000_000
_MOST_RANGES = 64  # the most ranges of time that are looked up separately


def check_way(dedup: str | None) -> None:
    """Raise ``InvalidInput`` for an unknown way to identify records."""
    if dedup is not None and dedup not in WAYS:
        raise InvalidInput(f"cannot leave out what was sent again by {dedup!r}: use {', '.join(WAYS)}", dedup=dedup)


class _Seen(NamedTuple):
    """The keys of an earlier part, and its range of times. Equal records have equal times."""

    low: int
    high: int
    keys: pa.Array


class Resent:
    """The records that one batch leaves out. Rows that an earlier attempt of the same batch wrote do not count."""

    def __init__(self, tables: TelemetryTables, *, profile: Profile, batch_id: str) -> None:
        self._tables = tables
        self._profile = profile
        self._batch_id = batch_id
        self._seen: dict[str, list[_Seen]] = {}
        self.left_out: Counter[str] = Counter()  # by table

    def without(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows that are new to a table."""
        if name not in IDENTIFIED or not rows.num_rows:
            return rows
        return rows.filter(self._new(name, rows))

    def sift(self, name: str, files: DataFiles, storage: Storage) -> None:
        """Remove such rows from data files. A file that has some is rewritten."""
        columns = ["Timestamp", *key_columns(name, self._profile)] if name in IDENTIFIED else []
        for file in files.files if columns else ():
            with storage.open(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                keep = self._new(name, parquet.read(columns))
                if not pc.all(keep).as_py():
                    files.replace(file, parquet.read().filter(keep))

    def _new(self, name: str, rows: pa.Table) -> pa.Array:
        """Which rows to keep: the first row of each new key, and rows without a key."""
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
        """Keys of rows of the table that may equal some of these."""
        table = self._tables.existing(name)
        if table is None:
            return
        columns = key_columns(name, self._profile)
        if name == LOGS.name:  # comparing these reads every column, so compare the times first
            rows = self._alike(name, table, rows)
        if rows.num_rows:
            yield from (keys_of(pa.table(batch), columns) for batch in self._read(table, rows, columns))

    def _alike(self, name: str, table: Table, rows: pa.Table) -> pa.Table:
        """The rows whose hint is also in the table."""
        hints = hints_of(rows, name)
        found = common(hints, (hints_of(pa.table(b), name) for b in self._read(table, rows, hint_columns(name))))
        return rows.filter(pc.is_in(hints, value_set=found))

    def _read(self, table: Table, rows: pa.Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        others = (col("_batch_id") != self._batch_id) | col("_batch_id").is_null()
        yield from table.scan(_when(rows.column("Timestamp")) & others, columns=list(columns)).to_batches()


def _when(times: pa.ChunkedArray) -> Expression:
    """The ranges of time of the rows, one for each day."""
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
