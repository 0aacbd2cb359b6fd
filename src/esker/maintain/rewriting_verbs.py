"""The methods of a table that rewrite files without changing rows: compaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from esker.ports.catalog import TableState

if TYPE_CHECKING:
    from esker.maintain.compaction import Progress
    from esker.maintain.compaction_results import CompactionPlan, CompactionReport
    from esker.maintain.plan_groups import Strategy
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
    rewrite_all: bool | None
    max_concurrent_groups: int | None
    partial_progress: bool | None
    max_commits: int | None
    keep_sequence_number: bool | None
    remove_dangling_deletes: bool | None
    max_retries: int | None
    engine: EngineName | None


class RewritingVerbs(ABC):
    """Compaction of a table's files. ``Table`` inherits these methods."""

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
        - ``engine``: ``"arrow"`` in this process, ``"spark"``, or by the size of the files (``"auto"``).

        Raises ``Conflict`` if other commits changed the files of a group more than ``max_retries`` (3) times, and
        ``Corrupt`` if the rows of a group are not those that the table counts. Then nothing is changed.

            orders.compact(where="day >= '2026-01-01'", target_file_size=128 << 20)
        """
        from esker.maintain.compaction import Compaction, plan_compaction
        from esker.maintain.compaction_layout import compaction_settings
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
