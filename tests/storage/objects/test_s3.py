"""S3 keeps the storage contract."""

from __future__ import annotations

import pytest
from storage_contract import StorageContract

from esker.storage.objects.object_storage import ObjectStorage


class TestS3Storage(StorageContract):
    @pytest.fixture
    def storage(self, s3_storage: ObjectStorage) -> ObjectStorage:
        return s3_storage

    @pytest.fixture
    def place(self, bucket: str) -> str:
        return f"{bucket}/warehouse"


class TestS3StorageByS3a(TestS3Storage):
    @pytest.fixture
    def place(self, bucket: str) -> str:
        return bucket.replace("s3:", "s3a:") + "/a b/ü=%20"
