"""A directory as catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalog_contract import CatalogContract


class TestDirectoryCatalog(CatalogContract):
    keeps_properties = False
    renames = False

    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}/warehouse"
