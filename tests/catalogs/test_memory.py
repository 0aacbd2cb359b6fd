"""A catalog in this process."""

from __future__ import annotations

import pytest
from catalog_contract import CatalogContract


class TestMemoryCatalog(CatalogContract):
    outlives_its_process = False

    @pytest.fixture
    def uri(self) -> str:
        return "memory:"
