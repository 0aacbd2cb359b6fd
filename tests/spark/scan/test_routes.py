"""Exact lists of files for Spark: the index that the driver compiles, and the fallback where it does not fit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.spark.scan.file_scan import NUMBER, POSITION, FileScan, PlacedFile, packed_files
from esker.spark.scan.routes import Routes
from esker.spark.session.jvm import Jvm, jvm_of


def placed(folder: Path, *counts: int) -> list[PlacedFile]:
    """Files with so many rows each, numbered from 5."""
    found = []
    for at, count in enumerate(counts):
        path = folder / f"part {at} 100%+é.parquet"
        pq.write_table(pa.table({"id": pa.array(range(count), pa.int64())}), path)
        found.append(PlacedFile(f"file:{path}", path.stat().st_size, 5 + at))
    return found


def scan_of(files: list[PlacedFile], **more: bool) -> FileScan:
    from pyspark.sql.types import StructType

    return FileScan(file_format="parquet", schema=StructType().add("id", "long"), files=files, by_id=False, **more)


def test_the_index_fits_this_release_of_spark(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="esker.spark"):
        assert Routes().file_frames(spark) is not None
    assert not caplog.records


def test_sessions_and_threads_of_one_jvm_share_what_is_compiled(spark: Any) -> None:
    """py4j takes two classes of one name for the same, so a second one would fail in a thread that knows the first."""
    jvm = jvm_of(spark)
    source = "package esker.spark; public final class Once { public int one() { return 1; } }"
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: jvm.compiled(source, "esker.spark.Once"), range(8)))
    assert all(one is made[0] for one in made)
    assert made[0].one() == 1
    assert Routes().file_frames(spark.newSession()) is Routes().file_frames(spark)


def test_rows_have_the_number_of_their_file_and_their_place_in_it(spark: Any, tmp_path: Path) -> None:
    files = placed(tmp_path, 3, 1, 2)
    frame = Routes().open(spark, scan_of(files, with_number=True, with_position=True))
    found = sorted(tuple(row) for row in frame.select(NUMBER, POSITION, "id").collect())
    assert found == [(5, 0, 0), (5, 1, 1), (5, 2, 2), (6, 0, 0), (7, 0, 0), (7, 1, 1)]
    plan = frame._jdf.queryExecution().toString().split("== Physical Plan ==")[1]
    assert "_metadata." not in plan
    assert "named_struct" not in plan  # which would be an object for each row


def test_filters_on_the_number_are_applied_exactly(spark: Any, tmp_path: Path) -> None:
    """Spark does not check them again after the scan."""
    frame = Routes().open(spark, scan_of(placed(tmp_path, 3, 1, 2), with_number=True))
    assert frame.filter(f"{NUMBER} > 5").count() == 3
    assert frame.filter(f"{NUMBER} IN (5, 7) AND {NUMBER} <> 7").count() == 3
    assert frame.filter(f"{NUMBER} IS NULL").count() == 0
    assert frame.filter(f"{NUMBER} = 6 OR id = 2").count() == 2
    assert frame.filter(f"pmod({NUMBER}, 2) = 1").count() == 5


def test_a_file_that_is_listed_twice_is_read_twice(spark: Any, tmp_path: Path) -> None:
    [file] = placed(tmp_path, 4)
    assert Routes().open(spark, scan_of([file, file])).count() == 8


def test_only_equal_lists_of_files_are_the_same_scan(spark: Any, tmp_path: Path) -> None:
    one, other = placed(tmp_path, 3, 2)
    frames = {name: Routes().open(spark, scan_of(files)) for name, files in (("a", [one]), ("b", [other]))}
    again = Routes().open(spark, scan_of([one]))
    assert frames["a"].sameSemantics(again)
    assert not frames["a"].sameSemantics(frames["b"])
    assert frames["a"].union(frames["b"]).count() == 5
    [named] = frames["b"].inputFiles()
    assert named.endswith("/part%201%20100%25+é.parquet")


def test_the_sizes_of_files_are_known_without_a_look(spark: Any, tmp_path: Path) -> None:
    files = placed(tmp_path, 3, 2)
    plan = Routes().open(spark, scan_of(files))._jdf.queryExecution().optimizedPlan()
    assert plan.stats().sizeInBytes() == sum(file.size for file in files)


def test_a_frame_takes_few_calls(spark: Any, tmp_path: Path, jvm_calls: Callable[[], int]) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"), spark=spark)
    lake.create_namespace("a")
    columns = ", ".join(f"c{at} double" for at in range(40))
    table = lake.create_table("a.t", f"id bigint, {columns}")
    table.append(pa.table({"id": [1], **{f"c{at}": [0.0] for at in range(40)}}))
    table.scan().to_spark(spark)
    before = jvm_calls()
    frame = table.scan().to_spark(spark)
    assert jvm_calls() - before < 15  # not some for each column
    assert frame.count() == 1


def test_where_the_index_does_not_compile_files_go_by_their_paths(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jvm = jvm_of(spark)

    def once(self: Jvm, key: object, make: Callable[[], Any]) -> Any:
        return jvm.compiled("class FileFrames { Missing missing; }", "FileFrames") if key == "file frames" else make()

    monkeypatch.setattr(Jvm, "once", once)
    own = Routes()
    with caplog.at_level(logging.WARNING, logger="esker.spark"):
        frame = own.open(spark, scan_of(placed(tmp_path, 3, 1), with_number=True, with_position=True))
        assert sorted(row[NUMBER] for row in frame.collect()) == [5, 5, 5, 6]
        assert own.open(spark, scan_of(placed(tmp_path, 2))).count() == 2
    [said] = [record.getMessage() for record in caplog.records]
    assert "given to Spark by their paths" in said


def test_files_are_packed_as_they_are() -> None:
    packed = packed_files([PlacedFile("file:/ä", 258, 7)])
    assert packed == b"\0\0\0\1" + b"\0" * 6 + b"\1\2" + b"\0" * 7 + b"\7" + b"\0\0\0\x08" + "file:/ä".encode()
