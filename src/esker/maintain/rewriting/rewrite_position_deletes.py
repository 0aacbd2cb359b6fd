"""Rewrite position deletes: many delete files become few, and rows about files that are gone are left out.

In format version 3, position delete files of version 2 become deletion vectors.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.maintain.rewriting.exchange import exchange
from esker.model.display_text import card, show_bytes
from esker.model.file_paths import same_file, split_location
from esker.model.predicates.predicate import TRUE, Bound
from esker.ports.catalog import TableState
from esker.ports.row_changes import DeletedRows
from esker.ports.table_format import EntryColumns
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, only_target, partition_key
from esker.read.prune_manifest import examine_entries
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import head_of
from esker.write.context import Home, MetadataNames, Scratch, Tools
from esker.write.rows.replace_files import dangling_deletes
from esker.write.rows.rewrite_file import noted
from esker.write.rows.row_change_modes import deletes_are_per_file
from esker.write.steps import RemoveDangling, ReplaceDeletes, Step, listed_name

if TYPE_CHECKING:
    from pyroaring import BitMap64


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlan:
    """What ``rewrite_position_deletes`` would do: ``groups`` of delete files, one per partition, and the dangling ones
    that are only removed. Nothing is changed."""

    snapshot: Snapshot | None
    groups: tuple[tuple[DataFile, ...], ...]
    dangling: tuple[DataFile, ...]
    total: int  # delete files of the snapshot, also of other kinds

    @property
    def files(self) -> int:
        """How many delete files are rewritten."""
        return sum(map(len, self.groups))

    @property
    def bytes(self) -> int:
        """The bytes of these files."""
        return sum(file.file_size for group in self.groups for file in group)

    def __repr__(self) -> str:
        if not self.groups and not self.dangling:
            return "<esker.DeletePlan: nothing to rewrite>"
        return (
            f"<esker.DeletePlan: {self.files:,} of {self.total:,} delete files ({show_bytes(self.bytes)}) to rewrite, "
            f"{len(self.dangling):,} dangling to remove>"
        )

    def _repr_html_(self) -> str:
        return card(
            "rewrite position deletes",
            [
                ("delete files now", f"{self.total:,}"),
                ("to rewrite", f"{self.files:,} ({show_bytes(self.bytes)}) in {len(self.groups):,} partitions"),
                ("dangling, to remove", f"{len(self.dangling):,}"),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    """What ``rewrite_position_deletes`` did. ``before`` and ``after`` are the delete files of the branch."""

    snapshot: Snapshot | None  # None: there was nothing to do
    rewritten: int
    added: int
    dangling: int
    bytes_rewritten: int
    bytes_added: int
    before: int
    after: int

    def __repr__(self) -> str:
        return (
            f"<esker.DeleteReport: {self.rewritten:,} delete files to {self.added:,}, {self.dangling:,} dangling "
            "removed>"
        )

    def _repr_html_(self) -> str:
        return card(
            "rewrite position deletes",
            [
                ("delete files before", f"{self.before:,}"),
                ("delete files after", f"{self.after:,}"),
                ("rewritten", f"{self.rewritten:,} ({show_bytes(self.bytes_rewritten)})"),
                ("added", f"{self.added:,} ({show_bytes(self.bytes_added)})"),
                ("dangling removed", f"{self.dangling:,}"),
                ("snapshot", None if self.snapshot is None else self.snapshot.snapshot_id),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Which position deletes to rewrite. With ``where``, only those of partitions that may have a matching row."""

    where: Bound = TRUE
    min_input_files: int = 2  # of a partition
    rewrite_all: bool = False
    max_retries: int = 3

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> DeleteOptions:
        """The options that a user gave; None means the default. Raises ``InvalidInput``."""
        asked = {name: value for name, value in given.items() if value is not None}
        for name, least in (("min_input_files", 1), ("max_retries", 0)):
            value = asked.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInput(f"cannot use {name}={value!r}: give a whole number from {least}", **{name: value})
        return cls(**asked)


def plan_position_deletes(
    tools: Tools, metadata: TableMetadata, head: Snapshot | None, options: DeleteOptions
) -> DeletePlan:
    """The delete files to rewrite. Only manifests are read."""
    manifests = () if head is None else tools.format.manifests(metadata, head)
    is_all = options.where == TRUE
    dangling = tuple(delete for _, delete in dangling_deletes(tools.format, metadata, manifests)) if is_all else ()
    gone = {listed_name(delete) for delete in dangling}
    by_partition: dict[Any, list[tuple[DataFile, str | None]]] = {}
    total = 0
    for delete, target, may_match in _examined(tools, metadata, manifests, options.where):
        total += 1
        is_old = delete.content is FileContent.POSITION_DELETES and not delete.is_deletion_vector
        if is_old and may_match and listed_name(delete) not in gone:
            by_partition.setdefault(partition_key(delete), []).append((delete, target))
    groups = (group for group in by_partition.values() if _is_worth_it(metadata, group, options))
    return DeletePlan(
        snapshot=head, groups=tuple(tuple(d for d, _ in group) for group in groups), dangling=dangling, total=total
    )


def _is_worth_it(metadata: TableMetadata, group: Sequence[tuple[DataFile, str | None]], options: DeleteOptions) -> bool:
    if options.rewrite_all or metadata.format_version > 2:
        return True
    if len(group) < options.min_input_files:
        return False
    if not deletes_are_per_file(metadata):
        return len(group) > 1
    targets = [target for _, target in group]
    return None in targets or len(set(targets)) < len(targets)  # else every data file has one of its own already


def _deletes(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Iterator[tuple[DataFile, str | None]]:
    """Live delete files, and the only data file that each is about, if there is one."""
    return ((delete, target) for delete, target, _ in _examined(tools, metadata, manifests, TRUE))


def _examined(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], where: Bound
) -> Iterator[tuple[DataFile, str | None, bool]]:
    """The same, and whether the partition of each may have a matching row."""
    listed = [m for m in manifests if m.content is ManifestContent.DELETES and m.may_hold_live_files]
    for entries in tools.format.entries(metadata, listed, EntryColumns(metrics=(DELETE_FILE_PATH_ID,))):
        live = entries.take(entries.is_live)
        # The statistics of a delete file are about the columns path and position: only its partition says something.
        may_match = examine_entries(where, metadata.schema, live).verdict.some
        for row in range(len(live)):
            delete = live.data_file(row)
            is_equality = delete.content is FileContent.EQUALITY_DELETES
            yield delete, None if is_equality else only_target(delete, live, row), bool(may_match[row])


def rewrite_position_deletes(
    home: Home, state: TableState, plan: DeletePlan, options: DeleteOptions, *, ref: str, extra: Mapping[str, str]
) -> tuple[TableState, DeleteReport]:
    """Do what the plan says. If another commit changed the deletes, plan again on the newest version.

    Raises ``Conflict`` if that happens too often. Returns the table's new version, too.
    """
    steps = _Steps(home.tools, options, ref, plan)
    state, snapshot = exchange(home, state, steps, ref=ref, extra=extra, max_retries=options.max_retries)
    head = head_of(state.metadata, ref)
    left = () if head is None else home.tools.format.manifests(state.metadata, head)
    done = steps if snapshot is not None else _Steps(home.tools, options, ref, _nothing(plan))
    return state, DeleteReport(
        snapshot=snapshot,
        rewritten=done.plan.files,
        added=len(done.added),
        dangling=len(done.plan.dangling),
        bytes_rewritten=done.plan.bytes,
        bytes_added=sum(file.content_size or file.file_size for file in done.added),
        before=plan.total,
        after=sum(1 for _ in _deletes(home.tools, state.metadata, left)),
    )


def _nothing(plan: DeletePlan) -> DeletePlan:
    return DeletePlan(snapshot=plan.snapshot, groups=(), dangling=(), total=plan.total)


@dataclass(slots=True)
class _Steps:
    """Writes the new deletes for one version of the table: by the first plan, and after a conflict by a new one."""

    tools: Tools
    options: DeleteOptions
    ref: str
    plan: DeletePlan
    added: list[DataFile] = field(default_factory=list)
    scratch: Scratch = field(init=False)
    is_first: bool = True

    def __post_init__(self) -> None:
        self.scratch = Scratch(self.tools.storage)

    def __call__(self, metadata: TableMetadata) -> Sequence[Step]:
        head = head_of(metadata, self.ref)
        if not self.is_first:
            self.plan = plan_position_deletes(self.tools, metadata, head, self.options)
        self.is_first = False
        self.added = []
        if head is None or not (self.plan.groups or self.plan.dangling):
            return ()
        try:
            data = _DataFiles.of(self.tools, metadata, self.tools.format.manifests(metadata, head))
            made: list[Step] = [self._rewritten(metadata, group, data) for group in self.plan.groups]
        except BaseException:
            self.discard()
            raise
        return [*made, RemoveDangling()] if self.options.where == TRUE else made

    def discard(self) -> None:
        """Delete what was written for the last steps."""
        self.scratch.discard()

    def _rewritten(self, metadata: TableMetadata, group: Sequence[DataFile], data: _DataFiles) -> ReplaceDeletes:
        rows = [DeletedRows(data_file=file, positions=found) for file, found in self._positions(group, data)]
        write = self.tools.deletes.write_positions if metadata.format_version == 2 else self.tools.deletes.write_vectors
        added = tuple(noted(write(metadata, rows, MetadataNames().operation_id), self.scratch)) if rows else ()
        self.added += added
        newest = max(delete.sequence_number for delete in group)
        return ReplaceDeletes(
            files=tuple(group),
            added=added,
            targets=frozenset(one.data_file.path for one in rows),
            numbers={file.path: newest for file in added if not file.is_deletion_vector},
        )

    def _positions(self, group: Sequence[DataFile], data: _DataFiles) -> list[tuple[DataFile, BitMap64]]:
        """The deleted positions of each data file that is still there. A vector has those of its file already."""
        found: dict[str, tuple[DataFile, BitMap64]] = {}
        for delete in group:
            for path, positions in self._named(delete):
                file = data.find(path)
                if file is None or file.sequence_number > delete.sequence_number or data.has_vector(file.path):
                    continue
                known = found.get(file.path)
                found[file.path] = (file, positions if known is None else known[1] | positions)
        return list(found.values())

    def _named(self, delete: DataFile) -> Iterator[tuple[str, BitMap64]]:
        """The data files that a delete file names, and the positions. A file may come several times."""
        from pyroaring import BitMap64

        for batch in self.tools.engine.position_deletes(delete):
            names = batch.column(0).dictionary_encode()
            codes = names.indices.to_numpy(zero_copy_only=False)
            positions = batch.column(1).to_numpy(zero_copy_only=False).astype("uint64")
            for code, path in enumerate(names.dictionary.to_pylist()):
                yield path, BitMap64(array("Q", positions[codes == code].tobytes()))


@dataclass(slots=True)
class _DataFiles:
    """The live data files of a version, found by any form of their location."""

    by_name: dict[str, list[DataFile]] = field(default_factory=dict)
    vectors: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> _DataFiles:
        found = cls()
        for delete, _ in _deletes(tools, metadata, manifests):
            if delete.is_deletion_vector and delete.referenced_data_file is not None:
                found.vectors.add(delete.referenced_data_file)
        listed = [m for m in manifests if m.content is ManifestContent.DATA and m.may_hold_live_files]
        for entries in tools.format.entries(metadata, listed, EntryColumns()):
            for file in entries.take(entries.is_live).data_files():
                found.by_name.setdefault(split_location(file.path)[2], []).append(file)
        return found

    def find(self, path: str) -> DataFile | None:
        """The live data file at a location."""
        return next(
            (file for file in self.by_name.get(split_location(path)[2], ()) if same_file(file.path, path)), None
        )

    def has_vector(self, path: str) -> bool:
        """Whether a vector deletes rows of the file."""
        return path in self.vectors
