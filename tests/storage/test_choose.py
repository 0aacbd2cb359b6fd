"""Which storage a location is in, and a storage that is two."""

from __future__ import annotations

from pathlib import Path

import pytest
from s3_server import S3Server
from storage_contract import StorageContract

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.ports.storage import delete_each, parallel_reads
from esker.storage.choose import RoutedStorage, absolute, is_remote, storage_for
from esker.storage.local import LocalStorage
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage
from esker.storage.relocated import RelocatedStorage


class Both:
    @pytest.fixture
    def storage(self, s3: S3Server, bucket: str, tmp_path: Path) -> object:
        return storage_for([str(tmp_path), bucket], configuration=ObjectConfiguration.of(s3.properties, {}))


class TestTheLocalHalf(Both, StorageContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestTheRemoteHalf(Both, StorageContract):
    @pytest.fixture
    def place(self, bucket: str) -> str:
        return f"{bucket}/warehouse"


def test_the_scheme_chooses_the_storage() -> None:
    assert type(storage_for(["/data", "file:/more"])) is LocalStorage
    assert type(storage_for(["s3a://bucket/a", "gs://bucket/b", "abfss://box@acct.host/c"])) is ObjectStorage
    assert type(storage_for(["/data", "s3://bucket/a"])) is RoutedStorage
    with pytest.raises(Unsupported, match="there is no storage for ftp locations, only for file, s3"):
        storage_for(["/data", "ftp://host/a"])


def test_each_half_keeps_inside_its_own_places(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    both = storage_for([str(tmp_path / "a"), f"{bucket}/a"], configuration=ObjectConfiguration.of(s3.properties, {}))
    for outside in (str(tmp_path / "b" / "x"), f"{bucket}/b/x", "s3://elsewhere/a/x"):
        with pytest.raises(InvalidInput, match="allowed_roots="):
            both.write_new(outside, b"x")


def test_files_of_both_halves_are_deleted_together(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    both = storage_for([str(tmp_path), bucket], configuration=ObjectConfiguration.of(s3.properties, {}))
    places = [f"{bucket}/a", f"{tmp_path}/b", f"{bucket}/c"]
    for place in places:
        both.write_new(place, b"x")
    with s3.counted() as requests:
        assert delete_each(both, places) == []
    assert len(requests) == 1
    assert not any(both.exists(place) for place in places)


def test_what_will_not_go_is_named_and_keeps_none_of_the_others(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    for name in "abc":
        s3_storage.write_new(f"{bucket}/{name}", b"x")
    s3.fail("deny", method="POST", times=2)  # all together, and then the first alone
    failed = delete_each(s3_storage, [f"{bucket}/{name}" for name in "abc"])
    assert [place for place, _ in failed] == [f"{bucket}/a"]
    assert isinstance(failed[0][1], StorageFailed)
    assert [file.location for file in s3_storage.list(bucket)] == [f"{bucket}/a"]


def test_a_moved_table_is_read_ahead_as_its_store_is(s3_storage: ObjectStorage) -> None:
    moved = RelocatedStorage(s3_storage, recorded="s3://old/t", actual="s3://new/t")
    assert parallel_reads(moved) == parallel_reads(s3_storage) > 1
    assert parallel_reads(LocalStorage()) == 1
    assert parallel_reads(RelocatedStorage(LocalStorage(), recorded="/old", actual="/new")) == 1


def test_a_plain_path_becomes_absolute_and_a_uri_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("lake/") == str(tmp_path / "lake")
    assert [absolute(uri) for uri in ("s3a://b/w/", "file:///w/")] == ["s3a://b/w", "file:///w"]
    assert [is_remote(place) for place in ("s3a://b", "gs://b", "/b", "file:/b", "http://b")] == [
        True,
        True,
        *[False] * 3,
    ]
