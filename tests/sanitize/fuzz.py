"""A bounded fuzz of the compiled parts: valid inputs, then the same with some bytes changed.

    python tests/sanitize/fuzz.py --rounds 2000 --seed 7

The same seed draws the same inputs. A round fails if a compiled part crashes, raises anything but ``ValueError``, or
gives another answer than its twin in Python. ``make sanitize`` runs it under ASan and UBSan.
"""

from __future__ import annotations

import argparse
import random
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from avro_cases import container, long, raw_container
from otlp_messages import random_request, to_json

from esker.avro import LIMITS, Limits, Projection, _shred, _shred_py, decode, decoding
from esker.avro.container import Block, Memory, read_blocks, read_head
from esker.avro.shred_program import Program, compile_program
from esker.errors import EskerError
from esker.otlp import _variants, _walk
from esker.otlp.protocol import _walk_py
from esker.otlp.protocol.messages import PROGRAMS, Signal

LEAVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
EDGES = (0, 1, 2, 3, 8, 0x0A, 0x12, 0x22, 0x5B, 0x5C, 0x7B, 0x7F, 0x80, 0xC3, 0xED, 0xFF)
TOKENS = (b"\\u", b"\\ud800", b"\\ud83d\\u", b"\\", b'"', b"1e", b"-", b"nul", b"tru", b"[[", b'{"', b'"a":', b"NaN")
ROOM = 1 << 20


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The data with a few bytes changed, removed or doubled; sometimes the end is cut off."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        if not out:
            break
        at = chance.randrange(len(out))
        match chance.randrange(5):
            case 0:
                del out[at : at + chance.randint(1, 4)]
            case 1:
                out[at:at] = out[at : at + chance.randint(1, 30)]
            case _:
                out[at] = chance.choice((*EDGES, chance.randrange(256)))
    return bytes(out[: chance.randint(0, len(out))] if chance.random() < 0.3 else out)


def exact(data: bytes) -> Any:
    """The data in memory that ends with its last byte. Behind the last byte of ``bytes`` Python keeps a zero, which
    would hide a read past the end."""
    room = np.empty(len(data), np.uint8)
    memoryview(room)[:] = data
    return room


def cut_in_a_token(data: bytes, chance: random.Random) -> bytes:
    """JSON that ends inside of a token, or goes on after a part of one."""
    at = chance.randrange(len(data) + 1)
    if chance.random() < 0.5:  # inside of a string, where there is one
        at = max(data.rfind(b'"', 0, at) + chance.randint(0, 1), 0)
    token = chance.choice(TOKENS)
    return data[:at] + token + (b"" if chance.random() < 0.7 else data[at:])


def random_type(chance: random.Random, ids: list[int], depth: int = 0) -> Any:
    """A schema of Avro with field ids, at most four levels deep."""
    ids[0] += 10
    here = ids[0]
    kind = chance.choice(("leaf", "leaf", "optional", "array", "map", "record", "fixed") if depth < 4 else ("leaf",))
    match kind:
        case "optional":
            return ["null", random_type(chance, ids, 9)] if chance.random() < 0.5 else ["null", "string"]
        case "array":
            return {"type": "array", "element-id": here, "items": random_type(chance, ids, depth + 1)}
        case "map":
            return {"type": "map", "key-id": here, "value-id": here + 1, "values": random_type(chance, ids, depth + 1)}
        case "record":
            return random_record(chance, ids, depth + 1)
        case "fixed":
            return {"type": "fixed", "name": f"f{here}", "size": chance.randint(1, 20)}
        case _:
            return chance.choice(LEAVES[1:])


def random_record(chance: random.Random, ids: list[int], depth: int = 0) -> dict[str, Any]:
    """A record of one to five fields."""
    ids[0] += 10
    start = ids[0]
    fields = [
        {"name": f"c{at}", "field-id": start + at, "type": random_type(chance, ids, depth)}
        for at in range(chance.randint(1, 5))
    ]
    return {"type": "record", "name": f"r{start}", "fields": fields}


def random_value(schema: Any, chance: random.Random) -> Any:
    """A value that fits the schema."""
    match schema:
        case list():
            return random_value(chance.choice(schema), chance)
        case {"type": "record", "fields": fields}:
            return {field["name"]: random_value(field["type"], chance) for field in fields}
        case {"type": "array", "items": items}:
            return [random_value(items, chance) for _ in range(chance.randint(0, 4))]
        case {"type": "map", "values": inner}:
            return {f"k{at}": random_value(inner, chance) for at in range(chance.randint(0, 4))}
        case {"type": "fixed", "size": size}:
            return chance.randbytes(size)
        case "int":
            return chance.randint(-(1 << 31), (1 << 31) - 1)
        case "long":
            return chance.randint(-(1 << 63), (1 << 63) - 1)
        case "bytes":
            return chance.randbytes(chance.randint(0, 20))
        case "string":
            return "".join(chance.choice("aé€😀\0") for _ in range(chance.randint(0, 20)))
        case "float" | "double":
            return float(chance.randint(-1000, 1000))
        case "boolean":
            return chance.random() < 0.5
    return None


def _shredded(kind: Any, program: Program, rows: int, data: bytes, soft: int) -> Any:
    try:
        walk = kind(program.code, program.slots, ROOM)
        return walk.feed(exact(data) if kind is _shred.Shredder else data, 0, rows, soft), walk.finish()
    except ValueError as error:
        return str(error)


def _opened(chance: random.Random) -> tuple[Any, Program, list[Block]]:
    """A schema, its program, and blocks of rows that fit it."""
    schema = random_record(chance, [0])
    file = container(schema, [random_value(schema, chance) for _ in range(chance.randint(1, 6))])
    source = Memory(memoryview(file), "fuzz")
    header = read_head(source, LIMITS)
    return schema, compile_program(header.schema, Projection(), False), list(read_blocks(source, header, LIMITS))


def fuzz_shred(chance: random.Random) -> None:
    """Blocks of Avro."""
    schema, program, blocks = _opened(chance)
    for block in blocks:
        for data in (bytes(block.data), *(mutated(bytes(block.data), chance) for _ in range(6))):
            soft = chance.choice((ROOM, chance.randint(0, 300)))
            one = _shredded(_shred.Shredder, program, block.rows, data, soft)
            assert one == _shredded(_shred_py.Shredder, program, block.rows, data, soft), (schema, data)


def _decoded(data: bytes, limits: Limits, *, compiled: bool) -> Any:
    """The columns of a container, or why it is refused; by whole blocks in compiled code, or block by block."""
    codecs = dict(decoding._COMPILED_CODECS)
    try:
        if not compiled:
            decoding._COMPILED_CODECS.clear()
        return decode(exact(data), file="fuzz", limits=limits).batch.to_pylist()
    except EskerError as error:
        return str(error)
    finally:
        decoding._COMPILED_CODECS.update(codecs)


def _packed(data: bytes, chance: random.Random) -> bytes:
    """The bytes as raw deflate: by any level, strategy and window, sometimes cut into pieces, sometimes with a tail."""
    strategy = chance.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED))
    packer = zlib.compressobj(chance.randint(0, 9), zlib.DEFLATED, -chance.randint(9, 15), 9, strategy)
    at = chance.randint(0, len(data))
    flush = chance.choice((zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH))
    return packer.compress(data[:at]) + packer.flush(flush) + packer.compress(data[at:]) + packer.flush() + b"\0" * 3


def fuzz_blocks(chance: random.Random) -> None:
    """Whole containers of deflated blocks, as they are and with bits changed."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "bytes", "field-id": 1}]}
    words = [chance.randbytes(chance.randint(1, 30)) for _ in range(6)]
    blocks = []
    for _ in range(chance.randint(1, 4)):
        value = b"".join(chance.choice(words) for _ in range(chance.choice((0, 5, 80, 2000))))
        blocks.append((1, _packed(long(len(value)) + value, chance)))
    data = raw_container(schema, *blocks, codec="deflate")
    for some in (data, *(mutated(data, chance) for _ in range(8))):
        limits = Limits(block=chance.choice((1 << 20, 100, 20_000)), container=chance.choice((1 << 20, 30_000)))
        assert _decoded(some, limits, compiled=True) == _decoded(some, limits, compiled=False), some


def fuzz_programs(chance: random.Random) -> None:
    """Programs with some numbers changed: each is refused, or safe to run."""
    _, program, blocks = _opened(chance)
    numbers = list(struct.unpack(f"={len(program.code) // 8}q", program.code))
    for _ in range(8):
        changed = list(numbers)
        for at in chance.sample(range(len(changed)), min(len(changed), chance.randint(1, 3))):
            changed[at] = chance.choice((-1, 0, 1, 2, changed[at] + 1, changed[at] - 1, 14, 15, len(numbers), 1 << 40))
        with suppress(ValueError):
            slots = program.slots + chance.choice((0, 0, 0, 1, -1))
            walk = _shred.Shredder(struct.pack(f"={len(changed)}q", *changed), slots, ROOM)
            for block in blocks:
                walk.feed(exact(bytes(block.data)), 0, block.rows, ROOM)
            walk.finish()


def _walked(kind: Any, signal: Signal, requests: list[bytes], json: bool, strict: bool) -> Any:
    program = PROGRAMS[signal]
    walker = kind(program.rows, program.slots, ROOM, strict)
    fed = []
    for at, data in enumerate(requests):
        code, records, _, bad = walker.feed(exact(data) if kind is _walk.Walker else data, at, json)
        fed.append((code, records, [(reason, [tuple(place) for place in places]) for reason, places in bad]))
        if at % 3 == 2:
            walker.undo()
    return fed, walker.finish()


def fuzz_walk(chance: random.Random) -> None:
    """Requests of OTLP, in protobuf and in JSON."""
    signal = chance.choice(list(Signal))
    message = random_request(signal, chance, most=2)
    json, strict = chance.random() < 0.5, chance.random() < 0.5
    data = to_json(message, lax=chance) if json else message.SerializeToString()
    requests = [data, *(mutated(data, chance) for _ in range(4))]
    if json:
        requests += [cut_in_a_token(data, chance) for _ in range(12)]
    one = _walked(_walk.Walker, signal, requests, json, strict)
    assert one == _walked(_walk_py.Walker, signal, requests, json, strict), requests


def _map_buffers(chance: random.Random, texts: tuple[str, ...], *, spoil: bool) -> tuple[Any, ...]:
    """The eight buffers of a map of texts; with ``spoil``, some of them changed or missing."""
    rows = [
        [(chance.choice(("a", "b", "é", "key")) + str(at), chance.choice(texts)) for at in range(chance.randint(0, 4))]
        for _ in range(4)
    ]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))
    parts = (*maps.buffers()[:2], *maps.keys.buffers(), *maps.items.buffers())
    found = [None if part is None else part.to_pybytes() for part in parts]
    if spoil:
        for at in chance.sample(range(len(found)), 2):
            found[at] = chance.choice((None, b"", mutated(found[at] or b"\xff", chance)))
    return tuple(None if part is None else exact(part) for part in found)


def fuzz_variants(chance: random.Random) -> None:
    """Buffers of two maps, whose offsets may point anywhere."""
    for spoil in (False, True, True, True):
        values = _map_buffers(
            chance, ("12", "1.5", "true", "x" * chance.randint(0, 99), "", "[1]", "9" * 30), spoil=spoil
        )
        kinds = _map_buffers(chance, ("int", "double", "bool", "bytes", "array", "none"), spoil=spoil)
        rows = chance.randint(-1, 5) if spoil else 4
        with suppress(ValueError):
            _variants.encode_rows(values, kinds, rows, lambda text: b"\0" if len(text) % 2 else None)


PARTS: tuple[Callable[[random.Random], None], ...] = (
    fuzz_shred,
    fuzz_blocks,
    fuzz_programs,
    fuzz_walk,
    fuzz_variants,
)


def fuzz(rounds: int, seed: int) -> None:
    """Run every part so many times. Raises ``AssertionError`` where a compiled part and its twin differ."""
    for number in range(rounds):
        for part in PARTS:
            part(random.Random(f"{part.__name__} {seed} {number}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A bounded fuzz of the compiled parts.")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    fuzz(asked.rounds, asked.seed)
    print(f"{asked.rounds} rounds of {len(PARTS)} parts with seed {asked.seed}: no fault found in {_walk.__file__}")
