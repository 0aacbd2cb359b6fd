"""Where the corpus of real tables lies: beside the project, or where ESKER_CORPUS says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def corpus_root() -> Path:
    """The corpus directory; the calling test is skipped where there is none."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
    root = Path(os.environ.get("ESKER_CORPUS") or beside)
    if not root.is_dir():
        pytest.skip("the corpus of real tables is not here: set ESKER_CORPUS to its directory")
    return root
