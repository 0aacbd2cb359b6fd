"""A look into data files before Spark reads them: which columns they have, and under which names and types.

Manifests do not say whether a file's writer left field ids, nor which columns it has. Spark reads a file without ids
as an error, and a column that is not there as null. So where the table makes either likely every footer is read, and
otherwise those of a few files spread over the plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from esker.arrow.file_columns import FileColumn
from esker.arrow.open_data import GetMapping, open_data, renumbered
from esker.arrow.parquet_file import ParquetFile
from esker.model.schema import Schema
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

_KEPT = 20_000
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """A file's columns, each with the id it has in the table, by the writer's word or by the name mapping."""

    columns: tuple[FileColumn, ...]
    has_ids: bool
    is_mended: bool = False  # Arrow reads the file with its footer mended; Spark would refuse it


class Survey:
    """Layouts of files. They never change, so what was seen is kept."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: OrderedDict[tuple[str, int], Layout] = OrderedDict()

    def layouts(
        self,
        files: Sequence[DataFile],
        schema: Schema,
        get_mapping: GetMapping,
        constants_of: Callable[[DataFile], frozenset[int]],
    ) -> list[Layout]:
        """One per file. ``constants_of`` gives the ids that go by the file's partition (checklist E1)."""

        def look(file: DataFile) -> Layout:
            key = (file.path, schema.schema_id)
            found = self._seen.get(key)
            if found is None:
                found = self._seen[key] = self._look(file, schema, get_mapping, constants_of(file))
            return found

        if len(files) < 2:
            found = [look(file) for file in files]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
                found = list(pool.map(look, files))
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return found

    def _look(self, file: DataFile, schema: Schema, get_mapping: GetMapping, constants: frozenset[int]) -> Layout:
        named = []
        identify = renumbered(file, schema, get_mapping, constants)

        def without_ids(columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
            named.append(True)
            return identify(columns)

        source = open_data(self._storage, file, without_ids)
        is_mended = isinstance(source, ParquetFile) and source.is_mended
        return Layout(source.columns, not named, is_mended)


def spread(files: Sequence[DataFile], most: int) -> list[DataFile]:
    """At most so many of the files, first and last among them."""
    if len(files) <= most:
        return list(files)
    step = (len(files) - 1) / (most - 1)
    return [files[round(at * step)] for at in range(most)]
