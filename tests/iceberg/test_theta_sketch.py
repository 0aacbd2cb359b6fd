"""Theta sketches: the bytes of Java's library, the hashes and thetas of the C++ library, and laws of merging."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hostile import fine_or_named
from hypothesis import example, given
from hypothesis import strategies as st

from esker.arrow.statistics.sketch_columns import column_hashes
from esker.errors import Corrupt
from esker.iceberg import theta_sketch
from esker.iceberg.theta_sketch import EMPTY, EVERYTHING, SIZE, ThetaSketch, decode_theta_sketch, hash_binary, merged
from esker.model.types import BINARY, LONG, STRING

datasketches = pytest.importorskip("datasketches", reason="make test installs it")

JAVA = {
    # datasketches-java 6.2: an alpha sketch of the longs 0 to n - 1, merged into a union and compacted, as Iceberg does
    0: "01030300001e0000",
    1: "01030300003acc93e56b61eec8804420",
    3: "02030300001acc93030000000000803f15f97dcbbd86a105",
    4096: "02030300001acc93001000000000803fbf59cbe5e8cc0e00",
    1_000_000: "03030300001acc93001000000000803f28091395f3b18500",
}
JAVA_ESTIMATE = {0: 0, 1: 1, 3: 3, 4096: 4096, 1_000_000: 1_003_908}


def of_longs(numbers: range) -> ThetaSketch:
    return ThetaSketch.of(column_hashes(pa.array(np.arange(numbers.start, numbers.stop)), LONG))


def of_texts(texts: list[str]) -> ThetaSketch:
    return ThetaSketch.of(column_hashes(pa.array(texts, pa.string()), STRING))


def of_library(values: list[str] | range) -> tuple[int, list[int], float]:
    """Theta, hashes and estimate of the C++ library, cut to the nominal size as a union cuts them."""
    sketch = datasketches.update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    sketch.trim()
    compact = sketch.compact()
    return compact.theta64, sorted(compact), compact.get_estimate()


def same(a: ThetaSketch, b: ThetaSketch) -> bool:
    return a.encode() == b.encode()


@pytest.mark.parametrize("count", JAVA)
def test_j2_a_sketch_has_the_bytes_of_the_java_library(count: int) -> None:
    sketch = of_longs(range(count))
    assert sketch.encode()[:24].hex() == JAVA[count]
    assert sketch.estimate == JAVA_ESTIMATE[count]
    assert (
        len(sketch.encode())
        == (8, 16, 16 + 8 * count, 24 + 8 * SIZE)[0 if not count else 1 if count == 1 else 2 if count <= SIZE else 3]
    )


@pytest.mark.parametrize("count", [2, 4095, 4096, 4097, 20_000])
def test_theta_and_hashes_are_those_of_the_library(count: int) -> None:
    theta, hashes, estimate = of_library(range(count))
    sketch = of_longs(range(count))
    assert (sketch.theta, sketch.hashes.tolist()) == (theta, hashes)
    assert sketch.estimate == int(estimate)


@given(st.lists(st.text(max_size=70), max_size=60))
def test_texts_of_every_length_hash_as_in_the_library(texts: list[str]) -> None:
    theta, hashes, _ = of_library(texts)
    sketch = of_texts(texts)
    assert (sketch.theta, sketch.hashes.tolist()) == (theta, hashes)


@pytest.mark.parametrize("in_c", [True, False])
def test_long_values_hash_alike_with_and_without_the_c_library(monkeypatch: pytest.MonkeyPatch, in_c: bool) -> None:
    texts = ["x" * length for length in (1, 15, 16, 17, 1023, 1024, 1025, 1040, 5000)]
    if not in_c:
        monkeypatch.setattr(theta_sketch, "_in_c", None)
    assert of_texts(texts).hashes.tolist() == of_library(texts)[1]


def test_bytes_that_are_not_text_are_hashed_as_they_are() -> None:
    hashes = hash_binary(np.arange(256, dtype=np.uint8), np.array([0, 100, 256]))
    array = pa.array([bytes(range(100)), bytes(range(100, 256))], pa.binary())
    assert column_hashes(array, BINARY).tolist() == hashes.tolist()


@given(st.lists(st.integers(0, 20_000), max_size=6), st.booleans())
@example([19_999], False)  # the only hash of the small part is above the theta of the large one
def test_merging_parts_gives_the_sketch_of_the_whole(cuts: list[int], backwards: bool) -> None:
    ends = sorted({0, 20_000, *cuts})
    parts = [of_longs(range(start, end)) for start, end in pairwise(ends)]
    whole = of_longs(range(20_000))
    assert same(merged(reversed(parts) if backwards else parts), whole)
    assert same(merged([*parts, whole]), whole)


def test_merging_nothing_gives_the_empty_sketch() -> None:
    assert same(merged([]), EMPTY)


@given(st.integers(0, 3 * SIZE))
def test_an_encoded_sketch_reads_back(count: int) -> None:
    sketch = of_longs(range(count))
    again = decode_theta_sketch("f", sketch.encode())
    assert same(again, sketch)
    assert again.theta == sketch.theta


def test_a_sketch_of_the_library_can_be_read() -> None:
    made = datasketches.update_theta_sketch(12)
    for number in range(9000):
        made.update(number)
    read = decode_theta_sketch("f", made.compact().serialize())
    assert read.estimate == int(made.get_estimate())
    assert decode_theta_sketch("f", datasketches.update_theta_sketch(12).compact().serialize()).estimate == 0


GOOD = of_longs(range(10)).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "at least 8 bytes"),
        (GOOD[:7], "at least 8 bytes"),
        (GOOD[:-1], "cannot have"),
        (GOOD + b"\0" * 8, "cannot have"),
        (b"\x02\x04" + GOOD[2:], "version 4"),
        (b"\x02\x03\x02" + GOOD[3:], "family 2"),
        (GOOD[:6] + b"\0\0" + GOOD[8:], "seed hash"),
        (GOOD[:-8] + b"\0" * 8, "0 or not below theta"),
        (GOOD[:-8] + b"\xff" * 8, "0 or not below theta"),
        (struct.pack("<BBBBBBH", 3, 3, 3, 0, 0, 0x1A, 0x93CC) + struct.pack("<IfQ", 0, 1.0, 0), "0 or not below theta"),
    ],
)
def test_a_broken_sketch_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        decode_theta_sketch("f", content)


@given(st.binary(max_size=64), st.integers(0, len(GOOD)))
def test_no_bytes_break_the_reader(content: bytes, cut: int) -> None:
    with fine_or_named("f"):
        decode_theta_sketch("f", GOOD[:cut] + content)


def test_every_hash_is_below_theta_while_all_are_kept() -> None:
    sketch = of_longs(range(SIZE))
    assert sketch.theta == EVERYTHING
    assert int(sketch.hashes.max()) < EVERYTHING
