"""A look at a log that grows costs what is new in it."""

from __future__ import annotations

import io
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from doors import MemoryLake
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from otlp_files import after_lengths, of_the_exporter
from telemetry_samples import log_bodies, logs

from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.files import changing_files, source_files
from esker.ingest.files.planner import Planner
from esker.ingest.files.recognise import Recognition
from esker.ingest.files.source_files import Found, Measured, SourceFile, find_files
from esker.ingest.follow import Pace, follow
from esker.ingest.job import Staged
from esker.ingest.otlp import otlp_job
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.otlp_job import OtlpJob
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.ingest.run_batches import Run
from esker.otlp.protocol.wire import sized

LOOK = Pace(every_s=0.01, settle_s=0.0, idle_s=0.0)
FEW = 3_000_000  # bytes that a look may cost however long the file is: its head and its last bytes, several times


class Read(io.FileIO):
    """A file of which every byte that leaves the system's cache is counted."""

    total = 0

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer) or 0
        Read.total += size
        return size

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(-1 if size is None else size) or b""
        Read.total += len(found)
        return found

    def readall(self) -> bytes:
        return self.read(-1)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes were read of files since this was asked last."""
    real = Path.open

    def counting(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return io.BufferedReader(Read(path)) if mode == "rb" else real(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", counting)

    def taken() -> int:
        total, Read.total = Read.total, 0
        return total

    return taken


def line(number: int) -> bytes:
    return logs([number])


def message(number: int) -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.time_unix_nano, record.body.string_value = 1_700_000_000_000_000_000, f"log {number}"
    return bytes(request.SerializeToString())


WAYS: dict[str, Callable[[int], bytes]] = {
    "lines": line,
    "varint": lambda number: after_lengths([message(number)]),
    "big endian": lambda number: of_the_exporter([message(number)]),
}
# A request of 4 KiB that holds no record.
FILLERS = {
    "lines": b'{"resourceLogs": [], "unknown": "' + b"x" * (1 << 12) + b'"}\n',
    "varint": after_lengths([sized(1, sized(9, b"x" * (1 << 12)))]),
    "big endian": of_the_exporter([sized(1, sized(9, b"x" * (1 << 12)))]),
}


class Followed:
    """A log and a run that looks at its folder."""

    def __init__(self, folder: Path, make: Callable[[int], bytes] = line) -> None:
        self.lake = MemoryLake().lake()
        self.folder = folder / "in"
        self.folder.mkdir()
        self.path = self.folder / "app.log"
        self.make = make
        self.written = 0
        self.run = Run(self.lake, Checkpoint(folder / "checkpoint", kind="otlp"), OtlpJob(TelemetryTables(self.lake)))

    def append(self, records: int, *, mode: str = "ab") -> int:
        new = b"".join(map(self.make, range(self.written, self.written + records)))
        with self.path.open(mode) as file:
            file.write(new)
        self.written += records
        return len(new)

    def look(self) -> None:
        follow(self.run, [self.folder], pace=LOOK)
        assert (self.run.account.refused, self.run.account.read_twice) == ([], [])

    @property
    def bodies(self) -> Counter[str]:
        return log_bodies(self.lake)


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "_SAMPLE", 512)


@pytest.mark.parametrize("way", WAYS)
def test_a_look_at_a_growing_log_reads_what_is_new(tmp_path: Path, counted: Callable[[], int], way: str) -> None:
    log = Followed(tmp_path, WAYS[way])
    log.append(2)
    with log.path.open("ab") as file:
        file.write(FILLERS[way] * 3000)
    log.look()
    log.append(2)
    log.look()  # the first time that it has grown
    costs = []
    for _ in range(4):
        counted()
        new = log.append(40)
        log.look()
        costs.append(counted() - 4 * new)
    assert all(0 < cost < FEW for cost in costs), costs
    assert log.bodies == Counter(f"log {number}" for number in range(log.written))


@pytest.mark.parametrize("way", WAYS)
def test_each_look_at_a_growing_log_takes_what_is_new(tmp_path: Path, small_samples: None, way: str) -> None:
    log = Followed(tmp_path, WAYS[way])
    for records in (1, 20, 3, 0, 7):
        log.append(records)
        log.look()
        assert log.bodies == Counter(f"log {number}" for number in range(log.written))


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_is_truncated_and_longer_at_the_next_look_is_read_from_its_start(
    tmp_path: Path, small_samples: None, way: str
) -> None:
    log = Followed(tmp_path, WAYS[way])
    for records in (5, 30, 60):  # each longer than all before
        inode = log.path.stat().st_ino if log.written else None
        log.append(records, mode="wb")
        assert inode in (None, log.path.stat().st_ino)
        log.look()
        assert log.bodies == Counter(f"log {number}" for number in range(log.written))


def test_a_log_that_is_written_again_with_the_same_first_bytes_is_read_from_its_start(
    tmp_path: Path, small_samples: None
) -> None:
    log = Followed(tmp_path)
    log.append(20)
    log.look()
    kept = log.path.read_bytes()[:1000].rpartition(b"\n")[0] + b"\n"
    with log.path.open("wb") as file:
        file.write(kept)
    log.append(40)
    log.look()
    again = kept.count(b"\n")
    assert log.bodies == Counter(f"log {number}" for number in range(60)) + Counter(
        f"log {number}" for number in range(again)
    )


def test_another_run_proves_all_of_a_log_again(tmp_path: Path, small_samples: None) -> None:
    """A byte in the middle is changed: only a digest of all bytes shows it."""
    log = Followed(tmp_path)
    log.append(40)
    log.look()
    log.run.checkpoint.close()
    text = log.path.read_bytes()
    with log.path.open("r+b") as file:
        file.seek(text.index(b"log 20"))
        file.write(b"LOG 20")
    log.append(1)
    with_all = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    assert [source.start for source in recognised(with_all, log)] == [0]


def recognised(checkpoint: Checkpoint, log: Followed) -> list[SourceFile]:
    recognition = Recognition(checkpoint)
    looked = recognition.look_at(find_files([log.folder]))
    return [one for one in map(recognition.of, looked) if isinstance(one, SourceFile)]


def test_no_more_files_are_remembered_than_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing_files, "_MOST", 3)
    memory = changing_files.GrowingFiles()
    paths = []
    for number in range(6):
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_bytes(logs([number]))
    for found in find_files(paths):
        memory.measure(found, (), unpack=False)
    assert [path.name for path in memory._kept] == ["3.log", "4.log", "5.log"]
    memory.look_at({found.path: found for found in find_files(paths[:4])})
    assert [path.name for path in memory._kept] == ["3.log"]


def test_long_files_are_read_ahead_each_once_and_found_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing_files, "_SMALL", 1)
    read: Counter[tuple[str, bool]] = Counter()

    def measure(found: Found, *args: Any, **kwargs: Any) -> Measured | None:
        read[found.path.name, threading.current_thread() is threading.main_thread()] += 1
        return source_files.measure(found, *args, **kwargs)

    monkeypatch.setattr(changing_files, "measure", measure)
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02}.log").write_bytes(logs([number]))
    with closing(Checkpoint(tmp_path / "checkpoint", kind="otlp")) as checkpoint:
        planner = Planner(checkpoint, Account(), most_bytes=lambda: 1 << 30, most_files=5)
        planned = []
        for _ in range(3):  # each look begins again, and finds what threads have read for the last
            planned += [Path(file.path).name for file in next(planner.plans(find_files([folder]))).files]
    assert planned == [f"{number:02}.log" for number in range(12)]
    assert sorted(name for name, _ in read) == planned
    assert set(read.values()) == {1}
    assert sum(not is_main for _, is_main in read) > 6


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_grows_while_its_batch_is_made_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    log = Followed(tmp_path, WAYS[way])
    real, check = OtlpJob.stage, otlp_job.check_sources

    def stage(job: OtlpJob, plan: Plan, batch_id: str) -> Staged:
        log.append(2)  # before the files are checked
        return real(job, plan, batch_id)

    def check_sources(plan: Plan, *, may_grow: bool) -> None:
        check(plan, may_grow=may_grow)
        log.append(3)  # and after

    monkeypatch.setattr(OtlpJob, "stage", stage)
    monkeypatch.setattr(otlp_job, "check_sources", check_sources)
    log.append(4)
    for seen in (4, 9, 14):
        log.run.ingest(find_files([log.folder]))
        assert log.bodies == Counter(f"log {number}" for number in range(seen))
    assert (log.run.account.refused, log.run.close().holds) == ([], True)


def test_a_sample_is_as_long_as_the_page_says() -> None:
    assert source_files._SAMPLE == 64 << 10


def test_a_file_that_is_written_again_with_the_same_bytes_is_known(tmp_path: Path) -> None:
    log = Followed(tmp_path)
    log.append(5)
    log.look()
    text = log.path.read_bytes()
    log.path.unlink()
    log.path.write_bytes(text)
    log.look()
    assert log.bodies == Counter(f"log {number}" for number in range(5))


def test_a_checkpoint_of_a_newer_version_is_not_opened(tmp_path: Path) -> None:
    Checkpoint(tmp_path, kind="otlp").close()
    with closing(sqlite3.connect(tmp_path / "checkpoint.db")) as database, database:
        database.execute("UPDATE about SET value = '3' WHERE key = 'version'")
    with pytest.raises(InvalidInput, match="a newer esker wrote it"):
        Checkpoint(tmp_path, kind="otlp")


def test_a_checkpoint_that_is_lost_means_that_no_file_is_known(tmp_path: Path) -> None:
    log = Followed(tmp_path)
    log.append(3)
    log.look()
    log.run.checkpoint.close()
    shutil.rmtree(tmp_path / "checkpoint")
    account = ingest_otlp(log.lake, Asked(paths=[log.folder], checkpoint=tmp_path / "checkpoint"))
    assert (account.received, account.known_files, account.holds) == (3, 0, True)
    assert log.bodies == Counter({f"log {number}": 2 for number in range(3)})
