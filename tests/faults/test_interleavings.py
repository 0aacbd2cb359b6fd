"""Two writers at every interleaving of their steps (F26 to F32). The outcome is that of one after the other.

The oracle is a dict of rows: whoever came through is applied to it in one order or the other, whoever met a conflict
is not, and the table must hold exactly what one of these orders gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from interleavings import Writer, interleavings, sampled
from orders import NAME, orders, rows
from sound_tables import check_sound, reachable, rows_of

from esker.errors import Conflict
from esker.table import Table

Rows = dict[int, str]
START: Rows = {1: "eu", 2: "eu", 3: "us"}


@dataclass(frozen=True)
class Operation:
    """Something a writer does, and what it means for a dict of rows; ``who`` tells two of a kind apart."""

    name: str
    do: Callable[[Table, int], object]
    means: Callable[[Rows, int], Rows]


def without(held: Rows, region: str) -> Rows:
    return {id_: where for id_, where in held.items() if where != region}


def alter(table: Table, who: int) -> None:
    with table.alter() as change:
        change.set_properties({f"by-{who}": "me"})


OPERATIONS = (
    Operation("append", lambda t, who: t.append(rows([who], "eu")), lambda held, who: {**held, who: "eu"}),
    Operation(
        "overwrite",
        lambda t, who: t.overwrite(rows([who], "eu"), where="region = 'eu'"),
        lambda held, who: {**without(held, "eu"), who: "eu"},
    ),
    Operation(
        "delete",
        lambda t, who: t.delete("region = 'eu' and id <> 2"),
        lambda held, who: {id_: where for id_, where in held.items() if where != "eu" or id_ == 2},
    ),
    Operation(
        "overwrite_partitions",
        lambda t, who: t.overwrite_partitions(rows([who], "us")),
        lambda held, who: {**without(held, "us"), who: "us"},
    ),
    Operation("alter", alter, lambda held, who: held),
)
PAIRS = list(combinations_with_replacement(OPERATIONS, 2))


def begin(memory: MemoryLake, chosen: tuple[Operation, ...]) -> list[Writer]:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")]))

    def work(operation: Operation, who: int) -> Callable[[Door], object]:
        return lambda door: operation.do(memory.lake(door).table(NAME), who)

    return [Writer(work(operation, 100 + at)) for at, operation in enumerate(chosen)]


def possible(chosen: tuple[Operation, ...], writers: list[Writer]) -> list[list[int]]:
    through = [(op, 100 + at) for at, (op, writer) in enumerate(zip(chosen, writers, strict=True)) if not writer.error]
    found = []
    for order in permutations(through):
        held = dict(START)
        for operation, who in order:
            held = operation.means(held, who)
        found.append(sorted(held))
    return found


def check_every_interleaving(chosen: tuple[Operation, ...], sample: int | None = None) -> int:
    place: list[MemoryLake] = []

    def start() -> list[Writer]:
        place[:] = [MemoryLake()]
        return begin(place[0], chosen)

    count = 0
    for writers in interleavings(start) if sample is None else sampled(start, sample, seed=len(chosen)):
        count += 1
        errors = [writer.error for writer in writers if writer.error is not None]
        assert all(isinstance(error, Conflict) for error in errors), errors
        assert len(errors) < len(chosen), "somebody wins"
        if all(operation.name in ("append", "delete", "alter") for operation in chosen):
            assert not errors, "these never conflict (L1)"
        table = check_sound(place[0].lake(), NAME)
        assert rows_of(table) in possible(chosen, list(writers))
        assert place[0].files() == reachable(table)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("chosen", PAIRS[:2], ids=lambda pair: " and ".join(op.name for op in pair))
def test_two_writers_come_out_as_if_one_had_come_after_the_other(chosen: tuple[Operation, ...]) -> None:
    assert check_every_interleaving(chosen) >= 10  # one moves first, and the other has read up to four times by then


@pytest.mark.slow
@pytest.mark.parametrize("chosen", PAIRS[2:], ids=lambda pair: " and ".join(op.name for op in pair))
def test_any_two_writers_come_out_as_if_one_had_come_after_the_other(chosen: tuple[Operation, ...]) -> None:
    assert check_every_interleaving(chosen) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4])
def test_three_and_four_writers_come_out_as_if_one_had_come_after_the_other(number: int) -> None:
    for at in range(5):
        chosen = (OPERATIONS * 2)[at : at + number]
        check_every_interleaving(chosen, sample=10)


def test_every_interleaving_is_run_once() -> None:
    """Two writers of two steps each: six ways, all of them different."""
    log: list[str] = []

    def begin() -> list[Writer]:
        log.clear()

        def work(name: str) -> Callable[[Door], object]:
            return lambda door: [door.go("move", name, lambda: log.append(name)) for _ in range(2)]

        return [Writer(work("a")), Writer(work("b"))]

    seen = ["".join(log) for _ in interleavings(begin)]
    assert sorted(seen) == ["aabb", "abab", "abba", "baab", "baba", "bbaa"]
