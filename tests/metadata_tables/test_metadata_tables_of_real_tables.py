"""The metadata tables of tables that other engines wrote."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from corpus import corpus_root

import esker
from esker.metadata_tables.inspect import Inspect

TABLES = (
    "dremio/empty_table",  # no snapshot
    "dremio/table_with_delete",  # position deletes, partitioned
    "duckdb-iceberg/equality_delete_extra_column__ns__t",
    "duckdb-iceberg/hive_partitioned_table",  # two specs
    "duckdb-iceberg/iceberg_v1_deprecated__legacy_v1",  # manifests named in the metadata
    "iceberg-cxx/bucket_partitioning",
    "iceberg-cxx/year_timestamptz_partitioning",
    "impala/iceberg_alltypes_part",
    "impala/iceberg_timestamp_part",
    "impala/iceberg_v3_deletion_vectors",
    "impala/trino_variant",
    "presto/iceberg_v3__geometry_data_type_read",
    "trino/timetravel",
    "trino/tpcds__sf1000__partitioned__web_page",  # its data files are missing
)
SIXTEEN = sorted(Inspect.tables)


def _inspect(table: str) -> Inspect:
    return esker.open_table(corpus_root() / "iceberg" / table).inspect


@pytest.mark.parametrize("table", TABLES)
def test_every_metadata_table_of_a_real_table_is_whole(table: str) -> None:
    inspect = _inspect(table)
    for name in SIXTEEN:
        found: pa.Table = getattr(inspect, name)()
        found.validate(full=True)
        assert len(found.to_pylist()) == found.num_rows


@pytest.mark.parametrize("table", TABLES)
def test_entries_files_and_partitions_add_up_alike(table: str) -> None:
    inspect = _inspect(table)
    files, entries, partitions = inspect.files(), inspect.entries(), inspect.partitions()
    live = [row["data_file"] for row in entries.to_pylist() if row["status"] != 2]
    assert [row["file_path"] for row in live] == files["file_path"].to_pylist()
    assert sum(partitions["file_count"].to_pylist()) == inspect.data_files().num_rows
    rows = inspect.data_files(columns=["record_count"])["record_count"].to_pylist()
    assert sum(partitions["record_count"].to_pylist()) == sum(rows)
    assert inspect.data_files().num_rows + inspect.delete_files().num_rows == files.num_rows


def test_position_deletes_come_from_files_and_from_vectors() -> None:
    from_files = _inspect("dremio/table_with_delete").position_deletes()
    assert from_files.num_rows == 6
    assert set(from_files["delete_file_path"].to_pylist()) == {"/tmp/iceberg/data/qux/qux-delete-0.parquet"}
    assert {row["category"] for row in from_files["partition"].to_pylist()} == {"qux"}
    from_vectors = _inspect("impala/iceberg_v3_deletion_vectors").position_deletes()
    vectors = _inspect("impala/iceberg_v3_deletion_vectors").delete_files()
    assert from_vectors.num_rows == sum(vectors["record_count"].to_pylist()) > 0
    assert from_vectors["content_offset"].null_count == 0


def test_the_table_of_a_time_gone_by_has_the_files_of_then() -> None:
    inspect = _inspect("trino/timetravel")
    by_time = sorted(inspect.snapshots().to_pylist(), key=lambda row: row["committed_at"])
    assert [inspect.files(row["snapshot_id"]).num_rows for row in by_time] == [0, 1, 2, 3]


def test_all_files_of_a_real_history_reach_what_the_current_snapshot_dropped() -> None:
    inspect = _inspect("impala/iceberg_spark_compaction_with_dangling_delete")
    now = set(inspect.files()["file_path"].to_pylist())
    ever = set(inspect.all_files()["file_path"].to_pylist())
    assert now < ever


def test_a_missing_manifest_list_is_named() -> None:
    inspect = _inspect("iceberg-cxx/partitioned_table_with_missing_spec")
    with pytest.raises(esker.NoSuchFile, match=r"manifest list s3a://warehouse/.*snap-3829439561253574382"):
        inspect.files()


def test_the_tree_tells_broken_parts_and_shows_the_rest() -> None:
    nodes = _inspect("iceberg-cxx/perf_snapshots").tree(snapshots=2, manifests=1, files=1)
    current, older = nodes
    assert current.problem is None
    assert len(current.manifests) == 1
    assert current.manifests_total is not None
    assert current.manifests_total > 1
    assert len(current.manifests[0].files) == 1
    assert older.problem is not None
    assert older.problem.endswith("is missing")


def test_the_readable_bounds_of_a_real_file_are_values_of_its_columns() -> None:
    (row, *_) = _inspect("duckdb-iceberg/iceberg__lineitem_iceberg").files()["readable_metrics"].to_pylist()
    quantity: dict[str, Any] = row["l_quantity"]
    assert quantity["lower_bound"] <= quantity["upper_bound"]
    assert row["l_shipdate"]["lower_bound"].year == 1992


def test_real_tables_have_as_many_files_and_snapshots_as_the_corpus_says() -> None:
    index = json.loads((corpus_root() / "iceberg" / "index.json").read_text())
    for table in TABLES:
        entry = next(item for item in index if item["id"] == table)
        inspect = _inspect(table)
        assert inspect.data_files().num_rows == (entry["data_files"] or 0)
        assert inspect.delete_files().num_rows == (entry["delete_files"] or 0)
        assert inspect.snapshots().num_rows == entry["snapshots"]
