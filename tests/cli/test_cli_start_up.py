"""What a command loads before it answers. Modules are counted, not seconds: a clock says nothing on a busy machine."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import run_program
from corpus import corpus_root

import esker

REPORT = """
import json, sys
from esker.cli.main import cli
from io import StringIO
said, sys.stdout = sys.stdout, StringIO()
status = cli.main(sys.argv[1:], standalone_mode=False)
sys.stdout = said
print(json.dumps({"status": status, "modules": sorted(sys.modules)}))
"""
HEAVY = ("sqlglot", "pandas", "pyspark", "pyarrow.compute", "pyarrow.parquet", "pyarrow.dataset", "duckdb", "polars")


def _loaded(*arguments: object) -> set[str]:
    result = run_program(*map(str, arguments), code=REPORT)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["status"] == 0
    return set(report["modules"])


def test_info_loads_nothing_heavy() -> None:
    loaded = _loaded("info", corpus_root() / "iceberg/dremio/orders")
    assert loaded.isdisjoint(HEAVY)
    assert "fastavro" not in loaded


@pytest.mark.slow
def test_commands_that_read_only_metadata_load_no_sql_and_no_frames() -> None:
    for command in ("schema", "snapshots", "refs"):
        assert _loaded(command, corpus_root() / "iceberg/dremio/orders").isdisjoint(HEAVY), command
    for command in ("files", "manifests", "tree"):
        loaded = _loaded(command, corpus_root() / "iceberg/dremio/orders")
        assert loaded.isdisjoint({"sqlglot", "pyspark", "duckdb", "polars", "pyarrow.parquet"}), command


def test_a_scan_without_a_predicate_loads_no_sql_parser() -> None:
    assert "sqlglot" not in _loaded("scan", corpus_root() / "iceberg/dremio/orders", "--limit", "1")


def test_the_help_loads_neither_arrow_nor_rich() -> None:
    for arguments in (("--help",), ("info", "--help"), ("--version",)):
        assert _loaded(*arguments).isdisjoint({*HEAVY, "pyarrow", "numpy", "rich", "msgspec", "esker.wiring"})


def test_an_answer_in_json_loads_no_rich() -> None:
    loaded = _loaded("info", "--json", corpus_root() / "iceberg/dremio/orders")
    assert "rich" not in loaded


@pytest.mark.slow
def test_changing_names_loads_no_arrow(tmp_path: Path) -> None:
    where = ("--catalog", f"sqlite:///{tmp_path}/catalog.db")
    lake = esker.connect(where[1])
    assert _loaded("init", *where).isdisjoint({*HEAVY, "pyarrow", "numpy"})
    assert _loaded("create", "--namespace", "s", *where).isdisjoint({*HEAVY, "pyarrow", "numpy"})
    made = _loaded("create", "s.t", "--schema", "id bigint, ts timestamp", "--partition-by", "day(ts)", *where)
    assert made.isdisjoint({*HEAVY, "pyarrow", "numpy"} - {"sqlglot"}), "the columns are SQL, the rest is not"
    lake.table("s.t").append(pa.table({"id": pa.array([1], pa.int64())}))
    commit = str(lake.table("s.t").snapshots[0].snapshot_id)
    for arguments in (
        ("tag", "s.t", "v1"),
        ("rollback", "s.t", "--snapshot-id", commit),
        ("drop", "s.t"),
        ("rename", "s.t", "s.u"),
    ):
        assert _loaded(*arguments, *where).isdisjoint({*HEAVY, "pyarrow", "numpy"}), arguments
