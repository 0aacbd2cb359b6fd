"""What a REST server does for the scans of one table: plan them where it should, and take reports of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from esker.catalogs.rest.files import CredentialRefresh, RestFiles
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans.plan_scan import Planning, Refused
from esker.catalogs.rest.scans.reports import Reports
from esker.catalogs.rest.service import RestService
from esker.errors import InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.ports.scan_service import NotServed, ScanQuestion, ServedPlan

MODE = "scan-planning-mode"
_MODES = ("client", "server")
_LINEAGE = frozenset(("_row_id", "_last_updated_sequence_number"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestScanService:
    """The server's part in the scans of one table. ``said`` is the mode that came with the table."""

    service: RestService
    files: RestFiles
    reports: Reports
    name: TableName
    said: str | None = None

    def plan(self, question: ScanQuestion) -> ServedPlan | NotServed:
        forced = _mode(self.service.own(MODE))
        mode = forced or _mode(self.said) or _mode(self.service.settings.text(MODE))
        if mode != "server":
            return NotServed()
        if any(column.name in _LINEAGE for column in question.projection):
            return NotServed("this client: a plan of the server lacks what row lineage needs")
        if not self.service.offers(Operation.PLAN_SCAN):
            raise Unsupported(
                f"cannot plan a scan of {self.name} on the REST catalog at {self.service.address}: it does not "
                f"advertise the operation {Operation.PLAN_SCAN.value}; set the property {MODE} to client",
                feature="server-side scan planning",
            )
        try:
            found = Planning(self.service, self.name, question).run()
        except Refused as refusal:
            if forced:
                raise Unsupported(
                    f"{refusal}; the property {MODE} asks for plans of the server: set it to client, or leave it out",
                    feature="server-side scan planning",
                ) from None
            return NotServed(f"this client, since the server refused: {refusal}")
        if found.credentials:
            place = question.metadata.location
            refresh = CredentialRefresh(self.service.settings, self.name, place, found.plan_id)
            self.files.admit_reads(place, found.credentials, refresh)
        for one in found.files:
            for file in (one.data_file, *one.deletes):
                self.files.check(file.path)
        return ServedPlan(files=found.files, by=f"the REST catalog at {self.service.address}")

    def clock_ns(self) -> int:
        return time.perf_counter_ns()

    def report(self, question: ScanQuestion, counts: Mapping[str, int], duration_ns: int) -> None:
        self.reports.scan(self.name, question, counts, duration_ns)


def _mode(given: str | None) -> str | None:
    if given is not None and given.lower() not in _MODES:
        raise InvalidInput(f"cannot use the property {MODE}: it is {given!r}, not client or server", property=MODE)
    return None if given is None else given.lower()
