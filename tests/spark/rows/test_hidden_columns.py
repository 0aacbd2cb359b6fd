"""Metadata columns in the text of a query: whose they are, and which stars leave them out."""

from __future__ import annotations

import pytest
from sql_lakes import lake_of, rewritten

from esker.errors import Unsupported
from esker.lake import Lake
from esker.read.scan import Scan
from esker.spark.sql.queries.rewrite_query import Rewritten


@pytest.fixture(scope="module")
def lake() -> Lake:
    with pytest.MonkeyPatch.context() as patch:  # a table of somebody who does not know the names that are reserved
        patch.setattr("esker.model.evolution.schema_rules.RESERVED_NAMES", frozenset())
        return _lake()


def _lake() -> Lake:
    return lake_of(
        {
            "sales.orders": ("id bigint, region string", [{"id": [1], "region": ["eu"]}], ("region",)),
            "sales.own": ("id bigint, _file string", [], ()),
            "a.b.c.deep": ("id bigint", [], ()),
        }
    )


def hidden(found: Rewritten) -> dict[str, list[str]]:
    """The columns of each frame that its table does not show."""
    return {
        name: [f.name for f in rows.projection if f.id > 2_000_000_000]
        for name, rows in found.frames.items()
        if isinstance(rows, Scan)
    }


F = ["_file"]


@pytest.mark.parametrize(
    ("text", "template", "columns"),
    [
        ("select _file from sales.orders", "select _file from {esker_0} AS orders", {"esker_0": F}),
        ("select id from sales.orders o where O._FILE = 'x'", "select id from {esker_0} o where O._FILE = 'x'", [F]),
        ("select sales.orders._file from sales.orders", "select orders._file from {esker_0} AS orders", [F]),
        ("select a.b.c.deep._file from a.b.c.deep", "select deep._file from {esker_0} AS deep", [F]),
        ("select * from sales.orders where `_pos` = 1", None, [["_pos"]]),
        ("select '_file' from sales.orders -- _pos", "select '_file' from {esker_0} AS orders -- _pos", [[]]),
        ("select *, _file from sales.orders", "select * EXCEPT (orders._file), _file from {esker_0} AS orders", [F]),
        (
            "select /*+ x */ o.*, 2 * id * _pos, count(*) over (), count(distinct *) from sales.orders o",
            "select /*+ x */ o.* EXCEPT (o._pos), 2 * id * _pos, count(*) over (), "
            "count(distinct * EXCEPT (o._pos)) from {esker_0} o",
            [["_pos"]],
        ),
        (
            "select * except (id), _file from sales.orders",
            "select * except (orders._file, id), _file from {esker_0} AS orders",
            [F],
        ),
        # a column that a source shows comes first, and of several tables each has its own
        ("select _file, * from sales.own", "select _file, * from {esker_0} AS own", [[]]),
        (
            "select _file, * from sales.own join sales.orders o using (id)",
            "select _file, * from {esker_0} AS own join {esker_1} o using (id)",
            [[], []],
        ),
        (
            "select * from sales.own w join sales.orders o on w._file = o._file",
            "select * EXCEPT (o._file) from {esker_0} w join {esker_1} o on w._file = o._file",
            [[], F],
        ),
        (
            "select o.*, p.* from sales.orders o join sales.orders p on o._file = p._file and o._pos = 1",
            "select o.* EXCEPT (o._file, o._pos), p.* EXCEPT (p._file) from {esker_0} o join {esker_1} p "
            "on o._file = p._file and o._pos = 1",
            [["_file", "_pos"], F],
        ),
        (
            "select * from sales.orders o left semi join a.b.c.deep d on o.id = d._pos",
            "select * from {esker_0} o left semi join {esker_1} d on o.id = d._pos",
            [[], ["_pos"]],
        ),
        (
            "select o.id from sales.orders o join a.b.c.deep d on d.id in (select _pos from sales.orders) "
            "where (o._file, _pos) in (select _file, max(_pos) from a.b.c.deep)",
            None,
            [["_file", "_pos"], ["_pos"], ["_pos"], ["_file", "_pos"]],
        ),
        # members of a struct
        ("select _partition.region from sales.orders", None, [["_partition"]]),
        ("select o._partition.region, o.* from sales.orders o", None, [["_partition"]]),
        # subqueries see their own table first, then those around them; what is around sees nothing of theirs
        (
            "select * from sales.orders o where exists (select * from a.b.c.deep where _pos = o._pos)",
            "select * EXCEPT (o._pos) from {esker_0} o where exists "
            "(select * EXCEPT (deep._pos) from {esker_1} AS deep where _pos = o._pos)",
            [["_pos"], ["_pos"]],
        ),
        (
            "select * from (select *, _file from sales.orders) x where _file > 'a'",
            "select * from (select * EXCEPT (orders._file), _file from {esker_0} AS orders) x where _file > 'a'",
            [F],
        ),
        (
            "with c as (select id, _file as f from sales.orders) select * from c join a.b.c.deep d on d._file = f",
            "with c as (select id, _file as f from {esker_0} AS orders) "
            "select * EXCEPT (d._file) from c join {esker_1} d on d._file = f",
            [F, F],
        ),
        (
            "with c as (select * from sales.own) select _file, * from c join sales.orders using (id)",
            "with c as (select * from {esker_0} AS own) select _file, * from c join {esker_1} AS orders using (id)",
            [[], []],
        ),
        (
            "select _file from (select * from sales.orders)",
            "select _file from (select * from {esker_0} AS orders)",
            [[]],
        ),
        ("select _file from sales.orders as o(a, b)", "select _file from {esker_0} as o(a, b)", [[]]),
        ("select _file from (sales.orders a join sales.own b) x", None, [[], []]),
        ("select _file from (table sales.orders)", "select _file from (table {esker_0})", [[]]),
        (
            "select * from sales.orders where _pos = 0 union all table sales.orders",
            "select * EXCEPT (orders._pos) from {esker_0} AS orders where _pos = 0 union all table {esker_1}",
            [["_pos"], []],
        ),
    ],
)
def test_a_table_has_the_metadata_columns_that_a_query_names_of_it_and_no_star_shows_them(
    lake: Lake, text: str, template: str | None, columns: list[list[str]] | dict[str, list[str]]
) -> None:
    found = rewritten(lake, text)
    if template is not None:
        assert found.template == template
    assert (hidden(found) if isinstance(columns, dict) else list(hidden(found).values())) == columns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from sales.orders |> where _pos = 1", "in a query of pipes"),
        ("select * from sales.orders pivot (count(1) for _file in ('a'))", "in PIVOT or UNPIVOT"),
        ("select o._pos from sales.orders o natural join a.b.c.deep", "in a NATURAL JOIN"),
    ],
)
def test_what_would_show_a_metadata_column_to_all_is_refused_with_its_place(lake: Lake, text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=rf"cannot read a metadata column \(at line 1, column \d+\) {why}"):
        rewritten(lake, text)


def test_a_recursive_query_that_reads_itself_is_looked_into_once(lake: Lake) -> None:
    text = (
        "with recursive c as (select 1 as n union all select * from c) select _file from c join sales.orders on n = id"
    )
    assert list(hidden(rewritten(lake, text)).values()) == [F]
