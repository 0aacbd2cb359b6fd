"""The four steps of a row change are where the documentation says, and only ``Transaction.apply`` calls them."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from esker.ports import row_changes

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "esker"
FIGURE = re.search(
    r"## How a row change works.*?```text\n(.*?)```", (ROOT / "docs/how-it-works.md").read_text("utf-8"), re.DOTALL
)
STEPS = ("parse", "resolve", "decide", "write", "commit")
TYPES = ("RowChange", "ResolvedChange", "RowDecisions", "RowDelta")


def figure() -> str:
    assert FIGURE is not None
    return FIGURE[1]


def test_the_figure_has_the_steps_and_the_types_in_their_order() -> None:
    assert re.findall(r"^ {5}(\w+)", figure(), re.MULTILINE) == list(STEPS)
    assert re.findall(r"^ +\|  (\w+)", figure(), re.MULTILINE) == list(TYPES)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[\w/]+\.py", figure()))))
def test_each_module_of_the_figure_exists(path: str) -> None:
    assert (SOURCE / path).is_file()


@pytest.mark.parametrize("name", TYPES)
def test_each_type_between_two_steps_is_frozen(name: str) -> None:
    assert is_frozen(getattr(row_changes, name))


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("esker.spark.rows.resolve", "ResolvedOnSpark"),
        ("esker.spark.rows.decide", "DecidedOnSpark"),
        ("esker.arrow.row_engine", "ResolvedByArrow"),
        ("esker.arrow.row_engine", "DecidedByArrow"),
        ("esker.engines.choose_engine", "ChosenChange"),
        ("esker.engines.choose_engine", "ChosenDecisions"),
    ],
)
def test_what_an_engine_adds_to_a_type_is_frozen(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    assert issubclass(found, row_changes.ResolvedChange | row_changes.RowDecisions)
    assert is_frozen(found)


def is_frozen(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def calls_of_decide() -> Iterator[str]:
    """Where a method ``decide`` is called: module and function."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decide":
                    yield f"{path.relative_to(SOURCE)}:{function.name}"


def test_one_function_calls_the_steps() -> None:
    """The engine that chooses hands a step on to the engine chosen."""
    assert list(calls_of_decide()) == ["engines/choose_engine.py:decide", "write/verbs.py:apply"]
