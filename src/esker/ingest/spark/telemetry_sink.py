"""Writes any DataFrame of OTLP to the telemetry tables, from ``foreachBatch``: each batch of a query exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.errors import EskerError, InvalidInput, NotFound
from esker.ingest.account import Account
from esker.ingest.defaults import lake_folder
from esker.ingest.deliver import announce
from esker.ingest.job import Staged
from esker.ingest.otlp.otlp_job import resent_in, staged, without_tables
from esker.ingest.otlp.resent_records import check_way
from esker.ingest.otlp.telemetry_tables import TelemetryTables, full_name, profile_of, promotions_by_table
from esker.ingest.receipts import DEAD_LETTER_TABLE, BatchCounts, Receipt, Receipts
from esker.ingest.run_batches import Pending
from esker.ingest.settle_receipts import hand_over, settle_earlier, undelivered
from esker.ingest.spark.otlp_rows_worker import requests_of
from esker.ingest.spark.telemetry_frame import Rows, rows_here, rows_of, run_on_workers
from esker.lake import Lake, open_lake
from esker.otlp.decoding.decode import Decoded, Options, decode
from esker.otlp.schemas import DEAD_LETTER, TABLES
from esker.storage.location import check_local_folder
from esker.write.build_snapshot import head_of
from esker.write.exactly_once import EPOCH, QUERY, Batch, is_applied
from esker.write.table_changes import MAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of the sink. Can be pickled."""

    value: str = "value"
    framed: bool = False
    application: str | None = None
    receipts: Path | None = None
    engine: str = "auto"
    profile: str | None = None
    promote: Mapping[str, str] = field(default_factory=dict)
    partition_by: str = "day"
    dedup: str | None = None
    strict: bool = False
    most_dead: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def telemetry_sink(lake: Lake, **wishes: Any) -> TelemetrySink:
    """Return a function for ``foreachBatch`` that decodes requests and commits them, each table once per batch.

    - The frame has a column ``value`` (or the one named by ``value=``) of bytes or text, each one Export request in
      protobuf or JSON. With ``framed=True`` each value is a whole file in any framing, as ``binaryFile`` reads them.
    - Columns ``topic`` and ``partition``, or ``path``, and ``offset`` are recorded in dead letters.
    - ``promote``, ``profile``, ``partition_by``, ``dedup``, ``strict``, ``most_dead`` and ``properties`` are the
      options of an ingest.
    - ``application`` names the query if Spark does not. ``receipts`` is a directory for batches that cannot be
      committed, by default beside the lake. ``engine`` is ``spark``, Spark's workers, or ``arrow``, this process.

    Raises ``InvalidInput`` for an unknown option. The function raises ``Conflict`` or another error if a commit fails.

        stream.writeStream.foreachBatch(esker.otlp.telemetry_sink(lake)).start()
    """
    known = [field.name for field in fields(Wishes)]
    for name in wishes:
        if name not in known:
            raise InvalidInput(f"cannot create a sink with {name!r}: it takes {', '.join(known)}", option=name)
    return TelemetrySink(lake, Wishes(**wishes))


class TelemetrySink:
    """The function that ``foreachBatch`` calls, for one query. ``account`` has the counts; ``checked`` compares with
    the tables."""

    def __init__(self, lake: Lake, wishes: Wishes) -> None:
        check_way(wishes.dedup)
        if wishes.engine not in ("auto", "arrow", "spark"):
            raise InvalidInput(f"cannot decode with {wishes.engine!r}: the engines are arrow, spark and auto")
        self.account = Account()
        self._lake = lake
        self._wishes = wishes
        self._promote = promotions_by_table(wishes.promote)
        self._application: str | None = None
        self._counted: set[int] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._lake.address is None:
            raise InvalidInput("cannot send this sink to another process: its lake is in this process's memory")
        return _reopened, (dict(self._lake.address), self._wishes)

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Load a batch. Tables that have it already are not written again."""
        application = self._application_of(frame)
        receipts = self._receipts(application)
        try:
            if receipts is not None:
                settle_earlier(self._lake, receipts, self.account, before=epoch, counted=self._counted)
            receipt = (receipts and receipts.read(epoch)) or self._staged(frame, application, epoch, receipts)
            hand_over(self._lake, receipt, self.account, receipts=receipts, counted=self._counted)
        except Pending as pending:
            raise undelivered(application, epoch, pending, receipts) from pending.failures[0][1]
        self._check_letters(epoch, receipt.counts)

    def checked(self) -> Account:
        """The account, compared with the tables."""
        if self._application is not None:
            self.account.check(self._lake, self._application)
        return self.account

    def _application_of(self, frame: DataFrame) -> str:
        found = Batch.of((self._wishes.application or query_of(frame), 0)).application
        if self._application not in (None, found):
            raise InvalidInput(
                f"cannot take batches of {found}: this sink has batches of {self._application}; create another sink"
            )
        self._application = found
        return found

    def _receipts(self, application: str) -> Receipts | None:
        folder = self._wishes.receipts
        if folder is None:
            beside = lake_folder(self._lake)
            folder = None if beside is None else beside / "ingest" / f"stream-{application.replace('/', '_')}"
        if folder is None:
            return None
        check_local_folder(Path(folder), "receipts")
        (folder / "pending").mkdir(parents=True, exist_ok=True)
        return Receipts(folder / "pending")

    def _staged(self, frame: DataFrame, application: str, epoch: int, receipts: Receipts | None) -> Receipt:
        rows = rows_of(frame, self._wishes.value)
        applied = applied_tables(self._lake, Batch.of((application, epoch)))
        made = self._written(rows, f"{application}/{epoch}", applied)
        self.account.already_committed += len(applied)
        receipt = Receipt(
            application=application,
            number=epoch,
            deliveries=made.deliveries,
            counts=made.counts,
            summary={QUERY: application, EPOCH: str(epoch)},
        )
        if receipts is not None and made.deliveries:
            announce(self._lake.catalog.storage(), receipt)
            receipts.write(receipt)
        return receipt

    def _written(self, rows: Rows, batch_id: str, applied: frozenset[str]) -> Staged:
        wishes = self._wishes
        profile = profile_of(self._lake, wishes.profile, promote=self._promote)
        options = Options(profile=profile, promote=self._promote, strict=wishes.strict)
        tables = TelemetryTables(
            self._lake,
            profile=profile,
            promote=self._promote,
            partition_by=wishes.partition_by,
            properties=wishes.properties,
        )
        at_us = time.time_ns() // 1000
        storage = self._lake.catalog.storage()
        if wishes.engine == "spark" or (wishes.engine == "auto" and storage.is_shared):
            from esker.ingest.spark.telemetry_job import SparkOtlpJob

            job = SparkOtlpJob(tables, storage, lambda: rows.session, options=options, dedup=wishes.dedup)
            run = run_on_workers(rows, framed=wishes.framed)
            return job.stage_by(run, batch_id, at_us=at_us, applied=applied)
        requests = requests_of(rows_here(rows), framed=wishes.framed)
        parts = decode(requests, batch_id=batch_id, ingested_at_us=at_us, options=options)
        return staged(tables, _without(parts, applied), resent_in(tables, options, wishes.dedup, batch_id))

    def _check_letters(self, epoch: int, counts: BatchCounts) -> None:
        most = self._wishes.most_dead
        if most is None or counts.dead_letters <= most * counts.received:
            return
        self.account.stopped = (
            f"batch {epoch} is committed, and {counts.dead_letters / counts.received:.0%} of its records are dead "
            f"letters, more than {most:.0%}; see {DEAD_LETTER_TABLE} for why, and after a fix: esker replay "
            "--dead-letters"
        )
        raise EskerError(self.account.stopped)


def query_of(frame: DataFrame) -> str:
    """The id of the query of a batch, from Spark. Raises ``InvalidInput`` if Spark does not report it."""
    from esker.spark.session.spark_session import is_connect

    session = frame.sparkSession
    found = None if is_connect(session) else session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise InvalidInput(
            "cannot find out the query of this batch: Spark reports it in foreachBatch of classic sessions alone; name "
            "it, the same at every start, as in telemetry_sink(lake, application='otlp')"
        )
    return str(found)


def applied_tables(lake: Lake, batch: Batch) -> frozenset[str]:
    """The telemetry tables that have the batch, by their names without the namespace."""
    found = set()
    for name in TABLES:
        try:
            metadata = lake.table(full_name(name)).metadata
        except NotFound:
            continue
        head = head_of(metadata, MAIN)
        if is_applied(metadata, MAIN, None if head is None else head.snapshot_id, batch):
            found.add(name)
    return frozenset(found)


def _without(parts: Iterable[Decoded], applied: frozenset[str]) -> Iterator[Decoded]:
    for part in parts:
        if not applied:
            yield part
            continue
        yield replace(
            part,
            tables={name: rows for name, rows in part.tables.items() if name not in applied},
            dead_letters=part.dead_letters.slice(0, 0) if DEAD_LETTER.name in applied else part.dead_letters,
            counts=without_tables(part.counts, applied),
        )


def _reopened(address: dict[str, Any], wishes: Wishes) -> TelemetrySink:
    return TelemetrySink(open_lake(**address), wishes)
