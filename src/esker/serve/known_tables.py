"""The tables that clients asked for last. One that has not changed since is not read, decoded or encoded again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from esker.errors import NoSuchTable
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.tree.table_metadata import TableMetadata

_MOST_TABLES = 256
_MOST_BYTES = 128 << 20


@dataclass(slots=True)
class _Known:
    state: TableState
    texts: dict[str, bytes] = field(default_factory=dict)  # the encoded metadata, by form

    @property
    def size(self) -> int:
        return sum(map(len, self.texts.values()))


class KnownTables:
    """Loads tables. The pointer is always read from the catalog; the metadata only if the pointer has moved.

    Keeps at most ``most_tables`` tables, and ``most_bytes`` of encoded metadata, those that were used last.
    """

    def __init__(self, catalog: Catalog, *, most_tables: int = _MOST_TABLES, most_bytes: int = _MOST_BYTES) -> None:
        self._catalog = catalog
        self._most_tables, self._most_bytes = most_tables, most_bytes
        self._known: OrderedDict[TableName, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, name: TableName) -> TableState:
        """The table as it is now. Raises ``NoSuchTable``, and ``NoSuchFile`` if its metadata file is gone."""
        with self._lock:
            known = self._known.get(name)
        try:
            state = self._catalog.load(name, known.state if known else None)
            if known is not None and state is known.state and not self._is_there(state):
                state = self._catalog.load(name)  # raises: a table without its metadata cannot be read by anybody
        except NoSuchTable:
            with self._lock:
                self._known.pop(name, None)
            raise
        self.keep(name, state)
        return state

    def _is_there(self, state: TableState) -> bool:
        return self._catalog.storage().exists(state.metadata_location)

    def keep(self, name: TableName, state: TableState) -> None:
        """Remember a state of a table, for example the one that a commit has just made."""
        with self._lock:
            known = self._known.get(name)
            if known is None or known.state is not state:
                self._known[name] = _Known(state)
            self._known.move_to_end(name)
            self._shrink()

    def encoded(
        self, name: TableName, state: TableState, form: str, shaped: Callable[[TableMetadata], TableMetadata]
    ) -> bytes:
        """The metadata as JSON in one of its forms. ``shaped`` makes the form."""
        with self._lock:
            known = self._known.get(name)
            text = known.texts.get(form) if known is not None and known.state is state else None
        if text is not None:
            return text
        text = encode_table_metadata(shaped(state.metadata))
        with self._lock:
            known = self._known.get(name)
            if known is not None and known.state is state and state.metadata_location:
                known.texts[form] = text
                self._shrink()
        return text

    def _shrink(self) -> None:
        size = sum(known.size for known in self._known.values())
        while self._known and (len(self._known) > self._most_tables or size > self._most_bytes):
            size -= self._known.popitem(last=False)[1].size
