"""Which files a query leaves unread, and that no row is missed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from sql_lakes import lake_of, rewritten

from esker.lake import Lake
from esker.read.scan import Scan
from esker.spark.sql.queries.proved_conditions import unproved
from esker.write.views.view_versions import QUERY_COLUMNS

IDS = list(range(8))


@pytest.fixture(scope="module")
def lake() -> Lake:
    """Tables of which every row is a file, so that what is pruned can be counted in rows."""

    def rows(*columns: str) -> list[dict[str, Any]]:
        return [{"id": [n]} | {column: [None if n == 5 else n % 4] for column in columns} for n in IDS]

    return lake_of(
        {
            "t.a": ("id bigint, x bigint, ax bigint", rows("x", "ax"), ()),
            "t.b": ("id bigint, x bigint, bx bigint", rows("x", "bx"), ("id",)),
            "t.c": (
                "id bigint, s struct<x: bigint>, a bigint",
                [{"id": [n], "s": [{"x": n}], "a": [n]} for n in IDS],
                (),
            ),
        }
    )


def kept(lake: Lake, text: str) -> dict[str, int]:
    """How many files of each table a query reads; with a number behind the name where it is read several ways."""
    found: dict[str, int] = {}
    for rows in rewritten(lake, text).frames.values():
        assert isinstance(rows, Scan)
        name = rows.metadata.location.rpartition("/")[2][:1]
        found[name if name not in found else f"{name}2"] = rows.plan().funnel.files_kept
    return found


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("select * from t.a where id = 3", {"a": 1}),
        ("select * from t.a where a.id = 3", {"a": 1}),
        ("select * from t.a where t.a.id = 3", {"a": 1}),
        ("select * from t.a where ID < 3 and (x = 1 and ax is not null)", {"a": 1}),
        ("select * from t.a z where z.id in (1, 2) or z.id = 5", {"a": 3}),
        ("select * from t.a z where not (z.id > 1)", {"a": 2}),
        ("select * from t.a where id between 2 and 3 and upper('x') = 'X' and id + 1 = 3", {"a": 2}),
        ("select * from t.a where id = 3 or rand() > 0.5", {"a": 8}),
        ("select * from t.a where id = x", {"a": 8}),
        ("select * from t.a where id = '3'", {"a": 8}),  # what Spark makes of it depends on its settings
        ("select * from t.a having id = 3", {"a": 8}),
        ("select id from t.a where id = (select max(id) from t.b where b.id < 2)", {"a": 8, "b": 2}),
        ("select * from t.a where exists (select 1 from t.b where b.id = a.id and a.id = 3)", {"a": 8, "b": 8}),
        ("select * from t.a where exists (select 1 from t.b where b.id = a.id and bx = 3)", {"a": 8, "b": 2}),
        # a name of several tables
        ("select * from t.a, t.b where id = 3", {"a": 8, "b": 8}),
        ("select * from t.a, t.b where ax = 3 and bx = 1", {"a": 2, "b": 1}),
        ("select * from t.a join v on a.id = v.id where ax = 3", {"a": 2}),
        ("select * from t.a join t.b using (id) where id = 3", {"a": 8, "b": 8}),
        ("select * from t.a natural join t.b where ax = 3", {"a": 8, "b": 8}),
        ("select * from t.a natural join t.b where a.ax = 3", {"a": 2, "b": 8}),
        ("select * from t.a p join t.a q on p.id = q.id where p.id = 3 and q.id < 2", {"a": 1, "a2": 2}),
        # structs and aliases that look like them
        ("select * from t.c where s.x = 3", {"c": 1}),
        ("select * from t.c where c.s.x = 3", {"c": 1}),
        ("select * from t.c s where s.x = 3", {"c": 1}),
        ("select * from t.c a where a.a = 3", {"c": 1}),
        ("select * from (select id + 1 as x from t.a) s join t.c on true where s.x = 3", {"a": 8, "c": 8}),
        ("select * from (select max(x) as x from t.a) s join t.c on true where s.x = 3", {"a": 8, "c": 8}),
        # joins
        ("select * from t.a join t.b on a.id = b.id and a.id = 3 and bx = 1", {"a": 1, "b": 1}),
        ("select * from t.a left join t.b on a.id = b.id and ax = 3 and bx = 1", {"a": 8, "b": 1}),
        ("select * from t.a right join t.b on a.id = b.id and ax = 3 and bx = 1", {"a": 2, "b": 8}),
        ("select * from t.a full join t.b on a.id = b.id and ax = 3 and bx = 1", {"a": 8, "b": 8}),
        ("select * from t.a left semi join t.b on a.id = b.id and ax = 3 and bx = 1", {"a": 2, "b": 1}),
        ("select * from t.a left anti join t.b on a.id = b.id and ax = 3 and bx = 1", {"a": 8, "b": 1}),
        ("select * from t.a left join t.b on a.id = b.id where ax = 3 and bx = 1", {"a": 2, "b": 1}),
        ("select * from t.a left join t.b on a.id = b.id where ax is null and bx is null", {"a": 1, "b": 8}),
        ("select * from t.a right join t.b on a.id = b.id where ax is null and bx is null", {"a": 8, "b": 1}),
        ("select * from t.a full join t.b on a.id = b.id where ax <=> null and bx > 2", {"a": 8, "b": 2}),
        ("select * from t.a left join t.b on true where bx = 1 or bx is null", {"a": 8, "b": 8}),
        ("select * from t.a left join t.b on true join t.c on bx <=> null and c.id = 1", {"a": 8, "b": 8, "c": 1}),
        ("select * from t.a left semi join t.b on a.id = b.id where x = 3", {"a": 2, "b": 8}),
        # what sees more than rows of the table
        ("select * from t.a tablesample (2 rows) where id = 3", {"a": 8}),
        ("select * from t.a as z(p, q, r) where p = 3", {"a": 8}),
        ("select * from t.a pivot (max(ax) for x in (1, 2)) where id = 3", {"a": 8}),
        ("from t.a |> limit 5 |> where id = 3", {"a": 8}),
        ("select * from (t.a left join t.b on a.id = b.id) where bx = 3", {"a": 8, "b": 8}),
        # sets and common table expressions
        ("select id from t.a where id = 1 union all select id from t.a where id > 5", {"a": 1, "a2": 2}),
        # through subqueries that only choose columns
        ("select * from (select * from t.a where id < 3) where x = 0", {"a": 1}),
        ("select * from (select id as key, a.x from t.a) p where p.key < 3 and x > 0 and id = 9", {"a": 2}),
        ("select * from (select * from (select id k, x y from t.a) where y = 1) q where q.k = 1", {"a": 1}),
        ("select * from (select s.x as sx from t.c) where sx = 3", {"c": 1}),
        ("select * from (select s as inner_s from t.c) z where z.inner_s.x = 3", {"c": 1}),
        ("select * from (select id + 1 as id from t.a) where id = 3", {"a": 8}),
        ("select * from (select *, 5 as x from t.a) where x = 3", {"a": 8}),
        ("select * from (select id, x as y, id as y from t.a) where y = 3", {"a": 8}),
        ("select * from (select id from t.a limit 5) where id = 3", {"a": 8}),
        ("select * from (select distinct id from t.a) where id = 3", {"a": 8}),
        ("select * from (select id from t.a group by id) where id = 3", {"a": 8}),
        ("select * from (select id, row_number() over (order by id) n from t.a) where id = 3", {"a": 8}),
        ("select * from (select id from t.a union all select id from t.a) where id = 3", {"a": 8}),
        ("select * from (select a.id, bx from t.a join t.b on a.id = b.id) where bx = 1", {"a": 8, "b": 8}),
        ("select * from (select id from t.a) p(k) where k = 3", {"a": 1}),
        ("select * from (select *, id from t.a) p(k, l, m, n) where n = 3", {"a": 1}),
        ("select * from (select * from (select id, x as y, id as y from t.a)) p(k, l, m) where k = 3", {"a": 8}),
        ("select * from (select id, lower(hex(id)) h from t.a) where id = 3", {"a": 1}),
        ("select * from t.b left join (select id, x from t.a) p on b.id = p.id where p.x is null", {"b": 8, "a": 8}),
        ("select * from t.b left join (select id, x from t.a) p on b.id = p.id and p.x = 1", {"b": 8, "a": 1}),
        ("with w as (select * from t.a where id < 3) select * from w where x = 0", {"a": 1}),
        ("with w as (select * from t.a) select * from w where x = 0 union all select * from w", {"a": 8}),
        ("with w as (select * from t.a), v as (select id k from w) select * from v z where z.k = 3", {"a": 1}),
        ("with w as (select * from t.a), v as (select * from w) select * from v join v u on v.id = 1", {"a": 8}),
        ("with w(k) as (select id from t.a) select * from w where k = 3", {"a": 8}),
    ],
)
def test_conditions_prune_the_tables_that_they_are_about(lake: Lake, text: str, files: dict[str, int]) -> None:
    assert kept(lake, text) == files


def test_partitions_are_pruned_by_whole_manifests(lake: Lake) -> None:
    (rows,) = rewritten(lake, "select * from t.b where id = 3").frames.values()
    assert isinstance(rows, Scan)
    assert (rows.plan().funnel.manifests_read, rows.plan().funnel.manifests_total) == (1, 8)


# ---------------------------------------------------------------- conditions that the files prove


def shortened(lake: Lake, text: str) -> str:
    """The template without the conditions that the files prove."""
    found = rewritten(lake, text)
    return found.shortened({name: unproved(rows.plan().tasks) for name, rows in found.frames.items()})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 3", "TRUE"),
        ("t.b.id = 3", "TRUE"),
        ("id in (3, 4) group by id", "TRUE group by id"),
        ("id between 2 and 4 and x + 1 > 2", "TRUE and x + 1 > 2"),
        ("x + 1 > 2 and b.id between 2 and 4 order by id limit 3", "x + 1 > 2 and TRUE order by id limit 3"),
        ("id > 2 and x <> 3", "TRUE and TRUE"),  # the statistics of the files that are left
        ("id > 2 and x > 1 -- where and", "TRUE and TRUE -- where and"),
        ("id = 3 or rand() > 0.5", "id = 3 or rand() > 0.5"),
        ("id = x", "id = x"),
        ("(id = 3 and x = 3) and bx = 3", "(id = 3 and x = 3) and bx = 3"),  # not found by tokens
        ("case when true then id = 3 end and id > 2", "case when true then id = 3 end and id > 2"),
        ("id > 2 and array(id)[0] > 1", "TRUE and array(id)[0] > 1"),
        ("id = 3 and exists (select 1)", "id = 3 and exists (select 1)"),
    ],
)
def test_a_condition_that_all_files_prove_is_left_to_nobody(lake: Lake, where: str, left: str) -> None:
    found = shortened(lake, f"select 1 from t.b where {where}")
    assert found == "select 1 from {esker_0} AS b where " + left


def test_a_condition_on_columns_that_a_join_may_make_null_stays(lake: Lake) -> None:
    text = "select * from t.a left join t.b on a.id = b.id where b.id = 3 and a.id = 3"
    assert shortened(lake, text).endswith(" where b.id = 3 and TRUE")


def test_a_condition_that_one_file_does_not_prove_stays(lake: Lake) -> None:
    table = lake.create_table("t.two", "id bigint, x bigint")
    table.append({"id": [1, 2], "x": [1, 1]})
    table.append({"id": [1, 1], "x": [1, 5]})
    assert shortened(lake, "select * from t.two where x = 1 and id < 3").endswith(" where x = 1 and TRUE")


# ---------------------------------------------------------------- the law

_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


@st.composite
def plain_tests(draw: st.DrawFn, tables: tuple[str, ...]) -> str:
    column = draw(st.sampled_from([f"{table}.{name}" for table in tables for name in ("id", "x")]))
    other = draw(st.sampled_from([f"{table}.{name}" for table in tables for name in ("id", "x")]))
    number = draw(st.integers(0, 8))
    return draw(
        st.sampled_from(
            [
                f"{column} = {number}",
                f"{column} < {number}",
                f"{column} <> {number}",
                f"{column} IS NULL",
                f"{column} IS NULL OR {column} = {number}",
                f"{column} IS NOT NULL",
                f"{column} IS NOT DISTINCT FROM {number}",
                f"{column} IS DISTINCT FROM {number}",
                f"{column} IN ({number}, {number + 2}, NULL)",
                f"NOT {column} IN ({number}, 3)",
                f"{column} = {other}",
                f"{column} + 1 > {number}",
            ]
        )
    )


@st.composite
def conditions(draw: st.DrawFn, tables: tuple[str, ...]) -> str:
    terms = draw(st.lists(plain_tests(tables), min_size=1, max_size=3))
    text = terms[0]
    for term in terms[1:]:
        text = f"({text}) {draw(st.sampled_from(['AND', 'AND', 'OR']))} {term}"
    return f"NOT ({text})" if draw(st.integers(0, 5)) == 0 else text


def subqueries(table: str) -> list[str]:
    """Queries that show a table with columns of the same names and other values."""
    views = (
        f"SELECT id, x FROM {table}",
        f"SELECT x AS id, id AS x FROM {table}",
        f"SELECT id + 1 AS id, x FROM {table}",
    )
    limits = f"SELECT id, x FROM {table} ORDER BY id LIMIT 3", f"SELECT id, max(x) AS x FROM {table} GROUP BY id"
    return [*views, *limits, f"SELECT id, x FROM {table} WHERE x > 1"]


def sources(table: str) -> st.SearchStrategy[str]:
    """The table, or a subquery."""
    return st.sampled_from([table, table, *(f"({query})" for query in subqueries(table))])


def view_names(table: str) -> list[str]:
    """The views of the subqueries, columns told by name, by place, and by a view on the view."""
    return [f"{table}_{how}{at}" for at in range(len(subqueries(table))) for how in ("name", "place", "twice")]


@st.composite
def queries(draw: st.DrawFn, sources: Callable[[str], st.SearchStrategy[str]] = sources) -> str:
    visible: tuple[str, ...] = ("p",)
    text = f"FROM {draw(sources('t.a'))} AS p"
    for name, table in draw(st.sampled_from([(("q", "t.b"),), (("q", "t.b"), ("r", "t.a"))])):
        join = draw(st.sampled_from(_JOINS))
        match_on = f"{draw(st.sampled_from(visible))}.id = {name}.id"
        on = draw(conditions((*visible, name)))
        text += (
            f" {join} {draw(sources(table))} AS {name} ON {draw(st.sampled_from([match_on, f'{match_on} AND ({on})']))}"
        )
        if "SEMI" not in join and "ANTI" not in join:
            visible = (*visible, name)
    if draw(st.integers(0, 3)):
        text += f" WHERE {draw(conditions(visible))}"
    columns = ", ".join(f"{name}.{column} AS {name}{column}" for name in visible for column in ("id", "x"))
    return f"SELECT {columns} {text}"


@dataclass(frozen=True)
class Oracle:
    """Both tables as DuckDB has them, whole, with the file of each row."""

    rows: dict[str, pa.Table]
    whole: duckdb.DuckDBPyConnection

    def of_files(self, scan: Scan) -> pa.Table:
        """Every row of the files that the plan kept: the filter itself stays with the query."""
        rows = self.rows[scan.metadata.location.rpartition("/")[2][:1]]
        files = pa.array([task.data_file.path for task in scan.plan().tasks], pa.string())
        return rows.filter(pc.is_in(rows.column("_file"), value_set=files)).drop_columns(["_file"])


@pytest.fixture(scope="module")
def oracle(lake: Lake) -> Oracle:
    rows = {name: lake.table(f"t.{name}").scan(columns=["id", "x", "_file"]).to_arrow() for name in ("a", "b")}
    whole = duckdb.connect()
    whole.execute("PRAGMA disable_optimizer")  # which lets a join's filter slip below a LIMIT now and then
    whole.execute("create schema t")
    for name, table in rows.items():
        whole.register(f"whole_{name}", table)
        whole.execute(f"create view t.{name} as select * from whole_{name}")
    return Oracle(rows, whole)


@given(text=queries())
def test_a_query_over_pruned_tables_answers_as_one_over_whole_tables(lake: Lake, oracle: Oracle, text: str) -> None:
    found = rewritten(lake, text)
    for name, rows in found.frames.items():
        assert isinstance(rows, Scan)
        oracle.whole.register(name, oracle.of_files(rows))
    expected = _answer(oracle.whole, text)
    names = {name: name for name in found.frames}
    assert _answer(oracle.whole, found.template.format(**names)) == expected
    assert _answer(oracle.whole, shortened(lake, text).format(**names)) == expected


@pytest.fixture(scope="module")
def viewed(lake: Lake, oracle: Oracle) -> Lake:
    """The lake with views, which DuckDB has too."""
    for table in ("t.a", "t.b"):
        for at, query in enumerate(subqueries(table)):
            for name, text, known in (
                (f"{table}_name{at}", query.replace("t.", ""), {QUERY_COLUMNS: "id,x"}),
                (f"{table}_place{at}", query, {}),
                (f"{table}_twice{at}", f"SELECT x, id FROM {table[2:]}_name{at} WHERE id < 7", {QUERY_COLUMNS: "x,id"}),
            ):
                columns = "x bigint, id bigint" if "twice" in name else "id bigint, x bigint"
                lake.create_view(name, text, schema=columns, properties=known)
                oracle.whole.execute(
                    f"create view {name} as {text.replace(' FROM a', ' FROM t.a').replace(' FROM b', ' FROM t.b')}"
                )
    return lake


@given(text=queries(lambda table: st.sampled_from([table, *view_names(table)])))
def test_a_query_over_views_of_pruned_tables_answers_as_one_over_whole_tables(
    viewed: Lake, oracle: Oracle, text: str
) -> None:
    found = rewritten(viewed, text)
    for name, rows in found.frames.items():
        assert isinstance(rows, Scan)
        oracle.whole.register(name, oracle.of_files(rows))
    pruned = found.template.format(**{name: name for name in found.frames})
    assert _answer(oracle.whole, pruned) == _answer(oracle.whole, text)


def _answer(connection: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    spoken = text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    try:
        return sorted(connection.execute(spoken).fetchall(), key=str)
    except duckdb.NotImplementedException:  # an outer join on anything but equality
        reject()
