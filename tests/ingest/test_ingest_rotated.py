"""Log files are rotated while they are ingested: every record is in the tables once."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from doors import MemoryLake
from rotated_logs import ROTATIONS, RotatedLog, Rotation
from telemetry_samples import log_bodies, logs, write

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files import source_files
from esker.ingest.files.recognise import Recognition
from esker.ingest.files.source_files import examine, find_files
from esker.ingest.follow import Pace
from esker.ingest.ingest_rows import ingest_files
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp
from esker.ingest.row_files_job import Target

ONCE = Pace(every_s=0.01, settle_s=0.0, idle_s=0.0)


class Ingest:
    """A folder, a lake and a checkpoint."""

    def __init__(self, folder: Path, *, follow: bool = False) -> None:
        self.held = MemoryLake()
        self.folder = folder / "in"
        self.asked = Asked(paths=[self.folder], checkpoint=folder / "checkpoint")
        self.follow = follow

    def __call__(self) -> Account:
        if self.follow:
            account = follow_otlp(self.held.lake(), self.asked, pace=ONCE)
        else:
            account = ingest_otlp(self.held.lake(), self.asked)
        assert (account.holds, account.refused) == (True, [])
        return account

    @property
    def bodies(self) -> Counter[str]:
        return log_bodies(self.held.lake())


def numbered(records: int) -> Counter[str]:
    return Counter(f"log {number}" for number in range(records))


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    return Ingest(tmp_path)


@pytest.fixture
def log(ingest: Ingest) -> RotatedLog:
    return RotatedLog(ingest.folder)


@pytest.mark.parametrize("rotate", ROTATIONS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("follow", [False, True])
def test_a_rotated_log_is_read_once(tmp_path: Path, rotate: Rotation, follow: bool) -> None:
    ingest = Ingest(tmp_path, follow=follow)
    log = RotatedLog(ingest.folder)
    log.append(5)
    assert ingest().received == 5
    log.append(2)  # not read before it is rotated
    rotate(log)
    log.append(3)
    assert ingest().received == 5
    rotate(log)
    log.append(1)
    rotate(log)
    assert ingest().received == 1
    assert ingest().received == 0
    assert ingest.bodies == numbered(11)


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_there_once_however_a_log_is_rotated(ingest: Ingest, log: RotatedLog, seed: int) -> None:
    chance = random.Random(seed)
    rotate = chance.choice(ROTATIONS)
    for _ in range(14):
        step = chance.random()
        if step < 0.5:
            log.append(chance.randrange(1, 4))
        elif step < 0.75 and log.path.exists():
            rotate(log)
        else:
            ingest()
    ingest()
    assert ingest.bodies == numbered(log.written), rotate.__name__


def test_a_file_that_is_truncated_and_written_again_starts_at_its_beginning(ingest: Ingest, log: RotatedLog) -> None:
    log.append(5)
    ingest()
    os.truncate(log.path, 0)
    log.append(9)  # longer than before
    assert ingest().received == 9
    os.truncate(log.path, 0)
    log.append(2)
    assert ingest().received == 2
    log.append(1)
    assert ingest().received == 1
    assert ingest.bodies == numbered(17)


def test_files_that_begin_alike_are_not_taken_for_each_other(ingest: Ingest) -> None:
    header = logs([0])
    write(ingest.folder, "app.log", header)
    ingest()
    write(ingest.folder, "app.log", header, logs([1, 2]))
    assert ingest().received == 2  # the same name: it grew
    (ingest.folder / "app.log").rename(ingest.folder / "app.log.1")
    write(ingest.folder, "app.log", header, logs([3]))
    write(ingest.folder, "other.log", header, logs([4]))
    write(ingest.folder, "app.log.7", header, logs([5]))
    assert ingest().received == 6
    assert ingest.bodies == numbered(6) + Counter({"log 0": 3})


@pytest.mark.parametrize("name", ["app.log.1", "zzz.log"])
def test_a_new_file_that_begins_like_one_that_was_renamed_is_another(ingest: Ingest, name: str) -> None:
    write(ingest.folder, "app.log", logs([0]))
    ingest()
    (ingest.folder / "app.log").rename(ingest.folder / name)
    write(ingest.folder, "app.log", logs([0]))
    assert ingest().received == 1
    (ingest.folder / "app.log").rename(ingest.folder / f"{name}.old")
    write(ingest.folder, "app.log", logs([0]), logs([1]))
    assert ingest().received == 2


def test_the_inode_of_a_deleted_file_is_no_evidence(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    real = source_files._look
    monkeypatch.setattr(source_files, "_look", lambda path: (one := real(path)) and replace(one, identity="1:1"))
    for number, requests in enumerate(([0], [0], [0, 1])):
        path = write(ingest.folder, f"file-{'abc'[number]}.jsonl", *(logs([one]) for one in requests))
        assert ingest().received == len(requests)
        path.unlink()


def test_a_replaced_file_has_grown_though_another_got_its_old_inode(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = source_files.find_files([write(ingest.folder, "app.log", logs([0]))])
    ingest()
    write(ingest.folder, "app.log", logs([0]), logs([1]))
    write(ingest.folder, "other.log", logs([2]))
    real = source_files._look

    def look(path: Path) -> source_files.Found | None:
        found = real(path)
        assert found is not None
        return replace(found, identity=old.identity if path.name == "other.log" else "1:1")

    monkeypatch.setattr(source_files, "_look", look)
    assert ingest().received == 2
    assert ingest.bodies == numbered(3)


def test_a_long_file_that_was_renamed_and_grew_is_gone_on_with_under_any_name(ingest: Ingest, log: RotatedLog) -> None:
    log.append(20)
    ingest()
    log.append(1)
    log.path.rename(log.folder / "anything")
    assert ingest().received == 1


def test_numbered_files_of_the_same_content_are_two_files(ingest: Ingest) -> None:
    for number in range(2):
        write(ingest.folder, f"app.log.{number + 1}", logs([0]))
        write(ingest.folder, f"part-{number}.jsonl", logs([0]))
    assert ingest().received == 4
    write(ingest.folder, "app.log.3", logs([0]))
    assert ingest().received == 1


def test_a_copy_is_not_read_while_its_original_is_still_there(ingest: Ingest, log: RotatedLog) -> None:
    copy = log.folder / "app.log.1"
    log.append(5)
    ingest()
    log.append(2)
    whole = log.path.read_bytes()
    copy.write_bytes(whole[: len(whole) // 3])  # the copy is made, the original not truncated yet
    assert ingest().received == 2
    copy.write_bytes(whole)
    assert ingest().received == 0
    log.append(1)
    ingest()
    os.truncate(log.path, 0)
    log.append(1)
    assert ingest().received == 1
    assert ingest.bodies == numbered(log.written)


def test_a_copy_and_its_original_with_the_same_new_records_are_read_once(ingest: Ingest, log: RotatedLog) -> None:
    log.append(5)
    ingest()
    log.append(2)
    shutil.copyfile(log.path, log.folder / "app.log.1")
    assert ingest().received == 2
    log.append(2)
    assert ingest().received == 2
    assert ingest.bodies == numbered(9)


def test_files_that_were_never_read_are_told_from_their_copies(ingest: Ingest, log: RotatedLog) -> None:
    log.append(5)
    shutil.copyfile(log.path, log.folder / "app.log.1")
    (log.folder / "link.log").hardlink_to(log.path)
    (log.folder / "current").symlink_to(log.path)
    assert ingest().received == 5
    assert ingest().received == 0
    assert ingest.bodies == numbered(5)


def test_a_file_that_is_replaced_by_a_longer_one_has_grown(ingest: Ingest) -> None:
    write(ingest.folder, "app.log", logs([0]))
    ingest()
    write(ingest.folder, "app.log", logs([0]), logs([1]))  # as rsync does: another inode
    assert ingest().received == 1


def test_a_record_that_was_cut_by_rotation_is_read_whole(ingest: Ingest, log: RotatedLog) -> None:
    log.append(1)
    line = logs([1])
    with log.path.open("ab") as file:
        file.write(line[:40])
    account = ingest()
    assert (account.received, account.dead_letters) == (2, 1)
    with log.path.open("ab") as file:
        file.write(line[40:])
    log.compress_at_once()
    assert ingest().received == 1
    assert ingest.bodies == numbered(2)


def test_rotated_files_are_not_read_again_to_know_them(
    ingest: Ingest, log: RotatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(3)
    ingest()
    log.rename()
    log.append(1)
    ingest()
    log.compress_the_second()
    ingest()
    monkeypatch.setattr(
        "esker.ingest.files.changing_files.measure", lambda *_, **__: pytest.fail("a known file was read")
    )
    log.rename()
    assert ingest().known_files == 2


@pytest.mark.parametrize("rotate", ROTATIONS[:5], ids=lambda one: one.__name__)
def test_the_account_finds_what_was_read_twice(
    tmp_path: Path, rotate: Rotation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest = Ingest(tmp_path)
    log = RotatedLog(ingest.folder)
    log.append(5)
    ingest()
    log.append(2)
    ingest()
    rotate(log)
    log.append(3)
    # Every file is taken for a new one, as if nothing were remembered.
    monkeypatch.setattr(Recognition, "_candidates", lambda *_: [])
    monkeypatch.setattr(Checkpoint, "unchanged", lambda *_: None)
    account = ingest_otlp(ingest.held.lake(), ingest.asked)
    assert (account.received, account.duplicated, account.holds) == (10, 7, False)
    assert {file for file, _ in account.read_twice} == {str(next(ingest.folder.glob("app.log.1*")))}
    assert ingest.bodies == numbered(10) + numbered(7)


def test_the_account_finds_a_file_that_is_in_a_batch_under_two_names(
    ingest: Ingest, log: RotatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(4)
    shutil.copyfile(log.path, log.folder / "app.log.1")
    monkeypatch.setattr(Recognition, "_candidates", lambda *_: [])
    monkeypatch.setattr(Recognition, "_origin_of_copy", lambda *_: None)
    account = ingest_otlp(ingest.held.lake(), ingest.asked)
    assert (account.received, account.duplicated, account.holds) == (8, 4, False)


def test_the_account_of_files_of_rows_finds_what_was_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, target = MemoryLake().lake(), Target(name="shop.sales", create=True)
    path = tmp_path / "in/a.csv"
    path.parent.mkdir()
    path.write_text("id\n1\n2\n")
    assert ingest_files(lake, [path.parent], target, checkpoint=tmp_path / "checkpoint").received == 2
    path.rename(path.with_name("b.csv"))
    assert ingest_files(lake, [path.parent], target, checkpoint=tmp_path / "checkpoint").known_files == 1
    monkeypatch.setattr(Recognition, "_candidates", lambda *_: [])
    monkeypatch.setattr(Checkpoint, "unchanged", lambda *_: None)
    path.with_name("b.csv").rename(path.with_name("b-1.csv"))
    account = ingest_files(lake, [path.parent], target, checkpoint=tmp_path / "checkpoint")
    assert (account.received, account.duplicated > 0, account.holds) == (2, True, False)


def test_a_checkpoint_of_the_first_version_is_read_on(ingest: Ingest, log: RotatedLog) -> None:
    log.append(5)
    write(ingest.folder, "other.jsonl", logs([100]))
    ingest()
    as_the_first_version(ingest.asked.checkpoint)
    ingest.asked = replace(ingest.asked, keep_segments=True)
    account = ingest()
    assert (account.received, account.known_files) == (0, 2)
    as_the_first_version(ingest.asked.checkpoint)
    log.append(2)
    log.copy_and_truncate()
    (ingest.folder / "other.jsonl").touch()
    log.append(1)
    assert ingest().received == 3
    assert ingest().received == 0
    assert ingest.bodies == numbered(8) + Counter(["log 100"])


def test_a_batch_that_the_first_version_planned_is_done(ingest: Ingest, log: RotatedLog) -> None:
    log.append(5)
    with closing(Checkpoint(ingest.asked.checkpoint, kind="otlp")) as checkpoint:
        (source,) = filter(None, map(examine, find_files([log.path])))
        checkpoint.plan([source], at_us=1)
    as_the_first_version(ingest.asked.checkpoint)
    assert ingest().received == 5
    log.rename()
    log.append(1)
    assert ingest().received == 1


def as_the_first_version(folder: Path) -> None:
    """Rewrite a checkpoint as the first version wrote it."""
    with closing(sqlite3.connect(folder / "checkpoint.db")) as database:
        database.executescript(
            "CREATE TABLE files (path TEXT, size INTEGER, digest TEXT, modified_ns INTEGER, batch INTEGER,"
            " refused TEXT, PRIMARY KEY (path, size, digest)) WITHOUT ROWID;"
            "INSERT INTO files SELECT path, size, digest, modified_ns, batch, refused FROM seen;"
            "DROP TABLE seen; UPDATE about SET value = '1' WHERE key = 'version';"
        )
        kept = ("path", "size", "modified_ns", "digest", "start")
        for number, text in database.execute("SELECT number, plan FROM batches").fetchall():
            plan = json.loads(text)
            plan["files"] = [{name: file[name] for name in kept} for file in plan["files"]]
            database.execute("UPDATE batches SET plan = ? WHERE number = ?", (json.dumps(plan), number))
        database.commit()
