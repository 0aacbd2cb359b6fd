"""The compiled walk and the one in Python agree, on good requests and on spoilt ones."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from otlp_messages import random_request, to_json

from esker.otlp.protocol import _walk_py as pure
from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import MANY, MAX_BYTES, REASONS
from esker.otlp.protocol.wire import sized

compiled = pytest.importorskip("esker.otlp._walk", reason="the compiled walk was not built")

SPOILERS = (0, 1, 2, 3, 8, 0x0A, 0x12, 0x22, 0x2C, 0x5B, 0x5C, 0x5D, 0x7B, 0x7D, 0x7F, 0x80, 0xC3, 0xED, 0xFF)


def outcome(kind: Any, signal: Signal, requests: list[bytes], *, json: bool, strict: bool = False) -> Any:
    """Everything a walk gives but its guess of how much room it took."""
    program = PROGRAMS[signal]
    walker = kind(program.rows, program.slots, MAX_BYTES, strict)
    fed = []
    for at, data in enumerate(requests):
        code, records, _, bad = walker.feed(data, at, json)
        fed.append((code, records, [(reason, [tuple(place) for place in places]) for reason, places in bad]))
    return fed, walker.finish(), walker.finish()


def assert_twins(signal: Signal, requests: list[bytes], *, json: bool, strict: bool = False) -> Any:
    one = outcome(compiled.Walker, signal, requests, json=json, strict=strict)
    other = outcome(pure.Walker, signal, requests, json=json, strict=strict)
    assert one[0] == other[0]
    assert one == other
    return one


def spoilt(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, taken out or doubled, or the end cut off."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4) if out else 0):
        at = chance.randrange(len(out))
        match chance.randrange(5):
            case 0:
                del out[at : at + chance.randint(1, 4)]
            case 1:
                out[at:at] = out[at : at + chance.randint(1, 30)]
            case _:
                out[at] = chance.choice((*SPOILERS, chance.randrange(256)))
        if not out:
            break
    return bytes(out[: chance.randint(0, len(out))] if chance.random() < 0.1 else out)


@pytest.mark.parametrize("signal", list(Signal))
@given(seed=st.integers(0, 1 << 32))
def test_both_walks_take_the_same_of_spoilt_protobuf(signal: Signal, seed: int) -> None:
    chance = random.Random(seed)
    message = random_request(signal, chance).SerializeToString()
    assert_twins(signal, [message, *(spoilt(message, chance) for _ in range(8)), message], json=False)


@pytest.mark.parametrize("signal", list(Signal))
@given(seed=st.integers(0, 1 << 32), strict=st.booleans())
@example(seed=0, strict=True)
def test_both_walks_take_the_same_of_spoilt_json(signal: Signal, seed: int, strict: bool) -> None:
    chance = random.Random(seed)
    text = to_json(random_request(signal, chance), lax=chance)
    assert_twins(signal, [text, *(spoilt(text, chance) for _ in range(8)), text], json=True, strict=strict)


VALUES = (
    *(["null", "true", "[]", "{}", "1", "-1", "1.5", "1e3", "1e999", "01", "NaN", "-", "[1,]", "[null]"]),
    *(["18446744073709551615", "9223372036854775808"]),
    *(f'"{text}"' for text in ("", "a", "\\ud800", "1", "1e3", "-9223372036854775808", "NaN", "Infinity", "\\x")),
    *(f'"{text}"' for text in ("zz", "QQ==", "QQ", "Q", "QQ=", "SPAN_KIND_SERVER", "STATUS_CODE_OK\\u0000")),
    *(f'"{text}"' for text in ("ab" * 16, "AB" * 8, "zz" * 16, "q" + "A" * 21 + "==")),
    '[{"key":"k"}]',
)
MEMBERS = (
    "traceId",
    "parentSpanId",
    "kind",
    "name",
    "flags",
    "startTimeUnixNano",
    "attributes",
    "status",
    "events",
    "nothing",
)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("member", MEMBERS)
def test_both_walks_judge_every_kind_of_value_alike(member: str, strict: bool) -> None:
    spans = [f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"{member}":{value}}},{{}}]}}]}}]}}' for value in VALUES]
    assert_twins(Signal.TRACES, [span.encode() for span in spans], json=True, strict=strict)
    attribute = (
        '{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{{"key":"k","value":{{"{0}":{1}}}}}]}}]}}]}}]}}'
    )
    for kind in ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"):
        texts = [attribute.format(kind, value).encode() for value in VALUES]
        assert_twins(Signal.TRACES, texts, json=True, strict=strict)


def test_a_request_of_nothing_but_bad_records_is_refused_as_a_whole_by_both() -> None:
    span = b"\x12\x03\x0a\x01\xff"
    scope = span * 10_001
    size = lambda data: bytes([len(data) & 127 | 128, len(data) >> 7 & 127 | 128, len(data) >> 14])  # noqa: E731
    resource = b"\x12" + size(scope) + scope
    [(code, records, bad)], *_ = assert_twins(Signal.TRACES, [b"\x0a" + size(resource) + resource], json=False)
    assert (code, records, bad) == (MANY, 0, [])


@pytest.mark.parametrize("kind", [compiled.Walker, pure.Walker])
def test_a_request_taken_back_leaves_no_trace(kind: Any) -> None:
    program = PROGRAMS[Signal.TRACES]
    walker = kind(program.rows, program.slots, MAX_BYTES, False)
    one, other = (random_request(Signal.TRACES, random.Random(seed)).SerializeToString() for seed in (7, 8))
    walker.feed(one, 0, False)
    expected = walker.finish()
    walker.undo()
    walker.feed(one, 0, False)
    walker.feed(other, 1, False)
    walker.undo()
    walker.undo()
    assert walker.finish() == expected


def test_no_list_of_numbers_is_taken_for_a_program_that_is_none() -> None:
    rows = PROGRAMS[Signal.TRACES].rows
    slots = PROGRAMS[Signal.TRACES].slots
    chance = random.Random(5)
    for _ in range(300):
        broken: list[Any] = [list(row) for row in rows]
        row = chance.choice(broken)
        row[chance.randrange(6)] = chance.choice((-1, 0, 1, 5, 31, 32, 99, 1 << 20))
        try:
            walker = compiled.Walker([tuple(row) for row in broken], slots, 1 << 20, False)
        except ValueError as error:
            assert str(error) == "not a program"  # noqa: PT017  # some of the broken ones are programs
        else:
            walker.feed(random_request(Signal.TRACES, chance).SerializeToString(), 0, False)
            walker.finish()


def deep_value(kind: str, depth: int) -> str:
    """A value of OTLP that is nested so many times, or an array in JSON."""
    before, after = {
        "array": ('{"arrayValue":{"values":[', "]}}"),
        "pairs": ('{"kvlistValue":{"values":[{"key":"k","value":', "}]}}"),
        "unknown": ("[", "]"),
    }[kind]
    inner = "0" if kind == "unknown" else '{"intValue":"1"}'
    return before * depth + inner + after * depth


DEEP_PLACES = {
    "in a record": '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"intValue":"1"},%s},{}]}]}]}',
    "in a resource": '{"resourceLogs":[{"resource":{%s},"scopeLogs":[{"logRecords":[{}]}]}]}',
    "in the request": '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}],%s}',
}
DEPTHS = (1, 62, 63, 64, 65, 66, 90, 127, 128, 129, 200, 255, 256, 257, 300, *range(495, 515), 600, 990, 1100, 5000)


@pytest.mark.parametrize("place", DEEP_PLACES)
@pytest.mark.parametrize("kind", ["array", "pairs", "unknown"])
def test_both_walks_go_equally_deep_in_json(place: str, kind: str) -> None:
    member = '"unknown":' if kind == "unknown" else '"attributes":[{"key":"k","value":'
    end = "" if kind == "unknown" else "}]"
    labels = []
    for depth in DEPTHS:
        text = DEEP_PLACES[place] % (member + deep_value(kind, depth) + end)
        ([(code, _, bad)], *_) = assert_twins(Signal.LOGS, [text.encode()], json=True)
        assert code == 0
        labels.append([REASONS[reason].word for reason, _ in bad])
    assert all(one in ([], ["too_deep"]) for one in labels)
    assert labels == sorted(labels, key=len)
    kept = [depth for depth, label in zip(DEPTHS, labels, strict=True) if not label]
    assert labels[-1] == ["too_deep"]
    if kind != "unknown" and place != "in the request":  # elsewhere it is an attribute of nothing, and unknown
        assert max(kept) == 64
    elif kind == "unknown":
        assert 500 < max(kept) < 512


@pytest.mark.parametrize("end", ["]", "}", ",", " [", '"', "0", "NaN]", "\\", ":", "[" * 100, "[" * 600])
@pytest.mark.parametrize("start", ["", '{"a":', "{} ", "[}", "0 ", '"[', "[NaN,", '{"resourceLogs":', "[1 "])
def test_what_is_wrong_first_is_told_of_texts_that_are_too_deep(start: str, end: str) -> None:
    for depth in (500, 511, 512, 513, 600):
        assert_twins(Signal.LOGS, [(start + "[" * depth + end).encode()], json=True)
        assert_twins(Signal.LOGS, [(start + "[" * depth + "]" * depth + end).encode()], json=True)


@pytest.mark.parametrize("kind", ["array_value", "kvlist_value"])
def test_both_walks_go_equally_deep_in_protobuf(kind: str) -> None:
    for depth in (1, 63, 64, 65, 66, 200, 255, 256, 257, 1000, 5000):
        value = sized(1, b"leaf")
        for _ in range(depth):
            inner = value if kind == "array_value" else sized(1, b"k") + sized(2, value)
            value = sized(5 if kind == "array_value" else 6, sized(1, inner))
        request = sized(1, sized(2, sized(2, sized(5, value))))
        ([(code, records, bad)], *_) = assert_twins(Signal.LOGS, [request], json=False)
        assert code == 0
        assert (records, [REASONS[reason].word for reason, _ in bad]) == ((1, []) if depth <= 64 else (0, ["too_deep"]))
