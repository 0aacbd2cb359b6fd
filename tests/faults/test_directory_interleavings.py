"""Writers of a directory catalog that tidies, stopped before each step: no acknowledged change is lost, ever.

A slow writer is stopped at every border of one commit while others commit, tidy and hint. After every step of anyone
the newest version, and the hint, have not gone back, and a reader that goes up from the hint finds the newest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from catalog_contract import ORDERS, make
from doors import Door
from interleavings import Writer, interleavings, sampled
from watched_folder import WatchedDirectory, highest, hint_of, no_sync, walked_from_hint

from esker.catalogs.directory import DirectoryCatalog
from esker.ports.catalog import Accepted, Catalog, Unanswered
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import TableMetadata

TIDY = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}


class Watch:
    """What is known of one run: the changes that were acknowledged, and how far the table has come."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "sales" / "orders" / "metadata"
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        self.version = self.hint = 0

    def look(self) -> None:
        """Nothing has gone back, and both ways to find the newest version agree."""
        version, hint = highest(self.folder), hint_of(self.folder)
        assert version >= self.version, "the version went back"
        assert hint >= self.hint, "the hint went back"
        self.version, self.hint = version, hint
        found = walked_from_hint(self.folder)
        assert found.name == f"v{version}.metadata.json"
        assert found.stat().st_size > 0

    def check_end(self) -> None:
        kept = {snapshot.snapshot_id for snapshot in DirectoryCatalog(self.root).load(ORDERS).metadata.snapshots}
        assert self.acknowledged <= kept, "an acknowledged snapshot is lost"
        assert kept <= self.acknowledged | self.unknown, "a refused snapshot is visible"


def with_snapshot(metadata: TableMetadata, number: int) -> TableMetadata:
    """The same table a millisecond later, with one more snapshot."""
    at_ms = metadata.last_updated_ms + 1
    snapshot = Snapshot(
        snapshot_id=number,
        timestamp_ms=at_ms,
        sequence_number=metadata.last_sequence_number + 1,
        manifest_list=f"{metadata.location}/metadata/snap-{number}.avro",
        summary={"operation": "append"},
    )
    return replace(
        metadata,
        snapshots=(*metadata.snapshots, snapshot),
        current_snapshot_id=number,
        refs={"main": SnapshotRef(snapshot_id=number, kind=RefKind.BRANCH)},
        last_sequence_number=snapshot.sequence_number,
        last_updated_ms=at_ms,
    )


def commit_some(watch: Watch, catalog: Catalog, numbers: Iterable[int], pause: Callable[[], object]) -> None:
    """Add one snapshot after the other, again after each lost race, and write down what was acknowledged."""
    for number in numbers:
        pause()
        while True:
            base = catalog.load(ORDERS)
            match catalog.swap(ORDERS, base, with_snapshot(base.metadata, number)):
                case Accepted():
                    watch.acknowledged.add(number)
                    break
                case Unanswered():
                    watch.unknown.add(number)
                    break


def stopped_everywhere(watch: Watch, *numbers: int) -> Writer:
    """A writer that stops before each of its steps."""

    def work(door: Door) -> None:
        commit_some(watch, WatchedDirectory(watch.root, door), numbers, lambda: None)

    return Writer(work)


def stopped_between(watch: Watch, *numbers: int, deletes: bool = False) -> Writer:
    """A writer that stops between its commits; with ``deletes`` it is one of another engine."""

    def work(door: Door) -> None:
        catalog = WatchedDirectory(watch.root, Door(), deletes=deletes)
        commit_some(watch, catalog, numbers, lambda: door.go("move", "commit", watch.look if not deletes else int))

    return Writer(work)


def begin_with(
    place: Path, make_writers: Callable[[Watch], list[Writer]], watches: list[Watch], **properties: str
) -> Callable[[], list[Writer]]:
    def begin() -> list[Writer]:
        root = place / str(len(watches))
        make(DirectoryCatalog(root), **{**TIDY, **properties})
        watches.append(Watch(root))
        return make_writers(watches[-1])

    return begin


def check(runs: Iterable[Sequence[Writer]], watches: list[Watch]) -> int:
    """Run them; how many there were."""
    count = 0
    for writers in runs:
        count += 1
        assert [writer.error for writer in writers if writer.error] == []
        watches[-1].check_end()
        shutil.rmtree(watches[-1].root)
    return count


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_sync)


@pytest.mark.slow
def test_a_writer_stopped_at_every_step_while_another_commits_and_tidies_loses_nothing(tmp_path: Path) -> None:
    watches: list[Watch] = []
    writers = begin_with(tmp_path, lambda w: [stopped_everywhere(w, 9), stopped_between(w, 1, 2, 3)], watches)
    assert check(interleavings(writers), watches) > 100
    assert not any(watch.unknown for watch in watches), "a number is used once, so every answer is certain"


@pytest.mark.slow
def test_two_writers_stopped_at_every_step_lose_nothing(tmp_path: Path) -> None:
    watches: list[Watch] = []
    writers = begin_with(tmp_path, lambda w: [stopped_everywhere(w, 1), stopped_everywhere(w, 2)], watches)
    assert check(interleavings(writers), watches) > 100
    assert not any(watch.unknown for watch in watches)


@pytest.mark.slow
def test_three_writers_stopped_at_every_step_lose_nothing(tmp_path: Path) -> None:
    watches: list[Watch] = []

    def three(watch: Watch) -> list[Writer]:
        return [stopped_everywhere(watch, number, 10 + number) for number in (1, 2, 3)]

    check(sampled(begin_with(tmp_path, three, watches), 150, seed=3), watches)
    assert not any(watch.unknown for watch in watches)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_beside_an_engine_that_frees_names_nothing_acknowledged_is_lost(tmp_path: Path, codec: str) -> None:
    """The late version lands on a free name. It is not acknowledged, and nobody takes it for the table."""
    watches: list[Watch] = []

    def both(watch: Watch) -> list[Writer]:
        return [stopped_everywhere(watch, 9), stopped_between(watch, 1, 2, 3, deletes=True)]

    writers = begin_with(tmp_path, both, watches, **{"write.metadata.compression-codec": codec})
    assert check(interleavings(writers), watches) > 100
    assert any(watch.unknown for watch in watches), "a free name was reached for"
