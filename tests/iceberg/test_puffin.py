"""Puffin files: those of Iceberg Java, those we write, and those nobody should have written."""

from __future__ import annotations

import random
import struct
from typing import Any

import lz4.frame
import msgspec
import pyarrow as pa
import pytest
from corpus import corpus_root
from hostile import fine_or_named
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import Corrupt, Unsupported
from esker.iceberg.puffin import (
    MAGIC,
    BlobMetadata,
    Footer,
    NewBlob,
    ReadRange,
    encode_payload,
    encode_puffin,
    read_blob,
    read_footer,
)

BLOB = {"type": "t", "fields": [1], "snapshot-id": 2, "sequence-number": 1, "offset": 4, "length": 3}


def reader(content: bytes) -> ReadRange:
    return lambda offset, length: content[offset : offset + length]


def footer_of(content: bytes, name: str = "f.puffin") -> Footer:
    return read_footer(name, len(content), reader(content))


def puffin(payload: bytes, *, body: bytes = b"abc", flags: int = 0) -> bytes:
    return MAGIC + body + MAGIC + payload + struct.pack("<iI4s", len(payload), flags, MAGIC)


def with_blob(**changes: Any) -> bytes:
    blob = {name: value for name, value in {**BLOB, **changes}.items() if value is not None}
    return puffin(msgspec.json.encode({"blobs": [blob]}))


@pytest.mark.parametrize("variant", ["uncompressed", "compressed-zstd"])
def test_t12_blobs_of_iceberg_java_read_as_they_were_written(variant: str) -> None:
    path = corpus_root() / "fixtures" / "iceberg-java-puffin" / f"sample-metric-data-{variant}.bin"
    content = path.read_bytes()
    footer = footer_of(content, str(path))
    first, second = footer.blobs
    assert footer.properties == {"created-by": "Test 1234"}
    assert (first.type, first.fields, first.snapshot_id, first.sequence_number) == ("some-blob", (1,), 2, 1)
    assert (second.type, second.fields) == ("some-other-blob", (2,))
    assert first.codec == ("zstd" if "zstd" in variant else None)
    assert read_blob(str(path), first, reader(content)) == b"abcdefghi"
    expected = "some blob \0 binary data 🤯 that is not very very very very very very long, is it?"
    assert read_blob(str(path), second, reader(content)) == expected.encode()


def test_j1_the_footer_size_counts_the_payload_and_sixteen_bytes() -> None:
    content = (corpus_root() / "fixtures" / "iceberg-java-puffin" / "empty-puffin-uncompressed.bin").read_bytes()
    footer = footer_of(content)
    assert footer.blobs == ()
    assert footer.size == len(b'{"blobs":[]}') + 16 == len(content) - len(MAGIC)


def test_j1_the_footer_size_agrees_with_what_other_engines_recorded() -> None:
    """Trino records ``file-footer-size-in-bytes`` of each statistics file in its table metadata."""
    checked = 0
    for path in sorted((corpus_root() / "iceberg").rglob("*.stats")):
        content = path.read_bytes()
        footer = footer_of(content, str(path))
        assert [blob.type for blob in footer.blobs] == ["apache-datasketches-theta-v1"] * len(footer.blobs)
        recorded = recorded_footer_sizes(path.parent, path.name)
        assert recorded <= {footer.size}
        checked += len(recorded)
        for blob in footer.blobs:
            assert len(read_blob(str(path), blob, reader(content))) > 0
    assert checked > 20


def recorded_footer_sizes(folder: Any, name: str) -> set[int]:
    sizes = set()
    for metadata in folder.glob("*.metadata.json"):
        text = metadata.read_bytes()
        if not text.startswith(b"{"):
            continue
        for entry in msgspec.json.decode(text).get("statistics", ()):
            if entry["statistics-path"].endswith("/" + name):
                sizes.add(entry["file-footer-size-in-bytes"])
    return sizes


def test_a_file_written_here_reads_back() -> None:
    blobs = [
        NewBlob(type="a", content=b"one" * 100, codec="lz4", fields=(1, 2), snapshot_id=7, sequence_number=3),
        NewBlob(type="b", content=b"two" * 100, codec="zstd", properties={"ndv": "2"}),
        NewBlob(type="c", content=b""),
    ]
    for compress_footer in (False, True):
        content, written = encode_puffin(blobs, properties={"created-by": "Esker"}, compress_footer=compress_footer)
        footer = footer_of(content)
        assert footer == written
        assert [read_blob("f", blob, reader(content)) for blob in footer.blobs] == [blob.content for blob in blobs]
        assert footer.blobs[1].properties == {"ndv": "2"}


def test_a_compressed_frame_states_its_content_size() -> None:
    content, footer = encode_puffin(
        [NewBlob(type="a", content=b"x" * 500, codec="lz4"), NewBlob(type="b", content=b"x" * 500, codec="zstd")]
    )
    first, second = (content[blob.offset : blob.offset + blob.length] for blob in footer.blobs)
    assert lz4.frame.get_frame_info(first)["content_size"] == 500
    assert pa.decompress(second, decompressed_size=500, codec="zstd", asbytes=True) == b"x" * 500


def test_fields_of_a_later_spec_are_kept() -> None:
    blob = {**BLOB, "shape": [1, 2]}
    footer = footer_of(puffin(msgspec.json.encode({"blobs": [blob], "colour": "blue"})))
    assert footer.unknown == {"colour": "blue"}
    assert footer.blobs[0].unknown == {"shape": [1, 2]}
    again = encode_payload(footer.blobs, footer.properties, footer.unknown)
    assert msgspec.json.decode(again) == {"blobs": [blob], "colour": "blue"}


def test_a_footer_longer_than_the_first_read_is_read_whole() -> None:
    blobs = [NewBlob(type="t" * 100, content=bytes([n % 256])) for n in range(500)]
    content, written = encode_puffin(blobs)
    assert written.size > 8192
    assert footer_of(content) == written


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "a Puffin file has at least 20 bytes, this one has 0"),
        (puffin(b'{"blobs":[]}')[:-1] + b"2", r"ends with b'PFA1', this one with b'PFA2'"),
        (b"PAR1" + puffin(b'{"blobs":[]}')[4:], r"begins with b'PFA1', this one with b'PAR1'"),
        (puffin(b'{"blobs":[]}').replace(b"PFA1{", b"PFA!{"), r"footer must begin with b'PFA1', not b'PFA!'"),
        (MAGIC * 2 + struct.pack("<iI4s", -5, 0, MAGIC), "payload of -5 bytes does not fit into a file of 20"),
        (MAGIC * 2 + struct.pack("<iI4s", 2**31 - 1, 0, MAGIC), "payload of 2147483647 bytes does not fit"),
        (puffin(b'{"blobs":[}'), "the footer payload is not valid JSON"),
        (puffin(b"[]"), "the footer payload must be a JSON object, not an array"),
        (puffin(b"{}"), "'blobs' is missing"),
        (puffin(b'{"blobs":7}'), "'blobs' must be an array, not 7"),
        (puffin(b'{"blobs":[null]}'), "blob 0 of the footer payload must be a JSON object, not null"),
        (puffin(b'{"a":' * 5000), "nested too deeply"),
        (puffin(b'{"blobs":[]}', flags=1), "the footer payload cannot be decompressed as lz4"),
        (with_blob(offset=0), "'offset' must be at least 4, not 0"),
        (with_blob(length=-1), "'length' must be at least 0, not -1"),
        (with_blob(length=4), "its 4 bytes at 4 reach into the footer at 7"),
        (with_blob(length=2**70), "reach into the footer"),
        (with_blob(length=None), "'length' is missing"),
        (with_blob(type=5), "'type' must be a string, not 5"),
        (with_blob(fields=None), "'fields' is missing"),
        (with_blob(fields=["x"]), "'fields' must be an array of whole numbers, not 'x'"),
        (with_blob(properties={"a": 1}), "'properties' must be an object of strings"),
        (with_blob(**{"snapshot-id": True}), "'snapshot-id' must be a whole number, not true"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(content: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason) as caught:
        footer_of(content, "stats/f.puffin")
    assert caught.value.file == "stats/f.puffin"


def test_an_unknown_flag_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="unknown flags 0x00000100"):
        footer_of(puffin(b'{"blobs":[]}', flags=0x100))


def test_an_unknown_codec_is_refused_only_when_the_blob_is_asked_for() -> None:
    content = with_blob(**{"compression-codec": "brotli"})
    blob = footer_of(content).blobs[0]
    with pytest.raises(Unsupported, match=r"of f.puffin: its compression codec 'brotli' is not lz4 or zstd") as caught:
        read_blob("f.puffin", blob, reader(content))
    assert caught.value.feature == "Puffin codec brotli"


def blob_of(length: int, codec: str | None) -> BlobMetadata:
    return BlobMetadata(type="t", fields=(), snapshot_id=1, sequence_number=1, offset=0, length=length, codec=codec)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_decompression_bomb_stops_at_the_limit(codec: str) -> None:
    zeros = b"\0" * 50_000_000
    bomb = lz4.frame.compress(zeros) if codec == "lz4" else pa.compress(zeros, codec="zstd", asbytes=True)
    with pytest.raises(Corrupt, match=r"decompresses to more than 1,000,000 bytes"):
        read_blob("f", blob_of(len(bomb), codec), reader(bomb), limit=1_000_000)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_cut_or_empty_frame_is_corrupt(codec: str) -> None:
    frame = lz4.frame.compress(b"abc") if codec == "lz4" else pa.compress(b"abc", codec="zstd", asbytes=True)
    with pytest.raises(Corrupt, match=f"cannot be decompressed as {codec}"):
        read_blob("f", blob_of(len(frame) - 2, codec), reader(frame))
    with pytest.raises(Corrupt, match=f"is empty where a {codec} frame is expected"):
        read_blob("f", blob_of(0, codec), reader(frame))


def test_a_file_shorter_than_its_footer_promised_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="100 bytes expected at 0, only 3 found"):
        read_blob("f", blob_of(100, None), reader(b"abc"))
    with pytest.raises(Corrupt, match="is above the limit of 10"):
        read_blob("f", blob_of(100, None), reader(b"abc"), limit=10)


@given(st.binary(max_size=200), st.integers(0, 0xFFFFFFFF))
def test_any_payload_and_flags_give_a_footer_or_a_named_error(payload: bytes, flags: int) -> None:
    with fine_or_named("f.puffin"):
        footer_of(puffin(payload, flags=flags))


def test_a_mutated_file_gives_a_footer_or_a_named_error() -> None:
    content, _ = encode_puffin([NewBlob(type="a", content=b"x" * 50, codec="zstd")], properties={"created-by": "E"})
    random_source = random.Random(7)
    for _ in range(2000):
        broken = bytearray(content)
        for _ in range(random_source.randint(1, 4)):
            broken[random_source.randrange(len(broken))] = random_source.randrange(256)
        cut = bytes(broken[: random_source.randint(0, len(broken))]) if random_source.random() < 0.3 else bytes(broken)
        with fine_or_named("f.puffin"):
            for blob in footer_of(cut).blobs:
                read_blob("f.puffin", blob, reader(cut))
