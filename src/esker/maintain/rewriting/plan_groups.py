"""Which data files a compaction rewrites, and in which groups. Pure: it only looks at the files' descriptions.

A file is chosen if it is too small, too large, or has many deletes. The chosen files of a partition are packed into
groups of bounded size. A group is rewritten if that changes enough: several small files, a large file, many deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from esker.errors import InvalidInput
from esker.model.parsing.partition_and_sort_terms import parse_sort_term, sort_field
from esker.model.partition_and_sort import UNSORTED, SortOrder
from esker.model.schema import Schema
from esker.model.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    UnknownType,
    VariantType,
)
from esker.ports.engine import ScanTask
from esker.ports.file_rewriting import EngineName, RowLayout
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import FileContent
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import whole_number

Strategy = Literal["bin-pack", "sort", "z-order"]
STRATEGIES = ("bin-pack", "sort", "z-order")
ENGINES = ("auto", "arrow", "spark")
GroupOrder = Literal["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]
ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
_SORTED_HERE = 256 << 20  # bytes of files whose rows are sorted in this process at a time
_MIN, _MAX = 0.75, 1.8  # of the target size, as Iceberg has it


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """What to rewrite and how. The sizes are bytes of files. The defaults are Iceberg's."""

    strategy: Strategy = "bin-pack"
    sort_by: tuple[str, ...] = ()
    target_file_size: int = 512 << 20
    min_file_size: int = int((512 << 20) * _MIN)
    max_file_size: int = int((512 << 20) * _MAX)
    min_input_files: int = 5
    delete_ratio: float = 0.3
    delete_file_threshold: int | None = None
    max_group_size: int = 100 << 30
    max_group_files: int = 1 << 31
    max_files: int | None = None  # of all groups; None: no limit
    max_bytes: int | None = None
    group_order: GroupOrder = "none"
    rewrite_all: bool = False
    max_concurrent_groups: int = 4
    partial_progress: bool = False
    max_commits: int = 10
    keep_sequence_number: bool = True
    remove_dangling_deletes: bool = True
    max_retries: int = 3
    engine: EngineName = "auto"

    @classmethod
    def of(cls, properties: Mapping[str, str], given: Mapping[str, Any]) -> CompactionOptions:
        """The options that a user gave; None means the default. Raises ``InvalidInput`` with the name of the wrong
        one."""
        asked = {name: value for name, value in given.items() if value is not None}
        target = asked.setdefault(
            "target_file_size", whole_number(properties, "write.target-file-size-bytes", 512 << 20, at_least=1)
        )
        for name in _WHOLE:
            if name in asked:
                _check_whole(name, asked[name])
        asked.setdefault("min_file_size", int(target * _MIN))
        asked.setdefault("max_file_size", int(target * _MAX))
        sort_by = asked.get("sort_by", ())
        if isinstance(sort_by, str):
            raise InvalidInput(f"cannot sort by {sort_by!r}: give a list of columns: [{sort_by!r}]", sort_by=sort_by)
        made = cls(**{**asked, "sort_by": tuple(sort_by)})
        made.check()
        return made

    def in_memory(self) -> CompactionOptions:
        """The same with groups that can be sorted in memory."""
        return replace(self, max_group_size=min(self.max_group_size, _SORTED_HERE))

    def check(self) -> None:
        """Raise ``InvalidInput`` if options contradict each other."""
        for name, allowed in (("strategy", STRATEGIES), ("engine", ENGINES), ("group_order", ORDERS)):
            if getattr(self, name) not in allowed:
                raise InvalidInput(
                    f"cannot compact with {name}={getattr(self, name)!r}: it takes {', '.join(allowed)}",
                    **{name: getattr(self, name)},
                )
        if not self.min_file_size < self.target_file_size < self.max_file_size:
            raise InvalidInput(
                f"cannot compact to files of {self.target_file_size:,} bytes: target_file_size must be between "
                f"min_file_size ({self.min_file_size:,}) and max_file_size ({self.max_file_size:,})"
            )
        if isinstance(self.delete_ratio, bool) or not 0 < self.delete_ratio <= 1:
            raise InvalidInput(f"cannot use delete_ratio={self.delete_ratio!r}: it is a number above 0, up to 1")
        if self.strategy == "z-order" and len(self.sort_by) < 2:
            raise InvalidInput('cannot compact by z-order without two columns: sort_by=["x", "y"]')
        if self.strategy == "bin-pack" and self.sort_by:
            raise InvalidInput('cannot sort with strategy="bin-pack": use strategy="sort" or "z-order"')


_WHOLE = {
    "target_file_size": 1,
    "min_file_size": 0,
    "max_file_size": 1,
    "min_input_files": 1,
    "delete_file_threshold": 0,
    "max_group_size": 1,
    "max_group_files": 1,
    "max_files": 1,
    "max_bytes": 0,
    "max_concurrent_groups": 1,
    "max_commits": 1,
    "max_retries": 0,
}


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < _WHOLE[name]:
        raise InvalidInput(f"cannot use {name}={value!r}: give a whole number from {_WHOLE[name]}", **{name: value})


# ---------------------------------------------------------------- the order of the rows


_WITHOUT_ORDER = (StructType, ListType, MapType, UnknownType, VariantType, GeometryType, GeographyType)


def compaction_settings(metadata: TableMetadata, given: Mapping[str, Any]) -> tuple[CompactionOptions, RowLayout]:
    """The options and the layout that a user asked for. Raises ``InvalidInput`` with the argument that is wrong."""
    asked = dict(given)
    if asked.get("rewrite_all") is None:
        asked["rewrite_all"] = asked.get("strategy", "bin-pack") != "bin-pack"
    options = CompactionOptions.of(metadata.properties, asked)
    match options.strategy:
        case "sort":
            return options, RowLayout(sort=_sort_order(metadata, options.sort_by))
        case "z-order":
            return options, RowLayout(z_order=tuple(_z_column(metadata.schema, name) for name in options.sort_by))
        case _:
            return options, RowLayout()


def _sort_order(metadata: TableMetadata, terms: tuple[str, ...]) -> SortOrder:
    """The order to sort by. If it is one of the table's, it has its id, so that files record it."""
    if not terms:
        if metadata.sort_order.is_unsorted:
            raise InvalidInput(
                'cannot compact with strategy="sort": the table has no sort order; give sort_by=["column"]'
            )
        return metadata.sort_order
    fields = tuple(sort_field(parse_sort_term(term), metadata.schema) for term in terms)
    known = [order for order in metadata.sort_orders if order.fields == fields]
    return known[0] if known else SortOrder(order_id=UNSORTED.order_id, fields=fields)


def _z_column(schema: Schema, name: str) -> int:
    field = schema.find(name)
    if isinstance(field.type, _WITHOUT_ORDER) or schema.in_repeated(field.id):
        raise InvalidInput(f"cannot compact by z-order of {name!r}: it is a {field.type}", column=name)
    return field.id


# ---------------------------------------------------------------- files and groups


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A data file with its deletes, and the manifest that lists it."""

    task: ScanTask
    manifest: str

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self.task.data_file.file_size


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Files of one partition that are rewritten together. Files of other specs are together, whatever their
    partition."""

    files: tuple[ListedTask, ...]

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def deletes(self) -> int:
        """How many delete files apply to the files, each counted once."""
        return len({(d.path, d.content_offset) for file in self.files for d in file.task.deletes})


def plan_groups(files: Iterable[ListedTask], options: CompactionOptions, spec_id: int) -> list[PlannedGroup]:
    """The groups to rewrite, in the order of ``group_order``. The files of a group are in the order of their commits.

    With ``max_files`` or ``max_bytes``, files that are too many are left out, if what is left of a group is still worth
    it.
    """
    by_partition: dict[Any, list[ListedTask]] = {}
    for file in files:
        if options.rewrite_all or _is_chosen(file.task, options):
            data = file.task.data_file
            key = partition_key(data) if data.spec_id == spec_id else None
            by_partition.setdefault(key, []).append(file)
    for chosen in by_partition.values():
        chosen.sort(key=lambda file: file.task.data_file.sequence_number)  # rows stay in the order of their arrival
    groups = [group for chosen in by_partition.values() for group in _packed(chosen, options)]
    worth = [PlannedGroup(tuple(group)) for group in groups if options.rewrite_all or _is_worth_it(group, options)]
    return list(_limited(_ordered(worth, options.group_order), options))


def _ordered(groups: list[PlannedGroup], order: GroupOrder) -> list[PlannedGroup]:
    if order == "none":
        return groups
    by_bytes = order.startswith("bytes")
    return sorted(groups, key=lambda one: one.size if by_bytes else len(one.files), reverse=order.endswith("desc"))


def _limited(groups: Iterable[PlannedGroup], options: CompactionOptions) -> Iterator[PlannedGroup]:
    """As many files of the groups as the limits of all groups allow."""
    files, size = 0, 0
    for group in groups:
        fitting: list[ListedTask] = []
        for file in group.files:
            is_many = options.max_files is not None and files + len(fitting) >= options.max_files
            is_much = options.max_bytes is not None and size + file.size > options.max_bytes
            if not (is_many or is_much):
                fitting.append(file)
                size += file.size
        if len(fitting) == len(group.files):
            yield group
        elif fitting and (options.rewrite_all or _is_worth_it(fitting, options)):
            yield PlannedGroup(tuple(fitting))
        else:
            size -= sum(file.size for file in fitting)
            continue
        files += len(fitting)


def _is_chosen(task: ScanTask, options: CompactionOptions) -> bool:
    size = task.data_file.file_size
    fits = options.min_file_size <= size <= options.max_file_size
    return not fits or _has_many_deletes(task, options)


def _has_many_deletes(task: ScanTask, options: CompactionOptions) -> bool:
    if not task.deletes:
        return False
    if options.delete_file_threshold is not None and len(task.deletes) >= options.delete_file_threshold:
        return True
    # A delete about several files does not say how many of its rows are about this one.
    known = sum(
        delete.record_count
        for delete in task.deletes
        if delete.content is FileContent.POSITION_DELETES and delete.referenced_data_file is not None
    )
    return min(known, task.data_file.record_count) >= options.delete_ratio * task.data_file.record_count


def _packed(files: Sequence[ListedTask], options: CompactionOptions) -> Iterator[list[ListedTask]]:
    group: list[ListedTask] = []
    size = 0
    for file in files:
        if group and (size + file.size > options.max_group_size or len(group) >= options.max_group_files):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def _is_worth_it(group: Sequence[ListedTask], options: CompactionOptions) -> bool:
    size = sum(file.size for file in group)
    if len(group) > 1 and (len(group) >= options.min_input_files or size > options.target_file_size):
        return True
    return size > options.max_file_size or any(_has_many_deletes(file.task, options) for file in group)
