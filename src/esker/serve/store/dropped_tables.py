"""Tables that were dropped through the server: they can be brought back for some days. Then their files are removed, if
that was asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from esker.catalogs.sql_dropped import DroppedTable, SqlDropped, dropped_tables
from esker.errors import EskerError
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.lake import Lake, remove_dropped
from esker.ports.catalog import TableState
from esker.serve.call import NOTHING, Answer, Call, answer_json, identifier_in
from esker.serve.store.check_places import Places
from esker.tree.table_metadata import TableMetadata

log = logging.getLogger("esker.serve")


class DroppedTables:
    """Drops tables, lists them, brings them back, and forgets them when their time is over."""

    def __init__(
        self,
        lake: Lake,
        places: Places,
        kept: SqlDropped,
        keep_ms: int,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._lake = lake
        self._places = places
        self._kept = kept
        self._keep_ms = keep_ms
        self._now_ms = now_ms

    @classmethod
    def of(cls, lake: Lake, places: Places, keep_ms: int) -> DroppedTables | None:
        """The dropped tables of a lake; None if they are not kept, or its catalog is not in a database."""
        kept = dropped_tables(lake.catalog) if keep_ms > 0 else None
        return None if kept is None else cls(lake, places, kept, keep_ms)

    def drop(self, call: Call) -> Answer:
        """Drop a table. Its files stay; with ``purgeRequested`` they are removed when its time is over."""
        self._kept.drop(call.table, purges=call.flag("purgeRequested"), now_ms=self._now_ms())
        return NOTHING

    def list(self, call: Call) -> Answer:
        """The tables that can be brought back, and until when."""
        found = [
            {
                "namespace": list(one.name.namespace),
                "name": one.name.name,
                "dropped-ms": one.dropped_ms,
                "kept-until-ms": one.dropped_ms + self._keep_ms,
                "purge-requested": one.purges,
            }
            for one in self._kept.listed()
            if call.has(one.name.namespace)
        ]
        return answer_json({"dropped": found})

    def undrop(self, call: Call) -> Answer:
        """Bring a table back, under its name or under ``new-name`` in the same namespace."""
        document = call.document()
        name = identifier_in(document)
        new = document.string_or_none("new-name")
        target = name if new is None else Call(path={"namespace": "\x1f".join(name.namespace), "table": new}).table
        chosen = next((one for one in self._kept.listed() if one.name == name), None)
        # its own folder is that of a dropped table still; in the transaction that brings it back it is not
        claims = [] if chosen is None else self._places.claims_of(target, self._read(chosen))
        with self._places.held(claims):
            self._kept.undrop(name, target)
        return NOTHING

    def tidy(self) -> None:
        """Forget the tables whose time is over, and remove the files of those that were to be purged. Never raises."""
        before = self._now_ms() - self._keep_ms
        try:
            for one in self._kept.listed():
                if one.dropped_ms < before and self._kept.forget(one) and one.purges:
                    self._purge(one)
        except EskerError as error:
            log.warning("dropped tables could not be tidied: %s", error.message)

    def _purge(self, dropped: DroppedTable) -> None:
        try:
            metadata = self._read(dropped)
            if self._places.is_in_use(metadata.location):
                log.info("files of %s are kept: a table is in its folder", dropped.name)
                return
            state = TableState(metadata=metadata, metadata_location=dropped.metadata_location)
            remove_dropped(self._lake, dropped.name, state)
        except EskerError as error:
            log.warning("files of %s could not be removed: %s", dropped.name, error.message)

    def _read(self, dropped: DroppedTable) -> TableMetadata:
        place = dropped.metadata_location
        return decode_table_metadata(place, self._lake.catalog.storage().read(place))
