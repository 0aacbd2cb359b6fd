"""Which planned files are read together, and how: by id, by the names a file has, or through Arrow.

Files go by id to Spark's Parquet reader unless something speaks against it. Files whose columns must be found by name,
or that lack a column of the partition, are grouped by their layout. What neither can do exactly is read by Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from esker.arrow.metadata_columns import (
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
from esker.model.schema import walk
from esker.model.types import Field, ListType, MapType, TimestampType, UnknownType, is_floating
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.placed_files import PlacedFile
from esker.spark.protected_columns import UNPROTECTED, Protected
from esker.spark.survey import Layout
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

MOST_GROUPS = 24  # beyond, a union of scans costs more than it saves
MOST_CHOICES = 4  # of columns to protect; beyond, every file gets what one of them needs
OFFERED = frozenset((FILE, POS, DELETED, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)) | CHANGE


@dataclass(frozen=True, slots=True)
class Kind:
    """What files must share to be one scan."""

    file_format: str
    layout: Layout | None  # None: by id, with no need to know
    has_positions: bool  # whether rows are deleted by position
    equality: tuple[str, ...]  # the equality delete files that apply
    takes: bool = False  # whether only rows at some positions are meant
    protected: Protected = UNPROTECTED  # columns that Spark must push no filter to


@dataclass(frozen=True, slots=True)
class Placed:
    """A task that Spark's readers can do, and how."""

    task: ScanTask
    file: PlacedFile
    layout: Layout | None  # None: by id
    protected: Protected


@dataclass(slots=True)
class Grouped:
    """The plan's tasks, sorted out."""

    native: dict[Kind, list[tuple[ScanTask, PlacedFile]]] = field(default_factory=lambda: defaultdict(list))
    through_arrow: list[ScanTask] = field(default_factory=list)


def kind_of(task: ScanTask, layout: Layout | None, protected: Protected = UNPROTECTED) -> Kind:
    """The group of a task that is read natively."""
    deletes = task.deletes
    return Kind(
        file_format=task.data_file.file_format.lower(),
        layout=layout,
        has_positions=any(d.content is FileContent.POSITION_DELETES for d in deletes),
        equality=tuple(sorted(d.path for d in deletes if d.content is FileContent.EQUALITY_DELETES)),
        takes=task.taken_by is not None,
        protected=protected,
    )


def group(placed: Sequence[Placed], through_arrow: Iterable[ScanTask]) -> Grouped:
    """Tasks by kind; kinds beyond a number are read through Arrow, the smallest first."""
    grouped = Grouped(through_arrow=list(through_arrow))
    choices = {one.protected for one in placed}
    shared = reduce(or_, choices) if len(choices) > MOST_CHOICES else None
    for one in placed:
        kind = kind_of(one.task, one.layout, one.protected if shared is None else shared)
        grouped.native[kind].append((one.task, one.file))
    for kind in sorted(grouped.native, key=lambda kind: -len(grouped.native[kind]))[MOST_GROUPS:]:
        grouped.through_arrow.extend(task for task, _ in grouped.native.pop(kind))
    return grouped


def can_be_native(task: ScanTask, request: ReadRequest) -> bool:
    """Whether the task's file and deletes are of a kind that Spark's readers can do at all."""
    data_file = task.data_file
    file_format = data_file.file_format.lower()
    if file_format not in ("parquet", "orc") or data_file.key_metadata is not None:
        return False
    if any(delete.content is FileContent.EQUALITY_DELETES for delete in task.taken_by or ()):
        return False  # a row that either a key or a position takes is no join's
    contents = {delete.content for delete in (*task.deletes, *(task.taken_by or ()))}
    needs_place = FileContent.POSITION_DELETES in contents or any(f.id in METADATA_COLUMNS for f in request.projection)
    if file_format == "orc" and needs_place:  # Spark numbers the rows of Parquet files only
        return False
    return all(_keys_compare(delete, request.metadata) for delete in task.deletes)


def projection_is_native(fields: Iterable[Field]) -> bool:
    """Whether every column wanted can come out of a native scan."""
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
    """Deletes tell the two zeros apart, which Spark does not; and Spark has no nanoseconds."""
    known = metadata.any_field_by_id
    keys = [known[id_].type for id_ in delete.equality_ids if id_ in known]
    return not any(is_floating(key) or (isinstance(key, TimestampType) and key.nanos) for key in keys)
