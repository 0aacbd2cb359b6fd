"""The examples as notebooks: a program in cells is run, and stored with its output.

A program of ``examples/`` has cells that begin with ``# %%``, or ``# %% [markdown]`` for text. ``make examples`` runs
each program in an empty folder and stores it, with what it printed and showed, as a notebook beside it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
ON_SPARK = {program.stem for program in PROGRAMS if "lake.spark" in program.read_text()}

# What differs from run to run: ids of snapshots, uuids, times, folders, sizes of files, and how long something took.
_CHANGING = re.compile(
    r"\b\d{10,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?"
    r"|[\w./-]*/lake\b|\b[\d.,]+ (?:B|KiB|ms)\b"
)
_ABOUT_SPARK = re.compile(r',\s*"on Spark   [^"]*"')


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: text, or code with what it showed."""

    source: str
    is_code: bool
    outputs: list[dict[str, Any]] = field(default_factory=list)


def cells_of(program: str) -> list[Cell]:
    """The cells of a program, without output."""
    found: list[Cell] = []
    for part in re.split(r"^# %%", program, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            found.append(Cell(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE), is_code=False))
        else:
            found.append(Cell(body.strip(), is_code=True))
    return found


def run(cells: list[Cell]) -> list[Cell]:
    """The cells with their output, run in order, in the current folder. The value of a last expression is shown."""
    names: dict[str, Any] = {"__name__": "example"}
    return [Cell(cell.source, True, _outputs(cell.source, names)) if cell.is_code else cell for cell in cells]


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "example", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "example", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = lines(value._repr_html_())
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def lines(text: str) -> list[str]:
    """Text as notebooks have it, line by line, with the folder of the run left out."""
    return text.replace(str(Path.cwd()), ".").splitlines(keepends=True)


def notebook(cells: list[Cell]) -> dict[str, Any]:
    """The cells as a notebook of format 4.5."""
    made: list[dict[str, Any]] = []
    for number, cell in enumerate(cells, 1):
        kind: dict[str, Any] = {"cell_type": "markdown"}
        if cell.is_code:
            count = sum(one.is_code for one in cells[:number])
            outputs = [
                {**out, "execution_count": count} if out["output_type"] == "execute_result" else out
                for out in cell.outputs
            ]
            kind = {"cell_type": "code", "execution_count": count, "outputs": outputs}
        made.append({**kind, "id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def text_of(made: dict[str, Any]) -> str:
    """The notebook's file."""
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def lasting(made: dict[str, Any]) -> str:
    """The notebook's text without what differs from run to run, to compare two runs.

    The line about Spark's reader is shown if another test has started a session.
    """
    return _CHANGING.sub("…", _ABOUT_SPARK.sub("", text_of(made)))


def main() -> None:
    """Run every program and store its notebook."""
    for program in PROGRAMS:
        cells = cells_of(program.read_text())
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.environ.pop("ESKER_CATALOG", None)
            made = notebook(run(cells))
        stored = program.with_suffix(".ipynb")
        if not stored.exists() or lasting(json.loads(stored.read_text())) != lasting(made):
            stored.write_text(text_of(made))
            print(f"{stored.name}: stored", file=sys.stderr)


if __name__ == "__main__":
    main()
