"""Directories as a pipeline's source: the files that hold something new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.follow import Pace, complete
from esker.ingest.pipeline.watch import Watch
from esker.ingest.planner import Planner, room
from esker.ingest.segments import sweep_segments
from esker.ingest.sources import Found, Lookout, oldest_first

_NAMED = 20  # files that cannot be read, in the progress of a batch
_SHARE = 64 << 20  # of bytes, for one task


class Files:
    """Looks at directories."""

    def __init__(self, watch: Watch, checkpoint: Checkpoint) -> None:
        self._watch = watch
        self._checkpoint = checkpoint
        self._account = Account()
        self._planner = Planner(
            checkpoint, self._account, most_bytes=self._room, most_files=watch.most_files, since=watch.since
        )
        self._lookout = Lookout(map(Path, watch.paths), pattern=watch.pattern)
        self._pace = Pace(settle_s=watch.settle_s, half_line_s=watch.half_line_s)
        self._only: list[Found] | None = None  # files of a query that ends with what is there now
        self._waiting = (0, 0)
        self._known_told = 0

    def plan(self) -> Plan | None:
        """A batch of files that are new."""
        known, others = self._planner.sorted_out(self._find() if self._only is None else self._only)
        found = others if self._only is not None else complete(others, self._pace, self._planner.is_cut)
        plan = next(self._planner.plans(found, known=known), None)
        self._tell_known()
        if not self._watch.keep_segments:
            sweep_segments(self._checkpoint, found)
        self._waiting = self._planner.waiting(found)
        return plan

    def stop_at_now(self) -> None:
        """Leave out files that come later."""
        self._only = oldest_first(self._find())

    def waiting(self) -> dict[str, Any]:
        """Files that no batch has, and those that cannot be read."""
        files, size = self._waiting
        told: dict[str, Any] = {"waiting_files": files, "waiting_bytes": size}
        return told | {"refused": dict(self._account.refused[-_NAMED:])} if self._account.refused else told

    def shares(self, plan: Plan) -> int:
        """About one for each file, and more for a large one."""
        return sum(1 + file.new_bytes // _SHARE for file in plan.files)

    def close(self) -> None:
        """Nothing is held open."""

    def _room(self) -> int:
        """How many bytes of files the next batch may hold, judged by the batches before it."""
        return room(self._watch.most_bytes, self._watch.most_rows, lambda: self._checkpoint.read_lately())

    def _tell_known(self) -> None:
        """The account is the driver's: it reads there how many files are known."""
        if self._account.known_files > self._known_told:
            self._checkpoint.note_known(self._account.known_files)
            self._known_told = self._account.known_files

    def _find(self) -> list[Found]:
        return self._lookout.find(self._planner.pass_over)
