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
import pyarrow as pa, statistics
row = pa.table({"id": pa.array([1], pa.int64()), "name": ["x"], "ts": pa.array([0], pa.timestamp("us", "UTC"))})

def timed(work, times):
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return found
"""


def compare(scratch: Path, *, snapshots: int = 300, appends: int = 1000, history: int = 5000) -> Iterator[Comparison]:
    """An append at 300 snapshots, the 1,000th against the 10th, a load at 5,000, and 2,000 columns against 1,000."""
    folder = scratch / f"commits-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    yield _append(folder, snapshots)
    yield _growth(folder, appends)
    yield _load(folder, history)
    yield _width(folder)


def _append(folder: Path, snapshots: int) -> Comparison:
    name = "bench.appended"
    _make(folder, name)
    measure(_ours(folder, name), f"timed(lambda: table.append(row), {snapshots})\nanswer = 0")
    ours = measure(_ours(folder, name), "answer = statistics.median(timed(lambda: table.append(row), 22)[1:])").answer
    theirs = measure(
        _theirs(folder, name), "answer = statistics.median(timed(lambda: table.append(row), 8)[1:])"
    ).answer
    return _faster(f"one-row append at {snapshots} snapshots, {PEER}", ours, theirs, 10)


def _growth(folder: Path, appends: int) -> Comparison:
    """Early and late appends in turns, so that what else the machine does falls on both."""
    _make(folder, "bench.grown")
    young = [f"bench.young{at}" for at in range(7)]
    for name in young:
        _make(folder, name)
    measure(_ours(folder, "bench.grown"), f"timed(lambda: table.append(row), {appends - 11})\nanswer = 0")
    work = (
        f"young = [lake.table(name) for name in {young!r}]\n"
        "for one in young:\n"
        "    timed(lambda: one.append(row), 8)\n"
        "timed(lambda: table.append(row), 1)\n"
        "turns = [(timed(lambda: one.append(row), 1)[0], timed(lambda: table.append(row), 1)[0])"
        " for _ in range(3) for one in young]\n"
        "answer = [statistics.median(turn) for turn in zip(*turns)]"
    )
    early, late = measure(_ours(folder, "bench.grown"), work).answer  # type: ignore[misc]
    return Comparison(
        f"append number {appends:,} beside number 10, the median of 21 around each",
        f"{late * 1e3:.1f} ms",
        f"{early * 1e3:.1f} ms",
        late / early,
        "at most 1.5 times",
        late / early <= 1.5,
    )


def _load(folder: Path, history: int) -> Comparison:
    name = "bench.loaded"
    _make(folder, "bench.seed")
    measure(_ours(folder, "bench.seed"), "table.append(row)\nanswer = 0")
    lake = connect(f"sqlite:///{folder}/catalog.db")
    lake.register_table(name, _with_history(Path(lake.table("bench.seed").metadata_location), history))
    ours_again = f"answer = statistics.median(timed(lambda: lake.table({name!r}), 30))"
    theirs_again = f"answer = statistics.median(timed(lambda: catalog.load_table({name!r}), 7))"
    ours = measure(_ours(folder, name), ours_again).answer
    theirs = measure(_theirs(folder, name), theirs_again).answer
    return _faster(f"loading a table with {history:,} snapshots, {PEER}", ours, theirs, 10)


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
