"""What a frame is given to know of its files: not more than helps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from esker.model.types import LONG, Field
from esker.read.prune_manifest import FileFacts

FIELDS = tuple(Field(id=at, name=f"c{at}", type=LONG) for at in range(1, 65))


def listed(*counts: tuple[int | None, int | None]) -> Any:
    return SimpleNamespace(data=[SimpleNamespace(added_files=a, existing_files=b) for a, b in counts])


@pytest.mark.parametrize(
    ("counts", "columns"),
    [
        ([(3, 0)], 0),  # few files: bounds save nothing
        ([(3, 1)], 64),
        ([(2, 0), (1, 1)], 64),
        ([(10_000, 0)], 20),
        ([(60_000, 40_000)], 2),
        ([(300_000, 0)], 0),
        ([(None, None)], 64),  # an early writer did not count
        ([], 0),
    ],
)
def test_a_frame_has_bounds_of_a_limited_number(counts: list[tuple[int | None, int | None]], columns: int) -> None:
    facts = FileFacts(floats=FIELDS[:1], spans=FIELDS)
    limited = facts.limited(listed(*counts))
    assert limited.spans == FIELDS[:columns]
    assert limited.floats == facts.floats
