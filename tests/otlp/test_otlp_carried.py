"""The compiled walk travels as bytes, and where it cannot be used the one in Python is."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zlib
from dataclasses import replace

import pytest

from esker.otlp.protocol import ship_extension

compiled = pytest.importorskip("esker.otlp._walk", reason="the compiled walk was not built")

WORKER = """
import pickle, sys
from importlib.abc import MetaPathFinder

class NoExtension(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "esker.otlp._walk":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoExtension())
from esker.otlp.protocol.ship_extension import install
from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import walker

done = install(pickle.load(sys.stdin.buffer))
kind = type(walker(PROGRAMS[Signal.TRACES]))
print(done, kind.__module__, walker(PROGRAMS[Signal.TRACES]).feed(b"", 0, False))
"""


def in_a_worker(extension: ship_extension.Extension | None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WORKER], input=pickle.dumps(extension), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_a_worker_uses_what_it_is_sent() -> None:
    assert in_a_worker(ship_extension.packed()).startswith("True esker.otlp._walk (0, 0, ")


@pytest.mark.slow
def test_a_worker_of_another_kind_does_without() -> None:
    ours = ship_extension.packed()
    assert ours is not None
    for other in (
        None,
        replace(ours, platform="cpython-win-arm64-gil"),
        replace(ours, stable=False, python="cpython-399"),
        replace(ours, content=zlib.compress(b"no library")),
    ):
        assert in_a_worker(other).startswith("False esker.otlp.protocol._walk_py (0, 0, ")


def test_what_is_there_already_is_used() -> None:
    assert ship_extension.install(None)


SHIPPED = """
import sys, marshal, pickle

class NoEsker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("esker", "msgspec", "numpy.f2py", "pyspark", "opentelemetry", "google"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoEsker())
parcel, digest, unpack, extension, data = pickle.load(sys.stdin.buffer)
names = {"__name__": "esker_unpack"}
exec(marshal.loads(unpack), names)
sys.meta_path.pop(0)
names["unpack"](parcel, digest)
from esker.otlp.protocol.ship_extension import Extension, install
done = install(Extension(*extension) if extension else None)
from esker.otlp.decoding.decode import decode
from esker.otlp.source.requests import Request
request = Request(source="f", offset=0, data=data)
[batch] = decode([request], batch_id="b", ingested_at_us=0)
print(done, {name: table.num_rows for name, table in batch.tables.items()}, batch.dead_letters.num_rows)
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_extension", [True, False])
def test_a_worker_without_esker_decodes(with_extension: bool) -> None:
    from otlp_messages import REQUESTS

    from esker.otlp.protocol.messages import Signal
    from esker.spark.workers import ship

    # one parcel holds what both entries import
    parcel = _parcel_of(
        "esker.otlp.decoding.decode", "esker.otlp.protocol.ship_extension", "esker.otlp.source.read_requests"
    )
    message = REQUESTS[Signal.TRACES]()
    spans = message.resource_spans.add().scope_spans.add().spans  # type: ignore[attr-defined]
    spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="x", start_time_unix_nano=5)
    spans.add(trace_id=b"bad")
    unpack = ship._packed("esker.otlp.decoding.decode")[2]
    own = ship_extension.packed()
    assert own is not None
    extension = (own.platform, own.stable, own.python, own.content) if with_extension else None
    order = pickle.dumps((*parcel, unpack, extension, message.SerializeToString()))
    done = subprocess.run([sys.executable, "-c", SHIPPED], input=order, capture_output=True, check=False)
    assert done.stdout.decode().strip() == f"{with_extension} {{'spans': 1}} 1", done.stderr.decode()


def _parcel_of(*entries: str) -> tuple[bytes, str]:
    import marshal

    from esker.spark.workers import ship

    found = {name: module for entry in entries for name, module in ship.modules_of(entry).items()}
    modules = {name: (package, compile(text, name, "exec")) for name, (package, text) in found.items()}
    return zlib.compress(marshal.dumps(modules)), "digest"
