"""What a stored view may not do: each attack is refused by name; no file is read and no program runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from guarded_views import ATTACKS, ORDINARY, SECRET, foreign_view, orders_lake
from sql_lakes import FakeSpark, lake_of, rewritten

import esker
from esker.errors import EskerError, InvalidInput, NoSuchTable
from esker.lake import Lake
from esker.spark.sql.guard.check_plan import _check_nodes, check_plan
from esker.spark.sql.guard.lexer import without_comments
from esker.spark.sql.guard.query_reader import read_shape
from esker.spark.sql.guard.trust import Trust
from esker.wiring import lake_over


def attack(lake: Lake, folder: Path, sql: str, why: str) -> None:
    """The view is refused by the name of what is wrong, made by others or made here; no program has run."""
    secret, canary = folder / "secret.txt", folder / "canary"
    secret.write_text(SECRET)
    text, named = (part.format(secret=secret, canary=canary) for part in (sql, why))
    foreign_view(lake, "sales.attack", text)
    with pytest.raises((InvalidInput, NoSuchTable)) as read:
        lake.sql("SELECT * FROM sales.attack")
    assert named in str(read.value)
    assert str(read.value).startswith("cannot read view sales.attack: ")
    foreign_view(lake, "sales.around", "SELECT * FROM (SELECT * FROM attack)")
    with pytest.raises((InvalidInput, NoSuchTable)) as around:
        lake.sql("WITH w AS (SELECT 1) SELECT * FROM w, sales.around")
    assert named in str(around.value)
    with pytest.raises(EskerError) as made:
        lake.sql(f"CREATE VIEW sales.made AS {text}")
    assert "sales.made" not in lake.views()
    if ";" not in text and "/* open" not in text and text.startswith(("SELECT", "WITH", "TABLE")):
        assert str(made.value).startswith("cannot make view sales.made: ")
        assert named in str(made.value)
    assert not canary.exists()


@pytest.mark.parametrize(("sql", "why"), ATTACKS)
def test_without_a_session_to_ask_every_attack_is_refused_by_name(tmp_path: Path, sql: str, why: str) -> None:
    """As over Spark Connect, whose parser cannot be asked."""
    lake = lake_of({"sales.orders": ("id bigint, region string", [], ())})
    secret = tmp_path / "secret.txt"
    text, named = (part.format(secret=secret, canary=tmp_path / "canary") for part in (sql, why))
    foreign_view(lake, "sales.attack", text)
    with pytest.raises((InvalidInput, NoSuchTable)) as read:
        rewritten(lake, "select * from sales.attack", spark=FakeSpark(databases=("default", "text")))
    assert named in str(read.value)
    if named != "theirs":  # a table that may be made later
        with pytest.raises(InvalidInput) as made:
            lake.create_view("sales.made", text, schema="a string")
        assert named in str(made.value)
        assert str(made.value).startswith("cannot make view sales.made: ")
    assert "sales.made" not in lake.views() or named == "theirs"


@pytest.mark.parametrize(("sql", "rows"), ORDINARY)
def test_an_ordinary_view_is_made_without_spark(sql: str, rows: list[Any]) -> None:
    lake = lake_of({"sales.orders": ("id bigint, region string, amount double, tags array<string>", [], ())})
    lake.create_view("sales.v", sql.format(), schema="a string")
    assert rewritten(lake, "select * from sales.v").template.startswith("select * from (SELECT * FROM (\n")


@pytest.mark.parametrize("name", ["${x}", "a${spark.app.id}b"])
def test_a_name_that_spark_would_substitute_is_refused(name: str) -> None:
    lake = lake_of({"sales.orders": ("id bigint", [], ())})
    lake.create_view("sales.v", "SELECT id FROM orders", schema=pa.schema([(name, pa.int64())]))
    with pytest.raises(InvalidInput, match=r"\$\{ in a name would become a setting of the session"):
        rewritten(lake, "select * from sales.v")


def test_names_of_columns_are_never_clauses() -> None:
    lake = lake_of({"sales.orders": ("id bigint", [], ())})
    lake.create_view("sales.where", "SELECT id FROM orders", schema=pa.schema([("from", pa.int64())]))
    assert rewritten(lake, "select * from sales.`where`").template.endswith("\n) AS `where`(`from`)) AS `where`")


def test_a_reader_allows_by_name_or_everything() -> None:
    plain = lake_of({"sales.orders": ("id bigint", [], ())})
    foreign_view(plain, "sales.called", "SELECT Mine(id), other.f(id) AS a FROM orders JOIN default.rates ON true")
    foreign_view(plain, "sales.piped", "FROM orders |> WHERE id > 1")
    for names in ([], ["mine"], ["mine", "other.f"], ["other.f", "default.rates"]):
        with pytest.raises(InvalidInput, match=r"it (calls|reads) (Mine|other\.f|default\.rates)"):
            rewritten(lake_over(plain.catalog, trusted_views=names), "select * from sales.called")
    allowing = lake_over(plain.catalog, trusted_views=["MINE", "other.f", "default.rates"])
    assert "Mine(id), other.f(id)" in rewritten(allowing, "select * from sales.called").template
    with pytest.raises(InvalidInput, match="FROM at line 1, column 1 is not understood"):
        rewritten(allowing, "select * from sales.piped")
    assert "|> WHERE" in rewritten(lake_over(plain.catalog, trusted_views=True), "select * from sales.piped").template


@pytest.mark.parametrize("given", ["reflect", b"reflect", [1], [""]])
def test_what_trusted_views_takes_is_checked(given: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot use trusted_views="):
        esker.connect("memory:", trusted_views=given)
    assert esker.connect("memory:", trusted_views=["Reflect"]).trusted_views == ["reflect"]
    assert esker.connect("memory:").trusted_views == []


@pytest.mark.spark
@pytest.mark.slow
def test_no_attack_reads_a_file_or_runs_a_program(spark: Any, tmp_path: Path) -> None:
    lake = orders_lake(spark, tmp_path)
    spark.sql(f"SELECT '{SECRET}' AS a").createOrReplaceTempView("theirs")
    spark.sql(f"SELECT '{SECRET}' AS a").createOrReplaceGlobalTempView("theirs")
    spark.udf.register("mine", lambda value: (tmp_path / "canary").write_text("ran"))
    try:
        for at, (sql, why) in enumerate(ATTACKS):
            attack(lake_over(lake.catalog, spark=spark), tmp_path, sql, why)
            for made in ("sales.attack", "sales.around"):
                lake.drop_view(made)
            assert not (tmp_path / "canary").exists(), (at, sql)
    finally:
        spark.catalog.dropTempView("theirs")
        spark.catalog.dropGlobalTempView("theirs")
        spark.sql("DROP TEMPORARY FUNCTION mine")


@pytest.mark.spark
@pytest.mark.slow
def test_ordinary_views_keep_working(spark: Any, tmp_path: Path) -> None:
    lake = orders_lake(spark, tmp_path)
    for at, (sql, expected) in enumerate(ORDINARY):
        lake.sql(f"CREATE VIEW sales.v{at} AS {sql.format()}")
        found = [tuple(row) for row in lake.sql(f"SELECT * FROM sales.v{at}").collect()]
        assert sorted(found, key=repr) == sorted(expected, key=repr), sql


@pytest.mark.spark
@pytest.mark.slow
def test_a_function_of_the_session_does_not_take_the_place_of_a_built_in_one(spark: Any, tmp_path: Path) -> None:
    lake = orders_lake(spark, tmp_path)
    lake.sql("CREATE VIEW sales.v AS SELECT lower(region) AS a FROM orders")
    spark.udf.register("lower", lambda value: SECRET)
    try:
        with pytest.raises(InvalidInput, match="it calls lower, and this session has a function of its own by that"):
            lake.sql("SELECT * FROM sales.v")
        assert lake_over(lake.catalog, spark=spark, trusted_views=["lower"]).sql("SELECT * FROM sales.v").count() == 3
    finally:
        spark.sql("DROP TEMPORARY FUNCTION lower")
    assert lake.sql("SELECT * FROM sales.v").count() == 3


@pytest.mark.spark
@pytest.mark.slow
def test_the_plan_that_spark_parses_is_held_against_what_was_read(spark: Any) -> None:
    shape = read_shape("SELECT lower(id) FROM orders", Trust())
    check_plan("SELECT lower(id) FROM orders", shape, spark)
    for text, what in (
        ("SELECT lower(id) FROM text.`/x`", r"reads \[text, /x\]"),
        ("SELECT reflect('a', 'b') FROM orders", "calls reflect"),
        ("SELECT TRANSFORM(id) USING 'true' FROM orders", "contains ScriptTransformation"),
        ("SELECT * FROM orders LATERAL VIEW mine(id) t AS x", "calls mine"),
        ("SELECT * FROM read_files('/x')", "calls read_files"),
    ):
        with pytest.raises(InvalidInput, match=f"Spark finds that it {what}"):
            check_plan(text, shape, spark)


@pytest.mark.spark
@pytest.mark.slow
def test_a_trusted_view_runs_what_it_says(spark: Any, tmp_path: Path) -> None:
    lake = orders_lake(spark, tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)
    foreign_view(lake, "sales.file", f"SELECT * FROM text.`{tmp_path}/secret.txt`")
    foreign_view(lake, "sales.java", "SELECT reflect('java.lang.Math', 'max', 3, 4) AS a")
    by_name = lake_over(lake.catalog, spark=spark, trusted_views=["reflect", f"text.{tmp_path}/secret.txt"])
    for trusting in (by_name, lake_over(lake.catalog, spark=spark, trusted_views=True)):
        assert [row[0] for row in trusting.sql("SELECT * FROM sales.file").collect()] == [SECRET]
        assert [row[0] for row in trusting.sql("SELECT * FROM sales.java").collect()] == ["4"]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT id FROM table", [("table",)]),
        ("SELECT t.id FROM orders o JOIN Table AS t ON o.id = t.id", [("orders",), ("Table",)]),
        ("SELECT * FROM orders, table t WHERE t.id IN (SELECT id FROM table)", [("orders",), ("table",), ("table",)]),
        ("SELECT * FROM table.files", [("table", "files")]),
        ("SELECT * FROM (table orders)", [("orders",)]),
    ],
)
def test_behind_from_the_word_table_is_a_name(sql: str, tables: list[tuple[str, ...]]) -> None:
    assert [table.parts for table in read_shape(sql, Trust()).tables] == tables


@pytest.mark.parametrize("sql", ["SELECT * FROM table(a)", "TABLE table", "WITH table AS (SELECT 1) SELECT 1"])
def test_elsewhere_the_word_table_is_no_name(sql: str) -> None:
    with pytest.raises(InvalidInput, match="is not understood"):
        read_shape(sql, Trust())


WORDS = """
    select from where group by having order limit offset window qualify union all except minus intersect join left cross
    natural lateral view on using as values table with recursive distinct explode transform map reduce a b orders c.d (
    ) , * 1 's' pivot unpivot tablesample for version timestamp of in exists case when then end and not is null over
    partition sort cluster distribute filter within struct [ ] . : :: -> => |> sets rollup cube interval day stream
    identifier outer semi anti full inner any some between like `q` "d" include nulls having
""".split()  # noqa: SIM905 - a table of words is read more easily without quotes
PIECES = (
    *("select a from orders", "from orders", "where (a)", "where a = 1", "group by a", "having (b)", "order by a"),
    *("limit (a)", "limit 1", "limit all", "offset (b)", "window w as (partition by a)", "window (a)", "qualify (a)"),
    *("lateral view explode(a) t as b", "join orders on (a)", "join orders using (a)", "cross join c.d", "(a)"),
    *("union select 1", ", text.`/x`", ", (text.`/x`)", "( select 1 )", "as t(a)", "t(a)", "values (1)", ", (1)"),
    *("select *", "pivot (sum(a) for b in (1))", "tablesample (1 rows)", "version as of 1", "timestamp as of 's'"),
    *("with c as (select 1)", "lateral (select 1)", "except (a)", "exists (select 1)", "in (select 1)", "`where`"),
    *("explode(a)", "natural join orders", "sort by a", "cluster by a", "select (a)", "sum(a) over (order by b)"),
    *("from orders select a", "(orders join c.d)", "((select 1) union select 2)", "a.b", "case when a then b end"),
    *("a = (", "a <", "-", "!", "a = (select 1)", "* (a)", "1 + (a)", "a => (b)", "x -> (x)", "|| (a)", "a ^ (b)"),
    *("from table", ", table", "join table on (a)", "table t", "(table)", "(table orders)", "table (orders)", "from"),
    *("a *", "a >", "and", "or not", "a +", "a ->", "cast(a as array<int>)", "a::array<int>", "between", "as", "like"),
)


def made_up(chance: random.Random) -> str:
    pieces = ["select a from orders"] if chance.random() < 0.7 else []
    pieces += [chance.choice(PIECES if chance.random() < 0.75 else WORDS) for _ in range(chance.randint(1, 6))]
    return " ".join(pieces)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_finds_no_table_and_no_call_that_the_strict_reader_does_not_find(
    spark: Any,
) -> None:
    """A law over texts made at random of pieces that have two readings."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    chance = random.Random(20261116)
    checked = 0
    for _ in range(20_000):
        text = without_comments(made_up(chance))
        try:
            shape = read_shape(text, Trust())
        except InvalidInput:
            continue
        try:
            plan = json.loads(parser.parsePlan(text).toJSON())
        except Exception:
            continue
        _check_nodes(plan, shape)
        checked += 1
    assert checked > 500
