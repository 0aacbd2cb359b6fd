"""Detects the signal of a request if the sender did not say it. Requests of all three signals begin alike."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import islice

from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import Data, Node, Op
from esker.otlp.protocol.wire import FIXED32, FIXED64, SIZED, VARINT, Malformed, WireField, fields

_MEMBERS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
_FIRST = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(resourceSpans|resourceLogs|resourceMetrics)"')
_WIRES = {Op.FIXED64: FIXED64, Op.FIXED32: FIXED32, Op.UINT32: VARINT, Op.INT32: VARINT}
NO_SIGNAL = "it does not have exactly one signal: resourceSpans, resourceLogs or resourceMetrics"
_POINTS = frozenset((5, 7, 9, 10, 11))
_IDS = frozenset((1, 2, 9, 10))
_LOOKED_AT = 12  # fields of a record that are compared: senders write them in the order of their numbers


def signal_at_start(data: bytes | bytearray) -> Signal | None:
    """The signal of the first member, if no other signal's name occurs anywhere; needs no memory. None: parse it."""
    head = _FIRST.match(data)
    if head and not any(f'"{name}"'.encode() in data for name in _MEMBERS if name.encode() != head[1]):
        return _MEMBERS[head[1].decode()]
    return None


def signal_of_json(data: bytes | bytearray) -> Signal | None:
    """The signal of the member's name; None if there is none, or several. An empty request counts as traces."""
    found_first = signal_at_start(data)
    if found_first is not None:
        return found_first
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return Signal.TRACES  # the walk will report what is wrong
    if document == {}:
        return Signal.TRACES
    found = [_MEMBERS[name] for name in document if name in _MEMBERS] if isinstance(document, dict) else []
    return found[0] if len(found) == 1 else None


def is_empty_json(data: bytes | bytearray) -> bool:
    """Whether it is an empty request, of any signal."""
    return len(data) < 100 and data.strip()[:1] == b"{" and not data.strip(b" \t\r\n{}")


def signal_of_protobuf(data: Data) -> Signal:
    """The signal that fits the shape of the first record best."""
    try:
        record = _first_record(data)
        if record is None:
            return Signal.TRACES
        shape = tuple((field.number, field.wire, field.end - field.start) for field in record)
        found = _plain(tuple(one if one[0] in _IDS else (*one[:2], 0) for one in shape))
        return found or min(Signal, key=lambda signal: _strangeness(signal, data, record))
    except Malformed:
        return Signal.TRACES


@lru_cache(4096)
def _plain(shape: tuple[tuple[int, int, int], ...]) -> Signal | None:
    """The signal of a record without unusual fields. Cached: requests of one record are common and have few shapes."""
    record = [WireField(number, wire, 0, 0, size, 0) for number, wire, size in shape]
    return next((one for one in (Signal.TRACES, Signal.LOGS) if not _strangeness(one, b"", record)[0]), None)


def _first_record(data: Data) -> list[WireField] | None:
    for resource in fields(data, 0, len(data)):
        if resource.number != 1 or resource.wire != SIZED:
            continue
        for scope in fields(data, resource.start, resource.end):
            if scope.number != 2 or scope.wire != SIZED:
                continue
            for record in fields(data, scope.start, scope.end):
                if record.number == 2 and record.wire == SIZED:
                    return list(islice(fields(data, record.start, record.end), _LOOKED_AT))
    return None


def _wires(signal: Signal) -> dict[int, int]:
    def leaf(node: Node) -> Node:
        below = list(node.levels)
        return leaf(below[0]) if len(below) == 1 else node

    record = leaf(PROGRAMS[signal].root)
    return {child.field.number: _WIRES.get(child.field.op, SIZED) for child in record.children}


_RECORDS = {signal: _wires(signal) for signal in Signal}


def _strangeness(signal: Signal, data: Data, record: list[WireField]) -> tuple[int, int]:
    """How many fields a record of this signal would not have, or would miss. The second number prefers common
    signals."""
    known = _RECORDS[signal]
    strange = sum(known.get(field.number) != field.wire for field in record)
    sizes = {field.number: field.end - field.start for field in record if field.wire == SIZED}
    match signal:
        case Signal.TRACES:
            strange += (sizes.get(1) != 16) + (sizes.get(2) != 8) + all(field.number != 7 for field in record)
        case Signal.METRICS:
            strange += not any(_holds_points(data, field) for field in record)
        case Signal.LOGS:
            strange += (sizes.get(9, 16) != 16) + (sizes.get(10, 8) != 8)
            strange += all(field.number not in (1, 11) for field in record)
    return strange, (Signal.TRACES, Signal.LOGS, Signal.METRICS).index(signal)


def _holds_points(data: Data, field: WireField) -> bool:
    """Whether it is the data of a metric: points, temporality or monotonicity, and nothing else."""
    if field.number not in _POINTS or field.wire != SIZED:
        return False
    try:
        inner = [(inner.number, inner.wire) for inner in fields(data, field.start, field.end)]
    except Malformed:
        return False
    return all(one in ((1, SIZED), (2, VARINT), (3, VARINT)) for one in inner)
