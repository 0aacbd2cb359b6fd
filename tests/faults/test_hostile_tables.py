"""Whole tables that mean harm, or are broken: only errors of ours, naming the file, and nothing read elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus import corpus_root
from limited import SRC, ask_limited
from manifest_makers import container, rewritten
from table_maker import TableMaker

import esker
from esker.errors import Corrupt, EskerError, InvalidInput, NoSuchFile, NoSuchSnapshot, NoSuchTable, Unsupported
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.storage.local import LocalStorage
from esker.tree.data_file import DataFile, FileContent

SCHEMA = Schema(fields=(Field(id=1, name="id", type=LONG), Field(id=2, name="name", type=STRING)))
SECRET = "the secret outside"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a table made us go to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the table lies, beside a file that is none of its business."""
    outside = tmp_path / "outside"
    outside.mkdir()
    pq.write_table(pa.table({"id": [1], "name": [SECRET]}), outside / "secret.parquet")
    return tmp_path / "table"


def maker_at(place: Path, **facts: Any) -> TableMaker:
    return TableMaker(SCHEMA, location=str(place), storage=LocalStorage(), **facts)


def good_table(place: Path, **facts: Any) -> TableMaker:
    """A small table of every kind of file."""
    maker = maker_at(place, **facts)
    rows = [{"id": n, "name": f"row {n}"} for n in range(6)]
    data = maker.data_file(rows, row_group_size=2)
    maker.manifest([data, maker.data_file(rows, file_format="avro"), maker.data_file(rows, file_format="orc")])
    maker.manifest([maker.position_deletes([(data.path, 0)])], version=max(2, maker.format_version))
    keys = Schema(fields=SCHEMA.fields[:1])
    maker.manifest([maker.equality_deletes(keys, [{"id": 1}])], sequence_number=2)
    if maker.format_version >= 3:
        maker.manifest([maker.vector([0, 5], data)])
    return maker


def elsewhere(path: str, **facts: Any) -> DataFile:
    known = {"file_format": "parquet", "record_count": 1, "file_size": 1000}
    return DataFile(path=path, **{**known, **facts})


def read(place: Path) -> list[dict[str, Any]]:
    return esker.open_table(place).scan().to_arrow().to_pylist()


def test_the_good_table_is_good(place: Path) -> None:
    good_table(place, format_version=3).save()
    rows = read(place)
    assert [row["id"] for row in rows] == [2, 3, 4, 0, 2, 3, 4, 5, 0, 2, 3, 4, 5]


# ---------------------------------------------------------------- places elsewhere (S05, S07, S17)


def outside_places(place: Path) -> Iterator[tuple[str, type[EskerError]]]:
    secret = place.parent / "outside" / "secret.parquet"
    yield str(secret), InvalidInput
    yield secret.as_uri(), InvalidInput
    yield f"file://localhost{secret}", InvalidInput
    yield f"{place}/data/../../outside/secret.parquet", InvalidInput
    yield f"{place}/../outside/secret.parquet", InvalidInput
    yield "../outside/secret.parquet", InvalidInput
    yield "data/../../outside/secret.parquet", InvalidInput
    yield "/etc/passwd", InvalidInput
    yield "file:///etc/passwd", InvalidInput
    yield "/proc/self/environ", InvalidInput
    yield "s3://bucket/key.parquet", InvalidInput
    yield "http://169.254.169.254/latest/meta-data", InvalidInput
    yield "hdfs://user@host:8020/x.parquet", InvalidInput
    yield "gopher://localhost/x", InvalidInput
    yield "x\0y", InvalidInput
    yield "", EskerError
    yield "/", InvalidInput
    yield str(place), EskerError
    yield f"{place}2/x.parquet", InvalidInput


def is_refused(place: Path, wanted: type[EskerError], read_it: Callable[[], Any]) -> None:
    with pytest.raises(wanted) as caught:
        read_it()
    assert SECRET not in str(caught.value)
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize("at", range(19))
def test_s07_a_data_file_elsewhere_is_refused(place: Path, at: int) -> None:
    path, wanted = list(outside_places(place))[at]
    maker = maker_at(place)
    maker.manifest([elsewhere(path)])
    maker.save()
    is_refused(place, wanted, lambda: read(place))


@pytest.mark.parametrize("at", range(19))
def test_s07_a_delete_file_elsewhere_is_refused(place: Path, at: int) -> None:
    path, wanted = list(outside_places(place))[at]
    for facts in (
        {"content": FileContent.POSITION_DELETES},
        {"content": FileContent.EQUALITY_DELETES, "equality_ids": (1,)},
    ):
        maker = maker_at(place.parent / f"table-{int(facts['content'])}", format_version=3)
        maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
        maker.manifest([elsewhere(path.replace(str(place), maker.location), **facts)], sequence_number=2)
        maker.save()
        is_refused(place, wanted, lambda maker=maker: read(Path(maker.location)))


@pytest.mark.parametrize("at", range(19))
def test_s05_manifests_and_lists_elsewhere_are_refused(place: Path, at: int) -> None:
    path, wanted = list(outside_places(place))[at]
    maker = good_table(place)
    listed = maker.manifests[0]
    maker.snapshot([type(listed)(path=path, length=10, spec_id=0, **_COUNTS)])
    maker.save()
    is_refused(place, wanted, lambda: read(place))
    maker.snapshot(manifest_list=path)
    maker.save()
    is_refused(place, wanted, lambda: read(place))


_COUNTS = {
    "added_snapshot_id": 1, "added_files": 1, "existing_files": 0, "deleted_files": 0,
    "added_rows": 1, "existing_rows": 0, "deleted_rows": 0,
}  # fmt: skip


@pytest.mark.parametrize("location", ["/", "", "file:///", "s3://bucket", ".", "..", "/etc"])
def test_s05_a_table_that_claims_to_lie_elsewhere_stays_where_it_is(place: Path, location: str) -> None:
    maker = maker_at(place)
    maker.manifest([elsewhere("/etc/passwd"), elsewhere("file:///etc/passwd")])
    maker.save(location=location)
    is_refused(place, EskerError, lambda: read(place))


def test_s17_a_link_out_of_the_table_is_not_followed(place: Path) -> None:
    maker = maker_at(place)
    data = maker.data_file([{"id": 1, "name": "x"}])
    maker.manifest([data])
    maker.save()
    Path(data.path).unlink()
    Path(data.path).symlink_to(place.parent / "outside" / "secret.parquet")
    with pytest.raises(InvalidInput, match=r"cannot use .*00001\.parquet: it leads outside"):
        read(place)


def test_s17_a_folder_that_is_a_link_out_of_the_table_is_not_followed(place: Path) -> None:
    maker = maker_at(place)
    maker.manifest([elsewhere(f"{place}/linked/secret.parquet")])
    maker.save()
    (place / "linked").symlink_to(place.parent / "outside", target_is_directory=True)
    with pytest.raises(InvalidInput, match="leads outside"):
        read(place)


def test_s17_metadata_that_is_a_link_out_of_the_table_is_not_followed(place: Path) -> None:
    good_table(place).save()
    metadata = place / "metadata" / "v1.metadata.json"
    metadata.rename(place.parent / "outside" / "stolen.json")
    metadata.symlink_to(place.parent / "outside" / "stolen.json")
    with pytest.raises(InvalidInput, match=r"cannot use .*v1\.metadata\.json: it leads outside"):
        read(place)


def test_a_link_within_the_table_is_followed(place: Path) -> None:
    maker = maker_at(place)
    data = maker.data_file([{"id": 1, "name": "x"}])
    maker.manifest([data])
    maker.save()
    Path(data.path).rename(place / "moved.parquet")
    Path(data.path).symlink_to(place / "moved.parquet")
    assert read(place) == [{"id": 1, "name": "x"}]


def test_a_place_that_is_allowed_by_name_is_read(place: Path) -> None:
    maker = maker_at(place, properties={"schema.name-mapping.default": '[{"field-id": 2, "names": ["name"]}]'})
    maker.manifest([elsewhere(str(place.parent / "outside" / "secret.parquet"))])
    maker.save()
    table = esker.open_table(place, allowed_roots=[place.parent / "outside"])
    assert table.scan(columns=["name"]).to_arrow().to_pylist() == [{"name": SECRET}]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["data/00001.parquet", "metadata/m-00002.avro", "metadata/snap-1000.avro"])
def test_a_pipe_in_place_of_a_file_does_not_hang(place: Path, name: str) -> None:
    maker = maker_at(place)
    maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.save()
    (place / name).unlink()
    os.mkfifo(place / name)
    with pytest.raises(NoSuchFile, match=name):
        read(place)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["version-hint.text", "v1.metadata.json.gz", "v2.metadata.json", "own.metadata.json"])
def test_a_pipe_among_the_metadata_files_does_not_hang(place: Path, name: str) -> None:
    good_table(place).save()
    os.mkfifo(place / "metadata" / name)
    answer = ask_limited(place, "table.scan().count()")
    assert answer.startswith(("answered 14", "NoSuchFile"))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/stdin", "/proc/self/mem"])
def test_a_device_behind_a_link_is_not_read(place: Path, device: str) -> None:
    good_table(place).save()
    (place / "metadata" / "version-hint.text").symlink_to(device)
    (place / "metadata" / "v1.metadata.json.gz").symlink_to(device)
    assert ask_limited(place, "table.scan().count()") == "answered 14"


# ---------------------------------------------------------------- bombs (S08, S09, S10)


def deflated(chunk: bytes, times: int) -> bytes:
    """A chunk many times over, each compressed on its own so that one piece of work serves all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packer.compress(chunk)
    packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    return piece * times + packer.flush()


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def avro_bomb(whole: bytes, megabytes: int, rows: int) -> bytes:
    """The header of a container, and one block that inflates to a lot of zeros."""
    sync = whole[-16:]
    header = whole[: whole.index(sync) + 16]
    block = deflated(bytes(1 << 20), megabytes)
    return header + varint(rows) + varint(len(block)) + block + sync


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metadata/snap-1000.avro", "metadata/m-00002.avro"])
@pytest.mark.parametrize("rows", [1, 2**40])
def test_s08_an_avro_bomb_is_refused(place: Path, name: str, rows: int) -> None:
    maker = maker_at(place)
    maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.save()
    file = place / name
    file.write_bytes(avro_bomb(file.read_bytes(), 4096, rows))
    answer = ask_limited(place, "table.scan().count()")
    assert answer.startswith("Corrupt"), answer
    assert name in answer


@pytest.mark.slow
def test_s09_a_gzip_bomb_of_metadata_is_refused(place: Path) -> None:
    good_table(place).save()
    header = gzip.compress(b"")[:10]
    (place / "metadata" / "v2.gz.metadata.json").write_bytes(header + deflated(b" " * (1 << 20), 4096) + bytes(8))
    answer = ask_limited(place, "table.scan().count()")
    assert answer.startswith("Corrupt")
    assert "v2.gz.metadata.json" in answer


@pytest.mark.slow
def test_s08_a_page_that_decodes_to_far_more_than_it_stores_is_streamed_or_refused(place: Path) -> None:
    """One long string, named by a dictionary two hundred thousand times: 200 GB in a file of a megabyte."""
    maker = maker_at(place)
    long = "x" * (1 << 20)
    table = pa.table(
        {
            "id": pa.array(range(200_000), pa.int64()),
            "name": pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), pa.array([long])),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
                pa.field("name", pa.dictionary(pa.int32(), pa.string()), metadata={"PARQUET:field_id": "2"}),
            ]
        ),
    )
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="zstd", store_schema=False)
    maker.manifest([maker.put(out.getvalue().to_pybytes(), "parquet", 200_000)])
    maker.save()
    answer = ask_limited(place, "sum(batch.num_rows for batch in table.scan(columns=['name']).to_batches())")
    assert answer == "answered 200000" or answer.startswith("Corrupt"), answer
    assert ask_limited(place, "table.scan(columns=['id']).to_arrow().num_rows") == "answered 200000"


@pytest.mark.parametrize(
    "facts",
    [
        {"content_size": 2**40},
        {"content_size": -1},
        {"content_offset": -1},
        {"content_offset": 2**62},
        {"content_offset": 5},
        {"content_offset": None},
        {"record_count": 2},
    ],
    ids=str,
)
def test_s10_a_vector_that_says_what_cannot_be_is_refused(place: Path, facts: dict[str, Any]) -> None:
    maker = maker_at(place, format_version=3)
    data = maker.data_file([{"id": n, "name": "x"} for n in range(3)])
    maker.manifest([data])
    maker.manifest([replace(maker.vector([1], data), **facts)])
    maker.save()
    with pytest.raises(Corrupt, match=r"puffin is corrupt"):
        read(place)


# ---------------------------------------------------------------- absurd numbers


@pytest.mark.parametrize("number", [-1, -(2**63), 2**62, 2**63 - 1])
@pytest.mark.parametrize("what", ["record_count", "file_size"])
def test_an_absurd_number_in_a_manifest_is_refused(place: Path, what: str, number: int) -> None:
    """Or sums of them would wrap around, and counts from metadata be nonsense."""
    maker = maker_at(place)
    files = [maker.data_file([{"id": 1, "name": "x"}], **{what: number}) for _ in range(2)]
    maker.manifest(files, added_rows=2)
    maker.save()
    with pytest.raises(Corrupt, match=rf"m-00003\.avro is corrupt: a file's {what}.* is missing, negative or absurd"):
        esker.open_table(place).scan().count()


@pytest.mark.parametrize("length", [-1, 0, 2**63 - 1])
def test_a_wrong_length_of_a_manifest_is_no_harm(place: Path, length: int) -> None:
    maker = maker_at(place)
    maker.manifest([maker.data_file([{"id": 1, "name": "x"}])], length=length)
    maker.save()
    assert len(read(place)) == 1


def bend_metadata(place: Path, bend: Callable[[dict[str, Any]], None]) -> None:
    file = next((place / "metadata").glob("*.metadata.json"))
    document = json.loads(file.read_bytes())
    bend(document)
    file.write_text(json.dumps(document))


def test_snapshots_that_are_their_own_ancestors_end(place: Path) -> None:
    maker = good_table(place)
    maker.snapshot()
    maker.snapshot()
    maker.save()

    def cycle(document: dict[str, Any]) -> None:
        document["snapshot-log"] = []
        first, second = document["snapshots"]
        first["parent-snapshot-id"], second["parent-snapshot-id"] = second["snapshot-id"], first["snapshot-id"]

    bend_metadata(place, cycle)
    table = esker.open_table(place)
    assert table.scan(as_of="2030-01-01").count() == 14
    with pytest.raises(NoSuchSnapshot, match="history begins later"):
        table.scan(as_of="1999-01-01")
    table.inspect.history()
    table.inspect.snapshots()


@pytest.mark.slow
def test_two_hundred_thousand_refs_are_no_harm(place: Path) -> None:
    good_table(place).save()

    def fill(document: dict[str, Any]) -> None:
        document["refs"] |= {f"tag-{n}": {"snapshot-id": 1000, "type": "tag"} for n in range(200_000)}

    bend_metadata(place, fill)
    start = time.process_time()
    table = esker.open_table(place)
    assert table.scan(ref="tag-199999").count() == 14
    with pytest.raises(NoSuchSnapshot, match="no branch or tag 'tag-x'") as caught:
        table.scan(ref="tag-x")
    assert len(str(caught.value)) < 1000
    assert time.process_time() - start < 10


def test_a_list_that_names_one_manifest_ten_thousand_times_is_read_no_more_than_once(place: Path) -> None:
    maker = maker_at(place)
    manifest = maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.snapshot([manifest] * 10_000)
    maker.save()
    assert esker.open_table(place).scan(limit=5).to_arrow().num_rows <= 5


def test_a_manifest_that_is_its_own_list_is_refused(place: Path) -> None:
    maker = maker_at(place)
    manifest = maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.snapshot([type(manifest)(path=f"{place}/metadata/snap-1000.avro", length=1, spec_id=0, **_COUNTS)])
    maker.save()
    with pytest.raises(Corrupt, match=r"snap-1000\.avro is corrupt"):
        read(place)


def test_a_recursive_avro_schema_is_refused(place: Path) -> None:
    maker = maker_at(place)
    manifest = maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.save()
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"], "field-id": 1}]}
    Path(manifest.path).write_bytes(container(node, [{"next": {"next": None}}]))
    with pytest.raises(Corrupt, match=r"m-00002\.avro is corrupt"):
        read(place)


@pytest.mark.parametrize("kind", ["list", "struct"])
@pytest.mark.parametrize("depth", [200, 20_000])
def test_a_schema_nested_without_end_is_refused_or_read(place: Path, kind: str, depth: int) -> None:
    good_table(place).save()
    file = next((place / "metadata").glob("*.metadata.json"))
    document = json.loads(file.read_bytes())
    document["schemas"][0]["fields"][0]["type"] = "@"
    head, tail = {
        "list": ('{"type":"list","element-id":9,"element-required":true,"element":', "}"),
        "struct": ('{"type":"struct","fields":[{"id":9,"name":"x","required":true,"type":', "}]}"),
    }[kind]
    file.write_text(json.dumps(document).replace('"@"', head * depth + '"int"' + tail * depth))
    answer = ask_limited(place, "table.scan('name IS NULL').count()")
    assert answer.startswith(("Corrupt", "Unsupported", "InvalidInput", "answered"))


def test_a_header_that_claims_a_huge_schema_is_refused(place: Path) -> None:
    maker = maker_at(place)
    manifest = maker.manifest([maker.data_file([{"id": 1, "name": "x"}])])
    maker.save()
    data = Path(manifest.path).read_bytes()
    Path(manifest.path).write_bytes(rewritten(data, header=lambda keys: {**keys, "partition-spec-id": "9" * 5000}))
    answer = ask_limited(place, "table.scan().count()")
    assert answer.startswith(("Corrupt", "answered 1"))


# ---------------------------------------------------------------- broken files


def test_s06_an_error_about_a_file_that_is_no_metadata_shows_none_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "secrets.json"
    secret.write_text('{"password": "hunter2"}')
    with pytest.raises(Corrupt) as caught:
        esker.open_table(secret)
    assert "hunter2" not in str(caught.value)
    secret.write_text("hunter2 " * 10)
    with pytest.raises(Corrupt) as caught:
        esker.open_table(secret)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "\0", "no/such/place", "x" * 300, "~", "file://", "ftp://host/t", "file:"])
def test_a_path_that_is_no_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((NoSuchTable, InvalidInput, NoSuchFile)):
        esker.open_table(path)


@pytest.mark.parametrize("name", ["metadata/snap-1000.avro", "metadata/m-00004.avro", "data/00001.parquet"])
def test_a_file_that_is_gone_is_named(place: Path, name: str) -> None:
    good_table(place).save()
    (place / name).unlink()
    with pytest.raises(NoSuchFile, match=name):
        read(place)


@pytest.mark.parametrize(
    "name", ["metadata/snap-1000.avro", "metadata/m-00004.avro", "data/00001.parquet", "data/00003.orc"]
)
def test_a_file_that_is_empty_is_named(place: Path, name: str) -> None:
    good_table(place).save()
    (place / name).write_bytes(b"")
    with pytest.raises(Corrupt, match=rf"{name} is corrupt"):
        read(place)


@pytest.mark.parametrize("name", ["metadata/snap-1000.avro", "metadata/m-00004.avro", "data/00002.avro"])
def test_a_file_cut_at_a_block_border_is_seen(place: Path, name: str) -> None:
    """What a lenient reader takes for the end of the file, and loses rows by."""
    good_table(place).save()
    file = place / name
    data = file.read_bytes()
    file.write_bytes(data[: data.index(data[-16:]) + 16])
    answer = ask_limited(place, "table.scan().count()")
    assert answer.startswith(("Corrupt", "answered"))
    if not name.startswith("metadata/snap"):  # nothing says how many manifests a list should have
        assert name in answer


def test_unknown_formats_and_encryption_are_refused_by_name(place: Path) -> None:
    maker = maker_at(place)
    maker.manifest([elsewhere(f"{place}/data/x.lance", file_format="lance")])
    maker.save()
    with pytest.raises(Unsupported, match=r"x\.lance: no reader for 'lance' files"):
        read(place)
    bend_metadata(place, lambda document: document.update({"format-version": 9}))
    with pytest.raises(Unsupported, match=r"format.version 9"):
        esker.open_table(place)


# ---------------------------------------------------------------- fuzz


def tamper(tables: list[Path], *, seed: int, count: int, seconds: int) -> dict[str, Any]:
    """Files tampered with one at a time, in a process whose crash we would see."""
    script = Path(__file__).resolve().parents[1] / "support" / "tampering.py"
    done = subprocess.run(
        [sys.executable, str(script), str(seed), str(count), *map(str, tables)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def assert_only_our_errors(found: dict[str, Any], count: int) -> None:
    assert found["bad"] == []
    assert found["seen"] == {}  # neither a connection nor a file elsewhere
    assert sum(found["ends"].values()) == count
    assert found["ends"]["Corrupt"] > count / 4  # the tampering is noticed, not just survived


@pytest.mark.slow
def test_a_bounded_fuzz_of_every_kind_of_file_finds_only_our_errors(tmp_path: Path) -> None:
    tables = [tmp_path / f"v{version}" for version in (2, 3)]
    for version, place in zip((2, 3), tables, strict=True):
        good_table(place, format_version=version).save()
    assert_only_our_errors(tamper(tables, seed=1, count=800, seconds=120), 800)


def table_with_a_past(place: Path, version: int) -> TableMaker:
    """Data and deletes of every kind that came and went, so that a change feed must read them all."""
    maker = maker_at(place, format_version=version)
    old, other = (maker.data_file([{"id": n, "name": name} for n in range(6)], row_group_size=2) for name in "ab")
    data = maker.manifest([old, other])
    maker.snapshot([data])
    positions = maker.manifest([maker.position_deletes([(old.path, 0), (other.path, 3)])])
    maker.snapshot([data, positions], summary={"operation": "delete"})
    keys = maker.manifest([maker.equality_deletes(Schema(fields=SCHEMA.fields[:1]), [{"id": 1}])])
    maker.snapshot([data, positions, keys], summary={"operation": "delete"})
    if version >= 3:
        vectors = maker.manifest([maker.vector([0, 5], old)])
        maker.snapshot([data, positions, keys, vectors], summary={"operation": "delete"})
    new = maker.manifest([maker.data_file([{"id": n, "name": "a"} for n in range(2, 9)])])
    maker.snapshot([new, keys], summary={"operation": "overwrite"})
    return maker


@pytest.mark.slow
def test_a_bounded_fuzz_of_a_table_s_past_finds_only_our_errors(tmp_path: Path) -> None:
    tables = [tmp_path / f"v{version}" for version in (2, 3)]
    for version, place, changes in zip((2, 3), tables, (23, 25), strict=True):
        table_with_a_past(place, version).save()
        assert esker.open_table(place).scan_changes(None).count() == changes
    found = tamper(tables, seed=3, count=150, seconds=120)
    assert found["bad"] == []
    assert found["seen"] == {}


FUZZED = (
    "impala/iceberg_v2_delete_positional",
    "duckdb-iceberg/equality_delete_extra_column__ns__t",
    "polars/iceberg-table",
    "impala/iceberg_v2_positional_delete_all_rows_orc",
    "impala/trino_variant",
    "impala/iceberg_v3_default_value_avro",
    "impala/iceberg_v3_deletion_vectors",
    "duckdb-iceberg/iceberg_v1_deprecated__legacy_v1",
    "impala/iceberg_migrated_complex_test_orc",
    "impala/iceberg_alltypes_part",
)


@pytest.mark.slow
def test_a_bounded_fuzz_of_other_engines_tables_finds_only_our_errors() -> None:
    tables = [corpus_root() / "iceberg" / name for name in FUZZED]
    count = int(os.environ.get("ESKER_FUZZ", "3000"))
    seed = int(os.environ.get("ESKER_FUZZ_SEED", "7"))
    assert_only_our_errors(tamper(tables, seed=seed, count=count, seconds=300 + count // 5), count)


def test_a_manifest_list_recorded_relative_to_somebodys_folder_is_found(tmp_path: Path) -> None:
    """As BigQuery exports leave it: the list by a path below a working folder, the table elsewhere by now."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("db")
    made = lake.create_table("db.t", "id bigint")
    made.append(pa.table({"id": [1, 2]}))
    copy = tmp_path / "downloads" / "copy"
    shutil.copytree(made.location, copy)
    document = json.loads(Path(made.metadata_location).read_text())
    for snapshot in document["snapshots"]:
        snapshot["manifest-list"] = f"warehouse/db/t/metadata/{Path(snapshot['manifest-list']).name}"
    (copy / "metadata" / Path(made.metadata_location).name).write_text(json.dumps(document))
    assert esker.open_table(copy).scan().to_arrow().column("id").to_pylist() == [1, 2]
    document["snapshots"][0]["manifest-list"] = "warehouse/db/t/../../../../catalog.db"
    (copy / "metadata" / Path(made.metadata_location).name).write_text(json.dumps(document))
    with pytest.raises(EskerError, match=r"leads out of the table|there is no such file"):
        esker.open_table(copy).scan().to_arrow()
