"""A Nessie as far as commits are concerned: versions of the catalog, and what Nessie 0.99 does not check.

The tests with a real Nessie say that it is like this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from faulty_rest import FaultyRest, Route, document, error, serving

from esker.tree.table_metadata import TableMetadata


@dataclass
class FakeNessie(FaultyRest):
    """A server with the prefix ``main``. ``history`` holds the tables after each commit."""

    config: dict[str, Any] = field(
        default_factory=lambda: {
            "defaults": {"rest-metrics-reporting-enabled": "false"},
            "overrides": {"nessie.is-nessie-catalog": "true", "prefix": "main"},
        }
    )
    history: list[dict[Route, TableMetadata]] = field(default_factory=lambda: [{}])
    _at: int | None = None

    def handle(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any) -> Any:
        parts = path.split("/")  # "", "v1", "main@c3~1", …
        self._at = None
        ref = parts[2].replace("%40", "@")
        if ref.partition("@")[0] == "main":
            commit, _, steps = ref.partition("@")[2].partition("~")
            self._at = int(commit[1:]) - int(steps or 0) if commit else None
            path = "/".join((*parts[:2], *parts[3:]))
        before = self.tables
        if method in ("GET", "HEAD") and self._at is not None:
            self.tables = self.history[self._at]
        try:
            answer = super().handle(method, path, query, headers, body)
        finally:
            if method in ("GET", "HEAD") and self._at is not None:
                self.tables = before
        if self.tables != self.history[-1]:
            self.history.append(dict(self.tables))
        if answer[1] is not None and "metadata" in answer[1]:
            at = self._at if method == "GET" and self._at is not None else len(self.history) - 1
            answer[1]["metadata"]["properties"]["nessie.commit.id"] = f"c{at}"
        return answer

    def answer(self, route: Route) -> dict[str, Any]:
        """A load names the file of the version that is loaded."""
        table = self.tables[route]
        known = hashlib.sha256(json.dumps(document(table)).encode()).hexdigest()[:12]
        return {"metadata-location": f"{table.location}/metadata/{known}.metadata.json", "metadata": document(table)}

    def commit(self, route: Route, body: Any) -> tuple[int, Any]:
        """As Nessie: an absent ref is not checked, the table is compared where the address names a version, and the
        newest snapshot alone is kept."""
        if self._at is not None and self.history[self._at].get(route) != self.tables.get(route):
            return error(409, "", f"Values of existing and expected content for key '{route}' are different.")
        checked = [one for one in body["requirements"] if one.get("snapshot-id", 0) is not None]
        status, answer = super().commit(route, {**body, "requirements": checked})
        if status == 200:
            table = self.tables[route]
            newest = tuple(replace(one, parent_snapshot_id=None) for one in table.snapshots[-1:])
            self.tables[route] = replace(table, snapshots=newest, metadata_log=())
            address = f"https://elsewhere.example/{'/'.join(route)}/{len(self.history)}"
            answer = {**self.answer(route), "metadata-location": address}
        return status, answer


@contextmanager
def fake_nessie(warehouse: str) -> Iterator[FakeNessie]:
    """A server on a free port of this machine, stopped at the end."""
    with serving(FakeNessie(warehouse=warehouse)) as found:
        yield found
