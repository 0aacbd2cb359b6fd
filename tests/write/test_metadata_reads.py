"""How many files an append through a fresh handle reads: the metadata, and the manifest list that it extends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.storage.local import LocalStorage


def test_an_append_reads_two_files_of_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("a")
    rows = pa.table({"id": [1]})
    lake.create_table("a.t", rows.schema).append(rows)
    opened: list[str] = []
    for way in ("open", "read"):
        monkeypatch.setattr(LocalStorage, way, _noting(getattr(LocalStorage, way), opened))
    for _ in range(3):
        opened.clear()
        lake.table("a.t").append(rows)
        assert [location.rpartition(".")[2] for location in opened] == ["json", "avro"]
    assert lake.table("a.t").scan().count() == 4


def _noting(read: Any, opened: list[str]) -> Any:
    def noted(self: LocalStorage, location: str) -> Any:
        opened.append(location)
        return read(self, location)

    return noted
