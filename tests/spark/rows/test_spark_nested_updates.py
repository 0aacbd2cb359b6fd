"""Members of structs set alone, by UPDATE and MERGE: what lies beside them stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import esker
from esker.errors import InvalidInput, Unsupported
from esker.lake import Lake


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def lake(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE s")
    lake.sql(
        f"""CREATE TABLE s.people (id bigint, home struct<city: string, at: struct<x: int, y: int>>,
        pets array<struct<name: string>>)
        TBLPROPERTIES ('write.merge.mode' = '{request.param}', 'write.update.mode' = '{request.param}')"""
    )
    lake.sql(
        """INSERT INTO s.people VALUES
        (1, named_struct('city', 'Bern', 'at', named_struct('x', 1, 'y', 2)), array(named_struct('name', 'rex'))),
        (2, NULL, NULL), (3, named_struct('city', 'Rome', 'at', NULL), array())"""
    )
    return lake


def homes(lake: Lake) -> list[tuple[Any, ...]]:
    text = "SELECT id, home IS NULL, home.city, home.at.x, home.at.y, size(pets) FROM s.people ORDER BY id"
    return [tuple(row) for row in lake.sql(text).collect()]


def test_an_update_of_a_member_leaves_the_others(lake: Lake) -> None:
    lake.sql("UPDATE s.people p SET p.home.at.x = p.home.at.y * 10, home.city = upper(home.city) WHERE id <> 2")
    assert homes(lake) == [
        (1, False, "BERN", 20, 2, 1),
        (2, True, None, None, None, None),
        (3, False, "ROME", None, None, 0),
    ]


def test_a_struct_that_was_null_has_the_member_alone(lake: Lake) -> None:
    lake.sql("UPDATE s.people SET HOME.City = 'Oslo' WHERE id = 2")
    assert homes(lake)[1] == (2, False, "Oslo", None, None, None)


def test_an_update_by_python_reaches_into_structs_too(lake: Lake) -> None:
    lake.table("s.people").update({"home.at.y": "home.at.x + id", "home.city": "'Basel'"}, where="id = 1")
    assert homes(lake)[0] == (1, False, "Basel", 1, 2, 1)


def test_a_merge_sets_a_member_from_its_source(lake: Lake) -> None:
    lake.sql(
        """MERGE INTO s.people t USING (SELECT 1 AS id, 7 AS x UNION ALL SELECT 9, 9) n ON t.id = n.id
        WHEN MATCHED THEN UPDATE SET t.home.at.x = n.x
        WHEN NOT MATCHED THEN INSERT (id) VALUES (n.id)"""
    )
    assert homes(lake)[0] == (1, False, "Bern", 7, 2, 1)
    assert len(homes(lake)) == 4


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "UPDATE s.people SET home = NULL, home.city = 'x'",
            InvalidInput,
            "'home' is set, and so is its member 'city'",
        ),
        ("UPDATE s.people SET pets.element.name = 'x'", Unsupported, "inside a list or map; set the whole column"),
        ("UPDATE s.people SET home.town = 'x'", InvalidInput, "no column 'home.town'"),
        ("UPDATE s.people SET home.at.x = 'x'", InvalidInput, "is of type string, and column 'x' of type int: cast it"),
        (
            "MERGE INTO s.people t USING s.people n ON t.id = n.id WHEN NOT MATCHED THEN INSERT (home.city) VALUES (1)",
            InvalidInput,
            "cannot insert 'city' alone; give the whole column",
        ),
    ],
)
def test_what_has_no_one_meaning_is_refused(lake: Lake, text: str, error: type[Exception], message: str) -> None:
    before = homes(lake)
    with pytest.raises(error, match=message):
        lake.sql(text)
    assert homes(lake) == before
