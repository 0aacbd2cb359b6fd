"""Commits of one row, and loading a table with a long history, beside PyIceberg on the same SQLite catalog.

Both work on one and the same table, so neither has a shorter history or a faster disk. Ours writes every file through
to the disk before it commits (fsync of the file and of its folder); PyIceberg does not.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Comparison, measure
from esker.wiring import connect

PEER = "PyIceberg 0.12"

_ROW = """
import os, pyarrow as pa, statistics, threading
row = pa.table({"id": pa.array([1], pa.int64()), "name": ["x"], "ts": pa.array([0], pa.timestamp("us", "UTC"))})

def timed(work, times):
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return found

def spent(work):  # wall and CPU time
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu

def by_threads(threads, appends):
    def work():
        own = lake.table(table.name)
        for _ in range(appends):
            own.append(row)
    begun = [threading.Thread(target=work) for _ in range(threads)]
    for thread in begun: thread.start()
    for thread in begun: thread.join()
"""


def compare(scratch: Path, *, appends: int = 5000, history: int = 5000) -> Iterator[Comparison]:
    """Appends at 300 and 1,000 snapshots, the 5,000th against the 10th, 16 threads against one, a load at 5,000, and
    2,000 columns against 1,000."""
    folder = scratch / f"commits-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    yield _append(folder, 300, times=10)
    yield _append(folder, 1000, times=30)
    yield from _growth(folder, appends)
    yield _threads(folder)
    yield _load(folder, history)
    yield _width(folder)


def _append(folder: Path, snapshots: int, *, times: int) -> Comparison:
    name = f"bench.appended{snapshots}"
    _make(folder, name)
    measure(_ours(folder, name), f"timed(lambda: table.append(row), {snapshots})\nanswer = 0")
    ours = measure(_ours(folder, name), "answer = statistics.median(timed(lambda: table.append(row), 22)[1:])").answer
    theirs = measure(
        _theirs(folder, name), "answer = statistics.median(timed(lambda: table.append(row), 8)[1:])"
    ).answer
    return _faster(f"one-row append at {snapshots:,} snapshots, {PEER}", ours, theirs, times)


def _growth(folder: Path, appends: int) -> Iterator[Comparison]:
    """Early and late appends in turns, so that what else the machine does falls on both. Threads make the history."""
    _make(folder, "bench.grown")
    young = [f"bench.young{at}" for at in range(7)]
    for name in young:
        _make(folder, name)
    rest = (appends - 11) % 16
    measure(
        _ours(folder, "bench.grown"),
        f"by_threads(16, {(appends - 11) // 16})\ntimed(lambda: table.append(row), {rest})\nanswer = 0",
    )
    work = (
        f"young = [lake.table(name) for name in {young!r}]\n"
        "for one in young:\n"
        "    timed(lambda: one.append(row), 8)\n"
        "timed(lambda: table.append(row), 1)\n"
        "turns = [spent(lambda: one.append(row)) + spent(lambda: table.append(row))"
        " for _ in range(3) for one in young]\n"
        "answer = [statistics.median(turn) for turn in zip(*turns)]"
    )
    answer: list[float] = measure(_ours(folder, "bench.grown"), work).answer  # type: ignore[assignment]
    for what, early, late in (("", answer[0], answer[2]), (", CPU time", answer[1], answer[3])):
        yield Comparison(
            f"append number {appends:,} beside number 10{what}, the median of 21 around each",
            f"{late * 1e3:.1f} ms",
            f"{early * 1e3:.1f} ms",
            late / early,
            "at most 1.5 times",
            late / early <= 1.5,
        )


def _threads(folder: Path, *, threads: int = 16, appends: int = 50) -> Comparison:
    """Appends of several threads, which are committed in groups, beside those of one thread."""
    _make(folder, "bench.alone")
    _make(folder, "bench.together")
    counted = (
        "syncs, fsync = [0], os.fsync\ndef counted(handle):\n    syncs[0] += 1\n    fsync(handle)\nos.fsync = counted\n"
    )
    every = threads * appends
    one = f"{counted}wall, _ = spent(lambda: timed(lambda: table.append(row), {every}))\nanswer = [wall, syncs[0]]"
    many = f"{counted}wall, _ = spent(lambda: by_threads({threads}, {appends}))\nanswer = [wall, syncs[0]]"
    alone, alone_syncs = measure(_ours(folder, "bench.alone"), one).answer  # type: ignore[misc]
    together, syncs = measure(_ours(folder, "bench.together"), many).answer  # type: ignore[misc]
    lake = connect(f"sqlite:///{folder}/catalog.db")
    for name in ("bench.alone", "bench.together"):
        table = lake.table(name)
        assert (len(table.snapshots), table.scan().count()) == (every, every)
    return Comparison(
        f"{threads} threads, {appends} one-row appends each, beside one thread with as many",
        f"{every / together:.0f} a second, {syncs / every:.1f} syncs each",
        f"{every / alone:.0f} a second, {alone_syncs / every:.1f} syncs each",
        alone / together,
        "at least as many",
        alone >= together,
    )


def _load(folder: Path, history: int) -> Comparison:
    name = "bench.loaded"
    _make(folder, "bench.seed")
    measure(_ours(folder, "bench.seed"), "table.append(row)\nanswer = 0")
    lake = connect(f"sqlite:///{folder}/catalog.db")
    lake.register_table(name, _with_history(Path(lake.table("bench.seed").metadata_location), history))
    ours_again = (  # a lake keeps the metadata that it has read, so each load is by another one
        f"lakes = [esker.connect('sqlite:///{folder}/catalog.db') for _ in range(30)]\n"
        "for one in lakes: one.namespaces()\n"
        f"answer = statistics.median(timed(lambda: lakes.pop().table({name!r}), 30))"
    )
    theirs_again = f"answer = statistics.median(timed(lambda: catalog.load_table({name!r}), 7))"
    ours = measure(_ours(folder, name), ours_again).answer
    theirs = measure(_theirs(folder, name), theirs_again).answer
    return _faster(f"loading a table with {history:,} snapshots, {PEER}", ours, theirs, 40)


def _width(folder: Path) -> Comparison:
    """Appends to a wide table and to one half as wide, in turns."""
    work = (
        "wide = {n: pa.table({f'c{at}': [at] for at in range(n)}) for n in (1000, 2000)}\n"
        "made = {n: lake.create_table(f'bench.wide{n}', rows.schema) for n, rows in wide.items()}\n"
        "for n in wide: made[n].append(wide[n])\n"
        "turns = [[timed(lambda: made[n].append(wide[n]), 1)[0] for n in wide] for _ in range(9)]\n"
        "answer = [statistics.median(turn) for turn in zip(*turns)]"
    )
    _make(folder, "bench.narrow")
    half, full = measure(_ours(folder, "bench.narrow"), work).answer  # type: ignore[misc]
    return Comparison(
        "one-row append to 2,000 columns beside 1,000, the median of 9 of each",
        f"{full * 1e3:.1f} ms",
        f"{half * 1e3:.1f} ms",
        full / half,
        "at most 2.5 times",
        full / half <= 2.5,
    )


def _faster(what: str, ours: object, theirs: object, times: int) -> Comparison:
    assert isinstance(ours, float)
    assert isinstance(theirs, float)
    ratio = theirs / ours
    return Comparison(
        what, f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms", ratio, f"at least {times} times as fast", ratio >= times
    )


def _make(folder: Path, name: str) -> None:
    lake = connect(f"sqlite:///{folder}/catalog.db")
    if "bench" not in lake.namespaces():
        lake.create_namespace("bench")
    lake.create_table(name, "id bigint, name string, ts timestamp")


def _ours(folder: Path, name: str) -> str:
    return f"import esker\nlake = esker.connect('sqlite:///{folder}/catalog.db')\ntable = lake.table({name!r})\n{_ROW}"


def _theirs(folder: Path, name: str) -> str:
    return (
        "from pyiceberg.catalog.sql import SqlCatalog\n"
        f"catalog = SqlCatalog('default', uri='sqlite:///{folder}/catalog.db', warehouse='file://{folder}/warehouse')\n"
        f"table = catalog.load_table({name!r})\n{_ROW}"
    )


def _with_history(metadata: Path, snapshots: int) -> str:
    """A copy of the metadata with that many snapshots in a row, all of the same files."""
    document = json.loads(metadata.read_text())
    [first] = document["snapshots"]
    ids = [first["snapshot-id"] + at for at in range(snapshots)]
    document["snapshots"] = [
        {
            **first,
            "snapshot-id": id_,
            "sequence-number": at + 1,
            "timestamp-ms": first["timestamp-ms"] + at,
            **({"parent-snapshot-id": ids[at - 1]} if at else {}),
        }
        for at, id_ in enumerate(ids)
    ]
    document["snapshot-log"] = [
        {"snapshot-id": id_, "timestamp-ms": first["timestamp-ms"] + at} for at, id_ in enumerate(ids)
    ]
    document["current-snapshot-id"] = document["refs"]["main"]["snapshot-id"] = ids[-1]
    document["last-sequence-number"] = snapshots
    document["last-updated-ms"] = first["timestamp-ms"] + snapshots
    target = metadata.with_name(f"00009-{uuid.uuid4()}.metadata.json")
    target.write_text(json.dumps(document))
    return str(target)
