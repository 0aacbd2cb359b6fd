"""The examples that need Spark give the output that their notebooks show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from notebooks import EXAMPLES, ON_SPARK, cells_of, lasting, notebook, run

from esker.spark.source.register_source import PUSH_DOWN


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_an_example_gives_the_output_of_its_notebook(
    spark: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ESKER_CATALOG", raising=False)
    try:
        made = notebook(run(cells_of((EXAMPLES / f"{name}.py").read_text())))
    finally:
        spark.catalog.dropTempView("changes")
        spark.conf.unset(PUSH_DOWN)
    assert lasting(made) == lasting(json.loads((EXAMPLES / f"{name}.ipynb").read_text())), "run make examples"
