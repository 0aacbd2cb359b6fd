"""A file that no reader can take is set aside with its reason; the other files of its directory go in."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from deep_parquet import deep_parquet
from telemetry_samples import spans, write

import esker
from esker.errors import StorageFailed
from esker.ingest.account import Account
from esker.ingest.follow import Pace
from esker.ingest.ingest_rows import ingest_files
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp
from esker.ingest.otlp.replay import kind_of, replay_receipts
from esker.ingest.read_row_files import Reading, RowFormat, is_too_deep
from esker.ingest.row_files_job import Target
from esker.lake import Lake


def deep(levels: int, opening: str = '{"a":', inner: str = "1", closing: str = "}") -> bytes:
    return (opening * levels + inner + closing * levels + "\n").encode()


def parquet_of(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


POISONS: dict[str, Callable[[], bytes]] = {
    "deep.json": lambda: deep(2_000),
    "very_deep.json": lambda: deep(20_000),
    "open.json": lambda: b'{"id":' + b"[" * 100_000,
    "later.jsonl": lambda: b'{"id": 1}\n' * 9 + deep(20_000, '{"id":'),
    "deep.json.gz": lambda: gzip.compress(deep(20_000)),
    "bad.parquet": lambda: b"PAR1 and nothing more",
    "cut.parquet": lambda: parquet_of(id=list(range(1000)))[:-300],
    "broken.parquet": lambda: parquet_of(id=[1]).replace(b"PAR1", b"PAR1", 1)[:20] + b"\0" * 500 + b"\x10\0\0\0PAR1",
    "deep.parquet": lambda: deep_parquet(100_000),
    "schema.parquet": lambda: parquet_of(other=["x"]),
    "text.csv": lambda: b"id\nx\n",
    "utf8.csv": lambda: b"id,name\n1,\xff\xfe\n",
    "utf8.json": lambda: b'{"id": 1, "name": "\xff\xfe"}\n',
    "long.json": lambda: b'{"id": 1, "name": "' + b"x" * (9 << 20) + b'"}\n',
    "empty.json": lambda: b"",
    "empty.csv": lambda: b"",
    "empty.parquet": lambda: b"",
    "half.csv.gz": lambda: gzip.compress(b"id\n" + b"1\n" * 100_000)[:100],
    "wrong.csv.gz": lambda: b"\x1f\x8b" + b"nothing",
    "half.jsonl.zst": lambda: zstandard.compress(b'{"id": 1}\n' * 100_000)[:20],
    "zeros.json": lambda: b"\0" * 1000,
    "no.format": lambda: b"a;b\n",
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    made.create_namespace("shop")
    made.create_table("shop.sales", "id bigint, name string")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def ingest(lake: Lake, folder: Path, *, reading: Reading | None = None, evolve: bool = False) -> Account:
    target = Target(name="shop.sales", evolve=evolve)
    return ingest_files(lake, [folder], target, checkpoint=folder.parent / "checkpoint", reading=reading)


@pytest.mark.parametrize("name", POISONS)
def test_a_poisoned_file_does_not_block_its_directory(lake: Lake, folder: Path, name: str) -> None:
    (folder / name).write_bytes(POISONS[name]())
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "z.csv").write_text("id\n2\n")
    account = ingest(lake, folder)
    assert [Path(file).name for file, _ in account.refused] == [name]
    assert all(reason for _, reason in account.refused)
    assert (account.received, account.holds) == (2, True)
    (folder / "later.csv").write_text("id\n3\n")
    again = ingest(lake, folder)
    assert (again.received, again.known_files, again.refused) == (1, 2, account.refused)
    assert sorted(lake.table("shop.sales").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_all_poisons_at_once_in_one_process_that_lives(lake: Lake, folder: Path, tmp_path: Path) -> None:
    for name, make in POISONS.items():
        (folder / name).write_bytes(make())
    (folder / "good.csv").write_text("id\n1\n")
    (folder / "named.json").mkdir()
    (folder / "named.json/inner.csv").write_text("id\n2\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "esker.cli.main", "--catalog", f"sqlite:///{tmp_path}/lake/catalog.db", "--json"),
            *("ingest", "files", str(folder), "--table", "shop.sales"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    account = json.loads(done.stdout)
    assert {Path(one["file"]).name for one in account["refused"]} == set(POISONS)
    assert (account["received"], account["holds"]) == (2, True)


def test_a_file_that_was_set_aside_is_not_read_again_until_something_changes(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.odd"
    path.write_bytes(b"id;name\n1;a\n")
    first = ingest(lake, folder)
    assert first.refused[0][1].endswith("name it with --format parquet, csv or json")
    with monkeypatch.context() as patch:
        patch.setattr("esker.ingest.files.changing_files.measure", lambda *_, **__: pytest.fail("it was read again"))
        assert ingest(lake, folder).refused == first.refused
    assert (
        ingest(lake, folder, reading=Reading(format=RowFormat.CSV))
        .refused[0][1]
        .startswith("cannot write the rows: the data has a column")
    )
    assert ingest(lake, folder, reading=Reading(format=RowFormat.CSV, delimiter=";")).received == 1


def test_a_changed_file_a_changed_table_and_a_replay_are_tried_again(lake: Lake, folder: Path) -> None:
    path, more = folder / "a.json", folder / "b.json"
    path.write_bytes(deep(100))
    more.write_text('{"id": 2, "more": 1}\n')
    assert len(ingest(lake, folder).refused) == 2
    path.write_text('{"id": 1}\n')
    assert ingest(lake, folder).received == 1
    with lake.table("shop.sales").alter() as change:
        change.add_column("more", "bigint")
    account = ingest(lake, folder)
    assert (account.received, account.refused) == (1, [])


def test_a_replay_lets_files_be_tried_again(
    lake: Lake, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.json").write_text('{"id": 1}\n')
    with monkeypatch.context() as patch:
        patch.setattr("esker.ingest.read_row_files.is_too_deep", lambda *_: True)  # a limit that a fix raises
        assert ingest(lake, folder).refused[0][1] == "its JSON is nested deeper than 64 levels"
    assert len(ingest(lake, folder).refused) == 1
    place = tmp_path / "checkpoint"
    assert replay_receipts(lake, place, kind=kind_of(place)).holds
    assert ingest(lake, folder).received == 1


def test_a_file_without_permission_is_passed_over(lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("id\n1\n")
    real = Path.open

    def refuse(path: Path, *args: object, **more: object) -> object:
        if path.name == "a.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        account = ingest(lake, folder)
    assert [(Path(file).name, reason) for file, reason in account.refused] == [("a.csv", "Permission denied")]
    assert account.received == 1
    assert ingest(lake, folder).received == 1


@pytest.mark.parametrize("groups", [61, 90, 200, 100_000])
def test_a_file_whose_columns_no_table_can_have_does_not_block_those_that_make_it(
    lake: Lake, folder: Path, groups: int
) -> None:
    (folder / "a.parquet").write_bytes(deep_parquet(groups))
    (folder / "b.csv").write_text("id\n1\n")
    account = ingest(lake, folder, evolve=True)
    assert ([Path(file).name for file, _ in account.refused], account.received) == (["a.parquet"], 1)
    assert "deep" in account.refused[0][1]
    target, place = Target(name="shop.new", create=True), folder.parent / "another checkpoint"
    account = ingest_files(lake, [folder], target, checkpoint=place)
    assert ([Path(file).name for file, _ in account.refused], account.received) == (["a.parquet"], 1)


class Denied:
    """Directories and files that this user may not look at; root may, so the system's calls are replaced."""

    def __init__(self, patch: pytest.MonkeyPatch, *names: str, code: int = 13, reason: str = "Permission denied"):
        real_scandir, real_stat = os.scandir, Path.stat

        def check(path: object) -> None:
            if any(name in Path(str(path)).parts for name in names):
                raise OSError(code, reason, str(path))

        def scandir(path: str) -> object:
            check(path)
            return real_scandir(path)

        def stat(path: Path, **more: bool) -> os.stat_result:
            check(path)
            return real_stat(path, **more)

        patch.setattr(os, "scandir", scandir)
        patch.setattr(Path, "stat", stat)


def test_a_directory_without_permission_is_named_and_the_others_go_in(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
        (folder / name / "rows.csv").write_text("id\n1\n")
    (folder / "secret.csv").write_text("id\n1\n")
    with monkeypatch.context() as patch:
        Denied(patch, "b", "secret.csv")
        account = ingest(lake, folder)
    named = sorted((Path(file).name, reason) for file, reason in account.refused)
    assert named == [("b", "Permission denied"), ("secret.csv", "Permission denied")]
    assert (account.received, account.holds) == (2, True)
    account = ingest(lake, folder)
    assert (account.received, account.refused) == (2, [])


@pytest.mark.parametrize("follow", [False, True])
def test_telemetry_beside_a_directory_without_permission_goes_in(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    write(folder, "a.jsonl", spans([1]))
    write(folder / "b", "b.jsonl", spans([2]))
    asked = Asked(paths=[folder], checkpoint=folder.parent / "checkpoint")
    with monkeypatch.context() as patch:
        Denied(patch, "b")
        pace = Pace(every_s=0.01, settle_s=0.0, idle_s=0.1)  # several looks
        account = follow_otlp(lake, asked, pace=pace) if follow else ingest_otlp(lake, asked)
    assert account.refused == [(str(folder / "b"), "Permission denied")]
    assert (account.received, account.holds) == (1, True)


def test_a_followed_file_without_permission_is_named(lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        write(folder, f"{number}.jsonl", spans([number]))
    real = Path.open

    def refuse(path: Path, *args: object, **more: object) -> object:
        if path.name == "1.jsonl":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    asked = Asked(paths=[folder], checkpoint=folder.parent / "checkpoint")
    account = follow_otlp(lake, asked, pace=Pace(every_s=0.01, settle_s=0.0, idle_s=0.0))
    assert (account.refused, account.received) == ([(str(folder / "1.jsonl"), "Permission denied")], 1)


def test_a_disk_that_fails_under_a_directory_stops_the_run(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b").mkdir()
    Denied(monkeypatch, "b", code=5, reason="Input/output error")
    with pytest.raises(StorageFailed, match="Input/output error"):
        ingest(lake, folder)


def test_a_disk_that_fails_is_not_a_files_fault(lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.csv").write_text("id\n1\n")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("esker.ingest.read_row_files._opened", fail)
        with pytest.raises(StorageFailed, match="Input/output error"):
            ingest(lake, folder)
    assert ingest(lake, folder).received == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"[" * 64 + b"]" * 64, False),
        (b"[" * 65 + b"]" * 65, True),
        (b'{"a":"' + b"[" * 100 + b'"}', False),
        (b'{"a":"\\"' + b"[" * 100 + b'"}', False),
        (b'{"a":"\\\\"' + b"," + b"[" * 100, True),
        (b'{"a":"\\\\\\""}' * 50 + b"[" * 65, True),
        (b'{"a":[1,2,{"b":"]"}]}\n' * 1000, False),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_brackets_count_outside_strings_wherever_blocks_end(text: bytes, found: bool, size: int) -> None:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1, /) -> bytes:
            return super().read(size)

    assert is_too_deep(Slow(text)) is found
