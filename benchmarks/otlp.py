"""Decoding OTLP, as spans a CPU-second, beside a loop over opentelemetry-proto; and how small the files are.

Both make the same Arrow table from the same requests, in turns, each in a process of its own.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.measure import Comparison, measure

SPANS, A_REQUEST = 30_000, 500
_SAME = {"url.scheme": "https", "server.address": "shop.example", "network.protocol.version": "1.1"}
_ROUTES = ("/api/orders", "/api/cart", "/api/users", "/checkout", "/health")


def compare(scratch: Path) -> Iterator[Comparison]:
    """Protobuf, JSON, and the size of what is written."""
    folder = scratch / "otlp"
    folder.mkdir(parents=True, exist_ok=True)
    requests = list(generated(SPANS))
    texts = [_json(request) for request in requests]
    _write(folder / "spans.pb", [request.SerializeToString() for request in requests])
    _write(folder / "spans.json", texts)
    yield _decoding(folder / "spans.pb", "protobuf", "a loop over opentelemetry-proto")
    yield _decoding(folder / "spans.json", "JSON", "a loop over json.loads")
    yield _size(folder, texts)
    yield from _profiles(folder)


def generated(spans: int) -> Iterator[ExportTraceServiceRequest]:
    """Spans of a shop, each with an id, a path and a duration of its own."""
    chance = random.Random(11)
    for first in range(0, spans, A_REQUEST):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        told = {
            "service.name": f"shop-{first % 7}",
            "service.version": "1.4.2",
            "host.name": "web-3",
            "os.type": "linux",
        }
        for key, value in told.items():
            resource.resource.attributes.add(key=key).value.string_value = value
        scope = resource.scope_spans.add()
        scope.scope.name = "opentelemetry.instrumentation.wsgi"
        for number in range(first, first + A_REQUEST):
            begun = 1_790_000_000_000_000_000 + number * 1_000_000 + chance.randrange(1_000_000)
            span = scope.spans.add(
                trace_id=chance.randbytes(16),
                span_id=chance.randbytes(8),
                parent_span_id=chance.randbytes(8),
                name="GET " + _ROUTES[number % 5],
                kind=2,
                start_time_unix_nano=begun,
                end_time_unix_nano=begun + chance.randrange(50_000_000),
            )
            span.status.code = 1
            span.attributes.add(key="http.request.method").value.string_value = "GET"
            span.attributes.add(key="url.path").value.string_value = f"{_ROUTES[number % 5]}/{chance.randrange(10**6)}"
            span.attributes.add(key="http.response.status_code").value.int_value = 200
            span.attributes.add(key="db.duration_ms").value.double_value = round(chance.random() * 50, 3)
            for key, value in _SAME.items():
                span.attributes.add(key=key).value.string_value = value
            if number % 10 == 0:
                span.events.add(name="cache.miss", time_unix_nano=begun + 5)
        yield request


def _json(request: ExportTraceServiceRequest) -> bytes:
    import base64

    from google.protobuf.json_format import MessageToDict

    document = MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64decode(span[key]).hex()
    return json.dumps(document, separators=(",", ":")).encode()


def _write(path: Path, requests: list[bytes]) -> None:
    """Four bytes of length before each, as the collector writes them."""
    path.write_bytes(b"".join(len(request).to_bytes(4, "big") + request for request in requests))


_OURS = """
from pathlib import Path
from esker.otlp.source.read_requests import read_file
from esker.otlp.decoding.decode import Options, decode
from esker.otlp.schemas import Profile

options = Options(profile=Profile("{profile}"))

def run():
    made = decode(read_file(Path({path!r})), batch_id="b", ingested_at_us=0, options=options)
    return sum(b.tables["spans"].num_rows for b in made)
"""
_THEIRS = """
from pathlib import Path
from benchmarks.otlp_loop import from_json, from_protobuf
from esker.otlp.source.read_requests import read_file

def run():
    return {loop}(request.data for request in read_file(Path({path!r}))).num_rows
"""
_TIMED = "run()\nbegun = time.process_time()\nrows = run()\nanswer = [rows, time.process_time() - begun]"


def _decoding(path: Path, what: str, peer: str, *, turns: int = 3) -> Comparison:
    """The best of some turns each: a busy machine only ever makes it slower."""
    loop = "from_json" if what == "JSON" else "from_protobuf"
    ours, theirs = [], []
    for _ in range(turns):
        for times, setup in ((ours, _OURS), (theirs, _THEIRS)):
            rows, seconds = measure(setup.format(path=str(path), loop=loop, profile="map"), _TIMED).answer  # type: ignore[misc]
            assert rows == SPANS
            times.append(seconds)
    rate, peer_rate = SPANS / min(ours), SPANS / min(theirs)
    spread = statistics.median(ours) / min(ours)
    return Comparison(
        f"decoding {SPANS:,} spans in {what}, {peer}",
        f"{rate / 1e3:,.0f} k spans/CPU-s (median {rate / spread / 1e3:,.0f} k)",
        f"{peer_rate / 1e3:,.1f} k",
        rate / peer_rate,
        "at least 10 times as fast",
        rate / peer_rate >= 10,
    )


def _size(folder: Path, texts: list[bytes]) -> Comparison:
    """What the table's files take beside the same requests as gzipped JSON lines; every span is unique."""
    ours = _written(folder, "map")
    theirs = len(gzip.compress(b"\n".join(texts)))
    return Comparison(
        "the table's files, gzipped JSON lines of the same spans",
        f"{ours / 1e6:.2f} MB",
        f"{theirs / 1e6:.2f} MB",
        theirs / ours,
        "smaller",
        theirs > ours,
    )


def _written(folder: Path, profile: str) -> int:
    """The bytes of the data files of a table with attributes in that form."""
    import uuid

    from esker.otlp.decoding.decode import Options, decode
    from esker.otlp.schemas import SPANS as TABLE
    from esker.otlp.schemas import Profile
    from esker.otlp.source.read_requests import read_file
    from esker.wiring import connect

    lake = connect(f"sqlite:///{folder}/{uuid.uuid4().hex[:8]}.db")
    lake.create_namespace("otel")
    wanted = TABLE.of(Profile(profile))
    table = lake.create_table(
        "otel.spans",
        wanted.definition,
        partition_by=list(wanted.partition_by),
        sort_by=list(wanted.sort_by),
        properties=wanted.properties,
        format_version=wanted.format_version,
    )
    options = Options(profile=wanted.profile)
    for batch in decode(read_file(folder / "spans.pb"), batch_id="b", ingested_at_us=0, options=options):
        table.append(batch.tables["spans"])
    return sum(table.inspect.files().column("file_size_in_bytes").to_pylist())


def _profiles(folder: Path, *, turns: int = 3) -> Iterator[Comparison]:
    """Other forms of attributes beside maps: how fast they are made, and how small they are."""
    path = folder / "spans.pb"
    times: dict[str, list[float]] = {"map": [], "flat": [], "variant": []}
    for _ in range(turns):
        for profile, taken in times.items():
            rows, seconds = measure(_OURS.format(path=str(path), profile=profile), _TIMED).answer  # type: ignore[misc]
            assert rows == SPANS
            taken.append(seconds)
    maps = SPANS / min(times.pop("map"))
    size = _written(folder, "map")
    for profile, taken in times.items():
        rate = SPANS / min(taken)
        other = _written(folder, profile)
        yield Comparison(
            f"decoding {SPANS:,} spans in protobuf with attributes as {profile}, as maps",
            f"{rate / 1e3:,.0f} k spans/CPU-s",
            f"{maps / 1e3:,.0f} k",
            rate / maps,
            "at least a quarter as fast",
            rate / maps >= 0.25,
        )
        yield Comparison(
            f"the table's files with attributes as {profile}, as maps",
            f"{other / 1e6:.2f} MB",
            f"{size / 1e6:.2f} MB",
            size / other,
            "at most a fifth larger",
            other <= 1.2 * size,
        )
