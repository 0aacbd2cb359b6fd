"""Tables of other projects' tests: verify finds what is wrong with them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import run, run_json
from corpus import corpus_index, corpus_root, of_each

import esker

# What is wrong with tables that lack no file. The rest passes.
WRONG = {
    # their writers' files were replaced by others for a test
    "duckdb-iceberg/hive_partitioned_table": {"wrong-length": 6},
    "duckdb-iceberg/name_mapping__mydb__t1": {"wrong-length": 2},
    "duckdb-iceberg/partition_bigint": {"wrong-length": 2},
    "duckdb-iceberg/partition_decimal_bigint": {"wrong-length": 10},
    "duckdb-iceberg/partition_decimal_integer": {"wrong-length": 3},
    "duckdb-iceberg/partition_double": {"wrong-length": 2},
    "duckdb-iceberg/partition_integer": {"wrong-length": 2},
    "duckdb-iceberg/partition_time": {"wrong-length": 2},
    "duckdb-iceberg/partition_timestamp": {"wrong-length": 2},
    "impala/iceberg_v2_delete_positional": {"wrong-length": 1},
    "impala/iceberg_with_puffin_stats": {"wrong-length": 1},
    "presto/iceberg_v3__geometry_array": {"wrong-length": 1},
    "presto/iceberg_v3__geometry_data_type_read": {"wrong-length": 1},
    "impala/iceberg_legacy_partition_schema_evolution_orc": {"wrong-total": 1},
    # deletes of files that a later commit removed
    "impala/iceberg_spark_compaction_with_dangling_delete": {"dangling-delete": 1},
    "icebird/spark__bunnies": {"dangling-delete": 1},
    "impala/iceberg_v3_deletion_vectors": {"stale-hint": 1},  # the hint is empty
}


@of_each("entry", corpus_index(), ids=[entry["id"] for entry in corpus_index()])
@pytest.mark.slow
def test_verify_finds_what_is_wrong(entry: dict[str, Any]) -> None:
    table = esker.open_table(corpus_root() / "iceberg" / entry["id"])
    lacks = bool(entry["missing"])
    result = table.verify(deep=not lacks)
    if lacks:
        assert set(result.counts) <= {"missing-file", "unreadable-file"}
        assert not result.ok
    else:
        assert result.counts == WRONG.get(entry["id"], {}), str(result)
        assert result.snapshots == len(table.snapshots)


@pytest.mark.slow
def test_the_command_says_so_and_ends_with_status_1() -> None:
    place = corpus_root() / "iceberg" / "duckdb-iceberg" / "partition_double"
    found = run_json("verify", place, status=1)
    assert (found["ok"], found["errors"], found["counts"]) == (False, 2, {"wrong-length": 2})
    assert found["findings"][0]["file"].endswith(".parquet")
    shown = run("verify", place, "--limit", "1")
    assert shown.exit_code == 1
    assert "1 more finding not shown" in shown.output
