"""The examples run without Spark as their notebooks show; what needs Spark is in tests/spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documentation import ROOT
from notebooks import EXAMPLES, ON_SPARK, PROGRAMS, Cell, cells_of, lasting, notebook, run


@pytest.mark.parametrize("name", sorted({program.stem for program in PROGRAMS} - ON_SPARK))
def test_an_example_gives_the_output_of_its_notebook(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = notebook(run(cells_of((EXAMPLES / f"{name}.py").read_text())))
    assert lasting(made) == lasting(json.loads((EXAMPLES / f"{name}.ipynb").read_text())), "run make examples"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_program_and_output(program: Path) -> None:
    stored = json.loads(program.with_suffix(".ipynb").read_text())
    found = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in stored["cells"]]
    assert found == [(cell.source, cell.is_code) for cell in cells_of(program.read_text())], "run make examples"
    assert any(cell.get("outputs") for cell in stored["cells"])
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)


def test_every_example_is_in_the_list() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for program in PROGRAMS:
        assert f"[{program.stem}.ipynb]({program.stem}.ipynb)" in page
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {program.stem for program in PROGRAMS}
    assert "make examples" in (ROOT / "CONTRIBUTING.md").read_text()


def test_only_what_changes_from_run_to_run_is_left_out_of_the_comparison() -> None:
    one, other = (
        notebook([Cell("x", True, [{"output_type": "stream", "name": "stdout", "text": [text]}])])
        for text in (
            "snapshot 5882723294770285830 of 2026-11-16 13:08:11 UTC in 982 B: 3 rows",
            "snapshot 42587232947702858 of 2026-12-31 01:00:00 UTC in 1.5 KiB: 3 rows",
        )
    )
    assert lasting(one) == lasting(other)
    fewer = notebook([Cell("x", True, [{"output_type": "stream", "name": "stdout", "text": ["2 rows"]}])])
    more = notebook([Cell("x", True, [{"output_type": "stream", "name": "stdout", "text": ["3 rows"]}])])
    assert lasting(fewer) != lasting(more)
