"""Esker's own client and Esker's own server: the contracts of catalogs and of views, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("urllib3")

from catalog_contract import CatalogContract
from esker_server import serving_sqlite
from view_contract import ViewContract


class OnEsker:
    """A server of its own for each test."""

    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        folder = tmp_path / "server"
        folder.mkdir()
        monkeypatch.setattr(type(self), "roots", (str(folder / "warehouse"),))
        with serving_sqlite(folder, str(tmp_path)) as uri:
            yield uri


class TestTables(OnEsker, CatalogContract):
    compares_properties = False


class TestViews(OnEsker, ViewContract):
    compares_all = False
