"""The page about SQL: its list of statements is read as it stands, and leaves out no kind of statement."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from sql_lakes import lake_of, names_in

from esker.errors import EskerError
from esker.lake import Lake
from esker.spark.sql.grammar.parse_statement import read_statement
from esker.spark.sql.grammar.statements import Call, Foreign, Statement
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.procedures.call_arguments import Caller
from esker.spark.sql.procedures.call_procedure import call

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
_COLUMNS = "id bigint not null, region string, ts timestamp"


def listed() -> list[tuple[str, str]]:
    """Examples, and what is said of each."""
    text = PAGE.read_text().partition("## Every statement beside Iceberg's Spark runtime")[2]
    rows = re.findall(r"^\| (?:`` (.+?) ``|`([^`]+)`) \| (.+) \|$", text, re.MULTILINE)
    return [((long or short).replace("\\|", "|"), said) for long, short, said in rows]


@pytest.fixture(scope="module")
def lake() -> Lake:
    lake = lake_of({"sales.orders": (_COLUMNS, (), ()), "sales.news": (_COLUMNS, (), ())})
    lake.create_view("sales.some_view", "SELECT id FROM sales.orders", schema="id bigint")
    return lake


def refused(text: str, names: LakeNames) -> None:
    """Read a statement; a procedure is known when it is called."""
    found = read_statement(text, names)
    assert isinstance(found, Call), "it is taken"
    call(found, Caller(names=names, compute=pytest.fail, moment=pytest.fail, get_spark=pytest.fail))


@pytest.mark.parametrize(("text", "said"), listed())
def test_an_example_is_taken_or_refused_as_the_page_says(lake: Lake, text: str, said: str) -> None:
    assert re.match(r"as Iceberg\b|differs: \w|refused: \w", said)
    names = names_in(lake)
    if not said.startswith("refused"):
        found = read_statement(text, names)
        assert isinstance(found, Foreign) == (said == "as Iceberg: Spark's own")
        return
    with pytest.raises(EskerError) as refusal:
        refused(text, names)
    assert "line 1" in str(refusal.value)


def test_no_kind_of_statement_is_left_out(lake: Lake) -> None:
    names = names_in(lake)
    taken = {type(read_statement(text, names)) for text, said in listed() if not said.startswith("refused")}
    assert taken == set(get_args(Statement))
