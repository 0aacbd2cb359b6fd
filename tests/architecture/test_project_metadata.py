"""What the project says of itself agrees: the package's metadata, the CI matrix, the Makefile and the pages."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import Any

import yaml
from documentation import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from spark_releases import is_too_old

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
MATRIX = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
PYTHON = "Programming Language :: Python :: "


def _targets() -> set[str]:
    """The Makefile's targets that a reader is shown: those with a description."""
    return set(re.findall(r"^([\w-]+):.*##", MAKEFILE, re.MULTILINE))


def _next_minor(version: str) -> str:
    major, minor = version.split(".")
    return f"{major}.{int(minor) + 1}"


def _runs() -> list[str]:
    """Every command of the workflow, with the values of its job's matrix in place."""
    commands: list[str] = []
    for job in WORKFLOW["jobs"].values():
        given: dict[str, list[Any]] = job["strategy"]["matrix"]
        for step in job["steps"]:
            if "run" in step:
                lines = [step["run"]]
                for key, values in given.items():
                    lines = [line.replace(f"${{{{ matrix.{key} }}}}", value) for line in lines for value in values]
                commands += lines
    return commands


def test_the_matrix_has_the_pythons_of_the_classifiers() -> None:
    named = [text.removeprefix(PYTHON) for text in PROJECT["classifiers"] if re.fullmatch(PYTHON + r"3\.\d+", text)]
    assert MATRIX["python"] == named
    assert all(_next_minor(one) == two for one, two in pairwise(named))


def test_the_matrix_begins_at_the_oldest_python_that_is_allowed() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert all(Version(python) in allowed for python in MATRIX["python"])
    major, minor = MATRIX["python"][0].split(".")
    assert Version(f"{major}.{int(minor) - 1}") not in allowed


def test_the_matrix_goes_from_the_oldest_pyspark_to_the_one_that_is_pinned() -> None:
    [asked] = [
        need for text in PROJECT["optional-dependencies"]["spark"] if (need := Requirement(text)).name == "pyspark"
    ]
    [oldest] = [one.version for one in asked.specifier if one.operator == ">="]
    pinned = re.search(r"^pyspark==(\d+\.\d+)\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert (MATRIX["pyspark"][0], MATRIX["pyspark"][-1]) == (oldest, pinned[1])
    assert all(_next_minor(one) == two for one, two in pairwise(MATRIX["pyspark"]))


def test_every_command_of_the_workflow_is_a_target_of_the_makefile() -> None:
    commands = _runs()
    assert len(commands) >= len(MATRIX["python"]) * len(MATRIX["pyspark"])
    for command in commands:
        assert "${{" not in command, command
        program, target, *settings = command.split()
        assert program == "make"
        assert target in _targets(), command
        for setting in settings:
            assert re.search(rf"^{setting.partition('=')[0]} \?=", MAKEFILE, re.MULTILINE), command


def test_the_targets_that_are_described_are_no_files() -> None:
    declared = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert declared is not None
    assert _targets() <= set(declared[1].split())


def test_an_old_spark_skips_only_what_asks_for_a_newer_one() -> None:
    message = "cannot run a pipeline: this release of Spark lacks it; use Spark 4.2 or newer, or another command"
    assert is_too_old(message, "4.1.4")
    assert not is_too_old(message, "4.2.0")
    assert not is_too_old("cannot stream a view", "4.1.4")
