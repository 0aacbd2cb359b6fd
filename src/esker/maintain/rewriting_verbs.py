"""The methods of a table that rewrite files without changing rows: data files, manifests, position deletes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from esker.ports.catalog import TableState

if TYPE_CHECKING:
    from esker.maintain.rewriting.compaction import Progress
    from esker.maintain.rewriting.compaction_results import CompactionPlan, CompactionReport
    from esker.maintain.rewriting.plan_groups import GroupOrder, Strategy
    from esker.maintain.rewriting.rewrite_manifests import ManifestPlan, ManifestReport
    from esker.maintain.rewriting.rewrite_position_deletes import DeletePlan, DeleteReport
    from esker.ports.file_rewriting import EngineName
    from esker.read.scan import Where
    from esker.write.context import Home

MAIN = "main"


class CompactionArguments(TypedDict, total=False):
    """The arguments of ``compact`` that choose files and say how they are rewritten. None means the default."""

    where: Where
    sort_by: Sequence[str] | None
    target_file_size: int | None
    min_file_size: int | None
    max_file_size: int | None
    min_input_files: int | None
    delete_ratio: float | None
    delete_file_threshold: int | None
    max_group_size: int | None
    max_group_files: int | None
    max_files: int | None
    max_bytes: int | None
    group_order: GroupOrder | None
    rewrite_all: bool | None
    max_concurrent_groups: int | None
    partial_progress: bool | None
    max_commits: int | None
    keep_sequence_number: bool | None
    remove_dangling_deletes: bool | None
    max_retries: int | None
    engine: EngineName | None


class RewritingVerbs(ABC):
    """Compaction of a table's files and metadata. ``Table`` inherits these methods."""

    _state: TableState

    @abstractmethod
    def _at_home(self) -> Home:
        """The catalog and the tools with which the table is changed. Raises ``InvalidInput`` if it is read-only."""

    @abstractmethod
    def _move_to(self, state: TableState) -> None:
        """Let this object show a new version of the table."""

    @overload
    def compact(
        self,
        strategy: Strategy = ...,
        *,
        dry_run: Literal[True],
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
        progress: Progress | None = ...,
        **arguments: Unpack[CompactionArguments],
    ) -> CompactionPlan: ...
    @overload
    def compact(
        self,
        strategy: Strategy = ...,
        *,
        dry_run: Literal[False] = ...,
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
        progress: Progress | None = ...,
        **arguments: Unpack[CompactionArguments],
    ) -> CompactionReport: ...
    def compact(
        self,
        strategy: Strategy = "bin-pack",
        *,
        dry_run: bool = False,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        **arguments: Unpack[CompactionArguments],
    ) -> CompactionPlan | CompactionReport:
        """Rewrite small files, large files and files with many deletes. No row changes, and deleted rows do not come
        back. Returns a ``CompactionReport``; with ``dry_run``, a ``CompactionPlan``, and nothing is changed.

        - ``strategy``: ``"bin-pack"`` copies rows. ``"sort"`` also sorts them, by ``sort_by`` or the table's sort
          order. ``"z-order"`` clusters them by two or more columns of ``sort_by``. Sorting rewrites all files, unless
          ``rewrite_all`` is false.
        - ``where`` limits it to files that may have a matching row.
        - ``target_file_size`` is by default the table's ``write.target-file-size-bytes``. Files below
          ``min_file_size`` (75 % of it) or above ``max_file_size`` (180 %) are rewritten, if a partition has
          ``min_input_files`` (5) of them or more than a target's worth. Files of which deletes remove the part
          ``delete_ratio`` (0.3) or that have ``delete_file_threshold`` delete files are rewritten too.
        - A group has at most ``max_group_size`` bytes and ``max_group_files`` files of one partition.
          ``max_concurrent_groups`` (4) run at a time. All groups are one snapshot; with ``partial_progress`` there are
          up to ``max_commits`` (10) snapshots, and a group that fails does not stop the others.
        - ``max_files`` and ``max_bytes`` limit the files of all groups; the others stay for the next call.
          ``group_order`` says which groups come first: ``"bytes-asc"``, ``"bytes-desc"``, ``"files-asc"``,
          ``"files-desc"``.
        - ``engine``: ``"arrow"`` in this process, ``"spark"``, or by the size of the files (``"auto"``).

        Raises ``Conflict`` if other commits changed the files of a group more than ``max_retries`` (3) times, and
        ``Corrupt`` if the rows of a group are not those that the table counts. Then nothing is changed.

            orders.compact(where="day >= '2026-01-01'", target_file_size=128 << 20)
        """
        from esker.maintain.rewriting.compaction import Compaction, plan_compaction
        from esker.maintain.rewriting.plan_groups import compaction_settings
        from esker.read.scan import bound_filter
        from esker.write.build_snapshot import head_of
        from esker.write.commit import refreshed
        from esker.write.summary import checked_extra

        home = self._at_home()
        base = refreshed(home.catalog, home.name, self._state)
        given: dict[str, Any] = {"strategy": strategy, **arguments}
        where = bound_filter(given.pop("where", None), base.metadata.schema)
        options, layout = compaction_settings(base.metadata, given)
        head = head_of(base.metadata, ref)
        extra = checked_extra(summary)
        plan = plan_compaction(home.tools, base.metadata, head, options, where=where)
        engine = home.tools.rewriter.engine_for(options.engine, plan.bytes)
        if engine == "arrow" and not layout.is_unordered:
            options = options.in_memory()
            plan = plan_compaction(home.tools, base.metadata, head, options, where=where)
        if dry_run:
            return plan
        run = Compaction(
            home=home,
            state=base,
            ref=ref,
            options=options,
            layout=layout,
            engine=engine,
            extra=extra,
            progress=progress,
        )
        try:
            return run.run(plan)
        finally:
            self._move_to(run.state)

    @overload
    def rewrite_manifests(
        self,
        *,
        dry_run: Literal[True],
        target_size: int | None = ...,
        spec_id: int | None = ...,
        rewrite_all: bool = ...,
        sort_by: Sequence[str] = ...,
        max_retries: int = ...,
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
    ) -> ManifestPlan: ...
    @overload
    def rewrite_manifests(
        self,
        *,
        dry_run: Literal[False] = ...,
        target_size: int | None = ...,
        spec_id: int | None = ...,
        rewrite_all: bool = ...,
        sort_by: Sequence[str] = ...,
        max_retries: int = ...,
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
    ) -> ManifestReport: ...
    def rewrite_manifests(
        self,
        *,
        dry_run: bool = False,
        target_size: int | None = None,
        spec_id: int | None = None,
        rewrite_all: bool = False,
        sort_by: Sequence[str] = (),
        max_retries: int = 3,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> ManifestPlan | ManifestReport:
        """List the table's files in few manifests, files of the same partition together, so that plans open few.
        Returns a ``ManifestReport``; with ``dry_run``, a ``ManifestPlan``, and nothing is changed.

        ``target_size`` is by default the table's ``commit.manifest.target-size-bytes`` (8 MiB). ``spec_id`` limits it
        to manifests of one partition spec. Files are listed in the order of their partitions; ``sort_by`` names the
        partition fields that come first. Manifests are rewritten if there are fewer afterwards; with ``rewrite_all``,
        always. Manifests that other commits add meanwhile stay as they are. Raises ``Conflict`` if other commits
        changed the old manifests more than ``max_retries`` times, and ``InvalidInput`` for an unknown partition field.

            orders.rewrite_manifests()
        """
        from esker.maintain.rewriting.rewrite_manifests import ManifestOptions, plan_manifests, rewrite_manifests
        from esker.write.build_snapshot import head_of
        from esker.write.commit import refreshed
        from esker.write.summary import checked_extra

        home = self._at_home()
        base = refreshed(home.catalog, home.name, self._state)
        given = {
            "target_size": target_size,
            "spec_id": spec_id,
            "rewrite_all": rewrite_all,
            "sort_by": sort_by,
            "max_retries": max_retries,
        }
        options = ManifestOptions.of(base.metadata, given)
        plan = plan_manifests(home.tools, base.metadata, head_of(base.metadata, ref), options)
        if dry_run:
            return plan
        state, report = rewrite_manifests(home, base, plan, options, ref=ref, extra=checked_extra(summary))
        self._move_to(state)
        return report

    @overload
    def rewrite_position_deletes(
        self,
        *,
        dry_run: Literal[True],
        where: Where = ...,
        min_input_files: int = ...,
        rewrite_all: bool = ...,
        max_retries: int = ...,
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
    ) -> DeletePlan: ...
    @overload
    def rewrite_position_deletes(
        self,
        *,
        dry_run: Literal[False] = ...,
        where: Where = ...,
        min_input_files: int = ...,
        rewrite_all: bool = ...,
        max_retries: int = ...,
        ref: str = ...,
        summary: Mapping[str, str] | None = ...,
    ) -> DeleteReport: ...
    def rewrite_position_deletes(
        self,
        *,
        dry_run: bool = False,
        where: Where = None,
        min_input_files: int = 2,
        rewrite_all: bool = False,
        max_retries: int = 3,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> DeletePlan | DeleteReport:
        """Fold many position delete files into few, and remove deletes that apply to no data file any more. In format
        version 3, position delete files become deletion vectors. Returns a ``DeleteReport``; with ``dry_run``, a
        ``DeletePlan``, and nothing is changed.

        A partition with ``min_input_files`` position delete files is rewritten if there are fewer afterwards; with
        ``rewrite_all``, always. ``write.delete.granularity`` says whether a new file is about one data file or about a
        partition. ``where`` limits it to partitions that may have a matching row; deletes of other partitions stay as
        they are. Raises ``Conflict`` if other commits changed the deletes more than ``max_retries`` times.

            orders.rewrite_position_deletes()
        """
        from esker.maintain.rewriting.rewrite_position_deletes import (
            DeleteOptions,
            plan_position_deletes,
            rewrite_position_deletes,
        )
        from esker.read.scan import bound_filter
        from esker.write.build_snapshot import head_of
        from esker.write.commit import refreshed
        from esker.write.summary import checked_extra

        home = self._at_home()
        base = refreshed(home.catalog, home.name, self._state)
        given = {"min_input_files": min_input_files, "rewrite_all": rewrite_all, "max_retries": max_retries}
        options = DeleteOptions.of({**given, "where": bound_filter(where, base.metadata.schema)})
        plan = plan_position_deletes(home.tools, base.metadata, head_of(base.metadata, ref), options)
        if dry_run:
            return plan
        state, report = rewrite_position_deletes(home, base, plan, options, ref=ref, extra=checked_extra(summary))
        self._move_to(state)
        return report
