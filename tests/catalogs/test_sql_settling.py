"""A swap in a database whose answer was lost is sent again, and its outcome is then certain or stays unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from catalog_contract import ORDERS, count_up, make
from tables import empty_table, with_properties

from esker.catalogs.open_catalog import open_catalog
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sqlite import SqliteDatabase
from esker.catalogs.warehouse import Warehouse
from esker.errors import OutcomeUnknown, StorageFailed
from esker.model.table_names import TableName
from esker.ports.catalog import AllAccepted, AllUnanswered, Catalog, Rejected, TableSwap
from esker.storage.local import LocalStorage

TOTALS = TableName(("sales",), "totals")


class Unsure(SqliteDatabase):
    """Loses the answers of its next writes: ``made`` and ``lost`` say which of them are done."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.answers: list[str] = []
        self.between: Callable[[], object] = lambda: None

    def write(self, act: str, work: Any, *, compares: bool = False) -> Any:
        answer = self.answers.pop(0) if self.answers else "clear"
        if answer == "gone":
            raise StorageFailed("nobody is there", retryable=True)
        found = None if answer == "lost" else super().write(act, work, compares=compares)
        if answer == "clear":
            return found
        self.between()
        raise OutcomeUnknown(f"no answer, and it was {answer}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(file: Path) -> Catalog:
    return open_catalog(f"sqlite:///{file}")


@pytest.fixture
def database(file: Path) -> Unsure:
    return Unsure(file)


@pytest.fixture
def unsure(database: Unsure, file: Path) -> PointerCatalog:
    storage = LocalStorage(roots=[file.parent / "warehouse"])
    return PointerCatalog(SqlPointers(database, "default"), Warehouse(f"{file.parent}/warehouse", storage))


def swaps_of(catalog: Catalog) -> list[TableSwap]:
    bases = {name: make(catalog, name) for name in (ORDERS, TOTALS)}
    return [TableSwap(name, base, with_properties(base.metadata, {"by": "us"})) for name, base in bases.items()]


def properties(catalog: Catalog) -> list[dict[str, str]]:
    return [dict(catalog.load(name).metadata.properties) for name in (ORDERS, TOTALS)]


@pytest.mark.parametrize("answers", [["made"], ["lost"], ["made", "made"], ["lost", "lost"], ["lost", "made"]])
def test_the_second_attempt_makes_it_certain(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure, answers: list[str]
) -> None:
    swaps = swaps_of(catalog)
    database.answers = answers
    answer = unsure.swap_all(swaps)
    assert isinstance(answer, AllAccepted)
    assert properties(catalog) == [{"by": "us"}] * 2
    assert [catalog.load(name).metadata_location for name in (ORDERS, TOTALS)] == [
        state.metadata_location for state in answer.states
    ]


@pytest.mark.parametrize("answers", [["made", "gone"], ["lost", "gone"], ["lost", "lost", "lost"], ["made"] * 3])
def test_without_a_clear_answer_it_stays_unknown_and_the_files_stay(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure, answers: list[str]
) -> None:
    swaps = swaps_of(catalog)
    database.answers = list(answers)
    answer = unsure.swap_all(swaps)
    assert isinstance(answer, AllUnanswered)
    assert all(catalog.storage().exists(location) for location in answer.metadata_locations.values())
    assert properties(catalog) == [{"by": "us"} if answers[0] == "made" else {}] * 2


@pytest.mark.parametrize("late", [ORDERS, TOTALS])
def test_one_table_never_changes_without_the_other(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure, late: TableName
) -> None:
    """The first attempt was lost, and another writer moved one of the two before the second."""
    swaps = swaps_of(catalog)
    database.answers = ["lost"]
    database.between = lambda: count_up(catalog, late, 1)
    assert isinstance(unsure.swap_all(swaps), AllUnanswered)
    assert properties(catalog) == [{"n": "1"} if name == late else {} for name in (ORDERS, TOTALS)]


def test_others_that_moved_on_after_the_first_attempt_leave_it_unknown(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure
) -> None:
    swaps = swaps_of(catalog)
    database.answers = ["made"]
    database.between = lambda: [count_up(catalog, name, 1) for name in (ORDERS, TOTALS)]
    assert isinstance(unsure.swap_all(swaps), AllUnanswered)  # the tables' own logs tell more
    assert properties(catalog) == [{"n": "1", "by": "us"}] * 2


def test_one_of_two_where_the_first_attempt_put_it_is_proof(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure
) -> None:
    swaps = swaps_of(catalog)
    database.answers = ["made"]
    database.between = lambda: count_up(catalog, ORDERS, 1)
    assert isinstance(unsure.swap_all(swaps), AllAccepted)
    assert properties(catalog) == [{"n": "1", "by": "us"}, {"by": "us"}]


def test_a_swap_that_came_too_late_is_rejected_without_a_second_attempt(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure
) -> None:
    swaps = swaps_of(catalog)
    count_up(catalog, TOTALS, 1)
    database.answers = ["clear", "made"]
    assert isinstance(unsure.swap_all(swaps), Rejected)
    assert properties(catalog) == [{}, {"n": "1"}]


@pytest.mark.parametrize("answers", [["made"], ["lost"]])
def test_a_new_table_is_there_once(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure, answers: list[str]
) -> None:
    catalog.create_namespace(("sales",), {})
    database.answers = list(answers)
    made = unsure.create(ORDERS, empty_table(unsure.location_for(ORDERS)))
    assert catalog.load(ORDERS).metadata_location == made.metadata_location


def test_a_new_table_whose_name_another_took_meanwhile_stays_unknown(
    catalog: Catalog, unsure: PointerCatalog, database: Unsure
) -> None:
    catalog.create_namespace(("sales",), {})
    database.answers = ["lost"]
    database.between = lambda: make(catalog)
    location = unsure.location_for(ORDERS)
    with pytest.raises(OutcomeUnknown, match="no answer"):
        unsure.create(ORDERS, empty_table(location))
    assert catalog.tables(("sales",)) == (ORDERS,)
