"""Each planned file to the way it is read: a look at the plan, and into files where the plan does not say enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from esker.arrow.engine import NAME_MAPPING
from esker.arrow.open_data import GetMapping
from esker.model.partition import PartitionSpec
from esker.model.types import Field
from esker.ports.engine import ReadRequest, ScanTask
from esker.ports.storage import Storage
from esker.spark.grouping import Grouped, Placed, can_be_native, group, projection_is_native
from esker.spark.layouts import (
    has_awkward_default,
    identity_constants,
    identity_ids,
    is_plain,
    narrowed,
    reads_by_name,
)
from esker.spark.placed_files import PlacedFile, place
from esker.spark.protected_columns import Protection, cut_columns
from esker.spark.scan_names import members_kept_their_names
from esker.spark.survey import Layout, Survey, spread
from esker.tree.data_file import DataFile

FEW, MANY = 64, 1000  # footers looked at where nothing speaks for odd files, and where partitions may be left out
Layouts = dict[str, Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorter:
    """Sorts the files of one request."""

    storage: Storage
    survey: Survey
    request: ReadRequest
    fields: Sequence[Field]  # the columns to read from files
    get_mapping: GetMapping
    asked: frozenset[int] = frozenset()  # columns that the filter is about

    def sort(self, tasks: Iterable[ScanTask]) -> Grouped:
        """The tasks in groups."""
        native = projection_is_native(self.request.projection)
        placed: list[tuple[ScanTask, PlacedFile]] = []
        through_arrow: list[ScanTask] = []
        for number, task in enumerate(tasks):
            fits = native and can_be_native(task, self.request)
            file = place(self.storage, task.data_file, number) if fits else None
            if file is None:
                through_arrow.append(task)
            else:
                placed.append((task, file))
        layouts = self._look([task.data_file for task, _ in placed])
        protection = Protection.of(self.request.metadata, self.fields, self.asked)
        chosen = []
        for task, file in placed:
            fits, layout = self._way(task.data_file, layouts)
            if fits:
                protected = protection.of_file(task, layouts.get(task.data_file.path))
                chosen.append(Placed(task, file, layout, protected))
            else:
                through_arrow.append(task)
        return group(chosen, through_arrow)

    def _way(self, file: DataFile, layouts: Layouts) -> tuple[bool, Layout | None]:
        """Whether Spark's reader can do the file, and the layout it must go by, None for ids."""
        layout = layouts.get(file.path)
        if layout is None or self._is_plain(file, layout):
            return True, None
        if layout.is_mended:
            return False, None
        by_name = reads_by_name(layout, self.fields, file.file_format.lower(), self._constants(file))
        return by_name, narrowed(layout, self.fields)

    def _look(self, files: Sequence[DataFile]) -> Layouts:
        """The layouts of those files that must be looked into."""
        metadata, fields = self.request.metadata, self.fields
        if NAME_MAPPING in metadata.properties or has_awkward_default(fields):
            return self._see(files)
        if not members_kept_their_names(metadata, fields):
            return self._see(files)
        parquet = [file for file in files if _is_parquet(file)]
        fixed = identity_ids(metadata) & {f.id for f in fields}
        sample = spread(parquet, MANY if fixed else FEW)
        known = self._see(sample)
        seen = [(file, known[file.path]) for file in sample]
        if all(self._is_plain(file, layout) and not cut_columns(fields, layout) for file, layout in seen):
            return known | self._see([file for file in files if not _is_parquet(file)])
        return self._see(files)

    def _see(self, files: Sequence[DataFile]) -> Layouts:
        fixed: Callable[[DataFile], frozenset[int]] = lambda file: frozenset(self._constants(file))  # noqa: E731
        look = partial(self.survey.layouts, schema=self.request.row_schema, get_mapping=self.get_mapping)
        return {file.path: layout for file, layout in zip(files, look(files, constants_of=fixed), strict=True)}

    def _is_plain(self, file: DataFile, layout: Layout) -> bool:
        return _is_parquet(file) and is_plain(layout, self.fields, self._constants(file))

    def _constants(self, file: DataFile) -> dict[int, object]:
        return identity_constants(self.request.metadata.spec_by_id.get(file.spec_id, PartitionSpec()), file)


def _is_parquet(file: DataFile) -> bool:
    return file.file_format.lower() == "parquet"
