"""What every storage adapter promises. Inherit the class and give it a ``storage`` and a ``place``."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from esker.errors import AlreadyExists, NoSuchFile
from esker.ports.storage import RemoteStorage, Storage, delete_each, write_pieces


class StorageContract:
    """Laws of ``ports.storage.Storage``."""

    def test_what_was_written_is_read_back_by_every_verb(self, storage: Storage, place: str) -> None:
        location = f"{place}/t/metadata/a.json"
        storage.write_new(location, b"0123456789")
        assert storage.read(location) == b"0123456789"
        assert storage.size(location) == 10
        assert storage.exists(location)
        with storage.open(location) as file:
            file.seek(-3, 2)
            assert file.read() == b"789"

    def test_a_copy_for_another_process_reaches_the_same_objects_or_the_storage_says_no(
        self, storage: Storage, place: str
    ) -> None:
        copy: Storage = pickle.loads(pickle.dumps(storage))
        copy.write_new(f"{place}/theirs", b"of a worker")
        storage.write_new(f"{place}/ours", b"of the driver")
        assert storage.exists(f"{place}/theirs") == storage.is_shared
        assert copy.exists(f"{place}/ours") == storage.is_shared

    def test_a_folder_for_native_programs_is_part_of_the_storage(self, storage: Storage, place: str) -> None:
        folder = storage.local_folder(f"{place}/made/by others")
        if folder is not None:
            Path(folder).mkdir(parents=True)
            Path(folder, "a").write_bytes(b"x")
            assert storage.read(f"{place}/made/by others/a") == b"x"

    def test_an_empty_object_is_an_object(self, storage: Storage, place: str) -> None:
        storage.write_new(f"{place}/empty", b"")
        assert storage.exists(f"{place}/empty")
        assert storage.read(f"{place}/empty") == b""

    def test_an_object_may_be_written_in_pieces(self, storage: Storage, place: str) -> None:
        write_pieces(storage, f"{place}/pieces", [b"one,", b"", b"x" * 100_000, b",end"])
        assert storage.read(f"{place}/pieces") == b"one," + b"x" * 100_000 + b",end"
        with pytest.raises(AlreadyExists):
            write_pieces(storage, f"{place}/pieces", [b"again"])

    def test_nothing_is_ever_overwritten(self, storage: Storage, place: str) -> None:
        location = f"{place}/a"
        storage.write_new(location, b"first")
        with pytest.raises(AlreadyExists, match=r"cannot create .*/a") as raised:
            storage.write_new(location, b"second")
        assert raised.value.file == location
        assert storage.read(location) == b"first"

    def test_a_missing_object_has_no_path(self, storage: Storage, place: str) -> None:
        location = f"{place}/nowhere/missing"
        if isinstance(storage, RemoteStorage) and storage.local_folder(place) is None:
            assert storage.local_path(location) is None  # no object has one, so nobody needs to look
            return
        with pytest.raises(NoSuchFile, match="missing") as raised:
            storage.local_path(location)
        assert raised.value.file == location

    @pytest.mark.parametrize("verb", ["read", "open", "size"])
    def test_a_missing_object_is_named(self, storage: Storage, place: str, verb: str) -> None:
        location = f"{place}/nowhere/missing"
        with pytest.raises(NoSuchFile, match="missing") as raised:
            getattr(storage, verb)(location)
        assert raised.value.file == location
        assert not storage.exists(location)

    def test_a_folder_is_no_object(self, storage: Storage, place: str) -> None:
        storage.write_new(f"{place}/folder/a", b"x")
        assert not storage.exists(f"{place}/folder")
        with pytest.raises(NoSuchFile, match="folder"):
            storage.read(f"{place}/folder")
        with pytest.raises(NoSuchFile, match="folder"):
            storage.size(f"{place}/folder")

    def test_a_listing_holds_everything_below_and_nothing_beside(self, storage: Storage, place: str) -> None:
        for name in ("t/a", "t/deep/er/b", "t2/c", "u"):
            storage.write_new(f"{place}/{name}", name.encode())
        found = {file.location: file.size for file in storage.list(f"{place}/t")}
        assert found == {f"{place}/t/a": 3, f"{place}/t/deep/er/b": 11}
        assert {file.location for file in storage.list(f"{place}/t/")} == set(found)
        assert all(file.modified_ms > 1_600_000_000_000 for file in storage.list(f"{place}/t"))

    def test_a_listing_of_nowhere_is_empty(self, storage: Storage, place: str) -> None:
        assert list(storage.list(f"{place}/nowhere")) == []

    def test_a_listing_may_be_deleted_while_it_runs(self, storage: Storage, place: str) -> None:
        for number in range(5):
            storage.write_new(f"{place}/t/{number}", b"x")
        for file in storage.list(f"{place}/t"):
            storage.delete(file.location)
        assert list(storage.list(f"{place}/t")) == []

    def test_delete_removes_and_may_be_repeated(self, storage: Storage, place: str) -> None:
        storage.write_new(f"{place}/a", b"x")
        storage.delete(f"{place}/a")
        storage.delete(f"{place}/a")
        storage.delete(f"{place}/never/was")
        assert not storage.exists(f"{place}/a")

    def test_many_are_deleted_together_and_what_is_gone_is_no_error(self, storage: Storage, place: str) -> None:
        for name in "abc":
            storage.write_new(f"{place}/t/{name}", b"x")
        assert delete_each(storage, [f"{place}/t/{name}" for name in ("a", "gone", "c")]) == []
        assert [file.location for file in storage.list(f"{place}/t")] == [f"{place}/t/b"]

    def test_of_many_creators_exactly_one_wins(self, storage: Storage, place: str) -> None:
        def create(job: tuple[int, int]) -> str:
            turn, writer = job
            try:
                storage.write_new(f"{place}/race/{turn}", str(writer).encode())
            except AlreadyExists:
                return "lost"
            return f"{turn}:{writer}"

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(create, [(turn, writer) for turn in range(20) for writer in range(8)]))
        wins = [outcome for outcome in outcomes if outcome != "lost"]
        assert Counter(win.split(":")[0] for win in wins) == {str(turn): 1 for turn in range(20)}
        for win in wins:
            turn, writer = win.split(":")
            assert storage.read(f"{place}/race/{turn}").decode() == writer

    def test_a_streamed_object_appears_whole_when_its_block_ends(self, storage: Storage, place: str) -> None:
        location = f"{place}/new/folder/big"
        with storage.open_new(location) as file:
            file.write(b"first ")
            assert file.tell() == 6
            assert not storage.exists(location)
            file.write(b"second")
        assert storage.read(location) == b"first second"
        assert [file.location for file in storage.list(f"{place}/new")] == [location]

    def test_a_streamed_object_that_fails_leaves_nothing(self, storage: Storage, place: str) -> None:
        with pytest.raises(ZeroDivisionError), storage.open_new(f"{place}/new/bad") as file:  # noqa: PT012
            file.write(b"half")
            raise ZeroDivisionError
        assert list(storage.list(f"{place}/new")) == []

    def test_a_streamed_object_overwrites_nothing(self, storage: Storage, place: str) -> None:
        storage.write_new(f"{place}/a", b"first")
        with pytest.raises(AlreadyExists, match=r"cannot create .*/a"), storage.open_new(f"{place}/a") as file:
            file.write(b"second")
        assert storage.read(f"{place}/a") == b"first"
        assert [file.location for file in storage.list(place)] == [f"{place}/a"]
