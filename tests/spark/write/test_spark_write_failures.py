"""F01 and its kin: whatever becomes of tasks and jobs, a table has all of a DataFrame's rows once, or none."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_writes import lake_at, on_disk, rows_of

import esker


@pytest.fixture
def table(tmp_path: Path) -> esker.Table:
    table = lake_at(tmp_path).create_table("a.t", "id bigint", properties={"write.parquet.row-group-limit": "1000"})
    table.append([{"id": -1}])
    return table


def slow(spark: Any) -> Any:
    """Rows that keep coming for minutes in one task, and are soon done in the other."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            yield batch
            for _ in range(6000 if batch.column(0)[0].as_py() >= 5000 else 0):
                time.sleep(0.02)
                yield batch

    return spark.range(0, 10_000, 1, 2).mapInArrow(run, "id bigint")


def unchanged(table: esker.Table) -> None:
    assert rows_of(table.refresh()) == [{"id": -1}]
    assert len(table.snapshots) == 1


def wait_until(seen: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


class Appending(threading.Thread):
    """An append under way, and how it ended."""

    def __init__(self, table: esker.Table, rows: Any) -> None:
        super().__init__(daemon=True)
        self._table, self._rows = table, rows
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._table.append(self._rows)
        except BaseException as error:
            self.error = error


def drafts(table: esker.Table) -> list[Path]:
    return list(Path(table.location.removeprefix("file://"), "data").rglob(".*.tmp"))


def test_a_failed_stage_leaves_the_table_and_its_folder_as_they_were(spark: Any, table: esker.Table) -> None:
    before = on_disk(table)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() >= 5000:
                time.sleep(2)  # the other task is done by now
                raise RuntimeError("boom")

    with pytest.raises(Exception, match="boom"):
        table.append(spark.range(0, 10_000, 1, 2).mapInArrow(run, "id bigint"))
    unchanged(table)
    assert on_disk(table) == before


def test_a_cancelled_job_leaves_the_table_unchanged(spark: Any, table: esker.Table) -> None:
    before = on_disk(table)
    appending = Appending(table, slow(spark))
    appending.start()
    wait_until(lambda: len(on_disk(table)) > len(before) and drafts(table))  # one task is done, one is at it
    spark.sparkContext.cancelAllJobs()
    appending.join(60)
    assert "cancel" in str(appending.error).lower()
    unchanged(table)
    wait_until(lambda: not drafts(table))
    left = {file.name[:5] for file in on_disk(table) - before}
    assert left <= {"00001"}  # the task at work may still end its file, which then is an orphan; the other's is gone


def test_ctrl_c_is_ctrl_c_and_leaves_the_table_unchanged(spark: Any, table: esker.Table) -> None:
    assert threading.current_thread() is threading.main_thread()

    def interrupt() -> None:
        wait_until(lambda: drafts(table))
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        table.append(slow(spark))
    interrupting.join(60)
    unchanged(table)
    wait_until(lambda: not drafts(table))


def test_f01_a_killed_worker_leaves_the_table_unchanged_where_no_attempt_is_left(
    spark: Any, table: esker.Table
) -> None:
    appending = Appending(table, slow(spark))
    appending.start()
    wait_until(lambda: drafts(table))
    for process in workers():
        os.kill(process, signal.SIGKILL)
    appending.join(60)
    assert appending.error is not None
    unchanged(table)
    table.append(spark.range(3))
    assert len(rows_of(table)) == 4


def workers() -> list[int]:
    """Processes of Spark's Python workers: children of a daemon that is a child of our JVM."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                facts = (folder / "stat").read_text().rpartition(")")[2].split()
                is_daemon = b"pyspark.daemon" in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(folder.name)] = (int(facts[1]), is_daemon)

    def is_ours(process: int) -> bool:
        while process in parents:
            process = parents[process][0]
            if process == os.getpid():
                return True
        return False

    found = [p for p, (above, is_daemon) in parents.items() if is_daemon and parents.get(above, (0, False))[1]]
    return [process for process in found if is_ours(process)]
