"""Rewrites a request in JSON as protobuf, like ``_walk_json.h``."""

from __future__ import annotations

import json
import json.decoder
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from esker.otlp.protocol._json_values_py import Number, Pairs, put_column
from esker.otlp.protocol._values_py import Tally
from esker.otlp.protocol.walk import LEVELS, MANY, MAX_BAD, MAX_JSON, SYNTAX, TEXT, VALUE, Bad, Data, Op, Place
from esker.otlp.protocol.wire import Malformed, sized

_SCAN: Any = vars(json.decoder)["scanstring"]  # public, but not in the stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_refuse, strict=True
)


@dataclass(slots=True)
class Transcoded:
    """The request in protobuf, if it could be read at all, and the parts that could not be kept."""

    data: bytes | None = None
    bad: list[Bad] = field(default_factory=list)


class _Fatal(Exception):
    """Nothing after this place can be read."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def transcode(root: Any, data: Data, strict: bool, tally: Tally) -> Transcoded:
    """Rewrite a whole request. Raises ``Malformed`` with MANY if too much of it is bad."""
    made, whole = Transcoded(), (Place(0, 0, len(data)),)
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        made.bad.append((TEXT, whole))
        return made
    unknown = tally.unknown
    cut = _cut_where_too_deep(text)
    reader = _Reader(text if cut is None else cut, strict, tally, made.bad)
    try:
        try:
            made.data = reader.request(root)
        except Malformed as failure:
            if failure.code == MANY:
                raise
            reader.check()
            made.bad[:] = [(failure.code, whole)]
    except _Fatal as fatal:
        made.bad[:] = [(SYNTAX if cut is None or fatal.at < len(cut) else LEVELS, whole)]
    if made.data is None:
        tally.unknown = unknown
    return made


def _cut_where_too_deep(text: str) -> str | None:
    """The text up to the first bracket that is too deep, with a number in its place, so that the part before it can be
    parsed. None if no bracket is too deep."""
    if text.count("[") + text.count("{") <= MAX_JSON:
        return None
    depth = 0
    for sign in _SIGNS.finditer(text):
        if sign[0] in "[{":
            depth += 1
            if depth > MAX_JSON:
                return text[: sign.start()] + "0"
        elif sign[0] in "]}":
            depth -= 1
    return None


class _Reader:
    """Reads levels member by member, because their places matter. Python's decoder reads everything else."""

    def __init__(self, text: str, strict: bool, tally: Tally, bad: list[Bad]) -> None:
        self._text, self._at = text, 0
        self._strict, self._tally, self._bad = strict, tally, bad
        self._counted = (0, 0)  # characters, and the bytes they take

    def request(self, root: Any) -> bytes:
        content = self._members(root, ())
        if self._peek():
            raise _Fatal(self._at)
        return content

    def check(self) -> None:
        """Raise ``_Fatal`` if the text is not JSON."""
        self._at = 0
        self._value()
        if self._peek():
            raise _Fatal(self._at)

    # ---- tokens ----

    def _peek(self) -> str:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._text[self._at : self._at + 1]

    def _next_is(self, sign: str) -> bool:
        here = self._peek() == sign
        self._at += here
        return here

    def _value(self) -> Any:
        self._peek()
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise _Fatal(error.pos) from None
        except (ValueError, RecursionError):
            raise _Fatal(self._at) from None
        return value

    def _key(self) -> str:
        if not self._next_is('"'):
            raise _Fatal(self._at)
        try:
            key, self._at = _SCAN(self._text, self._at, True)
        except ValueError:
            raise _Fatal(self._at) from None
        if not self._next_is(":"):
            raise _Fatal(self._at)
        try:
            key.encode()
        except UnicodeEncodeError:
            raise Malformed(TEXT) from None
        return key

    def _offset(self, at: int) -> int:
        characters, size = self._counted
        if at < characters:
            characters = size = 0
        size += len(self._text[characters:at].encode())
        self._counted = (at, size)
        return size

    # ---- levels ----

    def _members(self, node: Any, above: tuple[tuple[Any, int], ...]) -> bytes:
        if not self._next_is("{"):
            raise Malformed(VALUE) if self._peek() else _Fatal(self._at)
        kids = {child.name: child for child in node.children}
        parts: list[bytes] = []
        first = True
        while not (self._next_is("}") if first else not self._next_is(",")):
            first = False
            child = kids.get(self._key())
            if self._peek() == "n":
                self._value()
            elif child is None:
                self._tally.unknown += 1
                self._value()
            elif child.op is Op.LEVEL:
                parts += self._levels(child, above)
            else:
                parts.append(put_column(child, self._value(), self._strict, self._tally))
        if not first and not self._next_is("}"):
            raise _Fatal(self._at)
        return b"".join(parts)

    def _levels(self, node: Any, above: tuple[tuple[Any, int], ...]) -> list[bytes]:
        if node.arg:
            return self._one(node, above)
        if not self._next_is("["):
            raise Malformed(VALUE) if self._peek() else _Fatal(self._at)
        found: list[bytes] = []
        if self._next_is("]"):
            return found
        while True:
            found += self._one(node, above)
            if not self._next_is(","):
                break
        if not self._next_is("]"):
            raise _Fatal(self._at)
        return found

    def _one(self, node: Any, above: tuple[tuple[Any, int], ...]) -> list[bytes]:
        """A row of a level. A fault inside makes only this row bad, unless the text after it cannot be read."""
        self._peek()
        start, noted, unknown = self._at, len(self._bad), self._tally.unknown
        kept: list[bytes] = []
        try:
            kept.append(sized(node.number, self._members(node, (*above, (node, start)))))
        except Malformed as failure:
            if failure.code == MANY:
                raise
            self._at, self._tally.unknown = start, unknown
            del self._bad[noted:]
            self._value()
            if len(self._bad) >= MAX_BAD:
                raise Malformed(MANY) from None
            self._bad.append((failure.code, self._places((*above, (node, start)))))
        end = self._offset(self._at)
        for at in range(noted, len(self._bad)):  # the ends of the levels above it are known only now
            code, places = self._bad[at]
            depth = len(above) + 1
            self._bad[at] = (code, (*places[:depth], Place(*places[depth][:2], end), *places[depth + 1 :]))
        return kept

    def _places(self, chain: tuple[tuple[Any, int], ...]) -> tuple[Place, ...]:
        whole = Place(0, 0, len(self._text.encode()))
        return (whole, *(Place(node.index, self._offset(start), 0) for node, start in chain))
