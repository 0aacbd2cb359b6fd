"""Changes of rows: every call fails once, and two writers meet at every interleaving of their steps.

The oracle is a list of rows: what was acknowledged is there once, what was refused is not there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import pytest
from breaking import MANY, Breaking, outcome
from doors import Door, MemoryLake
from interleavings import Writer, interleavings, sampled
from orders import QUICK
from row_models import NAME, Model, Row, arrow, in_order, make, rows_in
from sound_tables import check_sound, reachable

from esker.errors import Conflict, OutcomeUnknown
from esker.table import Table

START: Model = [{"id": i, "region": "eu" if i < 4 else "us", "n": i} for i in range(1, 7)]
TABLES = [(2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")]


@dataclass(frozen=True)
class Operation:
    """Something a writer does, and what it means for the rows; ``who`` tells two of a kind apart."""

    name: str
    do: Callable[[Table, int], object]
    means: Callable[[Model, int], Model]

    def __str__(self) -> str:
        return self.name


def row(id_: int, n: int) -> Row:
    return {"id": id_, "region": "eu", "n": n}


def replaced(held: Model, new: Sequence[Row]) -> Model:
    """An upsert by id."""
    by_id = {one["id"]: one for one in new}
    there = {one["id"] for one in held}
    return [by_id.get(one["id"], one) for one in held] + [one for one in new if one["id"] not in there]


def stream(table: Table, who: int) -> None:
    with table.transaction() as tx:
        tx.delete_by_key({"id": [2, 5]}, on=["id"])
        tx.append(arrow([row(2, who)]))


def several(table: Table, who: int) -> None:
    with table.transaction() as tx:
        tx.update({"n": "n + 100"}, "id = 3")
        tx.delete("id = 4")
        tx.upsert(arrow([row(3, who)]), on=["id"])


OPERATIONS = (
    Operation("append", lambda t, who: t.append(arrow([row(who, 0)])), lambda held, who: [*held, row(who, 0)]),
    Operation(
        "delete", lambda t, who: t.delete("n IN (2, 5)"), lambda held, who: [r for r in held if r["n"] not in (2, 5)]
    ),
    Operation(
        "update",
        lambda t, who: t.update({"n": "n + 10"}, "id BETWEEN 2 AND 4"),
        lambda held, who: [{**r, "n": r["n"] + 10} if 2 <= r["id"] <= 4 else r for r in held],
    ),
    Operation(
        "upsert",
        lambda t, who: t.upsert(arrow([row(2, who), row(who, who)]), on=["id"]),
        lambda held, who: replaced(held, [row(2, who), row(who, who)]),
    ),
    Operation("stream", stream, lambda held, who: [*(r for r in held if r["id"] not in (2, 5)), row(2, who)]),
    Operation(
        "overwrite",
        lambda t, who: t.overwrite(arrow([row(who, 1)]), where="id <= 2"),
        lambda held, who: [*(r for r in held if r["id"] > 2), row(who, 1)],
    ),
)
SEVERAL = Operation(
    "several",
    several,
    lambda held, who: replaced([r for r in held if r["id"] != 4], [row(3, who)]),
)


def started(version: int, mode: str) -> MemoryLake:
    memory = MemoryLake()
    modes = dict.fromkeys(("delete", "update", "merge"), mode)
    table = make(memory.lake(), version, modes, (), **QUICK)
    table.append(arrow(START[:3]))
    table.append(arrow(START[3:]))
    table.delete("id = 6")  # so that there are deletes to take in, or files that were rewritten
    return memory


BEGINNING = [r for r in START if r["id"] != 6]


# ---------------------------------------------------------------- the k-th call fails


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "raw"])
@pytest.mark.parametrize(("version", "mode"), TABLES)
@pytest.mark.parametrize("operation", [*OPERATIONS[1:5], SEVERAL], ids=str)
def test_a_table_is_whole_whichever_call_fails_while_rows_change(
    operation: Operation, version: int, mode: str, how: str
) -> None:
    before, after = in_order(BEGINNING), in_order(operation.means(BEGINNING, 50))
    for at in range(1, MANY):
        memory = started(version, mode)
        there = memory.files()
        door = Breaking(at, how)
        error = outcome(lambda: operation.do(memory.lake(door).table(NAME), 50))  # noqa: B023  # called at once
        if door.broke is None:
            assert error is None
            assert at > 5, "no call was made to fail"
            return
        where = f"{how} call {at}, {door.calls[at - 1]}"
        table = check_sound(memory.lake(), NAME)  # INV1, INV2, INV4, INV5
        expected = [after] if error is None else [before, after] if isinstance(error, OutcomeUnknown) else [before]
        assert rows_in(table) in expected, where  # INV3
        assert not set(door.of("delete")) & there, where  # INV6
        left = memory.files() - reachable(table)
        assert left <= memory.files() - there, where  # INV7
        if how == "before" and door.broke not in ("delete", "move"):
            assert error is None or left == set(), where
        table.append(arrow([row(99, 0)]))
        check_sound(memory.lake(), NAME)
    raise AssertionError("never came through")


# ---------------------------------------------------------------- every interleaving


def check_every_interleaving(chosen: tuple[Operation, ...], version: int, mode: str, sample: int | None = None) -> int:
    place: list[MemoryLake] = []

    def work(operation: Operation, who: int) -> Callable[[Door], object]:
        return lambda door: operation.do(place[0].lake(door).table(NAME), who)

    def start() -> list[Writer]:
        place[:] = [started(version, mode)]
        return [Writer(work(operation, 100 + at)) for at, operation in enumerate(chosen)]

    count = 0
    for writers in interleavings(start) if sample is None else sampled(start, sample, seed=len(chosen)):
        count += 1
        errors = [writer.error for writer in writers if writer.error is not None]
        assert all(isinstance(error, Conflict) for error in errors), errors
        assert len(errors) < len(chosen), "somebody wins"
        if all(operation.name in ("append", "delete", "stream") for operation in chosen):
            assert not errors, "these never conflict (L1)"
        table = check_sound(place[0].lake(), NAME)
        assert rows_in(table) in possible(chosen, list(writers))
        assert place[0].files() == reachable(table)
    return count


def possible(chosen: tuple[Operation, ...], writers: list[Writer]) -> list[list[tuple[str, ...]]]:
    through = [(op, 100 + at) for at, (op, writer) in enumerate(zip(chosen, writers, strict=True)) if not writer.error]
    found = []
    for order in permutations(through):
        held = list(BEGINNING)
        for operation, who in order:
            held = operation.means(held, who)
        found.append(in_order(held))
    return found


PAIRS = [pair for pair in combinations_with_replacement(OPERATIONS, 2) if {op.name for op in pair} != {"append"}]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode"), TABLES)
@pytest.mark.parametrize("chosen", PAIRS, ids=lambda pair: " and ".join(op.name for op in pair))
def test_two_writers_who_change_rows_come_out_as_if_one_had_come_after_the_other(
    chosen: tuple[Operation, ...], version: int, mode: str
) -> None:
    assert check_every_interleaving(chosen, version, mode) >= 8


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode"), TABLES)
def test_three_writers_who_change_rows_come_out_as_if_one_had_come_after_the_other(version: int, mode: str) -> None:
    for at in range(len(OPERATIONS)):
        check_every_interleaving((OPERATIONS * 2)[at : at + 3], version, mode, sample=8)


@pytest.mark.parametrize(("version", "mode"), TABLES)
def test_an_update_that_meets_a_delete_of_its_rows_gives_way(version: int, mode: str) -> None:
    chosen = (OPERATIONS[1], OPERATIONS[2])
    assert check_every_interleaving(chosen, version, mode, sample=4) == 4
