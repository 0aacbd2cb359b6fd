"""An ingest is killed with SIGKILL at every step that leaves a trace; the next run ends with everything there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mortal import Mortal
from rotated_logs import RotatedLog, Rotation
from telemetry_samples import letters, log_bodies, logs, span_names, spans, write

import esker
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.lake import Lake
from esker.otlp.protocol.messages import Signal
from esker.otlp.source.segment import SPOOL_MAGIC, frame

FIRST, SECOND = "1700000000001-0000001-000001.otlp", "1700000000002-0000001-000002.otlp"


class DyingIngest(Mortal):
    """An ingest of the files in a folder."""

    def ingest(
        self, folder: Path, *, at: int | None = None, follow: bool = False, dedup: str | None = None
    ) -> tuple[int, list[str]]:
        """Exit status and the steps taken."""
        return self.run(
            uri=f"sqlite:///{folder}/lake/catalog.db",
            source=str(folder / "in"),
            checkpoint=str(folder / "checkpoint"),
            batch_bytes=1 if follow else 1 << 20,
            follow=follow,
            dedup=dedup,
            at=at,
        )


@pytest.fixture(scope="module")
def mortal() -> Iterator[DyingIngest]:
    program = DyingIngest("dying_ingest.py")
    yield program
    program.close()


def lake_in(folder: Path) -> Lake:
    return esker.connect(f"sqlite:///{folder}/lake/catalog.db")


def begun(folder: Path) -> None:
    """A lake that has its tables, and two files to ingest, as one batch for three tables."""
    write(folder / "first", "a.jsonl", spans([0]), logs([0]), b"{broken\n")
    ingest_otlp(lake_in(folder), Asked(paths=[folder / "first"], checkpoint=folder / "checkpoint"))
    write(folder / "in", "b.jsonl", spans([1, 2]), logs([1]), b"{broken\n")
    write(folder / "in", "c.jsonl", spans([3]))


def check_whole(folder: Path, where: str) -> None:
    """Every record is there, and there once."""
    lake = lake_in(folder)
    assert span_names(lake) == Counter(f"span {number}" for number in range(4)), where
    assert log_bodies(lake) == Counter(["log 0", "log 1"]), where
    assert letters(lake).total() == 2, where
    assert not list((folder / "checkpoint/pending").glob("*.json")), where


@pytest.mark.slow
def test_an_ingest_killed_at_any_step_is_finished_by_the_next(mortal: DyingIngest, scratch: Path) -> None:
    begun(scratch / "whole")
    status, steps = mortal.ingest(scratch / "whole")
    assert status == 0
    check_whole(scratch / "whole", "not killed")
    # Before one step is after another; what lies between, syncs and drafts that go, changes nothing one can see.
    between = ("before", "after fsync", "after unlink")
    deaths = [at for at, step in enumerate(steps, 1) if not step.startswith(between)] + [len(steps)]
    named = {steps[at - 1] for at in deaths}
    assert named >= {
        "after link data",
        "after rename manifest",  # of the receipt
        "after link manifest",
        "after link list",
        "after link metadata",
        "after COMMIT",
        "after COMMIT of the checkpoint",
        "after unlink",
    }
    for at in deaths:
        folder = scratch / str(at)
        begun(folder)
        status, taken = mortal.ingest(folder, at=at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        account = ingest_otlp(lake_in(folder), Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint"))
        assert (account.holds, account.lost, account.duplicated) == (True, 0, 0), where
        check_whole(folder, where)
        again = ingest_otlp(lake_in(folder), Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint"))
        assert again.received == 0, where


def spooled(folder: Path) -> None:
    def segment(*requests: bytes) -> bytes:
        frames = (frame(one, signal=signal_of(one), json=True, refused=False, received_at_ms=1) for one in requests)
        return SPOOL_MAGIC + b"".join(frames)

    write(folder / "in", FIRST, segment(spans([0, 1]), logs([0])))
    write(folder / "in", SECOND, segment(spans([2])))


def signal_of(request: bytes) -> Signal:
    return Signal.TRACES if b"resourceSpans" in request else Signal.LOGS


@pytest.mark.slow
def test_a_stream_killed_at_any_step_lets_go_of_segments_only_when_their_rows_are_there(
    mortal: DyingIngest, scratch: Path
) -> None:
    spooled(scratch / "whole")
    status, steps = mortal.ingest(scratch / "whole", follow=True)
    assert status == 0
    assert not list((scratch / "whole/in").iterdir())
    deaths = [
        at for at, step in enumerate(steps, 1) if step.startswith(("after COMMIT", "after rename", "after unlink"))
    ]
    for at in deaths:
        folder = scratch / str(at)
        spooled(folder)
        status, taken = mortal.ingest(folder, at=at, follow=True)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        gone = {FIRST, SECOND} - {path.name for path in (folder / "in").iterdir()}
        there = span_names(lake_in(folder))
        for name, kept in ((FIRST, {"span 0", "span 1"}), (SECOND, {"span 2"})):
            assert name not in gone or kept <= set(there), where
        assert mortal.ingest(folder, follow=True)[0] == 0, where
        assert span_names(lake_in(folder)) == Counter(["span 0", "span 1", "span 2"]), where
        assert log_bodies(lake_in(folder)) == Counter(["log 0"]), where
        assert not list((folder / "in").iterdir()), where


@pytest.mark.slow
def test_a_batch_killed_at_any_step_never_takes_its_own_rows_for_copies(mortal: DyingIngest, scratch: Path) -> None:
    def begin(folder: Path) -> Asked:
        begun(folder)
        write(folder / "in", "d.jsonl", spans([1, 3]), logs([0, 1]))
        return Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", dedup="span_id")

    begin(scratch / "whole")
    status, steps = mortal.ingest(scratch / "whole", dedup="span_id")
    assert status == 0
    check_whole(scratch / "whole", "not killed")
    deaths = [at for at, step in enumerate(steps, 1) if step.startswith(("after COMMIT", "after rename", "after link"))]
    for at in deaths[::2]:
        folder = scratch / str(at)
        asked = begin(folder)
        status, taken = mortal.ingest(folder, at=at, dedup="span_id")
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        account = ingest_otlp(lake_in(folder), asked)
        assert (account.holds, account.duplicated) == (True, 0), where
        assert (account.received, account.deduplicated) in ((9, 4), (0, 0)), where
        check_whole(folder, where)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rotate",
    [RotatedLog.rename, RotatedLog.copy_and_truncate, RotatedLog.compress_at_once],
    ids=lambda one: one.__name__,
)
def test_a_log_that_is_rotated_after_an_ingest_was_killed_is_read_once(
    mortal: DyingIngest, scratch: Path, rotate: Rotation
) -> None:
    def begin(folder: Path) -> RotatedLog:
        log = RotatedLog(folder / "in")
        log.append(2)
        ingest_otlp(lake_in(folder), Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint"))
        log.append(2)
        rotate(log)
        log.append(1)
        return log

    begin(scratch / "whole")
    status, steps = mortal.ingest(scratch / "whole")
    assert status == 0
    deaths = [at for at, step in enumerate(steps, 1) if step.startswith(("after COMMIT", "after rename", "after link"))]
    for at in deaths:
        folder = scratch / str(at)
        log = begin(folder)
        status, taken = mortal.ingest(folder, at=at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        log.append(1)
        rotate(log)
        log.append(1)
        account = ingest_otlp(lake_in(folder), Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint"))
        assert (account.holds, account.lost, account.duplicated) == (True, 0, 0), where
        assert log_bodies(lake_in(folder)) == Counter(f"log {number}" for number in range(7)), where
