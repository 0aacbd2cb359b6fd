"""How many records a batch had, and how many were unusual: the numbers of the account at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from esker.otlp.protocol.arrow_columns import Level
from esker.otlp.schemas import TIME

_DAY_US = 86_400_000_000
FAR_PAST_US, FAR_FUTURE_US = 366 * _DAY_US, _DAY_US


@dataclass(slots=True, kw_only=True)
class Counts:
    """Rows and oddities. ``received`` is the left side of the account's sum."""

    requests: int = 0
    dead_letters: int = 0
    records: Counter[str] = field(default_factory=Counter)  # rows by table
    unknown_fields: int = 0  # of a newer protocol: not kept
    repeated_keys: int = 0  # attributes sent twice: the last value is kept
    zero_ids: int = 0  # trace or span ids that are all zeros: kept
    empty_containers: int = 0  # resources, scopes and metrics without any kept record: not kept
    far_times: int = 0  # rows with a time more than a year before or a day after they arrived: kept
    not_castable: Counter[str] = field(default_factory=Counter)  # promoted values that stay in the map, by column
    offsets: Counter[str] = field(default_factory=Counter)  # offsets of topics without a request, by reason
    bytes: int = 0  # of the messages of topics

    @property
    def received(self) -> int:
        """All records: those in tables and those among the dead letters."""
        return sum(self.records.values()) + self.dead_letters

    def add(self, other: Counts) -> None:
        """Add the counts of another batch."""
        self.requests += other.requests
        self.dead_letters += other.dead_letters
        self.records.update(other.records)
        self.unknown_fields += other.unknown_fields
        self.repeated_keys += other.repeated_keys
        self.zero_ids += other.zero_ids
        self.empty_containers += other.empty_containers
        self.far_times += other.far_times
        self.not_castable.update(other.not_castable)
        self.offsets.update(other.offsets)
        self.bytes += other.bytes


def count_empty(counts: Counts, levels: Mapping[str, Level]) -> None:
    """Count levels with nothing below them. An empty request itself is not unusual."""
    for path, level in levels.items():
        below = [inner for name, inner in levels.items() if name.rpartition(".")[0] == path and name]
        if path and below:
            filled = pa.chunked_array([inner.parent for inner in below])
            counts.empty_containers += len(level.parent) - pc.count_distinct(filled).as_py()


def count_oddities(counts: Counts, table: pa.Table, ingested_at_us: int) -> None:
    """Count ids that are all zeros, and times far from now."""
    for name, size in (("TraceId", 16), ("SpanId", 8)):
        if name in table.column_names:
            counts.zero_ids += pc.sum(pc.equal(table.column(name), bytes(size))).as_py() or 0
    times = table.column("Timestamp")
    before = pc.less(times, pa.scalar(max(ingested_at_us - FAR_PAST_US, -(1 << 62)), TIME))
    after = pc.greater(times, pa.scalar(ingested_at_us + FAR_FUTURE_US, TIME))
    counts.far_times += pc.sum(pc.or_(before, after)).as_py() or 0
