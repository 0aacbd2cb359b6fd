"""A writer is killed with SIGKILL at every step of a commit that leaves a trace on the disk (F02 to F07).

Whatever the step, the table is at its old or its new snapshot, every file under a final name is whole, and the next
commit succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mortal import Mortal
from orders import SCHEMA, rows
from reachability import reachable as needed
from sound_tables import check_sound, live_files, reachable, rows_of
from with_deletes import commit_deletes, position_delete

import esker
from esker.lake import Lake

BEFORE = [1, 2, 3, 4]
AFTER = {
    "append": [1, 2, 3, 4, 10, 11],
    "overwrite": [2, 3, 4, 12],
    "delete": [2, 3],
    "update": [2, 3, 101, 104],
    "upsert": [1, 2, 3, 4, 10],
    "compact": BEFORE,
}
REWRITING, BESIDE_V2, BESIDE_V3 = (2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")
CASES = [
    *((verb, REWRITING) for verb in ("append", "overwrite", "delete", "update")),
    ("delete", BESIDE_V2),
    ("delete", BESIDE_V3),
    ("update", BESIDE_V3),
    ("upsert", BESIDE_V2),
    ("compact", REWRITING),
]


class DyingWriter(Mortal):
    """A writer of one commit."""

    def write(self, uri: str, name: str, verb: str, at: int | None = None) -> tuple[int, list[str]]:
        """Exit status and the steps taken."""
        return self.run(uri=uri, name=name, verb=verb, at=at)


@pytest.fixture(scope="module")
def mortal() -> Iterator[DyingWriter]:
    program = DyingWriter("dying_writer.py")
    yield program
    program.close()


def made(lake: Lake, name: str, how: tuple[int, str] = REWRITING) -> None:
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    properties = {f"write.{verb}.mode": how[1] for verb in ("delete", "update", "merge")}
    table = lake.create_table(name, SCHEMA, partition_by=["region"], format_version=how[0], properties=properties)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))


def visible_from(steps: list[str], uri: str) -> int:
    """The number of the step after which the commit is visible: a database's COMMIT, or the link of the version."""
    label = "after link metadata" if uri.startswith("file") else "after COMMIT"
    return steps.index(label) + 1


def syncs(steps: list[str]) -> int:
    return steps.count("after fsync")


def test_the_steps_of_a_commit_are_all_there(mortal: DyingWriter, uri: str) -> None:
    made(esker.connect(uri), "sales.orders")
    status, steps = mortal.write(uri, "sales.orders", "append")
    assert status == 0
    linked = [step.removeprefix("after link ") for step in steps if step.startswith("after link ")]
    assert linked == ["data", "manifest", "list", "metadata"]
    visible = visible_from(steps, uri) - 1
    data, manifest, list_, metadata = (steps.index(f"after link {name}") for name in linked)
    assert syncs(steps[:data]) >= 1  # each file is synced before it gets its name (F42)
    assert syncs(steps[data:manifest]) >= 1
    assert syncs(steps[manifest:list_]) >= 1
    if uri.startswith("file"):
        assert syncs(steps[list_:metadata]) >= 3  # both folders, and the version, whose name is the commit
        assert syncs(steps[metadata:]) >= 1
    else:
        assert syncs(steps[list_:metadata]) >= 1
        assert syncs(steps[metadata:visible]) >= 2  # the folders of data and of metadata, with all four names
    assert ("after COMMIT" in steps) != uri.startswith("file")
    assert rows_of(esker.connect(uri).table("sales.orders")) == AFTER["append"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "how"), CASES, ids=lambda part: part if isinstance(part, str) else f"v{part[0]}-{part[1]}"
)
def test_a_writer_killed_at_any_step_leaves_the_old_table_or_the_new_one(
    mortal: DyingWriter, uri: str, verb: str, how: tuple[int, str]
) -> None:
    if uri.startswith("postgresql") and (verb, how) not in CASES[:2]:
        pytest.skip("SQLite's catalog has the same core: a commit that adds and one that removes are enough here")
    lake = esker.connect(uri)
    made(lake, "sales.whole", how)
    status, steps = mortal.write(uri, "sales.whole", verb)
    assert (status, rows_of(lake.table("sales.whole"))) == (0, AFTER[verb])
    visible = visible_from(steps, uri)
    for at in range(1, len(steps) + 1):
        name = f"sales.orders{at}"
        made(lake, name, how)
        status, taken = mortal.write(uri, name, verb, at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        fresh = esker.connect(uri)
        table = check_sound(fresh, name)
        assert rows_of(table) == (AFTER[verb] if at >= visible else BEFORE), where
        check_whole(Path(table.location))
        kept = reachable(table)
        table.append(rows([99]))
        assert rows_of(check_sound(esker.connect(uri), name)) == sorted(
            [*(AFTER[verb] if at >= visible else BEFORE), 99]
        ), where
        assert kept <= reachable(table), where


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_process_killed_at_any_step_of_a_group_commit_keeps_what_it_acknowledged(
    mortal: DyingWriter, uri: str, version: int
) -> None:
    if uri.startswith("postgresql"):
        pytest.skip("SQLite's catalog has the same core")
    lake = esker.connect(uri)
    made(lake, "sales.whole", (version, "merge-on-read"))
    status, steps = mortal.write(uri, "sales.whole", "appends")
    table = check_sound(lake, "sales.whole")
    assert (status, rows_of(table)) == (0, [*BEFORE, *range(10, 16)])
    assert steps.count("after link metadata") <= 6  # how many come together depends on the threads
    for at in range(1, sum(not step.startswith("acknowledged") for step in steps), 2 if version == 3 else 1):
        name = f"sales.orders{at}"
        made(lake, name, (version, "merge-on-read"))
        status, taken = mortal.write(uri, name, "appends", at)
        if status == 0:  # its threads made fewer steps: their groups were larger
            continue
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        table = check_sound(esker.connect(uri), name)
        found = rows_of(table)
        acknowledged = [int(step.split()[1]) for step in taken if step.startswith("acknowledged")]
        assert sorted(set(found)) == found, where
        assert {*BEFORE, *acknowledged} <= set(found) <= {*BEFORE, *range(10, 16)}, where
        assert [s.parent_snapshot_id for s in table.snapshots[1:]] == [s.snapshot_id for s in table.snapshots[:-1]]
        check_whole(Path(table.location))
        table.append(rows([99]))
        assert rows_of(check_sound(esker.connect(uri), name)) == [*found, 99], where


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "version"), [("manifests", 2), ("position deletes", 2), ("position deletes", 3)])
def test_f11_a_rewriting_of_metadata_killed_at_any_step_keeps_the_rows_and_is_finished_by_a_second_run(
    mortal: DyingWriter, uri: str, verb: str, version: int
) -> None:
    if uri.startswith("postgresql"):
        pytest.skip("SQLite's catalog has the same core")
    lake = esker.connect(uri)
    _untidy(lake, "sales.whole", version)
    untidy = _counted(lake.table("sales.whole"), verb)
    status, steps = mortal.write(uri, "sales.whole", verb)
    tidy = _counted(lake.table("sales.whole"), verb)
    assert status == 0
    assert tidy < untidy
    visible = visible_from(steps, uri)
    for at in range(1, len(steps) + 1):
        if steps[at - 1] in steps[: at - 1]:
            continue  # one step of each kind: a commit's every step is tried above
        name = f"sales.orders{at}"
        _untidy(lake, name, version)
        status, taken = mortal.write(uri, name, verb, at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        table = check_sound(esker.connect(uri), name)
        assert rows_of(table) == [*BEFORE, 7], where
        assert _counted(table, verb) == (tidy if at >= visible else untidy), where
        check_whole(Path(table.location))
        assert mortal.write(uri, name, verb)[0] == 0, where
        table = check_sound(esker.connect(uri), name)
        assert (rows_of(table), _counted(table, verb)) == ([*BEFORE, 7], tidy), where


def _untidy(lake: Lake, name: str, version: int) -> None:
    """A table with four manifests, and with two position delete files for one data file. Rows 5 and 6 are deleted."""
    made(lake, name, BESIDE_V2)
    table = lake.table(name)
    table.append(rows([5, 6, 7], "eu"))
    file = next(file for file in live_files(table) if file.record_count == 3)
    for position in (0, 1):
        commit_deletes(table, position_delete(table, file, [position]))
    if version > 2:
        with table.alter() as change:
            change.upgrade_format(version)


def _counted(table: esker.Table, verb: str) -> int:
    """What the rewriting makes fewer: manifests, or position delete files of Parquet."""
    if verb == "manifests":
        return table.inspect.manifests().num_rows
    formats = table.inspect.delete_files().column("file_format").to_pylist()
    return sum(found.lower() == "parquet" for found in formats)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["expire", "orphans"])
def test_f09_a_cleaning_killed_at_any_step_loses_nothing_and_is_finished(
    mortal: DyingWriter, uri: str, verb: str
) -> None:
    if uri.startswith("postgresql") and verb == "orphans":
        pytest.skip("it changes nothing in the database")
    lake = esker.connect(uri)
    _with_history(lake, "sales.whole")
    status, steps = mortal.write(uri, "sales.whole", verb)
    assert status == 0
    assert any(step.startswith("after delete") for step in steps)
    for at in range(1, len(steps) + 1):
        if uri.startswith("postgresql") and steps[at - 1] in ("before fsync", "after fsync", *steps[: at - 1]):
            continue  # files are written and deleted in the same way for every catalog: one of each kind is enough
        name = f"sales.orders{at}"
        _with_history(lake, name)
        status, taken = mortal.write(uri, name, verb, at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        table = check_sound(esker.connect(uri), name)  # F08: every file that a snapshot needs is there
        assert (rows_of(table), rows_of(table, ref="v1")) == (BEFORE, [1, 2, 3, 4, 5]), where
        check_whole(Path(table.location))
        table.expire_snapshots(older_than=1 << 60)
        table.refresh().remove_orphans(older_than=1 << 60, under_24_hours=True)
        left = {file for file in _files_of(table) if not file.endswith((".metadata.json", "version-hint.text"))}
        assert left == needed(table._workings.storage, table.metadata), where
        table.append(rows([99]))
        assert rows_of(check_sound(esker.connect(uri), name)) == [*BEFORE, 99], where


def _with_history(lake: Lake, name: str) -> None:
    """A table with a tag, with snapshots that may expire, and with an orphan."""
    made(lake, name)
    table = lake.table(name)
    table.append(rows([5], "eu"))
    table.tag("v1")
    table.append(rows([6], "us"))
    table.overwrite(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    Path(table.location.removeprefix("file://"), "data", "lost.parquet").write_bytes(_lost())


def _lost() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows([0]), sink)
    return sink.getvalue().to_pybytes()


def _files_of(table: esker.Table) -> set[str]:
    return {file.location for file in table._workings.storage.list(table.location)}


def check_whole(location: Path) -> None:
    """F03: a file under its final name is whole, whether the table knows it or not; drafts go by other names."""
    for file in location.rglob("*"):
        if file.is_dir() or file.suffix == ".tmp":
            continue
        match file.suffix:
            case ".parquet":
                pq.read_table(file)
            case ".puffin":
                content = file.read_bytes()
                assert content[:4] == content[-4:] == b"PFA1"
            case ".avro":
                with file.open("rb") as source:
                    list(fastavro.reader(source))
            case ".json":
                msgspec.json.decode(file.read_bytes())
            case ".jsonl":
                assert [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
            case _:
                assert file.name == "version-hint.text" or file.parent.name == ".clock"
