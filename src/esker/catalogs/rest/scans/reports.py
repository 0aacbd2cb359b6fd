"""Reports of scans and commits to the server, for its own statistics. A report that fails changes nothing and stops
nothing: reports are sent in the background, and those that come too fast are left out."""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans.filter_documents import filter_document
from esker.catalogs.rest.service import RestService
from esker.model.table_names import TableName
from esker.ports.scan_service import ScanQuestion
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

log = logging.getLogger("esker.rest")

_WAITING = 100
_LAST_WAIT_S = 1.0  # for reports that wait when the process ends
_METADATA = {"engine-name": "esker"}
_COUNTERS = {  # of a report: the entry of a summary, and the unit
    "added-data-files": ("added-data-files", "count"),
    "removed-data-files": ("deleted-data-files", "count"),
    "total-data-files": ("total-data-files", "count"),
    "added-delete-files": ("added-delete-files", "count"),
    "removed-delete-files": ("removed-delete-files", "count"),
    "total-delete-files": ("total-delete-files", "count"),
    "added-records": ("added-records", "count"),
    "removed-records": ("deleted-records", "count"),
    "total-records": ("total-records", "count"),
    "added-files-size-bytes": ("added-files-size", "bytes"),
    "removed-files-size-bytes": ("removed-files-size", "bytes"),
    "total-files-size-bytes": ("total-files-size", "bytes"),
}

_Waiting = queue.Queue[tuple[TableName, dict[str, Any]] | None]


class Reports:
    """The reports of one catalog. One thread sends them, and it starts with the first report."""

    def __init__(self, service: RestService) -> None:
        self._service = service
        self._waiting: _Waiting = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def wanted(self) -> bool:
        """Whether the server takes reports and nobody switched them off."""
        if not self._service.offers(Operation.REPORT_METRICS):
            return False
        return self._service.settings.flag("rest-metrics-reporting-enabled", default=True)

    def commit(self, name: TableName, base: TableMetadata, now: TableMetadata) -> None:
        """Report the snapshot that a commit made; nothing where it made none."""
        newest = now.snapshots[-1] if now.snapshots else None
        if newest is not None and base.snapshot(newest.snapshot_id) is None and self.wanted:
            self._put(name, commit_report(name, newest))

    def scan(self, name: TableName, question: ScanQuestion, counts: Mapping[str, int], duration_ns: int) -> None:
        """Report a scan that was planned."""
        if self.wanted:
            self._put(name, scan_report(name, question, counts, duration_ns))

    def _put(self, name: TableName, report: dict[str, Any]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_send_all, args=(self._service, self._waiting), daemon=True, name="esker-rest-reports"
                )
                self._thread.start()
                weakref.finalize(self, _end, self._waiting, self._thread)
        try:
            self._waiting.put_nowait((name, report))
        except queue.Full:
            log.info("left out a report about %s: %s reports wait for the server", name, _WAITING)


def commit_report(name: TableName, snapshot: Snapshot) -> dict[str, Any]:
    """The report of one snapshot, as the protocol writes it."""
    summary = snapshot.summary
    metrics = {
        counter: {"unit": unit, "value": int(summary[entry])}
        for counter, (entry, unit) in _COUNTERS.items()
        if summary.get(entry, "").isdecimal()
    }
    return {
        "report-type": "commit-report",
        "table-name": str(name),
        "snapshot-id": snapshot.snapshot_id,
        "sequence-number": snapshot.sequence_number,
        "operation": snapshot.operation or "append",
        "metrics": {"attempts": {"unit": "count", "value": 1}, **metrics},
        "metadata": _METADATA,
    }


def scan_report(name: TableName, question: ScanQuestion, counts: Mapping[str, int], duration_ns: int) -> dict[str, Any]:
    """The report of one plan. The filter is without its values: they may be somebody's data."""
    columns = list(question.projection)
    timer = {"count": 1, "time-unit": "nanoseconds", "total-duration": max(duration_ns, 0)}
    units = {counter: "bytes" if counter.endswith("bytes") else "count" for counter in counts}
    return {
        "report-type": "scan-report",
        "table-name": str(name),
        "snapshot-id": question.snapshot.snapshot_id,
        "filter": _without_values(filter_document(question.filter, question.schema.name_by_id)),
        "schema-id": question.schema.schema_id,
        "projected-field-ids": [column.id for column in columns],
        "projected-field-names": [column.name for column in columns],
        "metrics": {
            "total-planning-duration": timer,
            **{counter: {"unit": units[counter], "value": value} for counter, value in counts.items()},
        },
        "metadata": _METADATA,
    }


def _without_values(document: Any) -> Any:
    """A filter whose literals are marks, as Iceberg's own clients report it."""
    if not isinstance(document, dict):
        return document
    found = {name: _without_values(value) for name, value in document.items()}
    if "value" in found:
        found["value"] = "(value)"
    if "values" in found:
        found["values"] = [f"({len(found['values'])} values)"]
    return found


def _send_all(service: RestService, waiting: _Waiting) -> None:
    while (next_ := waiting.get()) is not None:
        name, report = next_
        try:
            service.tell(Operation.REPORT_METRICS, name, report, resend=False)
        except Exception as error:  # whatever it is, no scan and no commit may fail for it
            log.info("cannot send a report about %s: %s", name, type(error).__name__)


def _end(waiting: _Waiting, thread: threading.Thread) -> None:
    try:
        waiting.put_nowait(None)
    except queue.Full:
        return
    if not threading.main_thread().is_alive():  # the process ends; a catalog that is merely forgotten waits for nobody
        thread.join(_LAST_WAIT_S)
