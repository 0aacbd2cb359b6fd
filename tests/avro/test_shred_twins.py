"""The compiled walk and the one in Python agree, on good rows and on bad."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest
from avro_cases import calm, container, containers, ids_below
from hypothesis import given
from hypothesis import strategies as st

from esker.avro import LIMITS, Projection, decode
from esker.avro import _shred_py as pure
from esker.avro.container import Block, Memory, read_blocks, read_head
from esker.avro.shred import FIELDS, MAX_BYTES, Op, Shredder
from esker.avro.shred_program import Program, compile_program

compiled = pytest.importorskip("esker.avro._shred", reason="the compiled walk was not built")
Walk = Callable[[bytes, int, int], Shredder]


def record(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": type_}]}


def opened(data: bytes, want: Projection) -> tuple[Program, list[Block]]:
    source = Memory(memoryview(data), "f")
    header = read_head(source, LIMITS)
    return compile_program(header.schema, want, False), list(read_blocks(source, header, LIMITS))


def outcome(walk: Walk, program: Program, blocks: list[tuple[int, bytes]], soft: int, limit: int) -> Any:
    """Everything a walk gives, or the reason it refuses."""
    try:
        shredder = walk(program.code, program.slots, limit)
        fed = [shredder.feed(data, 0, rows, soft) for rows, data in blocks]
        return fed, shredder.finish(), shredder.finish()
    except ValueError as error:
        return str(error)


def assert_twins(
    program: Program, blocks: list[tuple[int, bytes]], soft: int = MAX_BYTES, limit: int = MAX_BYTES
) -> Any:
    one = outcome(compiled.Shredder, program, blocks, soft, limit)
    assert one == outcome(pure.Shredder, program, blocks, soft, limit)
    return one


@calm
@given(containers(), st.data(), st.integers(0, 300), st.integers(0, 2000))
def test_both_walks_give_the_same_buffers(case: Any, data: st.DataObject, soft: int, limit: int) -> None:
    _, _, file = case
    schema = decode(file, file="f").schema
    ids = data.draw(st.none() | st.lists(st.sampled_from(sorted(ids_below(schema))), max_size=4))
    program, blocks = opened(file, Projection.of(ids))
    rows = [(block.rows, bytes(block.data)) for block in blocks]
    assert not isinstance(assert_twins(program, rows), str)
    assert_twins(program, rows, soft=soft, limit=limit)


@calm
@given(containers(), st.integers(0, 1 << 32))
def test_both_walks_refuse_the_same_rows_for_the_same_reason(case: Any, seed: int) -> None:
    _, _, file = case
    program, blocks = opened(file, Projection())
    chance = random.Random(seed)
    for block in blocks:
        for _ in range(5):
            data = bytearray(block.data)
            for _ in range(chance.randint(1, 3) if data else 0):
                data[chance.randrange(len(data))] = chance.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            cut = chance.choice([len(data), chance.randint(0, len(data))])
            assert_twins(program, [(block.rows, bytes(data[:cut]))], limit=1 << 20)


def assert_text(data: bytes) -> None:
    """Both walks call these bytes text exactly where Python does."""
    program, _ = opened(container(record("string"), []), Projection())
    said = assert_twins(program, [(1, bytes([len(data) * 2]) + data)])
    try:
        data.decode()
    except UnicodeDecodeError:
        assert said == "a string is not UTF-8"
    else:
        assert said[1][1][4] == data


@calm
@given(st.binary(max_size=40))
def test_both_walks_agree_on_what_is_text(data: bytes) -> None:
    assert_text(data)


@pytest.mark.parametrize(
    "text", ["é", "€", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a" * 8 + "é" * 9]
)
def test_both_walks_take_the_edges_of_utf_8(text: str) -> None:
    for cut in range(1, len(text.encode()) + 1):
        assert_text(text.encode()[:cut])


@pytest.mark.parametrize(
    "point", ["c080", "c1bf", "e09fbf", "eda080", "edbfbf", "f08fbfbf", "f4908080", "f5808080", "80"]
)
def test_both_walks_refuse_overlong_forms_surrogates_and_more(point: str) -> None:
    assert_text(bytes.fromhex(point))


def node(op: int, *, union: int = -1, slot: int = -1, arg: int = 0, key: int = 0, next_: int = 1) -> bytes:
    return struct.pack(f"={FIELDS}q", op, union, slot, 0, arg, key, next_)


ROOT = node(Op.RECORD, slot=0, next_=2)


@pytest.mark.parametrize(
    ("code", "slots"),
    [
        (b"", 1),
        (b"x", 1),
        (node(Op.RECORD, slot=0), 0),
        (node(Op.RECORD, slot=0), 2),  # a slot nobody fills
        (node(Op.RECORD, slot=0, next_=2), 1),  # a child past the end
        (node(Op.RECORD, slot=0, next_=0), 1),
        (node(Op.INT, slot=0), 1),
        (ROOT + node(99, slot=1, next_=2), 2),
        (ROOT + node(Op.INT, slot=0, next_=2), 2),  # a slot taken twice
        (ROOT + node(Op.INT, slot=5, next_=2), 2),
        (ROOT + node(Op.INT, slot=1, next_=1), 2),
        (ROOT + node(Op.INT, slot=1, union=7, next_=2), 2),
        (ROOT + node(Op.FIXED, slot=1, arg=-1, next_=2), 2),
        (ROOT + node(Op.ARRAY, slot=1, next_=2), 2),  # no item
        (ROOT + node(Op.UNION, slot=1, next_=2), 2),
        (node(Op.RECORD, slot=0, next_=3) + node(Op.RECORD, next_=3) + node(Op.INT, slot=1, next_=3), 2),
        (ROOT + node(Op.PICK, slot=1, arg=1, next_=2), 2),
        (b"".join(node(Op.RECORD, slot=i, next_=300) for i in range(300)), 300),
    ],
)
def test_the_compiled_walk_refuses_a_program_it_could_not_trust(code: bytes, slots: int) -> None:
    with pytest.raises(ValueError, match="not a program"):
        compiled.Shredder(code, slots, MAX_BYTES)


def test_the_compiled_walk_survives_programs_at_random() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        size = chance.randint(1, 6)
        code = node(Op.RECORD, slot=0, next_=size)
        for at in range(1, size):
            op, slot = chance.randrange(15), chance.choice([-1, at])
            code += node(
                op, slot=slot, union=chance.randint(-1, 2), arg=chance.randint(0, 3), next_=chance.randint(at, size)
            )
        for slots in range(1, size + 1):
            try:
                walk = compiled.Shredder(code, slots, 10_000)
                walk.feed(chance.randbytes(30), 0, 10, MAX_BYTES)
                walk.finish()
            except ValueError:
                pass


@pytest.mark.parametrize("walk", [compiled.Shredder, pure.Shredder])
def test_a_walk_that_failed_gives_nothing_more(walk: Walk) -> None:
    program, _ = opened(
        container({"type": "record", "name": "r", "fields": [{"name": "s", "type": "int"}]}, []), Projection()
    )
    shredder = walk(program.code, program.slots, MAX_BYTES)
    with pytest.raises(ValueError, match="a row passes the end of its block"):
        shredder.feed(b"\x02", 0, 2, MAX_BYTES)
    with pytest.raises(RuntimeError, match="has failed"):
        shredder.feed(b"\x02", 0, 1, MAX_BYTES)
    with pytest.raises(RuntimeError, match="has failed"):
        shredder.finish()


def test_walks_in_several_threads_do_not_disturb_each_other() -> None:
    data = container(record("long"), [{"x": n} for n in range(20_000)], "deflate")
    expected = decode(data, file="f").batch
    seen: list[bool] = []
    threads = [
        threading.Thread(target=lambda: seen.append(decode(data, file="f").batch.equals(expected))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8
