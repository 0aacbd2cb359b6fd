"""Columns that come with rows: which, in which commit, and what another writer may do meanwhile."""

from __future__ import annotations

import pytest

import esker
from esker.errors import Conflict, InvalidInput
from esker.lake import Lake
from esker.model.parsing.column_definitions import parse_columns
from esker.ports.row_changes import Clause, DeleteRow, InsertRow, RowChange, Side, SqlText, UpdateRow, Wanted
from esker.table import Table
from esker.write.definition.evolve import evolved, wanted_of


@pytest.fixture
def lake() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    return lake


def wanted(columns: str, *, by_place: bool = False) -> list[Wanted]:
    return [Wanted((field.name,), field.type, by_place) for field in parse_columns(columns)]


def shown(table: Table) -> str:
    return ", ".join(f"{name} {table.schema.by_id[id_].type}" for id_, name in table.schema.name_by_id.items())


@pytest.mark.parametrize(
    ("has", "gets", "by_place", "then"),
    [
        ("id int", "id int, new string", False, "id int, new string"),
        ("id int, ID2 int", "Id int, id2 bigint", False, "id int, ID2 long"),
        ("id bigint, f float, d decimal(5, 2)", "id int, f double, d decimal(9, 2)", False, "id long, f double, d dec"),
        ("id int", "id string", False, "id int"),  # whether a value fits is found out when it is written
        ("s struct<a: int>", "s struct<b: int, A: bigint>", False, "s, s.a long, s.b int"),
        ("s struct<a: int>", "s struct<b: bigint, c: int>", True, "s, s.a long, s.c int"),
        ("l array<struct<a: int>>", "l array<struct<b: int>>", False, "l, l.element, l.element.a, l.element.b"),
        ("l array<int>", "l array<bigint>", False, "l, l.element long"),
        (
            "m map<string, struct<a: int>>",
            "m map<string, struct<a: bigint, b: int>>",
            False,
            "m, m.key string, m.value, m.value.a long, m.value.b int",
        ),
        ("m map<int, int>", "m map<bigint, bigint>", False, "m, m.key int, m.value long"),
    ],
)
def test_a_table_gets_what_it_lacks(lake: Lake, has: str, gets: str, by_place: bool, then: str) -> None:
    table = lake.create_table("s.t", has)
    schema = evolved(table.metadata, wanted(gets, by_place=by_place)).schema
    found = [(name, str(schema.by_id[id_].type)) for id_, name in schema.name_by_id.items()]
    assert sorted(name for name, _ in found) == sorted(one.split()[0] for one in then.split(", "))
    for name, type_ in (one.split() for one in then.split(", ") if " " in one):
        assert dict(found)[name].startswith(type_)
    assert not any(schema.by_id[id_].required for id_ in schema.by_id.keys() - table.schema.by_id.keys() if id_)


def test_a_table_that_has_it_all_stays_as_it_is(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int, s struct<a: int>")
    assert evolved(table.metadata, wanted("s struct<a: int>, id int")) is table.metadata


def test_columns_and_rows_come_in_one_commit_and_over_the_rows_of_others(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int")
    table.append([{"id": 1}])
    with table.transaction() as tx:
        tx.evolve(wanted("id bigint, new string"))
        tx.append([{"id": 1 << 40, "new": "x"}])
        lake.table("s.t").append([{"id": 2}])
        assert shown(lake.table("s.t")) == "id int"
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "new": None},
        {"id": 2, "new": None},
        {"id": 1 << 40, "new": "x"},
    ]
    newest = table.current_snapshot
    assert newest is not None
    assert newest.schema_id == table.schema.schema_id
    assert len(table.metadata.metadata_log) == 3


def test_another_writers_columns_are_a_conflict_and_nothing_is_added(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int")
    tx = table.transaction()
    tx.evolve(wanted("new string"))
    tx.append([{"id": 1, "new": "x"}])
    with lake.table("s.t").alter() as change:
        change.add_column("theirs", "int")
    with pytest.raises(Conflict, match="another writer has changed its columns"):
        tx.commit()
    assert shown(lake.table("s.t")) == "id int, theirs int"
    assert lake.table("s.t").snapshots == ()


def test_a_write_that_fails_adds_no_column(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int not null")
    tx = table.transaction()
    tx.evolve(wanted("new string"))
    with pytest.raises(InvalidInput):
        tx.append([{"id": None, "new": "x"}])
    assert shown(lake.table("s.t")) == "id int"


def test_columns_come_first_in_a_transaction_and_alone_if_no_row_comes(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int")
    with table.transaction() as tx:
        tx.append([{"id": 1}])
        with pytest.raises(InvalidInput, match="after other changes"):
            tx.evolve(wanted("new string"))
    with table.transaction() as tx:
        tx.evolve(wanted("new string"))
    assert (shown(table), len(table.snapshots), tx.snapshot) == ("id int, new string", 1, None)


def test_a_table_may_forbid_it(lake: Lake) -> None:
    table = lake.create_table("s.t", "id int", properties={"write.spark.auto-schema-evolution.enabled": "false"})
    with table.transaction() as tx:
        tx.evolve(wanted("new string"))
        tx.append([{"id": 1}])
    assert shown(table) == "id int"


def test_a_merge_wants_what_star_brings_and_what_is_set_to_the_sources_own() -> None:
    source = parse_columns("id int, a int, b struct<x: int>, c int, d int")

    def said(**values: str) -> dict[str, SqlText]:
        return {name.replace("__", "."): SqlText.plain(text) for name, text in values.items()}

    def of(*clauses: Clause) -> list[str]:
        plan = RowChange(verb="merge", on=SqlText("true"), clauses=clauses, target_name="t", source_name="s")
        return [".".join(one.path) for one in wanted_of(plan, source)]

    star = Clause(side=Side.NOT_MATCHED, action=InsertRow(None))
    assert of(star, Clause(side=Side.MATCHED, action=DeleteRow())) == ["id", "a", "b", "c", "d"]
    values = said(a="s.a", t__b__x="s.b.x", c="s.c + 1", d="s.a", id="`s`.`id`", e="s.e")
    assert of(Clause(side=Side.MATCHED, action=UpdateRow(values))) == ["a", "b.x", "id"]
    assert of(Clause(side=Side.NOT_MATCHED_BY_SOURCE, action=UpdateRow(said(a="a")))) == []
