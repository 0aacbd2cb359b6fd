"""Whole blocks, inflated and walked in compiled code: the same rows and the same refusals as block by block."""

from __future__ import annotations

import random
import sys
import threading
import time
import zlib
from typing import Any

import pytest
from avro_cases import SYNC, calm, container, containers, long, raw_container
from hypothesis import given

from esker.avro import LIMITS, Limits, decode, decode_many, decoding
from esker.avro.container import Memory, read_head
from esker.avro.shred_program import Projection, compile_program
from esker.errors import Corrupt, EskerError

compiled = pytest.importorskip("esker.avro._shred", reason="the compiled walk was not built")

TEXT = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "bytes", "field-id": 1}]}
GROWTH = (1 << 26, 256, 0)


def taken(data: bytes, limits: tuple[int, int] = (1 << 20, 1 << 24)) -> tuple[int, int, int, int, int]:
    """What the compiled walk takes of a container, and where it stops: bytes left, blocks, rows, inflated, buffers."""
    source = Memory(memoryview(data), "f")
    header = read_head(source, LIMITS)
    program = compile_program(header.schema, Projection(), False)
    walk = compiled.Shredder(program.code, program.slots, 1 << 30)
    view, at = source.position
    at, *rest = walk.feed_blocks(view, at, header.sync, header.codec == "deflate", limits, GROWTH)
    return (len(view) - at, *rest)


def answer(data: bytes, limits: Limits = LIMITS) -> Any:
    try:
        return decode(data, file="f", limits=limits).batch.to_pylist()
    except EskerError as error:
        return str(error)


def block_by_block(data: bytes, monkeypatch: pytest.MonkeyPatch, limits: Limits = LIMITS) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "_COMPILED_CODECS", {})
        return answer(data, limits)


STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]


def samples() -> dict[str, bytes]:
    chance = random.Random(5)
    words = [chance.randbytes(chance.randint(1, 40)) for _ in range(30)]
    skewed = b"".join(bytes([n]) * (1 << min(n, 13)) for n in range(16))  # codes of up to 15 bits: second tables
    shuffled = bytearray(skewed)
    chance.shuffle(shuffled)
    return {
        "empty": b"",
        "one byte": b"a",
        "one byte repeated": b"a" * 70_000,
        "noise": chance.randbytes(70_000),
        "words": b"".join(chance.choice(words) for _ in range(3000)),
        "skewed": bytes(shuffled),
        "every byte": bytes(range(256)) * 3,
    }


@pytest.mark.parametrize("name", list(samples()))
def test_what_zlib_deflates_is_inflated_in_compiled_code(name: str) -> None:
    value = samples()[name]
    for strategy in STRATEGIES:
        for level in (0, 1, 6, 9):
            packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
            half = len(value) // 2
            row = long(len(value)) + value
            packed = packer.compress(row[:half]) + packer.flush(zlib.Z_FULL_FLUSH) + packer.compress(row[half:])
            data = raw_container(TEXT, (1, packed + packer.flush()), codec="deflate")
            left, blocks, rows, inflated, _ = taken(data)
            assert (left, blocks, rows, inflated) == (0, 1, 1, len(row)), (strategy, level)
            assert decode(data, file="f").batch.to_pylist() == [{"x": value}]


@calm
@given(containers())
def test_every_block_of_a_good_container_is_taken(drawn: Any) -> None:
    schema, records, _ = drawn
    for codec in ("null", "deflate"):
        assert taken(container(schema, records, codec, sync_interval=8))[0] == 0


@pytest.mark.parametrize("tail", [b"", b"\x12", b"\x12\x34\x56"])
def test_the_rest_of_a_checksum_after_the_stream_is_ignored(tail: bytes) -> None:
    packed = zlib.compress(long(3) + b"abc", wbits=-15) + tail
    data = raw_container(TEXT, (1, packed), (1, packed), codec="deflate")
    assert taken(data)[:3] == (0, 2, 2)


def test_the_walk_stops_before_the_first_block_that_is_not_plainly_right() -> None:
    good = (1, zlib.compress(long(3) + b"abc", wbits=-15))
    whole = raw_container(TEXT, good, good, codec="deflate")
    wrong = {
        "a wrong sync marker": raw_container(TEXT, good, codec="deflate", sync=b"x" * 16),
        "a stream that is cut": raw_container(TEXT, (1, good[1][:-1]), codec="deflate"),
        "a stream that is garbage": raw_container(TEXT, (1, b"\xff\xfe"), codec="deflate"),
        "a count below 0": raw_container(TEXT, (-1, good[1]), codec="deflate"),
        "a size past the end": raw_container(TEXT, codec="deflate") + long(1) + long(1 << 40) + good[1] + SYNC,
        "a block that is cut": raw_container(TEXT, good, codec="deflate")[:-3],
    }
    start = len(raw_container(TEXT, codec="deflate"))
    for name, data in wrong.items():
        left, blocks, rows, *_ = taken(whole + data[start:])
        assert (left, blocks, rows) == (len(data) - start, 2, 2), name


def test_a_bomb_is_left_to_the_limits_of_the_container() -> None:
    bomb = (1, zlib.compress(long(1 << 20) + bytes(1 << 20), 9, wbits=-15))
    assert taken(raw_container(TEXT, bomb, codec="deflate"), (1 << 19, 1 << 24))[1] == 0
    assert taken(raw_container(TEXT, bomb, bomb, bomb, codec="deflate"), (1 << 21, 5 << 19))[1] == 2
    with pytest.raises(Corrupt, match="block 0 inflates to more than 524288 bytes"):
        decode(raw_container(TEXT, bomb, codec="deflate"), file="f", limits=Limits(block=1 << 19))


def test_changed_bits_give_the_same_rows_or_the_same_refusal_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    packed = [(1, zlib.compress(long(n) + bytes([65 + n % 3]) * n, 9, wbits=-15)) for n in (0, 3, 60, 900)]
    many = b"".join(b"%d:%d " % (chance.randrange(1 << 20), chance.randrange(300)) for _ in range(2000))
    large = (1, zlib.compress(long(len(many)) + many, 9, wbits=-15))
    assert len(large[1]) > 8192  # such a stream has larger tables
    small = Limits(block=1 << 16, container=1 << 17)
    for blocks, times in ((packed, 1500), ([large], 400), ([large, *packed], 400)):
        compare_changed(raw_container(TEXT, *blocks, codec="deflate"), times, small, chance, monkeypatch)


def compare_changed(
    data: bytes, times: int, small: Limits, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = data.index(SYNC) + 16
    for _ in range(times):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            broken[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
        assert answer(bytes(broken), small) == block_by_block(bytes(broken), monkeypatch, small)


def test_a_row_that_is_wrong_is_refused_with_the_number_of_its_block() -> None:
    good, bad = zlib.compress(long(1) + b"x", wbits=-15), zlib.compress(long(9) + b"x", wbits=-15)
    with pytest.raises(Corrupt, match=r"a row passes the end of its block \(block 2\)"):
        decode(raw_container(TEXT, (1, good), (1, good), (1, bad), codec="deflate"), file="f")
    with pytest.raises(Corrupt, match="block 1 has 2 bytes left after its rows"):
        decode(raw_container(TEXT, (1, good), (0, good), codec="deflate"), file="f")


def test_arguments_that_make_no_sense_are_refused() -> None:
    program = compile_program(
        read_head(Memory(memoryview(raw_container(TEXT)), "f"), LIMITS).schema, Projection(), False
    )
    walk = compiled.Shredder(program.code, program.slots, 1 << 20)
    for at, sync, limits, growth in (
        (0, b"short", (1, 1), GROWTH),
        (9, SYNC, (1, 1), GROWTH),
        (-1, SYNC, (1, 1), GROWTH),
        (0, SYNC, (-1, 1), GROWTH),
        (0, SYNC, (1, 1), (1, 0, 0)),
    ):
        with pytest.raises(ValueError, match=r"sync marker|outside"):
            walk.feed_blocks(b"data", at, sync, True, limits, growth)


def test_containers_are_decoded_while_other_threads_run() -> None:
    """The walk over a container's blocks gives up the interpreter lock: another thread goes on meanwhile."""
    packed = zlib.compress(long(1 << 20) + random.Random(2).randbytes(1 << 20), 1, wbits=-15)
    data = raw_container(TEXT, *[(1, packed)] * 20, codec="deflate")
    steps, done, interval = [0], threading.Event(), sys.getswitchinterval()

    def count() -> None:
        while not done.is_set():
            steps[0] += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    try:
        sys.setswitchinterval(100)  # from here on, the lock changes hands only where it is given up
        before = steps[0]
        [columns] = decode_many([("f", data)], limits=Limits(batch=1 << 30))
        during = steps[0] - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        other.join()
    assert columns.batch.num_rows == 20
    assert during > 0
