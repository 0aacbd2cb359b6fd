"""The law of reading: whatever the file's format, age and layout, rows come out as plain Python says they should."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from arrow_tables import Files, column, metadata, read, schema, task
from hypothesis import given, settings
from hypothesis import strategies as st

from esker.model.predicates.predicate import TRUE, And, Bound, Compare, IsNull, Op, Or
from esker.model.schema import Schema
from esker.model.types import DATE, DOUBLE, FLOAT, INT, LONG, STRING, Field, ListType, StructType
from esker.tree.data_file import DataFile

# The table as it is now, and as it was when old files were written: columns added, widened, renamed, moved.
NOW = schema(
    column(3, "day", DATE),
    column(1, "n", LONG),
    column(4, "x", DOUBLE),
    column(5, "s", StructType((column(7, "b", STRING), column(6, "a", LONG), column(8, "c", INT, initial_default=42)))),
    column(9, "l", ListType(element_id=10, element=LONG)),
    column(11, "new", STRING, initial_default="fresh"),
    column(12, "none", INT),
)
THEN = schema(
    column(1, "number", INT),
    column(2, "dropped", STRING),
    column(5, "s", StructType((column(6, "a", INT), column(7, "b", STRING)))),
    column(4, "x", FLOAT),
    column(9, "l", ListType(element_id=10, element=INT)),
    column(3, "day", DATE),
)
NAMES_THEN = {"n": "number"}
TABLE = metadata(THEN, NOW)
POS = column(2147483645, "_pos", LONG, required=True)

small = st.one_of(st.none(), st.integers(-3, 3))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "fresh", "b"]))
rows_now = st.fixed_dictionaries(
    {
        "day": st.one_of(st.none(), st.integers(-2, 2).map(lambda d: dt.date(1970, 1, 5) + dt.timedelta(d))),
        "n": small,
        "x": st.one_of(st.none(), st.sampled_from([-1.0, 0.5, 2.0])),
        "s": st.one_of(st.none(), st.fixed_dictionaries({"b": texts, "a": small, "c": small})),
        "l": st.one_of(st.none(), st.lists(small, max_size=3)),
        "new": texts,
        "none": small,
    }
)


@dataclass(frozen=True)
class Case:
    """A file to write and what to ask of it."""

    rows: list[dict[str, Any]]
    old: bool
    format: str
    row_group_size: int
    positions: list[int]
    vector: list[int]
    keys: list[tuple[Any, Any]]
    where: Bound
    wanted: list[str]


def terms() -> st.SearchStrategy[Bound]:
    ops = st.sampled_from(Op)
    nested = NOW.by_id[6]
    by_name = {f.name: f for f in NOW}
    literals = {
        "n": st.integers(-4, 4),
        "x": st.sampled_from([-1.0, 0.0, 0.5, 2.0]),
        "day": st.integers(1, 7),
        "new": st.sampled_from(["", "a", "fresh", "z"]),
        "none": st.integers(-4, 4),
    }
    compares: list[Any] = [st.builds(Compare, st.just(by_name[n]), ops, values) for n, values in literals.items()]
    compares.append(st.builds(Compare, st.just(nested), ops, st.integers(-4, 4)))
    tested = st.sampled_from([*by_name.values(), nested])
    return st.one_of(*compares, st.builds(IsNull, tested, st.booleans()))


wheres = st.one_of(
    st.just(TRUE),
    terms(),
    st.lists(terms(), min_size=2, max_size=2).map(lambda parts: And(tuple(parts))),
    st.lists(terms(), min_size=2, max_size=2).map(lambda parts: Or(tuple(parts))),
)
positions = st.lists(st.integers(0, 20), max_size=4)
cases = st.builds(
    Case,
    rows=st.lists(rows_now, max_size=12),
    old=st.booleans(),
    format=st.sampled_from(["parquet", "orc"]),
    row_group_size=st.integers(1, 6),
    positions=positions,
    vector=positions,
    keys=st.lists(st.tuples(small, texts), max_size=3),
    where=wheres,
    wanted=st.lists(st.sampled_from([*(f.name for f in NOW), "_pos"]), unique=True, min_size=1),
)


def seen(row: dict[str, Any], at: int, *, old: bool) -> dict[str, Any]:
    """The row as the table should show it."""
    if not old:
        return {**row, "_pos": at}
    struct = None if row["s"] is None else {**row["s"], "c": 42}
    return {**row, "s": struct, "new": "fresh", "none": None, "_pos": at}


def as_written(row: dict[str, Any], *, old: bool) -> dict[str, Any]:
    if not old:
        return row
    kept = {NAMES_THEN.get(name, name): value for name, value in row.items()}
    if kept["s"] is not None:
        kept["s"] = {name: value for name, value in kept["s"].items() if name != "c"}
    return {f.name: kept.get(f.name) for f in THEN}


def holds(where: Bound, row: dict[str, Any]) -> bool:
    match where:
        case And(parts):
            return all(holds(part, row) for part in parts)
        case Or(parts):
            return any(holds(part, row) for part in parts)
        case IsNull(field, negated):
            return (value_of(field, row) is None) != negated
        case Compare(field, op, literal):
            value = value_of(field, row)
            if isinstance(value, dt.date):
                value = (value - dt.date(1970, 1, 1)).days
            if value is None:
                return False
            below, same = value < literal, value == literal
            return {
                Op.EQ: same,
                Op.NE: not same,
                Op.LT: below,
                Op.LE: below or same,
                Op.GT: not (below or same),
                Op.GE: not below,
            }[op]
    return True


def value_of(field: Field, row: dict[str, Any]) -> Any:
    if field.id == 6:
        return None if row["s"] is None else row["s"]["a"]
    return row[field.name]


def written(files: Files, case: Case) -> DataFile:
    rows = [as_written(row, old=case.old) for row in case.rows]
    options: dict[str, Any] = {"row_group_size": case.row_group_size} if case.format == "parquet" else {}
    return files.rows(THEN if case.old else NOW, rows, format=case.format, **options)


def expected(case: Case) -> list[dict[str, Any]]:
    gone = {*case.positions, *case.vector}
    shown = [seen(row, at, old=case.old) for at, row in enumerate(case.rows)]
    alive = [row for row in shown if row["_pos"] not in gone and (row["n"], row["new"]) not in case.keys]
    return [{name: row[name] for name in case.wanted} for row in alive if holds(case.where, row)]


def chosen(names: list[str]) -> Schema:
    by_name = {f.name: f for f in (*NOW, POS)}
    return schema(*(by_name[name] for name in names))


@settings(deadline=None)
@given(st.lists(cases, min_size=1, max_size=2))
def test_any_file_read_with_any_projection_filter_and_deletes_equals_the_rows(given_cases: list[Case]) -> None:
    files = Files()
    projection = chosen(given_cases[0].wanted)
    tasks, rows = [], []
    for case in given_cases:
        data_file = written(files, case)
        deletes = [
            files.position_deletes([(data_file.path, at) for at in case.positions], format=case.format),
            files.vector(case.vector, data_file.path),
            files.equality_deletes(
                schema(column(1, "k", LONG), column(11, "o", STRING)), [{"k": k, "o": o} for k, o in case.keys]
            ),
        ]
        tasks.append(task(data_file, *deletes, where=case.where))
        rows += expected(Case(**{**case.__dict__, "wanted": given_cases[0].wanted}))
    assert read(files, TABLE, *tasks, projection=projection).to_pylist() == rows
    assert read(files, TABLE, *tasks, projection=projection, limit=3).to_pylist() == rows[:3]
