"""A SQLite file as catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalog_contract import CatalogContract


class TestSqliteCatalog(CatalogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/lake/catalog.db"
