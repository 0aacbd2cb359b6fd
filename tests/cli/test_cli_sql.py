"""``esker sql``: what the catalog answers by itself needs no Spark, and the rest is printed like a scan."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import run, run_json, run_program

import esker


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri, warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint, name string").append(pa.table({"id": [1, 2], "name": ["ann", "bob"]}))
    return uri


def test_statements_about_what_there_is_are_answered_as_tables_and_as_documents(catalog: str) -> None:
    said = run("--catalog", catalog, "sql", "SHOW TABLES IN sales").stdout
    assert [line.split() for line in said.splitlines() if "orders" in line] == [["sales", "orders", "False"]]
    assert run_json("--catalog", catalog, "sql", "show columns in sales.orders") == {
        "columns": [{"name": "col_name", "type": "string"}],
        "limit": None,
        "rows": [{"col_name": "id"}, {"col_name": "name"}],
    }
    assert run_json("--catalog", catalog, "sql", "show tables like 'x'")["rows"] == []


def test_a_statement_without_an_answer_is_done(catalog: str) -> None:
    text = "ALTER TABLE sales.orders SET TBLPROPERTIES ('owner' = 'ann')"
    assert run("--catalog", catalog, "sql", text).stdout == "Done.\n"
    assert run_json("--catalog", catalog, "sql", "create namespace new") == {"columns": [], "limit": None, "rows": []}
    rows = run_json("--catalog", catalog, "sql", "SHOW TBLPROPERTIES sales.orders ('owner')")["rows"]
    assert rows == [{"key": "owner", "value": "ann"}]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "CALL system.rewrite_table_path()",
            "Unsupported",
            "cannot call system.rewrite_table_path (at line 1, column 6)",
        ),
        ("ALTER TABLE sales.orders JUMP", "InvalidInput", "line 1, column 26: expected ADD"),
        ("DROP TABLE sales.ordrs", "NoSuchTable", "did you mean sales.orders?"),
    ],
)
def test_a_refusal_names_its_place_and_ends_with_bad_usage(catalog: str, text: str, kind: str, message: str) -> None:
    document = run_json("--catalog", catalog, "sql", text, status=2)
    assert document["error"]["kind"] == kind
    assert message in document["error"]["message"]


def test_views_may_do_more_where_the_command_says_so(catalog: str) -> None:
    text = "CREATE VIEW sales.v AS SELECT reflect('java.lang.Math', 'random') AS a FROM sales.gone"
    refused = run_json("--catalog", catalog, "sql", text, status=2)["error"]["message"]
    assert refused.startswith("cannot make view sales.v: it calls reflect (at line 1, column 8), which a view may not")
    trusted = run_json("--catalog", catalog, "sql", text, "--trust-view", "all", status=2)["error"]["message"]
    assert "no table sales.gone" in trusted


def test_what_the_catalog_answers_starts_no_spark(catalog: str) -> None:
    code = (
        "import sys; from esker.cli.main import cli; cli.main(standalone_mode=False); "
        "sys.exit('pyspark' in sys.modules)"
    )
    ended = run_program("--catalog", catalog, "sql", "describe extended sales.orders", code=code)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "# Detailed Table Information" in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Spark needs more there than Java")
@pytest.mark.spark
@pytest.mark.slow
def test_a_query_runs_on_a_session_of_its_own_and_says_nothing_else(catalog: str) -> None:
    ended = run_program(
        "--catalog", catalog, "sql", "SELECT id, upper(name) AS n FROM sales.orders WHERE id > 1",
        ESKER_SPARK_MASTER="local[1]", ESKER_SPARK_MEMORY="1g", PYTHONWARNINGS="",
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split() for line in ended.stdout.splitlines()][-2:] == [["2", "BOB"], ["1", "row"]]
    ended = run_program(
        "--catalog", catalog, "sql", "SELECT nope FROM sales.orders",
        ESKER_SPARK_MASTER="local[1]", ESKER_SPARK_MEMORY="1g", PYTHONWARNINGS="",
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith("esker: Spark cannot run this statement: [UNRESOLVED_COLUMN")
    assert len(ended.stderr.splitlines()) == 1
