"""Every way a command can fail has its exit status and its one or two lines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import SOURCES, run, run_json, run_program
from corpus import corpus_root

from esker.cli.failure import describe, wants
from esker.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    EskerError,
    InvalidInput,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    OutcomeUnknown,
    StorageFailed,
    Unsupported,
)


def _copy(name: str, into: Path) -> Path:
    copied = Path(shutil.copytree(corpus_root() / "iceberg" / name, into / "table", copy_function=shutil.copyfile))
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copied


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoSuchTable("gone"), 2),
        (NoSuchNamespace("gone"), 2),
        (NoSuchSnapshot("gone"), 2),
        (AlreadyExists("taken"), 2),
        (InvalidInput("no"), 2),
        (Unsupported("no", feature="x"), 2),
        (Conflict("lost"), 3),
        (OutcomeUnknown("silence"), 4),
        (Corrupt("f.avro", "cut short"), 5),
        (StorageFailed("full", retryable=True), 6),
        (PermissionError(13, "Permission denied", "f"), 6),
        (OSError(28, "No space left on device"), 6),
        (FileNotFoundError(2, "No such file or directory", "f"), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(32, "Broken pipe"), 141),
        (RuntimeError("oh"), 70),
    ],
)
def test_an_error_has_its_exit_status(error: BaseException, status: int) -> None:
    assert describe(error).status == status


def test_an_error_that_cannot_be_said_is_told_all_the_same() -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("the JVM is gone")

    failure = describe(Speechless())
    assert (failure.status, failure.kind) == (70, "Internal")
    assert failure.message.endswith("Speechless: its message cannot be read: ConnectionRefusedError: the JVM is gone")


def test_a_missing_table_is_one_line_on_stderr() -> None:
    result = run("info", "nowhere/table")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "esker: no table at nowhere/table: there is no such file or directory\n"


def test_a_failure_in_json_is_one_document_with_the_facts() -> None:
    document = run_json("info", "nowhere/table", status=2)
    assert document == {
        "error": {
            "kind": "NoSuchTable",
            "message": "no table at nowhere/table: there is no such file or directory",
            "path": "nowhere/table",
        }
    }


@pytest.mark.parametrize("arguments", [("--json", "info", "x/y"), ("info", "--json", "x/y"), ("info", "x/y", "--json")])
def test_json_may_be_asked_for_anywhere(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["kind"] == "NoSuchTable"
    assert result.stderr == ""


def test_bad_usage_is_two_and_points_to_the_help() -> None:
    result = run("files")
    assert result.exit_code == 2
    assert result.stderr == "esker: Missing argument 'TABLE'.\n       try 'esker files --help'\n"
    assert run_json("files", status=2)["error"]["kind"] == "Usage"
    assert run("nonsense").stderr.startswith("esker: No such command 'nonsense'.")
    assert run("scan", "a/b", "--limit", "-1").exit_code == 2


def test_no_command_at_all_shows_the_help_and_is_bad_usage() -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stdout.startswith("Usage: esker")
    assert result.stderr == ""
    assert run_json(status=2)["error"]["message"] == "Missing command."


def test_limit_and_all_exclude_each_other() -> None:
    result = run("files", corpus_root() / "iceberg/dremio/orders", "--limit", "3", "--all")
    assert result.exit_code == 2
    assert "--limit and --all exclude each other" in result.stderr


def test_a_predicate_that_cannot_be_is_invalid_input() -> None:
    table = corpus_root() / "iceberg/dremio/table_with_delete"
    result = run("scan", table, "--where", "colour = 'red'")
    assert result.exit_code == 2
    assert "no column 'colour'" in result.stderr
    assert run("scan", table, "--where", "id <").exit_code == 2
    assert run("scan", table, "--columns", "colour").exit_code == 2


def test_a_snapshot_that_is_not_there_names_those_that_are() -> None:
    table = corpus_root() / "iceberg/dremio/table_with_delete"
    for arguments in (("files", table, "--snapshot-id", "7"), ("diff", table, "7"), ("diff", table, "nobranch")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "5744820232630381916" in result.stderr
    assert run("scan", table, "--snapshot-id", "7", "--ref", "main").exit_code == 2


def test_a_missing_data_file_is_named() -> None:
    result = run("scan", corpus_root() / "iceberg/trino/tpch__sf1000__unpartitioned__nation")
    assert result.exit_code == 2
    assert ".parquet: there is no such file" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("damage", [b"", b"Obj", b"not avro at all"])
def test_a_corrupt_manifest_exits_with_five_and_names_the_file(tmp_path: Path, damage: bytes) -> None:
    table = _copy("dremio/table_with_delete", tmp_path)
    manifest = next((table / "metadata").glob("6e8187a4*-m0.avro"))
    manifest.write_bytes(damage)
    result = run("files", table)
    assert result.exit_code == 5
    assert manifest.name in result.stderr
    document = run_json("files", table, status=5)
    assert document["error"]["kind"] == "Corrupt"
    assert manifest.name in document["error"]["file"]
    tree = run("tree", table)
    assert tree.exit_code == 1
    assert "1 delete file" in tree.stdout, "the rest of the tree is still shown"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format-version": 2}', b'{"format-version": 99}'])
def test_corrupt_metadata_is_told_for_every_command(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_bytes(damage)
    for command in ("info", "schema", "snapshots", "refs", "files", "manifests", "tree", "scan", "explain"):
        result = run(command, tmp_path)
        assert result.exit_code in (2, 5), command
        assert result.stderr.startswith("esker: ")
        assert "Traceback" not in result.output


def test_a_mistake_of_ours_is_seventy_and_shows_its_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> Any:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr("esker.cli.open_table.open_named", fail)
    quiet = run("info", "a/b")
    assert quiet.exit_code == 70
    assert (
        quiet.stderr
        == "esker: a fault inside esker: ZeroDivisionError: by design\n       --debug shows the traceback\n"
    )
    assert "Traceback" in run("info", "a/b", "--debug").stderr
    assert json.loads(run("info", "a/b", "--debug", "--json").stdout)["error"]["kind"] == "Internal"


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(text: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("esker.cli.open_table.open_named", interrupted)
    result = run("info", "a/b")
    assert result.exit_code == 130
    assert "Traceback" not in result.output
    assert result.stderr.strip() == ""


def _raised_while(first: BaseException, second: Exception) -> Exception:
    try:
        try:
            raise first
        except BaseException:
            raise second  # noqa: B904  # the context is what is looked at
    except Exception as error:
        return error


def test_what_fails_because_of_an_interrupt_is_no_news_but_an_unknown_outcome_is() -> None:
    assert describe(_raised_while(KeyboardInterrupt(), RuntimeError("the job was cancelled"))).status == 130
    assert describe(_raised_while(KeyboardInterrupt(), InvalidInput("Spark cannot do it"))).status == 130
    assert describe(_raised_while(KeyboardInterrupt(), OutcomeUnknown("silence"))).status == 4
    assert describe(_raised_while(ValueError(), RuntimeError("oh"))).status == 70


def test_a_reader_that_goes_away_is_no_error() -> None:
    table = corpus_root() / "iceberg/duckdb-iceberg/iceberg__lineitem_iceberg"
    program = subprocess.Popen(
        [sys.executable, "-m", "esker.cli.main", "scan", str(table), "--all"],
        env={"PYTHONPATH": SOURCES, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.read(100)
    program.stdout.close()
    said = program.stderr.read().decode()
    program.stderr.close()
    assert program.wait(timeout=120) == 141
    assert said == ""


def test_as_a_program_it_ends_with_the_same_status() -> None:
    assert run_program("info", "nowhere/x").returncode == 2
    assert run_program("info", corpus_root() / "iceberg/dremio/orders").returncode == 0
    assert run_program("--version").stdout.startswith("esker ")


def test_what_follows_two_dashes_is_no_option() -> None:
    assert wants("--json", ["info", "--json"])
    assert not wants("--json", ["info", "--", "--json"])


def test_facts_that_json_does_not_have_are_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> Any:
        raise EskerError("odd", file=Path("/x"), seen=b"\xff", names={"b", "a"}, much=float("inf"))

    monkeypatch.setattr("esker.cli.open_table.open_named", fail)
    document = run_json("info", "a/b", status=2)
    assert document["error"] == {
        "kind": "EskerError",
        "message": "odd",
        "file": "/x",
        "seen": "ff",
        "names": ["a", "b"],
        "much": "inf",
    }


def test_where_stdout_is_not_utf_8_documents_stay_json_and_lines_are_drawn_in_ascii() -> None:
    table = corpus_root() / "iceberg/dremio/table_with_delete"
    told = run_program("info", "nöwhere/x", "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert json.loads(told.stdout)["error"]["path"] == "nöwhere/x"
    drawn = run_program("tree", table, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert drawn.returncode == 0
    assert "+-- " in drawn.stdout or "`-- " in drawn.stdout
    assert "\\u25" not in drawn.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",),
        ("info", "sales.orders"),
        ("scan", "sales.orders"),
        ("tag", "sales.orders", "t"),
        ("rename", "sales.a", "sales.b"),
        ("drop", "sales.orders"),
        ("sql", "select * from sales.orders"),
        ("sql", " SHOW NAMESPACES"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("uri", ["sqlite:///{tmp}/lake/catalgo.db", "file://{tmp}/laek", "{tmp}/laek"])
def test_a_catalog_that_is_not_there_is_no_empty_lake(arguments: tuple[str, ...], uri: str, tmp_path: Path) -> None:
    named = uri.format(tmp=tmp_path)
    (tmp_path / "lake").mkdir()
    for result in (run(*arguments, "--catalog", named), run(*arguments, env={"ESKER_CATALOG": named})):
        assert result.exit_code == 2
        assert f"cannot open the catalog {named}: there is no " in result.stderr
        assert "esker init --catalog" in result.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["lake"]


@pytest.mark.parametrize("uri", ["sqlite:///{tmp}/new/catalog.db", "{tmp}/new"])
def test_what_makes_lakes_makes_one_that_is_named_and_not_there(uri: str, tmp_path: Path) -> None:
    named = uri.format(tmp=tmp_path)
    assert run("create", "--namespace", "sales", "--catalog", named).exit_code == 0
    assert run("ls", "--catalog", named).exit_code == 0
    assert run("sql", "create namespace other", "--catalog", named.replace("new", "newer")).exit_code == 0


def test_the_lake_of_this_folder_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("ls")
    assert result.exit_code == 0
    assert "The catalog is empty" in result.output
