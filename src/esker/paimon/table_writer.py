"""Paimon's writer behind the port of formats that commit by themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from esker.errors import InvalidInput, Unsupported
from esker.paimon.maintain.compact_buckets import Compaction
from esker.paimon.maintain.remove_files import expire_snapshots, remove_orphans
from esker.paimon.metadata.layout import Layout
from esker.paimon.read_table import read_schemas
from esker.paimon.write.put_rows import Writer
from esker.ports.own_writer import Compacted, Expired, Orphans
from esker.ports.storage import Storage
from esker.tree.snapshot import RefKind
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT_CHANGELOGS = ("changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained")

_RETAINED_MIN, _RETAINED_MAX = "snapshot.num-retained.min", "snapshot.num-retained.max"
_RETAINED_TIME = "snapshot.time-retained"
_UNITS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("d", "day", "days"), 86_400_000),
    (("h", "hour", "hours"), 3_600_000),
    (("m", "min", "minute", "minutes"), 60_000),
    (("s", "sec", "secs", "second", "seconds"), 1000),
    (("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    (("µs", "us", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    (("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
)


class PaimonWriter:
    """Implements ``OwnWriter`` for one branch of a Paimon table."""

    def __init__(self, storage: Storage, metadata: TableMetadata, branch: str) -> None:
        self._storage, self._layout = storage, Layout(metadata.location.rstrip("/"), branch)
        ref = metadata.refs.get(branch)
        if branch != "main" and (ref is None or ref.kind is not RefKind.BRANCH):
            raise InvalidInput(f"cannot write to branch {branch!r}: the table has no such branch", branch=branch)
        self._schemas = {schema.id: schema for schema in read_schemas(storage, self._layout).values()}
        self._schema = self._schemas[max(self._schemas)]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self._schema.primary_keys

    def append(self, rows: pa.Table) -> None:
        """Add rows, or replace those with the same key."""
        self._writer().append(rows)

    def overwrite(self, rows: pa.Table, *, only_partitions: bool) -> None:
        """Replace all rows, or the partitions of the new rows."""
        self._writer().overwrite(rows, None if only_partitions else [{}])

    def delete(self, rows: pa.Table, rows_at: Callable[[int], pa.Table]) -> None:
        """Delete rows by their key."""
        self._writer().delete_keys(rows, lambda state: rows_at(state.id))

    def compact(self, *, target_bytes: int | None, dry_run: bool) -> Compacted:
        """Compact every bucket fully, or small files of a table without a key."""
        compaction = Compaction(self._storage, self._layout, self._schemas, target_bytes=target_bytes)
        return compaction.plan() if dry_run else compaction.run()

    def expire(self, *, keep_last: int | None, older_than_ms: int | None, dry_run: bool) -> Expired:
        """Expire the oldest snapshots. The options ``snapshot.num-retained.min``, ``.max`` and
        ``snapshot.time-retained`` decide which, if neither a number nor a time is given. Raises ``Unsupported`` if
        their changelogs are to be kept longer, and ``InvalidInput`` for a wrong option."""
        kept = next((name for name in _KEPT_CHANGELOGS if name in self._schema.options), None)
        if kept is not None:
            raise Unsupported(
                f"cannot expire snapshots: the table's option {kept} is {self._schema.options[kept]!r}, and Esker "
                "cannot keep the changelog of an expired snapshot",
                feature=kept,
            )
        most = None
        if keep_last is None and older_than_ms is None:
            keep_last, most = self._number(_RETAINED_MIN, "10"), self._number(_RETAINED_MAX, str(2**31 - 1))
            older_than_ms = int(time.time() * 1000) - self._duration_ms(_RETAINED_TIME, "1 h")
        return expire_snapshots(
            self._storage,
            self._layout,
            keep_last=1 if keep_last is None else keep_last,
            keep_most=most,
            older_than_ms=older_than_ms,
            dry_run=dry_run,
        )

    def remove_orphans(self, *, older_than_ms: int | None, under_24_hours: bool, dry_run: bool) -> Orphans:
        """Remove files that nothing names."""
        return remove_orphans(
            self._storage,
            self._layout.root,
            older_than_ms=older_than_ms,
            under_24_hours=under_24_hours,
            dry_run=dry_run,
        )

    def _number(self, option: str, default: str) -> int:
        text = self._schema.option(option, default).strip()
        if not (text.isascii() and text.isdecimal() and int(text)):
            raise InvalidInput(f"cannot expire snapshots: the table's option {option} is {text!r}, which is no number")
        return int(text)

    def _duration_ms(self, option: str, default: str) -> int:
        text = self._schema.option(option, default).strip().lower()
        found = re.fullmatch(r"(\d+)\s*([a-zµ]*)", text)
        units = [ms for names, ms in _UNITS if found is not None and found[2] in names]
        if found is None or not units:
            raise InvalidInput(
                f"cannot expire snapshots: the table's option {option} is {text!r}, which is no duration"
            )
        return int(int(found[1]) * units[0])

    def _writer(self) -> Writer:
        return Writer(self._storage, self._layout, self._schema)
