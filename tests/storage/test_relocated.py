"""A table that was moved is read where it lies now, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput, NoSuchFile
from esker.storage.memory import MemoryStorage
from esker.storage.relocated import RelocatedStorage


def moved(recorded: str = "s3://bucket/w/t", **more: tuple[str, ...]) -> RelocatedStorage:
    return RelocatedStorage(MemoryStorage(), recorded=recorded, actual="/here/t", **more)


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/w/t/data/f",
        "s3a://bucket/w/t/data/f",
        "s3n://bucket/w/t//data/./f",
        "/w/t/data/f",
        "/here/t/data/f",
        "file:/here/t/data/f",
        "file:///here/t/data/f",
        "data/f",
        "data/x/../f",
    ],
)
def test_every_spelling_leads_to_where_the_table_lies(location: str) -> None:
    assert moved().where(location).replace("x/../", "") == "/here/t/data/f"


@pytest.mark.parametrize(
    "location",
    [
        "s3://other/w/t/data/f",
        "gs://bucket/w/t/f",
        "s3://bucket/w/t2/f",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://bucket/w/t/../../secret",
        "../secret",
        "data/../../secret",
        "/here/t/../secret",
    ],
)
def test_s07_what_lies_elsewhere_is_refused(location: str) -> None:
    for verb in ("read", "open", "size", "exists", "local_path"):
        with pytest.raises(InvalidInput, match="cannot read") as raised:
            getattr(moved(), verb)(location)
        assert raised.value.file == location


def test_a_place_named_by_the_caller_is_read_as_it_is_spelt() -> None:
    storage = moved(allowed=("s3://shared/files",))
    assert storage.where("s3a://shared/files/a") == "s3a://shared/files/a"
    with pytest.raises(InvalidInput, match=r"allowed_roots=\[…\]"):
        storage.where("s3://shared/files2/a")


def test_an_allowed_place_is_not_climbed_out_of() -> None:
    storage = moved(allowed=("/shared/files",))
    with pytest.raises(InvalidInput, match="cannot read"):
        storage.where("/shared/files/../../etc/passwd")


def test_a_table_recorded_at_a_bucket_root_is_found() -> None:
    assert moved("s3://bucket").where("s3://bucket/data/f") == "/here/t/data/f"


def test_a_table_at_the_root_of_a_disk_has_no_doubled_slash() -> None:
    assert RelocatedStorage(MemoryStorage(), recorded="/w", actual="/").where("/w/f") == "/f"


@given(st.text("ab./", max_size=12))
def test_no_spelling_leads_out_of_the_table(tail: str) -> None:
    import posixpath

    try:
        found = moved().where(f"s3://bucket/w/t/{tail}")
    except InvalidInput:
        return
    assert (posixpath.normpath(found) + "/").startswith("/here/t/")


def test_reads_pass_through_and_writes_do_not() -> None:
    inner = MemoryStorage()
    inner.write_new("/here/t/a", b"x")
    storage = RelocatedStorage(inner, recorded="/w/t", actual="/here/t")
    assert storage.read("/w/t/a") == b"x"
    assert storage.open("/w/t/a").read() == b"x"
    assert storage.size("a") == 1
    assert storage.exists("/w/t/a")
    assert storage.local_path("/w/t/a") is None
    listed = [file.location for file in storage.list("/w/t")]
    assert listed == ["/here/t/a"]
    assert storage.read(listed[0]) == b"x"
    with pytest.raises(InvalidInput, match="read-only"):
        storage.write_new("/w/t/b", b"x")
    with pytest.raises(InvalidInput, match="read-only"):
        storage.delete("/w/t/a")


def holding(*places: str, recorded: str = "gs://bucket/w/t", allowed: tuple[str, ...] = ()) -> RelocatedStorage:
    inner = MemoryStorage()
    for place in places:
        inner.write_new(place, b"x")
    return RelocatedStorage(inner, recorded=recorded, actual="/here/copy", allowed=allowed)


@pytest.mark.parametrize(
    "recorded", ["warehouse/db/t/metadata/snap-1.avro", "t/metadata/snap-1.avro", "w/copy/metadata/snap-1.avro",
                 "w/t/x/t/metadata/snap-1.avro", "w/other/metadata/snap-1.avro", "metadata/x/metadata/snap-1.avro"]
)  # fmt: skip
def test_a_path_relative_to_somebodys_folder_is_found_by_its_place_in_the_table(recorded: str) -> None:
    assert holding("/here/copy/metadata/snap-1.avro").where(recorded) == "/here/copy/metadata/snap-1.avro"


def test_a_relative_path_that_fits_as_it_is_wins() -> None:
    storage = holding("/here/copy/metadata/a", "/here/copy/w/t/metadata/a")
    assert storage.where("w/t/metadata/a") == "/here/copy/w/t/metadata/a"


@pytest.mark.parametrize("recorded", ["w/t/../../secret", "w/t/../../../secret", "../t/secret", "t/../../../secret"])
def test_s07_a_relative_path_leads_out_of_no_table(recorded: str) -> None:
    with pytest.raises((InvalidInput, NoSuchFile), match=r"leads out of the table|cannot read /here/copy/"):
        holding("/secret", "/here/secret").read(recorded)


@pytest.mark.parametrize(
    ("recorded", "place"),
    [
        ("/elsewhere/files/a", "/elsewhere/files"),  # as it is recorded
        ("gs://bucket/w/t_raw/p=1/a", "/here/t_raw"),  # it was beside the table, and still is
        ("gs://bucket/w/t_raw/p=1/a", "/here"),
        ("s3://other/deep/t_raw/p=1/a", "/here/t_raw"),  # by the name of the place itself
        ("hdfs://host:8020/elsewhere/files/a", "/elsewhere/files"),  # the host is left out
    ],
)
def test_a_file_outside_is_found_below_an_allowed_place(recorded: str, place: str) -> None:
    held = ("/elsewhere/files/a", "/here/t_raw/p=1/a", "/here/copy/metadata/m")
    assert holding(*held, allowed=(place,)).read(recorded) == b"x"
    with pytest.raises(
        InvalidInput, match=r"it is outside the table at /here/copy; to allow it, name .* allowed_roots"
    ):
        holding(*held).read(recorded)


@pytest.mark.parametrize(
    "recorded", ["/etc/passwd", "/here/t_raw/../../etc/passwd", "s3://other/t_raw/../../etc/passwd"]
)
def test_s07_an_allowed_place_opens_no_other(recorded: str) -> None:
    storage = holding("/etc/passwd", "/here/etc/passwd", allowed=("/here/t_raw",))
    with pytest.raises(InvalidInput, match="it was not found below /here/t_raw"):
        storage.read(recorded)


def test_what_is_missing_in_an_allowed_place_is_missing() -> None:
    with pytest.raises(NoSuchFile, match="/elsewhere/files/b"):
        holding(allowed=("/elsewhere/files",)).read("/elsewhere/files/b")
