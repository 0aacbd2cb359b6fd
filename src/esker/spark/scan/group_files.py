"""Decides how each planned file is read: by field id, by the file's own column names, or with Arrow.

By default, Spark's Parquet reader reads a file by id. Files whose columns must be found by name, or that lack a column
of the partition, are grouped by their layout. Arrow reads the files that neither can read exactly. Footers are read
only if the plan does not say enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_

from esker.arrow.arrow_engine import NAME_MAPPING
from esker.arrow.read.open_data import GetMapping
from esker.arrow.read.row_metadata import (
    CHANGE,
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    METADATA_COLUMNS,
    PARTITION,
    POS,
    ROW_ID,
    SPEC_ID,
)
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import walk
from esker.model.types import Field, ListType, MapType, TimestampType, UnknownType, is_floating
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.scan.file_layouts import (
    Layout,
    Survey,
    has_awkward_default,
    identity_constants,
    identity_ids,
    is_plain,
    narrowed,
    reads_by_name,
    spread,
)
from esker.spark.scan.file_scan import PlacedFile
from esker.spark.scan.hadoop_systems import Opening
from esker.spark.scan.place_files import Places
from esker.spark.scan.protected_columns import UNPROTECTED, Protected, Protection, cut_columns
from esker.spark.scan.stored_columns import members_kept_their_names
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

MOST_GROUPS = 24  # with more groups, a union of scans costs more than it saves
MOST_CHOICES = 4  # sets of protected columns; with more, every file protects the columns of all
OFFERED = frozenset((FILE, POS, DELETED, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)) | CHANGE


@dataclass(frozen=True, slots=True)
class Kind:
    """What files must have in common to be in one scan."""

    file_format: str
    layout: Layout | None  # None: by id, the layout does not matter
    has_positions: bool  # whether rows are deleted by position
    equality: tuple[str, ...]  # the equality delete files that apply
    takes: bool = False  # whether only rows at some positions are meant
    protected: Protected = UNPROTECTED  # columns that Spark must push no filter to
    opening: Opening | None = None  # how Spark opens files that are not on this machine


@dataclass(frozen=True, slots=True)
class Placed:
    """A task that Spark's readers can execute, and how."""

    task: ScanTask
    file: PlacedFile
    layout: Layout | None  # None: by id
    protected: Protected


@dataclass(slots=True)
class Grouped:
    """The tasks of the plan, in groups."""

    native: dict[Kind, list[tuple[ScanTask, PlacedFile]]] = field(default_factory=lambda: defaultdict(list))
    through_arrow: list[ScanTask] = field(default_factory=list)


def kind_of(
    task: ScanTask, layout: Layout | None, protected: Protected = UNPROTECTED, opening: Opening | None = None
) -> Kind:
    """Return the group of a task that Spark's readers read."""
    deletes = task.deletes
    return Kind(
        file_format=task.data_file.file_format.lower(),
        layout=layout,
        has_positions=any(d.content is FileContent.POSITION_DELETES for d in deletes),
        equality=tuple(sorted(d.path for d in deletes if d.content is FileContent.EQUALITY_DELETES)),
        takes=task.taken_by is not None,
        protected=protected,
        opening=opening,
    )


def group(placed: Sequence[Placed], through_arrow: Iterable[ScanTask]) -> Grouped:
    """Return the tasks by kind. If there are too many kinds, Arrow reads the smallest."""
    grouped = Grouped(through_arrow=list(through_arrow))
    choices = {one.protected for one in placed}
    shared = reduce(or_, choices) if len(choices) > MOST_CHOICES else None
    for one in placed:
        kind = kind_of(one.task, one.layout, one.protected if shared is None else shared, one.file.opening)
        grouped.native[kind].append((one.task, one.file))
    for kind in sorted(grouped.native, key=lambda kind: -len(grouped.native[kind]))[MOST_GROUPS:]:
        grouped.through_arrow.extend(task for task, _ in grouped.native.pop(kind))
    return grouped


def _with_shared_zeros(placed: Sequence[Placed], floats: frozenset[int]) -> list[Placed]:
    """Return the same files. A float column that one file protects because of a zero is protected in all of them.

    Whether a file has a zero is chance, and a union of two scans costs time for every row. Esker's own condition is
    pushed to such a column all the same.
    """
    odd = [one.task.odd_floats for one in placed]
    shared = floats & frozenset().union(*(each.zero for each in odd if each is not None))
    return [replace(one, protected=replace(one.protected, ids=one.protected.ids | shared)) for one in placed]


def can_be_native(task: ScanTask, request: ReadRequest) -> bool:
    """Return whether Spark's readers can read the task's file and apply its deletes at all."""
    data_file = task.data_file
    file_format = data_file.file_format.lower()
    if file_format not in ("parquet", "orc") or data_file.key_metadata is not None:
        return False
    if any(delete.content is FileContent.EQUALITY_DELETES for delete in task.taken_by or ()):
        return False  # a join cannot select rows that either a key or a position removes
    contents = {delete.content for delete in (*task.deletes, *(task.taken_by or ()))}
    needs_place = FileContent.POSITION_DELETES in contents or any(f.id in METADATA_COLUMNS for f in request.projection)
    if file_format == "orc" and needs_place:  # Spark numbers the rows of Parquet files only
        return False
    return all(_keys_compare(delete, request.metadata) for delete in task.deletes)


def projection_is_native(fields: Iterable[Field]) -> bool:
    """Return whether Spark's readers can return every wanted column."""
    return all(
        (f.id not in METADATA_COLUMNS or f.id in OFFERED) and not any(_of_unknown(inner) for inner, _ in walk((f,)))
        for f in fields
    )


def _of_unknown(field: Field) -> bool:
    match field.type:
        case ListType(element=UnknownType()) | MapType(value=UnknownType()):
            return True
        case _:
            return False


def _keys_compare(delete: DataFile, metadata: TableMetadata) -> bool:
    """Return whether Spark compares keys exactly: it treats the two zeros as equal, and has no nanoseconds."""
    known = metadata.any_field_by_id
    keys = [known[id_].type for id_ in delete.equality_ids if id_ in known]
    return not any(is_floating(key) or (isinstance(key, TimestampType) and key.nanos) for key in keys)


def placed_tasks(
    places: Places, request: ReadRequest, tasks: Iterable[ScanTask]
) -> Iterator[tuple[ScanTask, PlacedFile | str]]:
    """Return where Spark's readers find each file, or why Arrow reads it. A footer may still decide for Arrow."""
    native = projection_is_native(request.projection)
    for number, task in enumerate(tasks):
        fits = native and can_be_native(task, request)
        yield task, places.place(task.data_file, number) if fits else _NOT_EXACT


_NOT_EXACT = "Spark's readers cannot read them exactly"
FEW, MANY = 64, 1000  # footers to read by default, and if files may lack partition columns
Layouts = dict[str, Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorter:
    """Groups the files of one request."""

    places: Places
    survey: Survey
    request: ReadRequest
    fields: Sequence[Field]  # the columns to read from files
    get_mapping: GetMapping
    asked: frozenset[int] = frozenset()  # columns that the filter uses

    def sort(self, tasks: Iterable[ScanTask]) -> Grouped:
        """Return the tasks in groups."""
        placed: list[tuple[ScanTask, PlacedFile]] = []
        through_arrow: list[ScanTask] = []
        for task, file in placed_tasks(self.places, self.request, tasks):
            if isinstance(file, str):
                through_arrow.append(task)
            else:
                placed.append((task, file))
        placed = self.places.measured(placed)
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
        return group(_with_shared_zeros(chosen, protection.floats), through_arrow)

    def _way(self, file: DataFile, layouts: Layouts) -> tuple[bool, Layout | None]:
        """Return whether Spark's reader can read the file, and the layout to use, or None for ids."""
        layout = layouts.get(file.path)
        if layout is None or self._is_plain(file, layout):
            return True, None
        if layout.is_mended:
            return False, None
        by_name = reads_by_name(layout, self.fields, file.file_format.lower(), self._constants(file))
        return by_name, narrowed(layout, self.fields)

    def _look(self, files: Sequence[DataFile]) -> Layouts:
        """Return the layouts of the files whose footers must be read."""
        metadata, fields = self.request.metadata, self.fields
        if any(file.schema_id is not None for file in files):
            return self._see(files)
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
