"""Spark's own reader on S3, through Hadoop's ``s3a``: the same rows as by Arrow, and no key where others can look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from s3_server import ACCESS_KEY, SECRET_KEY

ROOT = Path(__file__).parents[2]
JARS = (Path(os.environ.get("ESKER_JVM_ENVIRONMENT", "")) / "s3a").resolve()


def _fits() -> bool:
    """Whether the jars are there, in the release of Spark's Hadoop."""
    spark = {jar.name.rpartition("-")[2] for jar in Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")}
    return (JARS / "pom.xml").exists() and spark == {jar.name.rpartition("-")[2] for jar in JARS.glob("hadoop-aws-*")}


pytestmark = pytest.mark.skipif(not _fits(), reason="Maven could not bring hadoop-aws in the release of Spark's Hadoop")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program saw. The log of its JVM is part of it."""
    folder = tmp_path_factory.mktemp("s3a")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "SPARK_"))}
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "support" / "s3a_reads.py"), str(JARS), str(folder)],
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "support")]),
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=900,
            check=False,
        )
    text = (folder / "log").read_text()
    assert done.returncode == 0, text[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return {**found, "log": text}


@pytest.mark.parametrize("route", ["by index", "by path"])
def test_both_readers_of_spark_give_the_rows_that_arrow_gives(seen: dict[str, Any], route: str) -> None:
    for name, facts in seen[route].items():
        assert facts["rows"] > 0, name
        assert (name, facts | {"rows": 0}) == (
            name,
            {"rows": 0, "native": True, "workers": True, "native reader": True, "workers' reader": True},
        )


def test_an_explanation_says_who_reads_and_why(seen: dict[str, Any]) -> None:
    assert seen["explained"] == [
        "on Spark   Spark's own reader through s3a for 12 files, Arrow in the workers for 2 files: Spark's readers "
        "cannot read them exactly; deleted positions of 10 files by bitmaps in the plan; equality deletes of 11 files "
        "by joins",
        "on Spark   Arrow in the workers for 14 files: read.spark.reader is arrow",
    ]


def test_rows_after_a_recorded_end_that_is_too_early_are_read(seen: dict[str, Any]) -> None:
    assert seen["short sizes"] == 4000


def test_sql_reads_by_the_jar_and_writes_by_the_workers(seen: dict[str, Any]) -> None:
    left = [[at, "NEW" if at % 2 else "new"] for at in (0, 1, 2, 3, 6, 7, 10, 11)]
    assert seen["changed"] == [left, left]


def test_one_bucket_name_at_two_endpoints_is_two_buckets(seen: dict[str, Any]) -> None:
    assert seen["of each server"] == [8, 2]


def test_no_key_is_in_a_plan_a_page_an_error_an_event_log_or_a_log(seen: dict[str, Any]) -> None:
    assert seen["scheme"] == "s3a"
    assert seen["marked"] == {"plans and pages": True, "error": False, "event log": True}
    assert "403" in seen["error"] or "FAILED_READ_FILE" in seen["error"]
    assert seen["shown"] == {"plans and pages": [], "error": [], "event log": []}
    assert not [secret for secret in (ACCESS_KEY, SECRET_KEY, "that/must/never") if secret in seen["log"]]
