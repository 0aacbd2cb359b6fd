"""Follows directories as a stream: looks for new files, ingests them, looks again; waits if something fails."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from esker.errors import EskerError, InvalidInput, StorageFailed
from esker.ingest.files.source_files import Found, Lookout, oldest_first
from esker.ingest.files.spool_segments import is_named_like_segment
from esker.ingest.run_batches import Pending, Run
from esker.storage.failures import failure_of

log = logging.getLogger("esker.ingest")

_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times of a stream, in seconds."""

    every_s: float = 30.0  # between the beginnings of two batches, unless one is full
    settle_s: float = 2.0  # a file younger than this may still be written to
    half_line_s: float = 60.0  # the rest of a last line or frame is waited for so long
    idle_s: float | None = None  # stop when nothing new came for that long; None: never
    first_wait_s: float = 1.0  # after a failure; doubled each time


def follow(
    run: Run,
    directories: Sequence[Path],
    *,
    pattern: str = "*",
    pace: Pace | None = None,
    stop: Event | None = None,
    sweep: Callable[[list[Found]], None] = lambda found: None,
    told: Callable[[str], None] = lambda text: None,
) -> None:
    """Ingest new files of directories."""
    chosen = pace or Pace()
    lookout = Lookout(directories, pattern=pattern)

    def look() -> None:
        known, others = run.sorted_out(lookout.find(run.pass_over))
        found = complete(others, chosen, run.is_cut)
        run.ingest(found, known=known)
        sweep(found)

    keep_on(run, look, pace=chosen, stop=stop, told=told)


def keep_on(
    run: Run,
    look: Callable[[], None],
    *,
    pace: Pace,
    stop: Event | None = None,
    told: Callable[[str], None] = lambda text: None,
) -> None:
    """Look for new input and ingest it, until ``stop`` is set or nothing arrives any more. A batch that cannot be
    committed is tried again without limit: its receipt is on disk, and new input stays where it is meanwhile."""
    stop = stop or Event()
    patience, quiet_since = Patience(first_wait_s=pace.first_wait_s, told=told), time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        try:
            run.settle()
            before = run.account.batches
            look()
            patience.over()
        except (Pending, EskerError, OSError) as raised:
            stop.wait(patience.bear(raised))
            continue
        if run.account.batches > before:
            quiet_since = time.monotonic()
        elif pace.idle_s is not None and time.monotonic() - quiet_since >= pace.idle_s:
            return
        rest = pace.every_s - (time.monotonic() - began)
        if pace.idle_s is not None:
            rest = min(rest, max(0.05, pace.idle_s / 4))
        stop.wait(max(0.0, rest))


class Patience:
    """Waits after failures that may pass, longer after each. A failure is reported once, not at every attempt."""

    def __init__(self, *, first_wait_s: float, told: Callable[[str], None] = lambda text: None) -> None:
        self._first_wait_s = first_wait_s
        self._told = told
        self._failures = 0
        self._said: tuple[object, ...] | None = None

    def bear(self, raised: Exception) -> float:
        """Return the seconds to wait before the next attempt. Raises the failure if waiting does not help."""
        error = _named(raised)
        if not may_pass(error):
            raise error from raised.__cause__
        self._failures += 1
        longest = min(_LONGEST_WAIT_S, self._first_wait_s * 2 ** min(self._failures - 1, 16))
        wait = longest * random.uniform(0.75, 1.25)
        if self._said != (said := _gist(error)):
            self._told(f"batch pending, trying again in {wait:.0f} s, then less often, up to once a minute: {error}")
        self._said = said
        log.info("attempt %d failed, the next is in %.0f s: %s", self._failures, wait, error)
        return wait

    def over(self) -> None:
        """Record that an attempt succeeded."""
        if self._said is not None:
            self._told(f"going on after {self._failures} failed attempts")
        self._failures, self._said = 0, None


def complete(found: Iterable[Found], pace: Pace, is_cut: Callable[[Found], bool]) -> list[Found]:
    """Files that seem to be complete; segments of the spool are, by their names."""
    now_ns = time.time_ns()

    def is_complete(one: Found) -> bool:
        age_s = (now_ns - one.modified_ns) / 1e9
        if is_named_like_segment(one.path):
            return True
        return age_s >= pace.settle_s and (age_s >= pace.half_line_s or not is_cut(one))

    return oldest_first(filter(is_complete, found))


def may_pass(error: Exception) -> bool:
    """Whether waiting may help: a catalog may come back, a disk may get space. Wrong input stays wrong."""
    if isinstance(error, Pending):
        return any(may_pass(inner) for _, inner in error.failures)
    error = _named(error)  # a commit's may be as the catalog raised it
    if isinstance(error, StorageFailed):
        return bool(error.retryable)
    return not isinstance(error, InvalidInput)


def _named(error: Exception) -> Exception:
    return failure_of(error, "reach", error.filename or "a file or a host") if isinstance(error, OSError) else error


def _gist(error: Exception) -> tuple[object, ...]:
    """What a failure has in common with the same failure of a later attempt: new files have new names each time."""
    if isinstance(error, Pending):
        return tuple((table, *_gist(inner)) for table, inner in error.failures)
    if isinstance(error, StorageFailed):
        return StorageFailed, error.facts.get("reason")
    return type(error), str(error)
