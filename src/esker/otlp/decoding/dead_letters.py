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

# ---------------------------------------------------------------- alone
#
# A bad record taken out of its request: a request of its own, with resource and scope, that can be sent again.


Head = tuple[bytes, bytes]  # what stands before the record, and what after it


class TooMuch(Exception):
    """The heads of many bad records would take much more room than the request they come from."""


@dataclass(slots=True)
class Extractor:
    """Takes bad records out of one request; what stands above several of them is looked at once."""

    program: Program
    data: Data
    json: bool
    budget: int
    _heads: dict[tuple[Place, int], Head] = field(default_factory=dict)

    def alone(self, places: Iterable[tuple[int, int, int]]) -> bytes:
        """A request that holds only what the places lead to."""
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
    """Every field but the levels below."""
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
    """Each bad record as a request of its own; ``TooMuch`` if together they outgrow the request by far."""
    extractor = Extractor(program, data, as_json, budget=4 * len(data) + (1 << 16))
    return [extractor.alone(places) for _, places in bad]


def what_it_is(program: Program, places: Iterable[tuple[int, int, int]]) -> str:
    """The name of what is bad: ``request``, ``spans``, ``metrics.gauge.data_points``."""
    names = [program.nodes[node].field.name for node, _, _ in places]
    assert program.nodes[0].field.op is Op.LEVEL
    return ".".join(names[3:]) or names[-1]


# ---------------------------------------------------------------- letters
#
# A dead letter as the request that it was, to be decoded again.


COLUMNS = ("raw", "source", "offset", "signal", "error_class", "error")

# Of these not all bytes are there: decoding what is would tell another story than the letter does.
_CUT = frozenset(("too_large", "truncated", "damaged_compression"))


def request_of(row: Mapping[str, Any]) -> Request:
    """The request of a row that has ``COLUMNS``; one whose bytes are not all there carries the letter's trouble."""
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
