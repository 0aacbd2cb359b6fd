"""PyIceberg reads the statistics that Esker registered, and Esker those that PyIceberg registered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.statistics import StatisticsFile

import esker

pytestmark = pytest.mark.interop


def test_registered_statistics_are_shared_with_pyiceberg(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint, place string", partition_by=["place"])
    table.append(pa.table({"id": [1, 2, 3], "place": ["a", "b", "b"]}))
    file = table.compute_statistics()
    partitions = table.compute_partition_statistics()
    assert file is not None
    assert partitions is not None
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    theirs = catalog.load_table("db.t")
    (read,) = theirs.metadata.statistics
    assert (read.snapshot_id, read.statistics_path) == (file.snapshot_id, file.path)
    assert (read.file_size_in_bytes, read.file_footer_size_in_bytes) == (file.file_size, file.footer_size)
    assert [(blob.type, blob.fields, blob.properties) for blob in read.blob_metadata] == [
        ("apache-datasketches-theta-v1", [1], {"ndv": "3"}),
        ("apache-datasketches-theta-v1", [2], {"ndv": "2"}),
    ]
    (counted,) = theirs.metadata.partition_statistics
    assert (counted.snapshot_id, counted.statistics_path) == (partitions.snapshot_id, partitions.path)
    assert theirs.scan().to_arrow().num_rows == 3

    named = StatisticsFile.model_validate(
        {**read.model_dump(by_alias=True), "blob-metadata": [{**read.blob_metadata[0].model_dump(by_alias=True)}]}
    )
    with theirs.update_statistics() as update:
        update.set_statistics(named)
    assert table.refresh().distinct_values() == {"id": 3}
    with theirs.update_statistics() as update:
        update.remove_statistics(file.snapshot_id)
    assert table.refresh().distinct_values() == {}
