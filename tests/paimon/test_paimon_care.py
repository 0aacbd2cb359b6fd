"""Compaction, expiry and orphans of Paimon tables: rows stay, and only what nothing names goes."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable, schema

import esker
from esker.errors import EskerError, InvalidInput, Unsupported
from esker.lake import Lake
from esker.paimon.manifests.manifest import Kind
from esker.paimon.metadata.snapshot import encode_snapshot

DAY_S = 86_400


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"paimon://{tmp_path}/warehouse")


@pytest.fixture
def table(lake: Lake) -> Any:
    """Five snapshots; the third has a tag, and a branch begins at the second."""
    made = lake.create_table(
        "db.t", "id bigint not null, v string", identifier_fields=["id"], properties={"bucket": "1"}
    )
    for number in range(4):
        made.append({"id": [number, 100], "v": [str(number), str(number)]})
    made.compact()
    folder = Path(made.location)
    (folder / "tag").mkdir()
    shutil.copy(folder / "snapshot/snapshot-3", folder / "tag/tag-third")
    branch = folder / "branch/branch-old"
    (branch / "schema").mkdir(parents=True)
    (branch / "snapshot").mkdir()
    shutil.copy(folder / "schema/schema-0", branch / "schema/schema-0")
    shutil.copy(folder / "snapshot/snapshot-2", branch / "snapshot/snapshot-2")
    return made.refresh()


def values(table: Any, **more: Any) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.scan(**more).to_arrow().to_pylist()}


def test_compaction_leaves_one_sorted_file_with_the_same_rows(table: Any) -> None:
    [file] = table.inspect.files().to_pylist()
    assert (file["level"], file["rowCount"], file["deleteRowCount"]) == (5, 5, 0)
    assert values(table) == {0: "0", 1: "1", 2: "2", 3: "3", 100: "3"}
    assert table.compact().files_before == 0  # nothing to do, nothing done
    assert len(table.snapshots) >= 5


def test_small_files_of_a_table_without_a_key_become_one(lake: Lake) -> None:
    made = lake.create_table("db.log", "id bigint, p int", partition_by=["p"])
    for number in range(6):
        made.append({"id": [number, number], "p": [number % 2, 5]})
    before = made.scan().to_arrow().sort_by([("id", "ascending"), ("p", "ascending")])
    report = made.compact()
    assert (report.files_before, report.files_after, report.rows_before, report.rows_after) == (12, 3, 12, 12)
    assert made.scan().to_arrow().sort_by([("id", "ascending"), ("p", "ascending")]).equals(before)


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["without a key", "with a key"])
def test_the_plan_of_a_compaction_is_what_the_run_does_and_touches_nothing(lake: Lake, keys: tuple[str, ...]) -> None:
    made = lake.create_table(
        "db.t", "id bigint not null", identifier_fields=keys, properties={"bucket": "2", "bucket-key": "id"}
    )
    for _ in range(3):
        made.append({"id": [1, 2, 3, 4]})
    before = contents(made)
    plan = made.compact(dry_run=True)
    assert contents(made) == before
    assert (plan.done, plan.groups, plan.files_before, plan.files_after) == (False, 2, 6, 2)
    assert (plan.rows_before, plan.rows_after) == (12, None if keys else 12)  # versions are not rows
    sizes = sum(file["fileSize"] for file in made.inspect.files().to_pylist())
    assert (plan.bytes_before, plan.bytes_after, plan.snapshots) == (sizes, None, ())
    done = made.compact()
    rest = {"done": True, "rows_after": 4 if keys else 12, "bytes_after": done.bytes_after, "snapshots": (4,)}
    assert done == replace(plan, **rest)
    assert done.bytes_after == sum(file["fileSize"] for file in made.inspect.files().to_pylist())
    nothing = made.compact(dry_run=True)
    assert (nothing.files_before, nothing.files_after, nothing.rows_after, nothing.bytes_after) == (0, 0, 0, 0)


def test_the_plan_of_a_compaction_names_files_that_the_run_refuses(tmp_path: Path) -> None:
    made = PaimonTable(tmp_path / "t", schema({"a": "BIGINT"}))
    for _ in range(2):
        made.append(pa.table({"a": pa.array([1], pa.int64())}), file_format="orc")
    for dry_run in (True, False):
        with pytest.raises(Unsupported, match=r"cannot compact .*\.orc: Esker compacts Parquet files"):
            esker.open_table(made.path).compact(dry_run=dry_run)


def contents(table: Any) -> dict[str, tuple[int, bytes]]:
    """Every file of a table, with its time and its bytes."""
    files = (file for file in Path(table.location).rglob("*") if file.is_file())
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_expiry_keeps_what_tags_and_branches_need(table: Any) -> None:
    plan = table.expire_snapshots(retain_last=1, dry_run=True)
    assert plan.snapshots == (1, 2, 3, 4)
    assert all(Path(file).exists() for file in plan.files)
    done = table.expire_snapshots(retain_last=1)
    assert (done.snapshots, done.files, done.failed) == (plan.snapshots, plan.files, ())
    assert not any(Path(file).exists() for file in done.files)
    assert values(table) == {0: "0", 1: "1", 2: "2", 3: "3", 100: "3"}
    assert values(table, ref="third") == {0: "0", 1: "1", 2: "2", 100: "2"}
    assert values(table, ref="old") == {0: "0", 1: "1", 100: "1"}
    data = sorted(Path(table.location).rglob("data-*.parquet"))
    assert len(data) == 4  # three of the tag, of which the branch needs two, and the compacted one
    assert table.expire_snapshots(retain_last=1).snapshots == ()


def test_expired_files_go_whatever_their_name_is(tmp_path: Path) -> None:
    """``data-file.prefix`` and other engines give names of their own. Only snapshots show that such files are data."""
    made = PaimonTable(tmp_path / "t", schema({"a": "BIGINT"}))
    first, second = (made.file(pa.table({"a": pa.array([number], pa.int64())})) for number in (1, 2))
    folder = made.path / "bucket-0"
    renamed = [
        replace(entry, file=replace(entry.file, name=f"part-{number}.zstd.parquet"))
        for number, entry in enumerate((first, second))
    ]
    for old, new in zip((first, second), renamed, strict=True):
        (folder / old.file.name).rename(folder / new.file.name)
    (folder / "part-2.parquet").write_bytes(b"of another program")
    made.commit(renamed[0])
    made.commit(replace(renamed[0], kind=Kind.DELETE), renamed[1], kind="OVERWRITE")
    table = esker.open_table(made.path)
    assert str(folder / "part-0.zstd.parquet") in table.expire_snapshots(retain_last=1).files
    assert sorted(file.name for file in folder.iterdir()) == ["part-1.zstd.parquet", "part-2.parquet"]
    assert table.refresh().to_arrow().to_pylist() == [{"a": 2}]


def test_expiry_by_age_keeps_young_snapshots_and_what_a_consumer_reads_next(table: Any) -> None:
    assert table.expire_snapshots(older_than=timedelta(hours=1)).snapshots == ()
    folder = Path(table.location) / "consumer"
    folder.mkdir()
    (folder / "consumer-job").write_text('{"nextSnapshot": 3}')
    assert table.expire_snapshots(older_than=timedelta(0), retain_last=1).snapshots == (1, 2)
    with pytest.raises(InvalidInput):
        table.expire_snapshots(retain_last=0)


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({}, 2),  # Java's defaults: ten snapshots, those of the last hour
        ({"num-retained.min": "3"}, 8),
        ({"num-retained.min": "3", "time-retained": "1 d"}, 4),
        ({"num-retained.min": "3", "time-retained": "3 days"}, 0),
        ({"num-retained.min": "3", "num-retained.max": "5", "time-retained": "9d"}, 7),
        ({"num-retained.min": "3", "num-retained.max": "5", "time-retained": "1"}, 9),  # without a unit: milliseconds
    ],
    ids=str,
)
def test_without_a_time_and_a_number_the_options_of_the_table_decide(
    tmp_path: Path, options: dict[str, str], gone: int
) -> None:
    """Twelve snapshots: four of the day before yesterday, four that are two hours old, four that are a minute old."""
    given = {f"snapshot.{name}": value for name, value in options.items()}
    made = PaimonTable(tmp_path / "t", replace(schema({"a": "BIGINT"}), options=given))
    for number in range(12):
        snapshot = made.append(pa.table({"a": pa.array([number], pa.int64())}))
        age_s = (2 * DAY_S, 7200, 60)[number // 4]
        aged = replace(snapshot, time_millis=int((time.time() - age_s) * 1000) + number)
        (made.path / f"snapshot/snapshot-{snapshot.id}").write_bytes(encode_snapshot(aged))
    table = esker.open_table(made.path)
    plan = table.expire_snapshots(dry_run=True)
    assert (plan.snapshots, plan.snapshots_before) == (tuple(range(1, gone + 1)), 12)
    assert table.expire_snapshots() == replace(plan, done=True)
    assert len(table.to_arrow()) == 12


@pytest.mark.parametrize(("name", "value"), [("num-retained.min", "few"), ("time-retained", "3 moons")])
def test_an_option_that_is_no_number_or_duration_stops_expiry(tmp_path: Path, name: str, value: str) -> None:
    made = PaimonTable(tmp_path / "t", replace(schema({"a": "BIGINT"}), options={f"snapshot.{name}": value}))
    with pytest.raises(InvalidInput, match=f"snapshot.{name} is '{value}', which is no"):
        esker.open_table(made.path).expire_snapshots()


def test_changelogs_that_live_longer_than_snapshots_stop_expiry(lake: Lake) -> None:
    options = {"bucket": "1", "changelog.time-retained": "2 h"}
    made = lake.create_table("db.log", "id bigint not null", identifier_fields=["id"], properties=options)
    for number in range(3):
        made.append({"id": [number]})
    for dry_run in (True, False):
        with pytest.raises(Unsupported, match=r"changelog\.time-retained is '2 h'"):
            made.expire_snapshots(retain_last=1, dry_run=dry_run)
    assert len(made.refresh().snapshots) == 3


def test_exactly_the_orphans_go(table: Any) -> None:
    folder = Path(table.location)
    orphans = [
        folder / "bucket-0/data-11111111-2222-3333-4444-555555555555-0.parquet",
        folder / "manifest/manifest-list-x-0",
        folder / "index/index-x-0",
    ]
    others = [folder / "bucket-0/notes.txt", folder / "README", folder / "bucket-0/part-1.parquet"]
    young = folder / "bucket-0/data-young-0.parquet"
    old = time.time() - 5 * DAY_S
    for file in (*orphans, *others, young):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    for file in folder.rglob("*"):
        if file.is_file() and file != young:
            os.utime(file, (old, old))
    with pytest.raises(InvalidInput, match="24 hours"):
        table.remove_orphans(older_than=timedelta(hours=1))
    assert table.remove_orphans(dry_run=True).files == tuple(sorted(map(str, orphans)))
    assert all(file.exists() for file in orphans)
    assert table.remove_orphans().files == tuple(sorted(map(str, orphans)))
    assert not any(file.exists() for file in orphans)
    assert all(file.exists() for file in (*others, young))
    assert values(table, ref="old") == {0: "0", 1: "1", 100: "1"}
    assert values(table, ref="third") == {0: "0", 1: "1", 2: "2", 100: "2"}


def test_unreadable_metadata_deletes_nothing(table: Any) -> None:
    folder = Path(table.location)
    tag = folder / "tag/tag-third"
    tag.write_text("no snapshot")
    before = sorted(folder.rglob("*"))
    old = time.time() - 5 * DAY_S
    for file in before:
        if file.is_file():
            os.utime(file, (old, old))
    (folder / "bucket-0/data-orphan-0.parquet").write_bytes(b"x")
    os.utime(folder / "bucket-0/data-orphan-0.parquet", (old, old))
    for attempt in (lambda: esker.open_table(folder).remove_orphans(), lambda: table.expire_snapshots(retain_last=1)):
        with pytest.raises(EskerError):
            attempt()
    assert (folder / "bucket-0/data-orphan-0.parquet").exists()
    assert set(before) <= set(folder.rglob("*"))
