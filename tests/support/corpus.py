"""Where the corpus is: a collection of other projects' test tables, which is not distributed with Esker.

It is beside the project, or where ESKER_CORPUS points. Tests that need it are skipped without it, and the run ends in
one line that counts them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ABSENT = "the corpus of other projects' tables is not here: set ESKER_CORPUS to its directory"


def found_corpus() -> Path | None:
    """The corpus directory, or ``None`` where there is none. For use while tests are collected."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
    root = Path(os.environ.get("ESKER_CORPUS") or beside)
    return root if root.is_dir() else None


def corpus_root() -> Path:
    """The corpus directory; the calling test is skipped where there is none. For use inside of a test."""
    root = found_corpus()
    if root is None:
        pytest.skip(ABSENT)
    return root


@cache
def corpus_index() -> list[dict[str, Any]]:
    """What the corpus says of each of its Iceberg tables; nothing where there is no corpus."""
    root = found_corpus()
    return [] if root is None else json.loads((root / "iceberg" / "index.json").read_text())


def of_each(name: str, values: Iterable[Any], ids: Any) -> pytest.MarkDecorator:
    """Run the test for each of these parts of the corpus; skip it, once and for this reason, where there is none."""
    if found_corpus() is None:
        return pytest.mark.skip(reason=ABSENT)
    return pytest.mark.parametrize(name, list(values), ids=ids)


def skips_for_want_of_it(reports: Iterable[Any]) -> int:
    """How many of these reports of skipped tests give the missing corpus as the reason."""
    return sum(1 for report in reports if isinstance(report.longrepr, tuple | list) and ABSENT in report.longrepr[2])
