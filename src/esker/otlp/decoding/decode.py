"""Decodes requests into tables, batch by batch, with a dead letter for each record that cannot be decoded.

Memory is limited by a batch and a request, for any input: a batch ends when its columns or its dead letters exceed
``Limits.batch``. A request whose columns exceed ``Limits.request`` becomes a dead letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from esker.otlp.decoding.assemble import Form, Origin, tables_of
from esker.otlp.decoding.dead_letters import TooMuch, taken_out, what_it_is
from esker.otlp.decoding.promote import Promotion, typed
from esker.otlp.decoding.signals import NO_SIGNAL, is_empty_json, signal_of_json, signal_of_protobuf
from esker.otlp.protocol.arrow_columns import levels_of
from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import FULL, MAX_BYTES, REASONS, Bad, Walker, walker
from esker.otlp.record_counts import Counts, count_empty, count_oddities
from esker.otlp.schemas import DEAD_LETTER, Profile
from esker.otlp.source.requests import Request, Trouble

_WORST_ESCAPE = 6  # a control character of one byte is six bytes in JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is in memory at a time, in bytes of columns."""

    batch: int = 64 << 20
    request: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How requests are decoded. Can be pickled."""

    promote: Mapping[str, tuple[Promotion, ...]] = field(default_factory=dict)  # by table
    profile: Profile = Profile.MAP
    strict: bool = False  # refuse JSON that OTLP does not allow but senders write: ids in base64, enums by name
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A batch: the tables that have rows, by name without the namespace, and the rows of ``dead_letter``."""

    tables: dict[str, pa.Table]
    dead_letters: pa.Table
    counts: Counts


@dataclass(frozen=True, slots=True)
class _Letter:
    request: Request
    raw: bytes
    signal: str | None
    trouble: Trouble


def decode(
    requests: Iterable[Request], *, batch_id: str, ingested_at_us: int, options: Options | None = None
) -> Iterator[Decoded]:
    """Decode requests into batches. Every record is in a table or among the dead letters, never in both."""
    decoder = Decoder(batch_id=batch_id, ingested_at_us=ingested_at_us, options=options or Options())
    for request in requests:
        if not decoder.add(request):
            yield decoder.take()
            decoder.add(request)
        if decoder.is_full:
            yield decoder.take()
    if not decoder.is_empty:
        yield decoder.take()


class Decoder:
    """Collects requests and returns their records as tables."""

    def __init__(self, *, batch_id: str, ingested_at_us: int, options: Options) -> None:
        self._batch_id = batch_id
        self._ingested_at_us = ingested_at_us
        self._options = options
        most = MAX_BYTES // _WORST_ESCAPE if options.profile is Profile.FLAT else MAX_BYTES
        self._limit = min(options.limits.batch + options.limits.request, most)
        self._walkers: dict[Signal, Walker] = {}
        self._begin()

    def _begin(self) -> None:
        self._sources: list[str | None] = []
        self._letters: list[_Letter] = []
        self._records: Counter[Signal] = Counter()
        self._bytes: dict[Signal, int] = {}
        self._letter_bytes = 0
        self._requests = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added since the last batch."""
        return not self._requests

    @property
    def is_full(self) -> bool:
        """Whether the batch is full; then call ``take``."""
        return sum(self._bytes.values()) + self._letter_bytes > self._options.limits.batch

    def add(self, request: Request) -> bool:
        """Add a request. Returns False if it needs a new batch: then call ``take`` and add it again."""
        if request.trouble is not None:
            self._bury(request, request.data, request.signal, request.trouble)
        elif (signal := _signal(request)) is None:
            self._bury(request, request.data, request.signal, Trouble("unknown_signal", NO_SIGNAL))
        elif not self._walk(request, signal):
            return False
        self._requests += 1
        return True

    def _walk(self, request: Request, signal: Signal) -> bool:
        walk = self._walkers.get(signal) or self._new_walker(signal)
        code, records, size, bad = walk.feed(request.data, len(self._sources), request.json)
        if code == FULL and not self.is_empty:
            return False
        if code:
            self._bury(request, request.data, signal, Trouble(*REASONS[code]))
            return True
        if bad and not self._bury_all(request, signal, bad):
            walk.undo()
            sentence = f"{len(bad)} of its records cannot be kept; the first because {_sentence(signal, bad[0])}"
            self._bury(request, request.data, signal, Trouble("too_many", sentence))
            return True
        self._sources.append(request.source)
        self._records[signal] += records
        self._bytes[signal] = size
        return True

    def _new_walker(self, signal: Signal) -> Walker:
        made = walker(PROGRAMS[signal], limit=self._limit, strict=self._options.strict)
        self._walkers[signal] = made
        return made

    def _bury_all(self, request: Request, signal: Signal, bad: list[Bad]) -> bool:
        """Make a dead letter of each bad record. Returns False if they would be too large."""
        try:
            raws = taken_out(PROGRAMS[signal], request.data, bad, as_json=request.json)
        except TooMuch:
            return False
        for raw, one in zip(raws, bad, strict=True):
            self._bury(request, raw, signal, Trouble(REASONS[one[0]].word, _sentence(signal, one)))
        return True

    def _bury(self, request: Request, raw: bytes, signal: Signal | None, trouble: Trouble) -> None:
        self._letters.append(_Letter(request, raw, signal, trouble))
        self._letter_bytes += len(raw) + 256

    def take(self) -> Decoded:
        """Return the batch collected so far, and begin the next one."""
        origin = Origin(sources=self._sources, batch_id=self._batch_id, ingested_at_us=self._ingested_at_us)
        form = Form(profile=self._options.profile, promote=self._options.promote)
        tables: dict[str, pa.Table] = {}
        counts = Counts(requests=self._requests, dead_letters=len(self._letters))
        for signal in list(self._bytes):
            slots, unknown, repeated = self._walkers[signal].finish()
            levels = levels_of(PROGRAMS[signal].root, slots)
            tables |= tables_of(signal, levels, origin, form)
            count_empty(counts, levels)
            counts.unknown_fields += unknown
            counts.repeated_keys += repeated
        for name in tables:
            tables[name], failed = typed(tables[name], self._options.promote.get(name, ()))
            counts.not_castable.update(failed)
            counts.records[name] = tables[name].num_rows
            count_oddities(counts, tables[name], self._ingested_at_us)
        letters = self._dead_letters()
        self._begin()
        return Decoded(tables=tables, dead_letters=letters, counts=counts)

    def _dead_letters(self) -> pa.Table:
        rows = [
            {
                "raw": letter.raw,
                "source": letter.request.source,
                "offset": letter.request.offset,
                "signal": letter.signal,
                "error_class": letter.trouble.word,
                "error": _with_place(letter),
                "batch": self._batch_id,
                "at": self._ingested_at_us,
            }
            for letter in self._letters
        ]
        return pa.Table.from_pylist(rows, schema=DEAD_LETTER.schema)


def _signal(request: Request) -> Signal | None:
    """The signal of a request; None for JSON that was sent as another signal."""
    if request.json:
        found = signal_of_json(request.data)
        return found if request.signal in (None, found) or is_empty_json(request.data) else None
    return request.signal or signal_of_protobuf(request.data)


def _sentence(signal: Signal, bad: Bad) -> str:
    code, places = bad
    return f"{what_it_is(PROGRAMS[signal], places)}: {REASONS[code].sentence}"


def _with_place(letter: _Letter) -> str:
    line = letter.request.line
    return letter.trouble.sentence if line is None else f"line {line}: {letter.trouble.sentence}"
