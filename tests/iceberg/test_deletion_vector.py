"""Deletion vectors: the spec's framing, Iceberg Java's bitmaps, and bytes that mean harm."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from corpus import corpus_root
from hostile import fine_or_named
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.iceberg.deletion_vector import (
    MAGIC,
    check_roaring_64,
    decode_deletion_vector,
    decode_positions,
    deletion_vector_blob,
    encode_deletion_vector,
)
from esker.iceberg.puffin import encode_puffin, read_blob, read_footer

GOLDEN = bytes.fromhex(
    "00000026 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0200 10000000 0000 0300 0500 91c28e9c"
)
RUNS = set(range(100, 70_000)) | {1 << 40}
BITSET = set(range(0, 60_000, 3))

positions = st.sets(st.one_of(st.integers(0, 300), st.integers(0, 1 << 34), st.integers(0, (1 << 63) - 1)), max_size=50)
ranges = st.lists(st.tuples(st.integers(0, 1 << 18), st.integers(1, 9000)), max_size=4)


def frame(vector: bytes) -> bytes:
    content = MAGIC + vector
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def bitmap(*containers: bytes, keys: tuple[tuple[int, int], ...], offsets: tuple[int, ...] | None = None) -> bytes:
    """One 64-bit bitmap under key 0 without runs; ``keys`` are (key, cardinality) of each container."""
    header = struct.pack("<QIII", 1, 0, 12346, len(keys))
    header += b"".join(struct.pack("<HH", key, cardinality - 1) for key, cardinality in keys)
    at, places = 8 + 8 * len(keys), []
    for container in containers:
        places.append(at)
        at += len(container)
    header += struct.pack(f"<{len(keys)}I", *(offsets or places))
    return header + b"".join(containers)


def u16(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def run_bitmap(cardinality: int, *runs: tuple[int, int]) -> bytes:
    """One 64-bit bitmap with one run container; ``runs`` are (start, length - 1)."""
    body = u16(len(runs), *(number for run in runs for number in run))
    return struct.pack("<QIIBHH", 1, 0, 12347, 1, 0, cardinality - 1) + body


def test_h9_the_golden_blob_holds_its_positions() -> None:
    assert list(decode_deletion_vector("dv", GOLDEN)) == [0, 3, 5]
    assert encode_deletion_vector([0, 3, 5]) == GOLDEN


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("empty", set()),
        ("small-alternating-values", {1, 3, 5, 7, 9}),
        ("small-and-large-values", {100, 101, 2147483747, 2147483748}),
        (
            "all-container-types",
            {5, 7, (1 << 32) + 10, (1 << 32) + 20}
            | set(range((1 << 16) + 1, (1 << 16) + 1000))
            | set(range((2 << 16) + 1, (3 << 16) - 1))
            | set(range((1 << 32) + (1 << 16) + 10, (1 << 32) + (1 << 16) + 500))
            | set(range((1 << 32) + (2 << 16) + 1, (1 << 32) + (3 << 16) - 1)),
        ),
    ],
)
def test_h9_position_indexes_of_iceberg_java_decode_and_encode_to_the_same_bytes(name: str, expected: set[int]) -> None:
    path = corpus_root() / "fixtures" / "iceberg-java-dv-bitmaps" / f"{name}-position-index.bin"
    decoded = decode_deletion_vector(str(path), path.read_bytes(), cardinality=len(expected))
    assert set(decoded) == expected
    assert encode_deletion_vector(decoded) == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("64mapempty", []),
        ("64map32bitvals", list(range(10))),
        ("64mapspreadvals", [(key << 32) + low for key in range(10) for low in range(10)]),
    ],
)
def test_bare_64_bit_bitmaps_decode_inside_the_frame(name: str, expected: list[int]) -> None:
    content = (corpus_root() / "fixtures" / "iceberg-java-dv-bitmaps" / f"{name}.bin").read_bytes()
    assert check_roaring_64(name, content) == len(expected)
    assert list(decode_deletion_vector(name, frame(content))) == expected


def test_h9_a_bare_bitmap_without_its_frame_is_refused() -> None:
    content = (corpus_root() / "fixtures" / "iceberg-java-dv-bitmaps" / "64map32bitvals.bin").read_bytes()
    with pytest.raises(Corrupt, match=r"a deletion vector of 48 bytes records a size of 16777216 \+ 8"):
        decode_deletion_vector("dv", content)


def test_h12_a_bitmap_of_positions_above_two_to_the_63_is_refused() -> None:
    path = corpus_root() / "fixtures" / "iceberg-java-dv-bitmaps" / "64maphighvals.bin"
    with pytest.raises(Corrupt, match="key 4022190063 means negative positions"):
        check_roaring_64(str(path), path.read_bytes())
    with pytest.raises(Corrupt, match="key 2147483648 means negative positions"):
        decode_deletion_vector("dv", frame(BitMap64([1 << 63]).serialize()))


@pytest.mark.parametrize("bad", [[-1], [1 << 63], [1 << 64], ["x"], [None]])
def test_h12_a_negative_null_or_absurd_position_is_not_written(bad: list[int]) -> None:
    with pytest.raises(InvalidInput, match="a position must be"):
        encode_deletion_vector(bad)


def test_h9_vectors_in_a_table_of_another_engine_read_through_the_puffin_footer() -> None:
    folder = corpus_root() / "iceberg" / "impala" / "iceberg_v3_deletion_vectors"
    paths = sorted(folder.rglob("*.puffin"))
    assert paths
    for path in paths:
        content = path.read_bytes()
        footer = read_footer(str(path), len(content), lambda at, length, content=content: content[at : at + length])
        for blob in footer.blobs:
            assert (blob.type, blob.snapshot_id, blob.sequence_number) == ("deletion-vector-v1", -1, -1)
            stored = read_blob(str(path), blob, lambda at, length, content=content: content[at : at + length])
            held = decode_deletion_vector(str(path), stored, cardinality=int(blob.properties["cardinality"]))
            assert len(held) > 0


def test_t11_the_footer_entry_of_a_vector_is_as_the_spec_asks() -> None:
    blob = deletion_vector_blob([4, 2], data_file="s3://b/t/data/x.parquet")
    content, footer = encode_puffin([blob])
    (entry,) = footer.blobs
    assert (entry.type, entry.codec, entry.fields) == ("deletion-vector-v1", None, ())
    assert (entry.snapshot_id, entry.sequence_number) == (-1, -1)
    assert entry.properties == {"referenced-data-file": "s3://b/t/data/x.parquet", "cardinality": "2"}
    assert list(decode_deletion_vector("dv", content[entry.offset : entry.offset + entry.length])) == [2, 4]


@given(positions, ranges)
def test_what_is_encoded_decodes_to_the_same_positions(some: set[int], spans: list[tuple[int, int]]) -> None:
    every = BitMap64(some)
    for start, length in spans:
        every.update(range(start, start + length))
    blob = encode_deletion_vector(every)
    assert decode_deletion_vector("dv", blob, cardinality=len(every)) == every
    assert check_roaring_64("dv", every.serialize()) == len(every)


def test_empty_bitmaps_between_keys_are_read_as_iceberg_java_writes_them() -> None:
    empty = struct.pack("<II", 12346, 0)
    last = BitMap64([5]).serialize()[12:]
    vector = struct.pack("<QI", 3, 0) + empty + struct.pack("<I", 1) + empty + struct.pack("<I", 2) + last
    assert list(decode_deletion_vector("dv", frame(vector))) == [(2 << 32) + 5]


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "at least 12 bytes, this one has 0"),
        (GOLDEN[:-1], r"of 45 bytes records a size of 38 \+ 8"),
        (GOLDEN + b"\0", r"of 47 bytes records a size of 38 \+ 8"),
        (GOLDEN[:4] + b"\x64\x39\xd3\xd1" + GOLDEN[8:], "has magic d1d33964, this one 6439d3d1"),
        (GOLDEN[:-1] + b"\0", "CRC-32 is 91c28e9c, stored is 91c28e00"),
        (frame(b""), "number of bitmaps needs 8 bytes, 0 are left"),
        (frame(struct.pack("<Q", 1 << 40)), "1099511627776 bitmaps cannot be in 8 bytes"),
        (frame(struct.pack("<QIII", 1, 0, 12345, 0)), "unknown cookie 12345, expected 12346 or 12347"),
        (frame(struct.pack("<QIII", 1, 0, 12346, 70_000)), "at most 65536 containers, not 70000"),
        (frame(struct.pack("<QIII", 1, 0, 12346, 60_000)), "cardinalities needs 240000 bytes, 0 are left"),
        (frame(struct.pack("<QIIIIII", 2, 7, 12346, 0, 7, 12346, 0)), "keys must ascend, 7 follows 7"),
        (frame(bitmap(u16(1), keys=((0, 1),)) + b"zz"), "2 bytes follow the last bitmap"),
        (frame(bitmap(u16(1), keys=((0, 1),), offsets=(99,))), "container 0 is not at its offset 99"),
        (frame(bitmap(u16(5, 5), keys=((0, 2),))), "values of an array container must ascend"),
        (frame(bitmap(u16(1), u16(1), keys=((3, 1), (3, 1)))), "container keys must ascend"),
        (frame(bitmap(u16(1), keys=((0, 2),))), "array container needs 4 bytes, 2 are left"),
        (frame(bitmap(b"\1" * 8192, keys=((0, 5000),))), "a bitset container holds 8192 values, not 5000"),
        (frame(run_bitmap(10)), "runs must ascend without overlap and end below 65536"),
        (frame(run_bitmap(10, (65_530, 9))), "runs must ascend without overlap and end below 65536"),
        (frame(run_bitmap(10, (0, 5), (3, 3))), "runs must ascend without overlap and end below 65536"),
        (frame(run_bitmap(11, (0, 9))), "a run container does not hold its 11 values"),
    ],
)
def test_h9_a_broken_vector_is_named_with_what_is_wrong(blob: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason) as caught:
        decode_deletion_vector("data/x.puffin", blob)
    assert caught.value.file == "data/x.puffin"


def test_a_vector_that_disagrees_with_its_manifest_entry_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="holds 3 positions, its manifest entry counts 4"):
        decode_deletion_vector("dv", GOLDEN, cardinality=4)


@pytest.mark.parametrize("seed", [BitMap64([0, 3, 5]), BitMap64(RUNS), BitMap64(BITSET), BitMap64(RUNS | BITSET)])
def test_mutated_vectors_decode_or_are_named_and_never_break_the_native_bitmap(seed: BitMap64) -> None:
    seed.run_optimize()
    vector = seed.serialize()
    random_source = random.Random(len(vector))
    survivors = 0
    for _ in range(400):
        broken = bytearray(vector)
        for _ in range(random_source.randint(1, 3)):
            # most mutations in the headers, where the structure is
            reach = min(len(broken), 60) if random_source.random() < 0.8 else len(broken)
            broken[random_source.randrange(reach)] = random_source.choice((0, 1, 0x7F, 0x80, 0xFF, 0x3A, 0x3B))
        cut = bytes(broken[: random_source.randint(0, len(broken))]) if random_source.random() < 0.2 else bytes(broken)
        with fine_or_named("dv"):
            decoded = decode_deletion_vector("dv", frame(cut))
            survivors += 1
            assert len(decoded) == check_roaring_64("dv", cut)
            (decoded | BitMap64([1])).run_optimize()
            assert len(decoded & BitMap64(range(1000))) == decoded.range_cardinality(0, 1000)
    assert survivors < 400


@given(positions, ranges)
def test_numpy_alone_reads_the_same_positions(some: set[int], stretches: list[tuple[int, int]]) -> None:
    held = BitMap64(some)
    for start, length in stretches:
        held |= BitMap64(range(start, start + length))
    blob = encode_deletion_vector(held)
    assert decode_positions("v", blob, cardinality=len(held)).tolist() == list(held)


def test_numpy_alone_reads_every_kind_of_container() -> None:
    for held in (RUNS, BITSET, RUNS | BITSET | {1 << 33}, set()):
        assert decode_positions("v", encode_deletion_vector(held), cardinality=len(held)).tolist() == sorted(held)


def test_numpy_alone_expands_no_more_than_memory_holds() -> None:
    with pytest.raises(Unsupported, match=r"cannot read the deletion vector in v: .* are the most without pyroaring"):
        decode_positions("v", GOLDEN, cardinality=1 << 40)
    with pytest.raises(Corrupt, match="its manifest entry counts 7"):
        decode_positions("v", GOLDEN, cardinality=7)
