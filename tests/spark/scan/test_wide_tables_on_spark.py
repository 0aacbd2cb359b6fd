"""What the driver does for a statement grows with the number of columns, and not with its square.

Counted in lines of Python that run, for each function, at three widths: of a cost that grows evenly the second step
adds what the first did. Nothing here starts Spark: its part is played.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from sql_lakes import lake_of, names_in, read_in, rewritten

from esker.errors import InvalidInput
from esker.lake import Lake
from esker.model.parsing.column_definitions import parse_columns
from esker.model.schema import Schema
from esker.model.types import LONG, Type
from esker.ports.row_changes import Clause, InsertRow, RowChange, Side, SqlText, UpdateRow
from esker.spark.rows import resolve_source
from esker.spark.rows.resolve_expressions import Scope
from esker.spark.rows.resolve_outputs import Outputs
from esker.spark.rows.store_assignment import reordered
from esker.spark.sql.changes import insert_rows
from esker.spark.sql.changes.update_delete_merge import Changer
from esker.spark.sql.changes.write_audit_publish import Destination
from esker.spark.sql.grammar.statements import Insert, Merge, Update
from esker.spark.sql.queries.rewrite_query import Surroundings

WIDTHS = (110, 220, 330)
SLACK = 0.08  # a square adds 22 % of the last count, or 2 of 9


def lines_of(do: Callable[[], object]) -> Counter[tuple[str, str, int]]:
    """How many lines ran in each function. Each turn of a comprehension is a line."""
    found: Counter[tuple[str, str, int]] = Counter()

    def see(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            code = frame.f_code
            found[code.co_filename, code.co_qualname, code.co_firstlineno] += 1
        return see

    gc.collect()
    gc.disable()  # what others left behind would be counted when it is cleared away
    before = sys.gettrace()
    sys.settrace(see)
    try:
        do()
    finally:
        sys.settrace(before)
        gc.enable()
    return found


def check_growth(make: Callable[[int], Callable[[], object]], widths: tuple[int, int, int] = WIDTHS) -> None:
    """``make`` gives what is to be done at a width; what it prepares is not counted."""
    make(3)()  # what is loaded or remembered once
    few, more, most = (lines_of(make(width)) for width in widths)
    assert sum(most.values()) > 2 * widths[2], "nothing of this width was done"
    for name, last in most.items():
        bend = last - 2 * more[name] + few[name]
        assert bend <= SLACK * last + 200, f"{name}: {few[name]}, {more[name]}, {last} lines at {widths} columns"


def columns(width: int) -> list[str]:
    return [*(f"c{at}" for at in range(width - 1)), "k"]


def wide_lake(width: int) -> Lake:
    rows = [{name: [1] for name in columns(width)}]
    return lake_of({"a.wide": (", ".join(f"{name} bigint" for name in columns(width)), rows, ())})


def schema_of(width: int) -> Schema:
    return wide_lake(width).table("a.wide").schema


def query(width: int) -> Callable[[], object]:
    lake = wide_lake(width)
    chosen = ", ".join(f"w.{name} + 1 AS {name}" for name in columns(width))
    return lambda: rewritten(lake, f"SELECT {chosen} FROM a.wide w JOIN a.wide o USING (k) WHERE w.k = 1 AND w.c0 > 0")


def statements(width: int) -> dict[str, str]:
    listed = ", ".join(columns(width))
    assigned = ", ".join(f"{name} = s.{name} + 1" for name in columns(width))
    values = ", ".join(f"s.{name}" for name in columns(width))
    return {
        "update": "UPDATE a.wide SET " + assigned.replace("s.", "") + " WHERE k = 1",
        "merge": f"MERGE INTO a.wide t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({values})",
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["update", "merge"])
def test_a_statement_that_changes_many_columns_is_planned_in_even_steps(kind: str) -> None:
    plans: list[RowChange] = []

    def make(width: int) -> Callable[[], object]:
        lake = wide_lake(width)

        def do() -> None:
            statement = read_in(lake, statements(width)[kind])
            changer = Changer(Surroundings(names_in(lake), lambda: "UTC", int), lambda: None)  # type: ignore[arg-type, return-value]
            found = lake.table("a.wide")
            assert isinstance(statement, Merge | Update)
            plans.append(changer.bound(found, statement, SimpleNamespace()))  # type: ignore[arg-type]

        return do

    check_growth(make)
    action = plans[-1].clauses[0].action
    assert isinstance(action, UpdateRow)
    assert list(action.values or ()) == columns(WIDTHS[-1])


@pytest.mark.slow
def test_a_query_of_many_columns_is_rewritten_in_even_steps() -> None:
    check_growth(query)


def _keep(found: list[list[str]]) -> Callable[..., None]:
    return lambda frame, targets, constants, *, by_name: found.append([one.name for one in targets])


class Frame:
    """A frame's columns; it moves no rows."""

    def __init__(self, width: int) -> None:
        from pyspark.sql.types import LongType, StructField, StructType

        self.names = columns(width)
        self.schema = StructType([StructField(name.upper(), LongType()) for name in self.names])
        self.looks = 0

    @property
    def columns(self) -> list[str]:
        self.looks += 1
        return [name.upper() for name in self.names]

    def select(self, *given: Any) -> Frame:
        assert len(given) == len(self.names)
        return self


@pytest.mark.parametrize("how", ["(COLUMNS) ", "BY NAME ", ""])
def test_an_insert_lays_many_columns_out_in_even_steps(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[list[str]] = []
    monkeypatch.setattr(insert_rows, "assigned", _keep(laid_out))

    def make(width: int) -> Callable[[], object]:
        schema, lake = schema_of(width), wide_lake(width)
        spec = lake.table("a.wide").spec
        transaction = nullcontext(SimpleNamespace(append=lambda rows: rows, snapshot="the new one"))
        table = SimpleNamespace(schema=schema, spec=spec, name="a.wide", transaction=lambda **to: transaction)
        listed = how.replace("COLUMNS", ", ".join(columns(width)))

        def do() -> None:
            statement = read_in(lake, f"INSERT INTO a.wide {listed}SELECT * FROM src")
            assert isinstance(statement, Insert)
            insert_rows.insert(table, Destination(), statement, Frame(width), lambda name: None)  # type: ignore[arg-type]

        return do

    check_growth(make)
    assert laid_out[-1] == columns(WIDTHS[-1])


ANSI_SESSION = SimpleNamespace(conf={"spark.sql.ansi.enabled": "true"})  # of settings, nothing else is asked


class AllLong(Scope):
    """Every expression is a number: Spark is not asked."""

    def types(self, side: Side, said: Any) -> list[Type]:
        return [LONG for _ in said]


@pytest.mark.parametrize("side", [Side.MATCHED, Side.NOT_MATCHED])
@pytest.mark.parametrize("star", [True, False])
def test_the_values_of_many_columns_are_found_in_even_steps(side: Side, star: bool) -> None:
    def make(width: int) -> Callable[[], object]:
        values = None if star else {name.upper(): SqlText.plain(f"s.{name}") for name in columns(width)}
        action = UpdateRow(values) if side is Side.MATCHED else InsertRow(values)
        clause = Clause(side=side, action=action)
        plan = RowChange(verb="merge", on=SqlText("TRUE"), clauses=(clause,), source=Frame(3))
        outputs = Outputs(
            change=plan,
            schema=schema_of(width),
            scope=AllLong(ANSI_SESSION, plan, {}),  # type: ignore[arg-type]
            source_columns=[name.upper() for name in columns(width)],
        )

        def do() -> None:
            assert len(outputs.of(clause) or ()) == width

        return do

    check_growth(make)


def test_an_upsert_looks_at_the_columns_of_its_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions

    monkeypatch.setattr(functions, "col", lambda name: SimpleNamespace(alias=lambda other: other))
    frames: list[Frame] = []

    def make(width: int) -> Callable[[], object]:
        metadata = wide_lake(width).table("a.wide").metadata
        frames.append(Frame(width))
        change = RowChange(verb="merge", source=frames[-1], key=("k",))
        return lambda: resolve_source.merge_of_upsert(metadata, change)

    check_growth(make)
    assert {frame.looks for frame in frames} == {2}


def test_a_member_deep_down_is_set_and_put_in_order_in_even_steps() -> None:
    def typed(depth: int, first: str, second: str) -> str:
        found = "bigint"
        for _ in range(depth):
            found = f"struct<{first}: {found}, {second}: bigint>"
        return found

    def make(depth: int) -> Callable[[], object]:
        (old,) = parse_columns(f"c {typed(depth, 'a', 'b')}")
        lake = lake_of({"a.deep": (f"c {typed(depth, 'a', 'b')}", (), ())})
        clause = Clause(side=Side.MATCHED, action=UpdateRow({"c" + ".a" * depth: SqlText("1")}))
        plan = RowChange(verb="merge", on=SqlText("TRUE"), clauses=(clause,))
        schema = lake.table("a.deep").schema
        schema.find("c")  # the names of deep columns are long: that is no matter of steps
        outputs = Outputs(change=plan, schema=schema, scope=AllLong(ANSI_SESSION, plan, {}))  # type: ignore[arg-type]

        def do() -> None:
            (found,) = (outputs.of(clause) or {}).values()
            assert found.count("named_struct") == depth
            assert reordered("x", old.type, old.type, "c") == "x"

        return do

    check_growth(make, (18, 36, 54))


def test_the_one_value_of_many_that_is_not_understood_is_found_in_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import LongType, StructField, StructType

    asked: list[str] = []

    def sql(_: Any, template: str) -> Any:
        asked.append(template)
        if "nowhere" in template:
            raise AnalysisException("there is no column nowhere")
        return SimpleNamespace(schema=StructType([StructField(f"e{at}", LongType()) for at in range(1)]))

    plan = RowChange(verb="merge", on=SqlText("TRUE"), clauses=())
    monkeypatch.setattr("esker.spark.expressions.run_template.sql_frame", sql)
    scope = Scope(SimpleNamespace(), plan, {})  # type: ignore[arg-type]
    said = [(f"the value of {at}", SqlText("nowhere" if at == 700 else "1")) for at in range(1000)]
    with pytest.raises(InvalidInput, match="the value of 700, 'nowhere', is not understood"):
        scope.types(Side.MATCHED, said)
    assert len(asked) <= 21
