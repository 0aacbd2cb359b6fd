"""Dead letters: a bad record as a request of its own, with resource and scope, that can be sent and decoded again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from esker.otlp.protocol.messages import Signal
from esker.otlp.protocol.walk import Bad, Data, Node, Op, Place, Program, json_name
from esker.otlp.protocol.wire import fields, sized
from esker.otlp.source.requests import Request, Trouble

# ---------------------------------------------------------------- extracting a bad record from its request


Head = tuple[bytes, bytes]  # the bytes before the record, and the bytes after it


class TooMuch(Exception):
    """The copies of resources and scopes for all bad records would be much larger than their request."""


@dataclass(slots=True)
class Extractor:
    """Extracts bad records from one request. Levels above several of them are read once."""

    program: Program
    data: Data
    json: bool
    budget: int
    _heads: dict[tuple[Place, int], Head] = field(default_factory=dict)

    def alone(self, places: Iterable[tuple[int, int, int]]) -> bytes:
        """A request with only the record at this place."""
        *above, record = [Place(*place) for place in places]
        inner, below = bytes(self.data[record.start : record.end]), self.program.nodes[record.node]
        for place in reversed(above):
            before, after = self._head(place, below)
            inner = before + (inner if self.json else sized(below.field.number, inner)) + after
            below = self.program.nodes[place.node]
        self.budget -= len(inner)
        if self.budget < 0:
            raise TooMuch
        return inner

    def _head(self, place: Place, below: Node) -> Head:
        key = (place, below.index)
        if key not in self._heads:
            make: Callable[[], Head] = partial(_of_json if self.json else _of_protobuf, self, place, below)
            self._heads[key] = make()
        return self._heads[key]


def _of_protobuf(extractor: Extractor, place: Place, below: Node) -> Head:
    """All fields of a level except the levels below it."""
    node = extractor.program.nodes[place.node]
    levels = {level.field.number for level in node.levels}
    data = extractor.data
    kept = (data[f.tag : f.end] for f in fields(data, place.start, place.end) if f.number not in levels)
    return b"".join(map(bytes, kept)), b""


def _of_json(extractor: Extractor, place: Place, below: Node) -> Head:
    node = extractor.program.nodes[place.node]
    levels = {json_name(level.field.name) for level in node.levels}
    members: dict[str, Any] = json.loads(bytes(extractor.data[place.start : place.end]))
    head = {name: value for name, value in members.items() if name not in levels}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1] + ("," if head else "")
    opened, closed = ("", "}") if below.field.once else ("[", "]}")
    return f'{text}"{json_name(below.field.name)}":{opened}'.encode(), closed.encode()


def taken_out(program: Program, data: Data, bad: list[Bad], *, as_json: bool) -> list[bytes]:
    """Return each bad record as a request of its own. Raises ``TooMuch`` if together they are far larger than the
    request."""
    extractor = Extractor(program, data, as_json, budget=4 * len(data) + (1 << 16))
    return [extractor.alone(places) for _, places in bad]


def what_it_is(program: Program, places: Iterable[tuple[int, int, int]]) -> str:
    """The name of the bad part: ``request``, ``spans``, ``metrics.gauge.data_points``."""
    names = [program.nodes[node].field.name for node, _, _ in places]
    assert program.nodes[0].field.op is Op.LEVEL
    return ".".join(names[3:]) or names[-1]


# ---------------------------------------------------------------- reading a dead letter again


COLUMNS = ("raw", "source", "offset", "signal", "error_class", "error")

# Not all bytes of these are stored. Decoding the stored part would give other records than the dead letter reports.
_CUT = frozenset(("too_large", "truncated", "damaged_compression"))


def request_of(row: Mapping[str, Any]) -> Request:
    """The request in a row of ``COLUMNS``. If not all its bytes are stored, the request has the letter's trouble."""
    raw: bytes = row["raw"] or b""
    signal = None
    if row["signal"] is not None:
        with suppress(ValueError):
            signal = Signal(row["signal"])
    is_cut = row["error_class"] in _CUT
    return Request(
        source=row["source"],
        offset=row["offset"],
        data=raw,
        json=raw.lstrip()[:1] == b"{",
        signal=signal,
        trouble=Trouble(row["error_class"], row["error"] or "") if is_cut else None,
    )
