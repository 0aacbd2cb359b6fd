"""Dead letters decoded anew, after a fix: what can be read now goes to its table, the rest is buried again.

The letters of a batch come into the table by one commit, so a list of batches says exactly which letters are meant;
those that arrive meanwhile are of other batches and stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from esker.errors import NotFound
from esker.ingest.checkpoint import Plan
from esker.ingest.counts import DEAD_LETTER_TABLE, BatchCounts
from esker.ingest.data_files import DataFiles
from esker.ingest.job import Staged
from esker.ingest.otlp_job import add_rows, batch_counts, resent_in, with_letters
from esker.ingest.receipts import Delivery
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry_tables import TelemetryTables
from esker.lake import Lake
from esker.model.column import col
from esker.otlp.account import Counts
from esker.otlp.decode import Options, decode
from esker.otlp.messages import Signal
from esker.otlp.requests import Request, Trouble
from esker.otlp.schemas import DEAD_LETTER

# Of these not all bytes are there: decoding what is would tell another story than the letter does.
_CUT = frozenset(("too_large", "truncated", "damaged_compression"))
_COLUMNS = ("raw", "source", "offset", "signal", "error_class", "error")
BATCHES_AT_ONCE = 200


def letter_batches(lake: Lake) -> list[str]:
    """The batches that have dead letters."""
    try:
        table = lake.table(DEAD_LETTER_TABLE)
    except NotFound:
        return []
    found: set[str] = set()
    for batch in table.scan(columns=["batch"]).to_batches():
        found.update(batch.column("batch").unique().to_pylist())
    return sorted(name for name in found if name is not None)


class LettersJob:
    """Decodes the dead letters of the batches that a plan names."""

    def __init__(
        self, lake: Lake, tables: TelemetryTables, *, options: Options | None = None, dedup: str | None = None
    ) -> None:
        self._lake = lake
        self._tables = tables
        self._options = options or Options()
        self._dedup = dedup

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write what can be read now, and the letters that are left, which replace the old ones."""
        writing: dict[str, DataFiles] = {DEAD_LETTER.name: DataFiles(self._tables.get(DEAD_LETTER.name))}
        counts = Counts()
        resent = resent_in(self._tables, self._options, self._dedup, batch_id)
        try:
            for part in decode(
                _requests(self._lake, plan.letters),
                batch_id=batch_id,
                ingested_at_us=plan.planned_at_us,
                options=self._options,
            ):
                for name, rows in with_letters(part):
                    add_rows(writing, self._tables, name, rows if resent is None else resent.without(name, rows))
                counts.add(part.counts)
            if not counts.records.total():  # nothing has become readable: the old letters stay as they are
                writing[DEAD_LETTER.name].discard()
                return Staged(deliveries=(), counts=BatchCounts())
            return Staged(deliveries=tuple(_deliveries(writing, plan)), counts=batch_counts(counts, writing, resent))
        except BaseException:
            for files in writing.values():
                files.discard()
            raise

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Letters have no sources to let go of."""
        return ()


def _deliveries(writing: dict[str, DataFiles], plan: Plan) -> list[Delivery]:
    """Old letters go last: until then a record is rather in two places than in none."""
    made = [
        files.delivery(replaces=plan.letters if name == DEAD_LETTER.name else ()) for name, files in writing.items()
    ]
    return sorted(made, key=lambda delivery: delivery.table == DEAD_LETTER_TABLE)


def _requests(lake: Lake, batches: Sequence[str]) -> Iterator[Request]:
    table = lake.table(DEAD_LETTER_TABLE)
    for rows in table.scan(col("batch").isin(batches), columns=list(_COLUMNS)).to_batches():
        for row in rows.to_pylist():
            yield _request(row)


def _request(row: dict[str, Any]) -> Request:
    raw: bytes = row["raw"] or b""
    signal = None
    if row["signal"] is not None:
        with suppress(ValueError):
            signal = Signal(row["signal"])
    is_cut = row["error_class"] in _CUT
    return Request(
        source=row["source"],
        offset=row["offset"],
        data=raw,
        json=raw.lstrip()[:1] == b"{",
        signal=signal,
        trouble=Trouble(row["error_class"], row["error"] or "") if is_cut else None,
    )
