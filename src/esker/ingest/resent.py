"""Records that a sender sent again: left out where the table has them, or an earlier part of the same batch.

What is looked up is limited to what may match: files of the periods that a batch touches, of these the parts whose
times overlap the batch's, and of these the columns that tell records apart. Memory holds the keys of one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from esker.errors import InvalidInput
from esker.ingest.data_files import DataFiles
from esker.ingest.telemetry_tables import TelemetryTables, full_name
from esker.model.column import Expression, col
from esker.otlp.identity import IDENTIFIED, common, hint_columns, hints_of, key_columns, keys_of
from esker.otlp.schemas import LOGS, Profile

if TYPE_CHECKING:
    from esker.ports.storage import Storage
    from esker.table import Table

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
