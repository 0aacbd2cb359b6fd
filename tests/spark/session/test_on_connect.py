"""Reading, appending and SQL over Spark Connect, by one server in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attached import EXPECTED
from spark_tables import on_disk
from table_maker import TableMaker

from esker.model.schema import Schema
from esker.model.types import LONG, STRING, TIMESTAMPTZ, UUID, Field, StructType

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


def table_with_everything(folder: Path) -> int:
    """Renamed columns, an Avro file, position and equality deletes; how many rows are left."""
    inner = StructType((Field(id=11, name="old", type=LONG), Field(id=12, name="more", type=LONG)))
    fields = (
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="at", type=TIMESTAMPTZ),
        Field(id=4, name="u", type=UUID),
        Field(id=5, name="s", type=inner),
    )
    maker = TableMaker(Schema(fields=fields))

    def rows(start: int) -> list[dict[str, object]]:
        return [
            {"id": at, "name": f"n{at % 7}", "at": at * 10**12, "u": bytes([at] * 16), "s": {"old": at, "more": None}}
            for at in range(start, start + 20)
        ]

    files = [maker.data_file(rows(0)), maker.data_file(rows(20)), maker.data_file(rows(40), file_format="avro")]
    maker.manifest(files)
    maker.snapshot()
    maker.manifest([maker.position_deletes([(files[0].path, 3), (files[0].path, 19), (files[2].path, 0)])])
    maker.manifest([maker.equality_deletes(Schema(fields=fields[:1]), [{"id": 25}])])
    maker.snapshot()
    renamed = StructType((Field(id=12, name="more", type=LONG), Field(id=11, name="new", type=LONG)))
    called = Field(id=2, name="called", type=STRING)
    maker.evolve(Schema(fields=(fields[0], called, *fields[2:4], Field(id=5, name="s", type=renamed))))
    table = on_disk(maker, folder)
    maker.save()
    on_disk(maker, folder)
    return table.scan().count()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client saw. Its words go to a file, for the server inherits them and may outlive it."""
    folder = tmp_path_factory.mktemp("connect")
    left = table_with_everything(folder / "table")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    client = ROOT / "tests" / "support" / "connect_client.py"
    with (folder / "words").open("w") as words:
        done = subprocess.run(
            [sys.executable, str(client), str(folder), str(folder / "table"), str(folder / "answer")],
            # PySpark's own tests ask for a free port by SPARK_TESTING; else two servers on one machine would clash.
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "support")]),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_TESTING": "1",
            },
            cwd=folder,
            stdout=words,
            stderr=words,
            timeout=400,
            check=False,
            start_new_session=True,  # the end of a local server is a signal to its whole group
        )
    answer = folder / "answer"
    assert answer.exists(), f"status {done.returncode}: {(folder / 'words').read_text()[-3000:]}"
    return {**json.loads(answer.read_text()), "left": left}


def test_a_connect_session_reads_what_arrow_reads_and_keeps_its_settings(seen: dict[str, Any]) -> None:
    left, found = seen["left"], seen["read"]
    assert "connect" in seen["session"]
    assert found["whole"] == found["metadata columns"] == found["default session"] == left
    assert found["filtered"] > 0
    assert found["renamed member"] == 1
    assert found["again"] == [left, 4]
    assert seen["settings kept"]


def test_each_entry_point_is_the_first_call_of_a_connect_session(seen: dict[str, Any]) -> None:
    assert seen["first calls"] == {}


def test_a_lake_is_attached_to_a_connect_session(seen: dict[str, Any]) -> None:
    assert seen["attached"] == EXPECTED


def test_a_connect_session_writes_as_a_classic_one_does(seen: dict[str, Any]) -> None:
    assert seen["written"] == {
        "rows": 1000,
        "sum": 499_500,
        "partitions": [0, 1, 2],
        "refusal": "InvalidInput: cannot write the rows: column 'id' does not fit: it is required and cannot be null",
    }


def test_a_connect_session_answers_sql_as_a_classic_one_does(seen: dict[str, Any]) -> None:
    joined, counted, tables, copied, viewed, things = seen["sql"]
    assert joined == [["2", "2", "2"], ["4", "4", "4"], ["100", "None", "100"]]
    assert len(counted) == 1
    assert tables == [["sales", "copy", "False"], ["sales", "orders", "False"]]
    assert [row[:2] for row in copied] == [["0", "eu"], ["2", "eu"], ["4", "eu"]]
    assert viewed == [["2"], ["4"]]
    assert things == [["0", "None"], ["5", "7"]]


def test_a_connect_session_refuses_what_a_stored_view_may_not_contain(seen: dict[str, Any]) -> None:
    assert seen["views"] == {"let through": [], "other": [], "canary": False}


def test_a_connect_session_has_the_data_source_too(seen: dict[str, Any]) -> None:
    found = seen["source"]
    assert (found["rows"], found["streamed"]) == (20, 20)
    assert found["read"] == list(range(0, 20, 2))
    assert "cannot take the option 'colums': did you mean columns?" in found["refusal"]


def test_a_connect_session_takes_telemetry_where_the_query_is_named(seen: dict[str, Any]) -> None:
    found = seen["telemetry"]
    assert (found["spans"], found["letters"]) == ({"span 1": 1, "span 2": 1}, 1)
    assert "cannot find out the query of this batch" in found["refusal"]
    assert found["pipeline"].startswith("Unsupported: cannot run a pipeline on Spark Connect: batches are committed")
    assert found["requests"] == 2  # a rollup needs no pipeline


def test_rows_are_merged_deleted_and_upserted(seen: dict[str, Any]) -> None:
    found = seen["merged"]
    assert found["rows"] == [[5, "old"], [6, "old"], [7, "old"], [9, "{9}"], [10, "{10}"], [11, "{11}"], [12, "{11}"]]
    assert found["refusal"].startswith("InvalidInput: cannot merge: ON, 't.id = s.nosuch', is not understood")
