"""Which engine a command takes, and what it says where Spark cannot be used. No test here starts a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run, run_json, run_program
from telemetry_samples import bad_span, spans, write

import esker
from esker.errors import InvalidInput
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.defaults import chosen_engine
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp

WITHOUT_PYSPARK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
import json
from esker.cli.main import cli
print([cli.main(command, standalone_mode=False) for command in json.loads(sys.argv[1])])
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ESKER_ENGINE")


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a session fails."""
    monkeypatch.setattr("esker.spark.session.spark_session.running_session", lambda: None)
    monkeypatch.setattr("esker.spark.session.spark_session.start_session", lambda: pytest.fail("Spark was started"))
    monkeypatch.setattr("esker.spark.session.jvm.check_java", lambda: None)


def test_without_pyspark_commands_run_in_their_own_process_and_say_so_unless_spark_is_named(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]), bad_span(2))
    (tmp_path / "a.csv").write_text("id\n1\n")
    commands = [
        ["ingest", "otlp", "in"],
        ["ingest", "otlp", "in", "--follow", "--idle", "0", "--settle", "0", "--every", "0.01"],
        ["ingest", "files", "a.csv", "--table", "shop.sales", "--create"],
        ["replay", "--dead-letters"],
        ["ingest", "otlp", "in", "--engine", "spark"],
    ]
    done = run_program(json.dumps([[*command, "--json"] for command in commands]), code=WITHOUT_PYSPARK)
    assert "[0, 0, 0, 0, 2]" in done.stdout, done.stderr  # Spark that was named and is not there is an error
    assert (done.stdout.count('"engine": "arrow"'), done.stdout.count('"engine"')) == (4, 4)
    said = "cannot use Spark: PySpark is not installed; pip install 'esker[spark]'"
    assert done.stderr.splitlines()[:4] == [f"esker: {said}. This run continues without Spark (--engine arrow)"] * 4
    assert (done.stdout + done.stderr).count(said) == 5
    assert esker.connect().table("otel.spans").scan().count() == 1


def test_without_java_a_command_says_what_to_install(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    done = run_program("ingest", "otlp", "in", "--json", JAVA_HOME=str(tmp_path / "no java"))
    assert done.returncode == 0, done.stderr
    assert "cannot start Spark: it needs Java 17 or newer" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr
    assert done.stderr.endswith("This run continues without Spark (--engine arrow)\n")
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["engine"] == "arrow"


def test_a_lake_in_memory_is_not_for_spark() -> None:
    told: list[str] = []
    assert chosen_engine(None, esker.connect("memory:"), told=told.append) == "arrow"
    assert told[0].startswith("cannot use Spark: workers can read only local files")


@pytest.mark.usefixtures("no_session")
def test_spark_is_the_engine_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = esker.connect()
    told: list[str] = []
    assert [chosen_engine(named, lake, told=told.append) for named in (None, "spark", "arrow")] == [
        "spark",
        "spark",
        "arrow",
    ]
    assert told == []
    (tmp_path / "in").mkdir()
    assert run_json("ingest", "otlp", "in")["engine"] == "spark"  # nothing is new, so no session is asked for
    assert run_json("ingest", "files", "in", "--table", "a.b")["engine"] == "spark"
    assert run_json("replay", "--dead-letters")["engine"] == "spark"
    assert run_json("ingest", "otlp", "in", "--engine", "arrow")["engine"] == "arrow"
    monkeypatch.setenv("ESKER_ENGINE", "arrow")
    assert run_json("ingest", "otlp", "in")["engine"] == "arrow"


def test_an_engine_that_there_is_not_is_refused(tmp_path: Path) -> None:
    asked: Any = {"paths": [tmp_path], "checkpoint": tmp_path / "checkpoint", "engine": "auto"}
    with pytest.raises(InvalidInput, match="cannot decode with 'auto': the engines are spark and arrow"):
        ingest_otlp(esker.connect(), Asked(**asked))


@pytest.mark.usefixtures("no_session")
def test_mistakes_are_reported_before_spark_starts(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    (tmp_path / "a.csv").write_text("id\n1\n")
    for arguments, said in (
        (("ingest", "otlp", "nothing"), "cannot ingest nothing: No such file"),
        (("ingest", "otlp", "nothing", "--follow"), "cannot follow nothing: there is no such directory"),
        (("ingest", "otlp", "in", "--follow", "--promote", "a=b"), "Cannot promote"),
        (("ingest", "files", "a.csv", "--table", "a.b"), "to make it, say --create"),
        (("replay", "--dead-letters", "--promote", "a=b"), "Cannot promote"),
    ):
        result = run(*arguments)
        assert result.exit_code in (1, 2), result.output
        assert said in result.stderr
    checkpoint = Checkpoint(tmp_path / "checkpoint", kind="otlp")
    try:
        result = run("ingest", "otlp", "in", "--follow", "--checkpoint", "checkpoint")
    finally:
        checkpoint.close()
    assert result.exit_code == 3
    assert "cannot drive the checkpoint" in result.stderr
