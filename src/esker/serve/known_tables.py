"""The tables that clients asked for last. One that has not changed since is not read, decoded or encoded again."""

from __future__ import annotations

import gzip
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from esker.errors import NoSuchTable
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, LooksAtOnce, TableState
from esker.ports.storage import RemoteStorage
from esker.serve.call import Answer
from esker.tree.table_metadata import TableMetadata

_MOST_TABLES = 256
_MOST_BYTES = 128 << 20
_SHORT = 4096  # bytes of a body that is not worth compressing
_ZIP_LEVEL = 4  # for 1,000 snapshots: 579 kB to 64 kB in 4 ms; level 1 takes 2 ms for 71 kB, level 9 19 ms for 61 kB
LOOK_SECONDS = 5.0  # how often an object store is asked whether the metadata file of a table is still there


@dataclass(slots=True)
class ReadyLoad:
    """The answer to loads of one version of a table, in one form."""

    plain: Answer
    zipped: Answer | None = None
    is_zipping: bool = False

    @property
    def size(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.plain.body) + (0 if self.zipped is None else len(self.zipped.body))

    def best(self, *, accepts_gzip: bool) -> Answer | None:
        """The answer for a client. None if it should be compressed first."""
        if not accepts_gzip or len(self.plain.body) < _SHORT:
            return self.plain
        return self.zipped or (self.plain if self.is_zipping else None)


@dataclass(slots=True)
class _Known:
    state: TableState
    looked: float  # when its metadata file was there
    file: Path | None = None  # the path of that file, if it is on this machine and was found there
    texts: dict[str, bytes] = field(default_factory=dict)  # the encoded metadata, by form
    loads: dict[str, ReadyLoad] = field(default_factory=dict)  # by form; each takes the place of the text

    @property
    def size(self) -> int:
        return sum(map(len, self.texts.values())) + sum(load.size for load in self.loads.values())


class KnownTables:
    """Loads tables. The pointer is always read from the catalog; the metadata only if the pointer has moved.

    Keeps at most ``most_tables`` tables, and ``most_bytes`` of encoded metadata, those that were used last. Whether the
    metadata file is still there is looked up at each load, in an object store once in ``LOOK_SECONDS``.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        most_tables: int = _MOST_TABLES,
        most_bytes: int = _MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog, self._clock = catalog, clock
        self._at_once = catalog if isinstance(catalog, LooksAtOnce) else None
        self._is_remote = isinstance(catalog.storage(), RemoteStorage)
        self._most_tables, self._most_bytes = most_tables, most_bytes
        self._known: OrderedDict[TableName, _Known] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def load(self, name: TableName) -> TableState:
        """The table as it is now. Raises ``NoSuchTable``, and ``NoSuchFile`` if its metadata file is gone."""
        with self._lock:
            known = self._known.get(name)
        try:
            state = self._catalog.load(name, known.state if known else None)
            if known is not None and state is known.state and not self._is_there(known):
                state = self._catalog.load(name)  # raises: a table without its metadata cannot be read by anybody
        except NoSuchTable:
            with self._lock:
                self._forget(name)
            raise
        self.keep(name, state)
        return state

    def current_load(self, name: TableName, form: str) -> ReadyLoad | None:
        """The answer to loads of a table, if it is kept and the catalog says without a wait that it is current."""
        with self._lock:
            known = self._known.get(name)
            if known is None or (load := known.loads.get(form)) is None or self._at_once is None:
                return None
            self._known.move_to_end(name)
        if self._at_once.pointer_at_once(name) != known.state.metadata_location:
            return None
        if known.file is None and (not self._is_remote or self._is_due(known)):
            return None  # ``load`` asks the storage
        return load if self._is_there(known) else None

    def _is_there(self, known: _Known) -> bool:
        if known.file is not None:
            return known.file.is_file()
        if self._is_remote and not self._is_due(known):
            return True
        storage, location = self._catalog.storage(), known.state.metadata_location
        if is_there := storage.exists(location):
            known.looked = self._clock()
            folder, _, file = location.rpartition("/")
            here = storage.local_folder(folder)
            known.file = None if here is None else Path(here, file)
        return is_there

    def _is_due(self, known: _Known) -> bool:
        return self._clock() - known.looked >= LOOK_SECONDS

    def keep(self, name: TableName, state: TableState) -> None:
        """Remember a state of a table, for example the one that a commit has just made."""
        with self._lock:
            known = self._known.get(name)
            if known is None or known.state is not state:
                self._forget(name)
                self._known[name] = _Known(state, self._clock())
            self._known.move_to_end(name)
            self._shrink()

    def encoded(
        self, name: TableName, state: TableState, form: str, shaped: Callable[[TableMetadata], TableMetadata]
    ) -> bytes:
        """The metadata as JSON in one of its forms. ``shaped`` makes the form."""
        with self._lock:
            known = self._known.get(name)
            text = known.texts.get(form) if known is not None and known.state is state else None
        if text is None:
            text = encode_table_metadata(shaped(state.metadata))
            with self._changing(name, state) as known:
                if known is not None and form not in known.loads and state.metadata_location:
                    known.texts[form] = text
        return text

    def kept_load(self, name: TableName, state: TableState, form: str) -> ReadyLoad | None:
        """The answer to loads of a version of a table, if it is kept."""
        with self._lock:
            known = self._known.get(name)
            return known.loads.get(form) if known is not None and known.state is state else None

    def keep_load(self, name: TableName, state: TableState, form: str, answer: Answer) -> None:
        """Keep the answer to loads of a version of a table, unless there is a newer one."""
        with self._changing(name, state) as known:
            if known is not None:
                known.loads[form] = ReadyLoad(answer)
                known.texts.pop(form, None)

    def zipped(self, name: TableName, state: TableState, load: ReadyLoad) -> Answer:
        """The answer, compressed, and kept so. Others who ask meanwhile get it as it is."""
        load.is_zipping = True
        headers = {**load.plain.headers, "content-encoding": "gzip"}
        zipped = replace(load.plain, body=gzip.compress(load.plain.body, _ZIP_LEVEL, mtime=0), headers=headers)
        with self._changing(name, state):
            load.zipped = zipped
        return zipped

    @contextmanager
    def _changing(self, name: TableName, state: TableState) -> Iterator[_Known | None]:
        """What is known of a version of a table, to be changed; None if another version or none is kept."""
        with self._lock:
            known = self._known.get(name)
            if known is None or known.state is not state:
                yield None
                return
            before = known.size
            yield known
            self._bytes += known.size - before
            self._shrink()

    def _forget(self, name: TableName) -> None:
        if (known := self._known.pop(name, None)) is not None:
            self._bytes -= known.size

    def _shrink(self) -> None:
        while self._known and (len(self._known) > self._most_tables or self._bytes > self._most_bytes):
            self._forget(next(iter(self._known)))
