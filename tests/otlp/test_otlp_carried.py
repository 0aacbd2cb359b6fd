"""The compiled walk travels as bytes, and where it cannot be used the one in Python is."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zlib
from dataclasses import replace

import pytest

from esker.otlp import carried

compiled = pytest.importorskip("esker.otlp._walk", reason="the compiled walk was not built")

WORKER = """
import pickle, sys
from importlib.abc import MetaPathFinder

class NoExtension(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "esker.otlp._walk":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoExtension())
from esker.otlp.carried import install
from esker.otlp.messages import PROGRAMS, Signal
from esker.otlp.walk import walker

done = install(pickle.load(sys.stdin.buffer))
kind = type(walker(PROGRAMS[Signal.TRACES]))
print(done, kind.__module__, walker(PROGRAMS[Signal.TRACES]).feed(b"", 0, False))
"""


def in_a_worker(extension: carried.Extension | None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WORKER], input=pickle.dumps(extension), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_a_worker_uses_what_it_is_sent() -> None:
    assert in_a_worker(carried.packed()).startswith("True esker.otlp._walk (0, 0, ")


def test_a_worker_of_another_kind_does_without() -> None:
    ours = carried.packed()
    assert ours is not None
    for other in (
        None,
        replace(ours, platform="cpython-win-arm64-gil"),
        replace(ours, stable=False, python="cpython-399"),
        replace(ours, content=zlib.compress(b"no library")),
    ):
        assert in_a_worker(other).startswith("False esker.otlp._walk_py (0, 0, ")


def test_what_is_there_already_is_used() -> None:
    assert carried.install(None)
