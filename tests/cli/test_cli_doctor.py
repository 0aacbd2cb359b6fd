"""The doctor looks at one thing at a time, and says what to do."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from command_line import run, run_json

from esker.cli.commands import doctor
from esker.cli.shared_options import Settings


def _java(folder: Path, says: str) -> str:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "level", "said"),
    [
        ("echo 'openjdk version \"17.0.9\" 2023-10-17' >&2", "ok", "17 at "),
        ("echo 'openjdk version \"21\" 2023-09-19' >&2", "ok", "21 at "),
        ("echo 'java version \"1.8.0_392\"' >&2", "finding", "8 at "),
        ("echo 'openjdk version \"11.0.2\"' >&2", "finding", "11 at "),
        ("exit 1", "finding", "does not report its version"),
    ],
)
def test_java_is_found_and_must_be_seventeen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, level: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", _java(tmp_path / "jdk", says))
    check = doctor.check_java()
    assert check.level == level
    assert said in check.said


def test_no_java_is_a_finding_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.check_java()
    assert (check.level, check.said) == ("finding", "not found")
    assert "Java 17" in (check.advice or "")


def test_a_package_that_is_needed_and_missing_is_a_finding() -> None:
    assert doctor.check_package("pyarrow", needed=True, why="reads").level == "ok"
    assert doctor.check_package("no-such-package", needed=True, why="reads").level == "finding"
    optional = doctor.check_package("no-such-package", needed=False, why="faster")
    assert (optional.level, optional.said, optional.advice) == ("note", "not installed", "Faster.")


def test_an_old_python_is_a_finding() -> None:
    assert doctor.check_python((3, 10)).level == "finding"
    assert doctor.check_python((3, 11)).level == "ok"


def test_the_store_is_tried_where_the_warehouse_lies_and_left_clean(tmp_path: Path) -> None:
    check = doctor.check_store(Settings(warehouse=str(tmp_path / "not" / "yet")))
    assert check.level == "ok"
    assert str(tmp_path) in check.said
    assert list(tmp_path.iterdir()) == []
    by_uri = doctor.check_store(Settings(catalog=f"sqlite:///{tmp_path}/catalog.db"))
    assert str(tmp_path) in by_uri.said


def test_a_store_that_creates_a_file_twice_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from esker.storage.local import LocalStorage

    monkeypatch.setattr(LocalStorage, "write_new", lambda self, location, data: Path(location).write_bytes(data))
    check = doctor.check_store(Settings(warehouse=str(tmp_path)))
    assert check.level == "finding"
    assert "let a file be created twice" in check.said


def test_a_store_that_does_not_answer_is_a_finding() -> None:
    properties = {"s3.endpoint": "http://127.0.0.1:9", "s3.retry.num-retries": "0", "s3.access-key-id": "k"}
    properties["s3.secret-access-key"] = "s"
    check = doctor.check_store(Settings(warehouse="s3://bucket/warehouse", properties=properties))
    assert check.level == "finding"
    assert "the store does not answer" in check.said


def test_a_decoder_that_is_not_compiled_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None)
    assert doctor.check_decoder().level == "finding"


@pytest.mark.parametrize("missing", ["esker.otlp._walk", "esker.otlp._variants"])
def test_each_compiled_part_of_the_telemetry_decoder_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    find = doctor.util.find_spec
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None if name == missing else find(name))
    check = doctor.check_telemetry_decoder()
    assert (check.level, check.said) == ("finding", "not compiled; the one in pure Python is used")
    assert "Ingest works but is slower" in (check.advice or "")


@pytest.mark.parametrize(("level", "status"), [("ok", 0), ("note", 0), ("finding", 1)])
def test_findings_decide_the_exit_status(monkeypatch: pytest.MonkeyPatch, level: doctor.Level, status: int) -> None:
    monkeypatch.setattr(doctor, "every_check", lambda settings: [doctor.Check("thing", level, "seen", "do this")])
    facts = run_json("doctor", status=status)
    assert facts["healthy"] == (status == 0)
    assert facts["checks"] == [{"check": "thing", "level": level, "said": "seen", "advice": "do this"}]
    said = run("doctor")
    assert said.exit_code == status
    assert "seen. do this" in said.stdout
    assert ("1 problem found." in said.stdout) == (status == 1)


def test_the_real_checks_all_run() -> None:
    names = [check.name for check in doctor.every_check(Settings())]
    assert names == [
        "python",
        "pyarrow",
        "avro decoder",
        "otlp decoder",
        "pyspark",
        "java",
        "workers' python",
        "duckdb",
        "store",
    ]
