"""Sketches that Spark's workers compute have the bytes of those that this process computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from our_tables import COLUMNS, ddl, some_rows

import esker
from esker.engines import choose_statistics
from esker.iceberg.puffin import read_blob, read_footer
from esker.lake import Lake
from esker.spark.scan import sketch_scan
from esker.tree.table_metadata import StatisticsFile


def blobs(lake: Lake, file: StatisticsFile | None) -> dict[tuple[int, ...], bytes]:
    assert file is not None
    content = lake.catalog.storage().read(file.path)

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    footer = read_footer(file.path, len(content), read)
    return {blob.fields: read_blob(file.path, blob, read) for blob in footer.blobs}


def test_spark_and_arrow_compute_the_same_sketches(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark)
    lake.create_namespace("db")
    table = lake.create_table("db.t", ddl(), format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for start in range(0, 24, 6):
        table.append(some_rows(6, start))
    table.delete("id = 7")
    columns = [*(name for name in COLUMNS if name not in ("st", "li", "ma", "ls")), "st.x", "st.z.deep"]
    wanted = blobs(lake, table.compute_statistics(columns))
    assert len(wanted) == len(columns)
    monkeypatch.setattr(choose_statistics, "LARGE", 0)
    seen: list[int] = []
    whole = sketch_scan.sketch_on_spark
    monkeypatch.setattr(sketch_scan, "sketch_on_spark", lambda *args: seen.append(1) or whole(*args))
    assert blobs(lake, table.compute_statistics(columns)) == wanted
    assert seen == [1]
    (row,) = lake.sql("CALL system.compute_table_stats('db.t', columns => array('id', 's'))").collect()
    assert row.asDict() == {"statistics_file": lake.table("db.t").metadata.statistics[0].path}
    assert seen == [1, 1]
