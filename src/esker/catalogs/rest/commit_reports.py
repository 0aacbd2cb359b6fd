"""Reports of commits to the server, for its own statistics. A report that fails changes nothing and stops nothing."""

from __future__ import annotations

import logging
import threading
from typing import Any

from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.service import RestService
from esker.errors import EskerError
from esker.model.table_names import TableName
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

log = logging.getLogger("esker.rest")

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


def report_commit(service: RestService, name: TableName, base: TableMetadata, now: TableMetadata) -> None:
    """Report the snapshot that a commit made, in the background; nothing where there is none or nobody wants it."""
    if not service.offers(Operation.REPORT_METRICS):
        return
    if not service.settings.flag("rest-metrics-reporting-enabled", default=True):
        return
    newest = now.snapshots[-1] if now.snapshots else None
    if newest is None or base.snapshot(newest.snapshot_id) is not None:
        return
    body = commit_report(name, newest)
    threading.Thread(target=_send, args=(service, name, body), daemon=True, name="esker-rest-report").start()


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
        "metadata": {"engine-name": "esker"},
    }


def _send(service: RestService, name: TableName, body: dict[str, Any]) -> None:
    try:
        service.tell(Operation.REPORT_METRICS, name, body, resend=False)
    except EskerError as error:
        log.info("cannot report a commit to %s: %s", name, error)
