"""What a command loads before it answers. Modules are counted, not seconds: a clock says nothing on a busy machine."""

from __future__ import annotations

import json

from command_line import run_program
from corpus import corpus_root

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
