"""The fuzz of the compiled parts, a few rounds long and without sanitizers; ``make sanitize`` runs it with them."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("esker.avro._shred", reason="the compiled walk was not built")
pytest.importorskip("esker.otlp._walk", reason="the compiled walk was not built")
pytest.importorskip("esker.otlp._variants", reason="the compiled part was not built")

from tests.sanitize import fuzz
from tests.sanitize.run import SOURCES, leaks_of_the_project


def test_the_compiled_parts_pass_a_short_fuzz() -> None:
    fuzz.fuzz(rounds=15, seed=1)


def test_a_seed_draws_the_same_inputs_each_time() -> None:
    one, other = (fuzz.mutated(b"x" * 50, random.Random("a seed")) for _ in range(2))
    assert one == other != b"x" * 50


@pytest.mark.parametrize("part", ["_shred", "_walk"])
def test_a_twin_that_answers_otherwise_is_found(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "Shredder" if part == "_shred" else "Walker"
    right = getattr(getattr(fuzz, f"{part}_py"), name)

    class Wrong(right):  # type: ignore[misc, valid-type]
        def finish(self) -> Any:
            return "wrong"

    monkeypatch.setattr(getattr(fuzz, f"{part}_py"), name, Wrong)
    with pytest.raises(AssertionError):
        fuzz.fuzz(rounds=3, seed=1)


def test_only_leaks_of_the_project_count() -> None:
    own = "Direct leak of 9 byte(s):\n    #0 malloc\n    #1 new /x/src/esker/avro/_shred_object.h:12"
    python = "Direct leak of 9 byte(s):\n    #0 malloc\n    #1 PyList_New Objects/listobject.c:152"
    assert leaks_of_the_project(f"=1=ERROR\n\n{python}\n\n{own}\n\nSUMMARY") == [own]
    assert SOURCES.search("/esker/otlp/_walk_json.h:3")
