"""A change of a view by compare-and-swap: tried again after a lost race, and asked about when nobody answers."""

from __future__ import annotations

import time

import pytest
from views import definition, simple_view

from esker.catalogs.memory import memory_catalog
from esker.errors import Conflict, NoSuchView, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Rejected, Unanswered, ViewCatalog, ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata
from esker.write.views.view_versions import commit_view, replaced

NAME = TableName(("sales",), "europe")


class Faulty:
    """A catalog of views whose first swaps end in another way; ``happens`` says whether they were made all the same."""

    def __init__(self, inner: ViewCatalog, *outcomes: Rejected | Unanswered, happens: bool = False) -> None:
        self.inner = inner
        self.outcomes = list(outcomes)
        self.happens = happens
        self.swaps = 0

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        self.swaps += 1
        if not self.outcomes:
            return self.inner.swap_view(name, base, new)
        outcome = self.outcomes.pop(0)
        if self.happens:
            self.inner.swap_view(name, base, new)
            where = self.inner.load_view(name).metadata_location
            return Unanswered(outcome.why, where)
        return outcome

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@pytest.fixture
def views() -> ViewCatalog:
    catalog = memory_catalog()
    catalog.create_namespace(("sales",), {})
    catalog.view_catalog().create_view(NAME, simple_view(catalog.location_for(NAME)))
    return catalog.view_catalog()


def change(base: ViewMetadata) -> ViewMetadata:
    return replaced(base, definition("SELECT 2"))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_a_lost_race_is_run_again_on_what_won(views: ViewCatalog) -> None:
    faulty = Faulty(views, Rejected("lost"), Rejected("lost"))
    state = commit_view(faulty, NAME, change)  # type: ignore[arg-type]
    assert (faulty.swaps, state.metadata.current_version.sql()) == (3, "SELECT 2")


def test_a_change_that_changes_nothing_writes_nothing(views: ViewCatalog) -> None:
    faulty = Faulty(views)
    before = views.load_view(NAME)
    assert commit_view(faulty, NAME, lambda base: base).metadata_location == before.metadata_location  # type: ignore[arg-type]
    assert faulty.swaps == 0


def test_losing_again_and_again_is_a_conflict(views: ViewCatalog) -> None:
    faulty = Faulty(views, *[Rejected("lost")] * 100)
    with pytest.raises(
        Conflict, match=r"cannot change view sales\.europe: other writers committed first 17 times in a row \(lost\)"
    ):
        commit_view(faulty, NAME, change)  # type: ignore[arg-type]


def test_an_unanswered_swap_that_happened_is_found(views: ViewCatalog) -> None:
    faulty = Faulty(views, Unanswered("no answer"), happens=True)
    assert commit_view(faulty, NAME, change).metadata.current_version.sql() == "SELECT 2"  # type: ignore[arg-type]


def test_an_unanswered_swap_that_cannot_be_found_is_unknown(views: ViewCatalog) -> None:
    faulty = Faulty(views, Unanswered("no answer"))
    with pytest.raises(
        OutcomeUnknown, match=r"cannot find out whether the change of view sales\.europe succeeded: no answer"
    ):
        commit_view(faulty, NAME, change)  # type: ignore[arg-type]


def test_a_view_that_is_gone_is_missing(views: ViewCatalog) -> None:
    views.drop_view(NAME)
    with pytest.raises(NoSuchView, match=r"no view sales\.europe"):
        commit_view(views, NAME, change)
