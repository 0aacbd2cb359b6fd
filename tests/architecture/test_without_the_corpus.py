"""A checkout with nothing beside it: every test is collected, and the run says what was skipped and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS_IT = "tests/cli/test_cli_variants.py::test_the_variants_of_another_engine_are_shown_as_it_describes_them"
NEEDS_IT_FOR_EACH = "tests/golden/test_corpus_changes.py"
NEEDS_IT_NOT = "tests/model/test_transform.py"


def pytest_without_the_corpus(folder: Path, *arguments: str) -> str:
    """What a run of pytest prints where ESKER_CORPUS leads nowhere; it must not fail."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**environment, "ESKER_CORPUS": str(folder / "missing")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_every_module_that_reads_the_corpus_is_collected_without_it(tmp_path: Path) -> None:
    readers = [path for path in (ROOT / "tests").rglob("test_*.py") if "from corpus import" in path.read_text()]
    printed = pytest_without_the_corpus(tmp_path, "--collect-only", *map(str, readers))
    assert "error" not in printed.splitlines()[-1]
    assert NEEDS_IT.partition("::")[0] in printed
    assert NEEDS_IT_FOR_EACH in printed


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [[], ["-n", "2"]], ids=["one process", "in parallel"])
def test_a_run_ends_in_one_line_that_counts_what_was_skipped(tmp_path: Path, parallel: list[str]) -> None:
    lines = pytest_without_the_corpus(tmp_path, *parallel, NEEDS_IT, NEEDS_IT_FOR_EACH, NEEDS_IT_NOT).splitlines()
    said = [line for line in lines if "corpus" in line]
    assert said == [
        "Skipped 2 tests: the corpus of other projects' tables is not here: set ESKER_CORPUS to its directory"
    ]
    assert " passed, 2 skipped" in lines[-1]


@pytest.mark.slow
def test_a_run_that_skips_nothing_says_nothing(tmp_path: Path) -> None:
    assert "corpus" not in pytest_without_the_corpus(tmp_path, NEEDS_IT_NOT)
