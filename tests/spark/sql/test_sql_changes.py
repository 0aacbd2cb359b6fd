"""UPDATE and MERGE as they are read: every expression in its place, and refusals before anything is looked up."""

from __future__ import annotations

import pytest
from sql_lakes import lake_of, read_in

from esker.errors import InvalidInput
from esker.lake import Lake
from esker.spark.sql.grammar import statements as said


@pytest.fixture(scope="module")
def lake() -> Lake:
    return lake_of({"sales.orders": ("id bigint, name string", (), ()), "sales.news": ("id bigint", (), ())})


def test_an_update_says_what_is_set_and_where(lake: Lake) -> None:
    text = (
        "UPDATE sales.orders AS o SET o.name = CASE WHEN id > 1 THEN 'a, b' ELSE f(1, 2) END, id = id[0] WHERE o.id = 5"
    )
    found = read_in(lake, text)
    assert isinstance(found, said.Update)
    assert found.alias == "o"
    assert [(name, value.text.strip()) for name, value in found.values] == [
        ("o.name", "CASE WHEN id > 1 THEN 'a, b' ELSE f(1, 2) END"),
        ("id", "id[0]"),
    ]
    assert found.where is not None
    assert (found.where.text, found.where.span.start) == ("o.id = 5", text.index("o.id = 5"))
    assert found.where.place == f"line 1, column {text.index('o.id = 5') + 1}"


def test_a_merge_says_its_source_its_condition_and_its_clauses_in_order(lake: Lake) -> None:
    found = read_in(
        lake,
        """MERGE INTO sales.orders o USING (SELECT * FROM sales.news WHERE id > 1) AS n ON o.id = n.id
        WHEN MATCHED AND CASE WHEN n.id > 5 THEN true END THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED BY TARGET AND n.id > 0 THEN INSERT (id, name) VALUES (n.id, concat('a', 'b'))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND o.id < 0 THEN UPDATE SET name = 'gone', id = -1
        WHEN NOT MATCHED BY SOURCE THEN DELETE;""",
    )
    assert isinstance(found, said.Merge)
    assert found.source.query.text.strip() == "SELECT * FROM sales.news WHERE id > 1"
    assert (found.alias, found.source.alias, found.on.text.strip()) == ("o", "n", "o.id = n.id")
    told = [
        (
            clause.kind,
            clause.matched,
            clause.by_source,
            None if clause.condition is None else clause.condition.text.strip(),
            None if clause.values is None else [(name, value.text.strip()) for name, value in clause.values],
        )
        for clause in found.clauses
    ]
    assert told == [
        ("delete", True, False, "CASE WHEN n.id > 5 THEN true END", None),
        ("update", True, False, None, None),
        ("insert", False, False, "n.id > 0", [("id", "n.id"), ("name", "concat('a', 'b')")]),
        ("insert", False, False, None, None),
        ("update", False, True, "o.id < 0", [("name", "'gone'"), ("id", "-1")]),
        ("delete", False, True, None, None),
    ]


def test_a_table_behind_using_is_a_query_in_its_place(lake: Lake) -> None:
    text = "merge into sales.orders using sales.news on news.id = orders.id when matched then delete"
    found = read_in(lake, text)
    assert isinstance(found, said.Merge)
    assert found.source.query.text.strip() == "TABLE sales.news"
    assert found.source.query.text.index("sales.news") == text.index("sales.news")
    assert (found.source.alias, found.source.name) == (None, "news")


@pytest.mark.parametrize(
    "text", ["update default.x set a = 1", "merge into x using y on true when matched then delete"]
)
def test_tables_of_sparks_own_are_left_to_it(lake: Lake, text: str) -> None:
    assert isinstance(read_in(lake, text), said.Foreign)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update sales.orders where id = 1", r"column 27: expected SET, not 'id'"),
        ("update sales.orders set id 5", r"column 28: expected '='"),
        ("update sales.orders set id = where id = 1", r"column 30: expected an expression, not 'where'"),
        ("update sales.orders set id = 1)", r"column 31: did not expect '\)'"),
        ("merge into sales.orders using sales.news n on n.id = 1", "expected WHEN"),
        ("merge into sales.orders using sales.news n when matched then delete", "column 44: expected ON, not 'when'"),
        (
            "merge into sales.orders using sales.news n on true when matched then insert *",
            "expected UPDATE or DELETE",
        ),
        ("merge into sales.orders using sales.news n on true when not matched then delete", "expected INSERT"),
        (
            "merge into sales.orders using sales.news n on true when not matched by source then update set *",
            "cannot be set to",
        ),
        (
            "merge into sales.orders using sales.news n on true when not matched then insert (id, name) values (1)",
            "expected 2 values, one for each column, not 1",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(lake: Lake, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_in(lake, text)
