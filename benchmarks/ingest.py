"""Telemetry from file to committed snapshot, as spans a CPU-second, beside a loop over opentelemetry-proto.

Both read the same file, write the same columns to such a table of a SQLite catalog, and commit; in turns, each in a
process of its own. The loop keeps no account and would do it twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Comparison, measure
from benchmarks.otlp import _json, _write, generated

SPANS = 60_000
_LAKE = """
import tempfile
from pathlib import Path
from esker.wiring import connect

def lake():
    folder = tempfile.mkdtemp(dir={folder!r})
    return folder, connect(f"sqlite:///{{folder}}/catalog.db")
"""
_OURS = (
    _LAKE
    + """
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp

def run():
    folder, made = lake()
    account = ingest_otlp(made, Asked(paths=[Path({path!r})], checkpoint=Path(folder, "checkpoint")))
    assert account.holds
    return account.tables["otel.spans"]
"""
)
_THEIRS = (
    _LAKE
    + """
from benchmarks.otlp_loop import from_json, from_protobuf
from esker.otlp.schemas import SPANS as TABLE
from esker.otlp.source.read_requests import read_file

def run():
    folder, made = lake()
    made.create_namespace("otel")
    table = made.create_table(
        "otel.spans", TABLE.schema, partition_by=TABLE.partition_by, sort_by=TABLE.sort_by, properties=TABLE.properties
    )
    rows = {loop}(request.data for request in read_file(Path({path!r})))
    table.append(rows)
    return rows.num_rows
"""
)
_TIMED = "run()\nbegun = time.process_time()\nrows = run()\nanswer = [rows, time.process_time() - begun]"


def compare(scratch: Path) -> Iterator[Comparison]:
    """Protobuf and JSON."""
    folder = scratch / "ingest"
    folder.mkdir(parents=True, exist_ok=True)
    requests = list(generated(SPANS))
    _write(folder / "spans.pb", [request.SerializeToString() for request in requests])
    _write(folder / "spans.json", [_json(request) for request in requests])
    yield _compared(folder, "spans.pb", "protobuf", "from_protobuf")
    yield _compared(folder, "spans.json", "JSON", "from_json")


def _compared(folder: Path, name: str, what: str, loop: str, *, turns: int = 2) -> Comparison:
    """The best of some turns each: a busy machine only ever makes it slower."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(turns):
        for times, setup in ((ours, _OURS), (theirs, _THEIRS)):
            made = setup.format(folder=str(folder), path=str(folder / name), loop=loop)
            rows, seconds = measure(made, _TIMED).answer  # type: ignore[misc]
            assert rows == SPANS
            times.append(seconds)
    rate, peer_rate = SPANS / min(ours), SPANS / min(theirs)
    return Comparison(
        f"ingesting {SPANS:,} spans in {what}, to the committed snapshot; a loop over the parser, and append",
        f"{rate / 1e3:,.0f} k spans/CPU-s",
        f"{peer_rate / 1e3:,.1f} k",
        rate / peer_rate,
        "at least 5 times as fast",
        rate / peer_rate >= 5,
    )
