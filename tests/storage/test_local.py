"""Local files keep the storage contract, and stay inside the roots they were given."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from storage_contract import StorageContract

from esker.errors import EskerError, InvalidInput, NoSuchFile, StorageFailed, Unsupported
from esker.storage.local import LocalStorage


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> LocalStorage:
        return LocalStorage()

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestLocalStorageByUri(StorageContract):
    @pytest.fixture
    def storage(self) -> LocalStorage:
        return LocalStorage()

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


class TestRootedLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> LocalStorage:
        return LocalStorage(roots=[tmp_path / "root"])

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "root")


VERBS = ("read", "open", "size", "exists", "local_path", "delete")


@pytest.fixture
def rooted(tmp_path: Path) -> LocalStorage:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    return LocalStorage(roots=[tmp_path / "root"])


def touches(storage: LocalStorage, location: str) -> list[str]:
    """The verbs that did not refuse a location."""
    calls = {verb: partial(getattr(storage, verb), location) for verb in VERBS}
    calls["write_new"] = partial(storage.write_new, location, b"")
    calls["list"] = lambda: list(storage.list(location))
    return [verb for verb, call in calls.items() if not refused(call)]


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except InvalidInput as error:
        return "leads outside" in error.message
    return False


def test_no_verb_leaves_the_roots(rooted: LocalStorage, tmp_path: Path) -> None:
    outside = [str(tmp_path / "secret"), f"file:{tmp_path}/secret", f"{tmp_path}/root/../secret", "/etc/passwd"]
    outside.append(f"{tmp_path}/rootless/a")  # shares the root's spelling, not the root
    assert {location: touches(rooted, location) for location in outside} == {location: [] for location in outside}
    assert (tmp_path / "secret").read_text() == "secret"


def test_s17_a_symbolic_link_does_not_lead_out_of_the_roots(rooted: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    (tmp_path / "root" / "file").symlink_to(tmp_path / "secret")
    assert touches(rooted, f"{tmp_path}/root/link/secret") == []
    with pytest.raises(InvalidInput, match="leads outside"):
        rooted.read(f"{tmp_path}/root/file")
    with pytest.raises(InvalidInput, match="leads outside"):
        rooted.write_new(f"{tmp_path}/root/link/new", b"")
    assert not (tmp_path / "new").exists()


def test_deleting_a_link_removes_the_link_and_not_its_target(rooted: LocalStorage, tmp_path: Path) -> None:
    link = tmp_path / "root" / "file"
    link.symlink_to(tmp_path / "secret")
    rooted.delete(str(link))
    assert not link.is_symlink()
    assert (tmp_path / "secret").exists()


def test_a_root_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    storage = LocalStorage(roots=[tmp_path / "link"])
    storage.write_new(f"{tmp_path}/link/a", b"x")
    assert storage.read(f"{tmp_path}/real/a") == b"x"


def test_a_second_root_is_open_and_its_neighbour_is_not(tmp_path: Path) -> None:
    storage = LocalStorage(roots=[tmp_path / "root", f"file://{tmp_path}/other"])
    storage.write_new(f"{tmp_path}/other/a", b"x")
    storage.check(f"{tmp_path}/other/b")
    with pytest.raises(InvalidInput, match=r"leads outside .* name .* in allowed_roots=\[…\], or with --allow-root"):
        storage.check(f"{tmp_path}/others")


@pytest.mark.parametrize("location", ["s3://bucket/a", "http://169.254.169.254/latest", "file://host/share/a"])
def test_other_stores_are_refused_by_name(location: str) -> None:
    with pytest.raises(Unsupported, match="are not local files"):
        LocalStorage().read(location)


@pytest.mark.parametrize("name", ["\0", "a" * 300, "file/below"])
def test_an_impossible_name_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    for storage in (LocalStorage(), LocalStorage(roots=[tmp_path])):
        for verb in ("read", "size", "local_path"):
            with pytest.raises(EskerError, match="cannot"):
                getattr(storage, verb)(f"{tmp_path}/{name}")
        with pytest.raises(EskerError, match="cannot"):
            storage.write_new(f"{tmp_path}/{name}", b"")
    assert {p.name for p in tmp_path.iterdir()} == {"file"}


def test_a_long_but_possible_name_can_be_created(tmp_path: Path) -> None:
    LocalStorage().write_new(f"{tmp_path}/{'a' * 255}", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["a" * 255]


@pytest.mark.parametrize("call", ["fsync", "link"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_f41_a_failing_disk_leaves_no_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageFailed, match=os.strerror(code)) as raised:
        LocalStorage().write_new(f"{tmp_path}/a", b"x")
    assert raised.value.retryable == (code != errno.EROFS)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_may_not_last_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []

    def fail_for_the_folder(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail_for_the_folder)
    with pytest.raises(StorageFailed, match="Input/output error"):
        LocalStorage().write_new(f"{tmp_path}/a", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_fails_while_it_is_read_is_named(tmp_path: Path) -> None:
    if not Path("/proc/self/mem").exists():
        pytest.skip("the system has no file that opens and cannot be read")
    with LocalStorage().open("/proc/self/mem") as file, pytest.raises(StorageFailed) as raised:
        file.read(10)
    assert raised.value.message.startswith("cannot read /proc/self/mem: Input/output error; check the disk")


def test_f44_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(Unsupported, match="no hard links") as raised:
        LocalStorage().write_new(f"{tmp_path}/a", b"x")
    assert raised.value.feature == "hard links"


def test_a_folder_that_cannot_be_read_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(StorageFailed, match=r"cannot list .*Permission denied; give this user permission"):
        list(LocalStorage().list(str(tmp_path)))


def test_a_folder_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="cannot delete"):
        LocalStorage().delete(f"{tmp_path}/folder")


def test_a_native_reader_gets_a_path_it_can_open(tmp_path: Path) -> None:
    storage = LocalStorage()
    storage.write_new(f"file:{tmp_path}/a", b"x")
    assert Path(storage.local_path(f"file:{tmp_path}/a") or "").read_bytes() == b"x"


def test_a_directory_in_place_of_a_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="it is a directory"):
        LocalStorage().read(str(tmp_path))


def test_pieces_are_complete_where_the_system_writes_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "writev", lambda handle, pieces: write(handle, b"".join(pieces)[:7]))
    pieces = [b"a" * 20, b"", b"b", b"c" * 6, b"d" * 7, b"e"]
    LocalStorage().write_pieces(f"{tmp_path}/file", pieces)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)


def test_more_pieces_than_one_call_may_have(tmp_path: Path) -> None:
    pieces = [b"%d," % n for n in range(5000)]
    LocalStorage().write_pieces(f"{tmp_path}/file", pieces)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)
