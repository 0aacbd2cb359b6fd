"""Objects in this process keep the storage contract."""

from __future__ import annotations

import pytest
from storage_contract import StorageContract

from esker.storage.memory import MemoryStorage


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage()

    @pytest.fixture
    def place(self) -> str:
        return "memory://warehouse"

    def test_no_native_reader_can_open_an_object(self, storage: MemoryStorage, place: str) -> None:
        storage.write_new(f"{place}/a", b"x")
        assert storage.local_path(f"{place}/a") is None
