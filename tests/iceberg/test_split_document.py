"""The walk over the text of table metadata finds what msgspec finds, in any document."""

from __future__ import annotations

import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import Corrupt
from esker.iceberg.metadata.split_document import ArrayText, split_document

pytest.importorskip("esker.iceberg.metadata._split", reason="the compiled part was not built: there was no C compiler")
from esker.iceberg.metadata._split import split

# Texts that look like the parts of a document, or end a block of 64 bytes in the middle of something.
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ['"', "\\", '\\"', "{", "}", "[", "]", ",", ":", '","', '":"', "}]", "\\\\", "snapshots", "é", "\n"]
    ),
    st.integers(0, 130).map(lambda size: "x" * size),
    st.integers(0, 70).map(lambda size: "\\" * size),
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False), texts
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
names = st.sampled_from(["snapshots", "snapshot-log", "refs", "schemas", ""]) | texts
documents = st.dictionaries(names, values, max_size=6)
LISTS = ("snapshots", "snapshot-log")


def by_msgspec(content: bytes) -> dict[str, bytes]:
    return {name: bytes(text) for name, text in msgspec.json.decode(content, type=dict[str, msgspec.Raw]).items()}


def compare_with_msgspec(content: bytes) -> bool:
    """Whether the walk took the text apart. If so, the parts are those of msgspec."""
    found = split(content)
    if found is None:
        return False
    expected = by_msgspec(content)
    assert {name: content[start:end] for name, start, end, _ in found} == expected
    for name, start, end, spans in found:
        if spans is None:
            assert content[start : start + 1] != b"["
            continue
        items = ArrayText("f", name, content, start, end, spans)
        raw = [bytes(item) for item in msgspec.json.decode(content[start:end], type=list[msgspec.Raw])]
        assert list(items) == raw == items[:] == [items[at] for at in range(len(items))]
        assert raw[1:3] == items[1:3]
        for most in (1, 2, 3):
            runs = items.runs(most)
            assert len(runs) == -(-len(raw) // most)
            assert all(run.rstrip().endswith(b",") for run in runs[:-1])
            again = msgspec.json.decode(b"[" + b"".join(runs) + b"]", type=list[msgspec.Raw])
            assert [bytes(item) for item in again] == raw
        assert raw[-1:] == ([items[-1]] if raw else [])
    return True


def is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def is_plain(text: str) -> bool:
    """Whether a name is written without escapes, in either way of `json.dumps`."""
    return text.isascii() and json.dumps(text) == f'"{text}"'


@given(documents, st.sampled_from([None, 0, 1, 3]), st.booleans(), st.text(" \n\r\t", max_size=70))
def test_the_walk_finds_what_msgspec_finds(
    document: dict[str, Any], indent: int | None, ascii_only: bool, blanks: str
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    done = compare_with_msgspec(f"{blanks}{text}{blanks}".encode("utf-8", "surrogatepass"))
    assert done or not all(map(is_plain, document))  # only names with escapes are left to msgspec


# Bytes near the edges of JSON. A text that is no JSON is either left to msgspec, or some part of it is wrong.
tokens = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        '"a"',
        '"b":',
        "1",
        "null",
        "tru",
        " ",
        "\\",
        '\\"',
        "\n",
        "\x00",
        "é",
        "x" * 63,
    ]
)


@given(st.lists(tokens, max_size=30).map("".join), st.booleans())
def test_a_text_that_is_no_json_is_not_taken_for_one(text: str, in_object: bool) -> None:
    content = (f'{{"a":{text}}}' if in_object else text).encode()
    found = split(content)
    if found is not None and all(is_json(content[start:end]) for _, start, end, _ in found):
        compare_with_msgspec(content)


@given(documents, st.data())
def test_a_document_with_a_changed_byte_is_not_taken_for_another(document: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(json.dumps(document).encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'{}[],:"\\ x0'))
    found = split(bytes(content))
    if found is None:
        return
    parts = [bytes(content[start:end]) for _, start, end, _ in found]
    if not all(map(is_json, parts)):
        return
    expected = [(name, value) for name, value in json.loads(content, object_pairs_hook=list)]
    pairs = [(name, json.loads(part, object_pairs_hook=list)) for (name, *_), part in zip(found, parts, strict=True)]
    assert repr(pairs) == repr(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[]",
        "1",
        "{",
        "}",
        "{}}",
        "{}{}",
        "{},",
        "{} x",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{,"a":1}',
        '{"a":1 "b":2}',
        '{"a" "b":1}',
        '{"a":"b":1}',
        "{a:1}",
        '{"a":[1,]}',
        '{"a":[,1]}',
        '{"a":[1:2]}',
        '{"a":[1}',
        '{"a":{]}',
        '{"a":[] []}',
        '{"a":1 []}',
        '{"a":[[] []]}',
        '{"a":[[] 1]}',
        '{"a":[1 []]}',
        '{"a":[1]',
        '{"a":"',
        '{"a":"\\"}',
        '{["a"]:1}',
        '\ufeff{"a":1}',
    ],
)
def test_what_is_not_plainly_an_object_is_left_to_msgspec(text: str) -> None:
    assert split(text.encode()) is None


@pytest.mark.parametrize("depth", [1, 58, 59, 60, 61, 500, 5000])
def test_deep_documents_are_left_to_msgspec(depth: int) -> None:
    found = split(b'{"a":' + b"[" * depth + b"]" * depth + b"}")
    assert (found is not None) == (depth < 60)


@pytest.mark.parametrize("size", range(120, 136))
def test_an_escape_may_be_anywhere_in_a_block(size: int) -> None:
    for escapes in range(1, 5):
        assert compare_with_msgspec(json.dumps({"a": "x" * size + "\\" * escapes + '"', "b": [1, '"']}).encode())


def test_two_fields_of_one_name() -> None:
    twice = b'{"snapshots": [1], "a": 1, "snapshots": [2, 3], "a": 2}'
    found = split_document("f", twice, LISTS)
    assert {name: bytes(text) for name, text in found.items() if isinstance(text, msgspec.Raw)} == by_msgspec(twice)
    with pytest.raises(Corrupt, match="not valid JSON"):
        split_document("f", b'{"a": tru, "a": 1}', LISTS)


def test_a_name_with_an_escape_is_the_name_that_it_means() -> None:
    found = split_document("f", b'{"snap\\u0073hots": [1, 2]}', LISTS)
    assert list(found) == ["snapshots"]


def test_names_that_are_no_text_are_refused() -> None:
    assert split(b'{"\xff": 1}') is None


def test_items_are_checked_before_they_are_copied_and_survive_a_pickle() -> None:
    items = split_document("m.json", b'{"snapshots": [{"a": 1}, {"a": tru}]}', LISTS)["snapshots"]
    assert isinstance(items, ArrayText)
    assert items[0] == b'{"a": 1}'
    assert list(pickle.loads(pickle.dumps(items))) == list(items)
    with pytest.raises(Corrupt, match=r"m.json is corrupt: 'snapshots' is not valid JSON"):
        items.runs(1)


def test_only_bytes_are_read() -> None:
    with pytest.raises(TypeError):
        split(memoryview(b"{}"))  # type: ignore[arg-type]
