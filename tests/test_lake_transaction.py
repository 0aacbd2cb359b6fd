"""``lake.transaction()``: changes of several tables become visible together, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from orders import NAME, QUICK, SCHEMA, orders, rows
from postgres_server import PostgresServer
from sound_tables import check_sound, rows_of

import esker
from esker.errors import Conflict, InvalidInput, NoSuchTable, OutcomeUnknown, Unsupported
from esker.lake import Lake
from esker.ports.catalog import AllUnanswered, Catalog, Rejected
from esker.wiring import lake_over

OTHER = "sales.totals"


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "rest")]


@pytest.fixture(params=["memory", "sqlite", *SLOW])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    match request.param:
        case "memory":
            yield with_tables(esker.connect("memory:", warehouse=str(tmp_path / "warehouse")))
        case "sqlite":
            yield with_tables(esker.connect(f"sqlite:///{tmp_path}/catalog.db"))
        case "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            yield with_tables(esker.connect(server.new_catalog(tmp_path)))
        case _:
            pytest.importorskip("uvicorn", reason="make test installs it")
            from esker_server import serving_sqlite

            with serving_sqlite(tmp_path, str(tmp_path)) as uri:
                yield with_tables(esker.connect(uri, allowed_roots=[str(tmp_path)]))


def with_tables(lake: Lake) -> Lake:
    orders(lake).append(rows([1, 2]))
    lake.create_table(OTHER, SCHEMA, properties=QUICK)
    return lake


def files_of(lake: Lake) -> set[Path]:
    return {file for name in (NAME, OTHER) for file in Path(lake.table(name).location).rglob("*") if file.is_file()}


def test_changes_of_two_tables_are_visible_together(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table(NAME).delete("id = 1")
        tx.table(NAME).append(rows([3]))
        tx.table(OTHER, summary={"why": "test"}).append(rows([7]))
        assert rows_of(lake.table(NAME)) == [1, 2]
        assert rows_of(lake.table(OTHER)) == []
    assert rows_of(check_sound(lake, NAME)) == [2, 3]
    totals = check_sound(lake, OTHER)
    assert rows_of(totals) == [7]
    assert len(lake.table(NAME).snapshots) == 2
    assert totals.current_snapshot is not None
    assert totals.current_snapshot.summary["why"] == "test"


def test_commit_gives_the_snapshots(lake: Lake) -> None:
    lake.create_table("sales.same", SCHEMA)
    tx = lake.transaction()
    tx.table(NAME).append(rows([3]))
    tx.table(OTHER).delete("id = 99")
    tx.table("sales.same")
    made = tx.commit()
    assert made == {NAME: lake.table(NAME).current_snapshot, OTHER: None, "sales.same": None}
    with pytest.raises(InvalidInput, match="cannot use a transaction that has ended"):
        tx.table(NAME)


def test_an_error_in_the_block_gives_up_every_change(lake: Lake) -> None:
    files = files_of(lake)

    def fail() -> None:
        with lake.transaction() as tx:
            tx.table(NAME).append(rows([3]))
            tx.table(OTHER).append(rows([3]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (rows_of(lake.table(NAME)), rows_of(lake.table(OTHER))) == ([1, 2], [])
    assert files_of(lake) == files


def test_a_conflict_at_one_table_leaves_all_as_they_were(lake: Lake) -> None:
    before = files_of(lake)
    tx = lake.transaction()
    tx.table(OTHER).append(rows([3]))
    tx.table(NAME).update({"n": "n + 1"}, "id = 1")
    written = files_of(lake) - before
    lake.table(NAME).delete("id = 1")
    after = files_of(lake)
    with pytest.raises(Conflict, match=r"cannot update rows: snapshot .* has removed"):
        tx.commit()
    assert (rows_of(lake.table(NAME)), rows_of(lake.table(OTHER))) == ([2], [])
    assert written
    assert files_of(lake) == after - written


def test_a_change_that_goes_with_those_of_others_is_made_on_top_of_them(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table(NAME).append(rows([3]))
        tx.table(OTHER).append(rows([3]))
        lake.table(NAME).append(rows([4]))
    assert rows_of(check_sound(lake, NAME)) == [1, 2, 3, 4]
    assert rows_of(check_sound(lake, OTHER)) == [3]


def test_an_error_in_a_part_gives_up_the_whole_even_if_it_is_caught(lake: Lake) -> None:
    files = files_of(lake)
    tx = lake.transaction()
    tx.table(OTHER).append(rows([3]))

    def fail() -> None:
        with tx.table(NAME) as part:
            part.append(rows([3]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(InvalidInput, match="cannot use a transaction that has ended"):
        tx.commit()
    assert files_of(lake) == files
    assert (rows_of(lake.table(NAME)), rows_of(lake.table(OTHER))) == ([1, 2], [])


def test_a_part_is_not_committed_alone(lake: Lake) -> None:
    with lake.transaction() as tx:
        with tx.table(NAME) as part:
            part.append(rows([3]))
        assert rows_of(lake.table(NAME)) == [1, 2]
        with pytest.raises(InvalidInput, match=r"cannot commit the changes of sales\.orders alone"):
            part.commit()
        with pytest.raises(InvalidInput, match=r"cannot begin twice with sales\.orders .* on the branch main already"):
            tx.table(NAME, ref="audit")
        with pytest.raises(NoSuchTable, match=r"no table sales\.nothing"):
            tx.table("sales.nothing")
    assert rows_of(lake.table(NAME)) == [1, 2, 3]


def test_a_branch_of_one_table_and_main_of_another(lake: Lake) -> None:
    lake.table(NAME).branch("audit")
    with lake.transaction() as tx:
        tx.table(NAME, ref="audit").append(rows([3]))
        tx.table(OTHER).append(rows([3]))
    assert rows_of(lake.table(NAME)) == [1, 2]
    assert rows_of(lake.table(NAME), ref="audit") == [1, 2, 3]


def noted(ids: list[int]) -> pa.Table:
    return rows(ids).append_column("note", pa.array([f"n{id_}" for id_ in ids]))


def columns_of(lake: Lake, name: str) -> list[str]:
    return [field.name for field in lake.table(name).schema]


def test_definitions_of_two_tables_change_with_their_rows_or_not_at_all(lake: Lake) -> None:
    with lake.transaction() as tx:
        for name in (NAME, OTHER):
            with tx.alter(name) as change:
                change.add_column("note", "string")
                change.rename_column("n", "amount")
                change.set_properties({"owner": "sales"})
        tx.table(NAME).delete("id = 1")
        tx.table(NAME).append(noted([3]).rename_columns(["id", "region", "amount", "note"]))
        assert columns_of(lake, NAME) == ["id", "region", "n"]
    for name in (NAME, OTHER):
        table = check_sound(lake, name)
        assert columns_of(lake, name) == ["id", "region", "amount", "note"]
        assert table.properties["owner"] == "sales"
    found = lake.table(NAME).scan(columns=["id", "amount", "note"]).to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 2, "amount": 1, "note": None},
        {"id": 3, "amount": 1, "note": "n3"},
    ]
    assert len(lake.table(NAME).snapshots) == 2
    assert lake.table(OTHER).snapshots == ()
    assert lake.table(NAME).current_snapshot.schema_id == lake.table(NAME).metadata.current_schema_id  # type: ignore[union-attr]


def test_a_conflict_at_the_definition_of_one_table_leaves_all_as_they_were(lake: Lake) -> None:
    files = files_of(lake)
    tx = lake.transaction()
    for name in (NAME, OTHER):
        with tx.alter(name) as change:
            change.add_column("note", "string")
    tx.table(NAME).append(noted([3]))
    with lake.table(OTHER).alter() as other:
        other.add_column("other", "string")
    with pytest.raises(Conflict, match=r"cannot alter sales\.totals: another writer has changed its columns"):
        tx.commit()
    assert columns_of(lake, NAME) == ["id", "region", "n"]
    assert columns_of(lake, OTHER) == ["id", "region", "n", "other"]
    assert rows_of(check_sound(lake, NAME)) == [1, 2]
    new = {file.suffix for file in files_of(lake) - files}
    assert new == {".json"}  # of the other writer


def test_an_altered_table_takes_rows_of_others_meanwhile(lake: Lake) -> None:
    with lake.transaction() as tx:
        with tx.alter(NAME) as change:
            change.add_column("note", "string", default=None)
        tx.table(NAME).append(noted([3]))
        tx.table(OTHER).append(rows([9]))
        lake.table(NAME).append(rows([4]))
    assert rows_of(check_sound(lake, NAME)) == [1, 2, 3, 4]
    notes = lake.table(NAME).scan(where="note is not null", columns=["id"]).to_arrow()
    assert notes.column("id").to_pylist() == [3]


def test_properties_change_with_rows_whatever_columns_others_add(lake: Lake) -> None:
    with lake.transaction() as tx:
        with tx.alter(NAME) as change:
            change.set_properties({"owner": "sales"})
        tx.table(NAME).append(rows([3]))
        with lake.table(NAME).alter() as other:
            other.add_column("other", "string")
    table = check_sound(lake, NAME)
    assert (rows_of(table), table.properties["owner"]) == ([1, 2, 3], "sales")
    assert columns_of(lake, NAME) == ["id", "region", "n", "other"]


def test_a_table_is_altered_once_and_before_its_rows(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table(NAME).append(rows([3]))
    with pytest.raises(InvalidInput, match="alter it once, before them"):
        tx.alter(NAME)
    with tx.alter(OTHER) as change:
        change.add_column("note", "string")
    with pytest.raises(InvalidInput, match="alter it once, before them"):
        tx.table(OTHER).alter()
    tx.abandon()
    assert columns_of(lake, OTHER) == ["id", "region", "n"]


def test_an_error_while_altering_gives_up_the_whole_even_if_it_is_caught(lake: Lake) -> None:
    files = files_of(lake)
    tx = lake.transaction()
    tx.table(OTHER).append(rows([3]))
    with pytest.raises(InvalidInput, match="nothing"), tx.alter(NAME) as change:
        change.drop_column("nothing")
    with pytest.raises(InvalidInput, match="a transaction that has ended"):
        tx.commit()
    assert files_of(lake) == files


def test_one_table_changes_its_definition_with_its_rows(lake: Lake) -> None:
    table = lake.table(NAME)
    with table.transaction() as tx:
        with tx.alter() as change:
            change.upgrade_format(3)
            change.add_column("note", "string", default="none")
            change.add_partition("region")
        tx.append(noted([3]))
        tx.update({"note": "'two'"}, "id = 2")
    found = check_sound(lake, NAME)
    assert found.format_version == 3
    assert [field.name for field in found.spec.fields] == ["region"]
    read = found.scan(columns=["id", "note"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["note"]) for row in read) == [(1, "none"), (2, "two"), (3, "n3")]
    assert table.schema == found.schema


def test_an_empty_transaction_changes_nothing(lake: Lake) -> None:
    with lake.transaction():
        pass
    assert lake.transaction().commit() == {}


def test_a_directory_says_that_it_cannot(tmp_path: Path) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake")
    with pytest.raises(Unsupported, match="in a directory catalog every table has its own pointer; use a SQLite or"):
        lake.transaction()


# ------------------------------------------------------------ no clear answer


class Unclear:
    """A catalog that does what it is asked, or not, and never answers for several tables."""

    def __init__(self, inner: Catalog, *, happens: bool, names_files: bool, before: Any = lambda: None) -> None:
        self.inner = inner
        self.happens = happens
        self.names_files = names_files
        self.before = before

    def swap_all(self, swaps: Any) -> Any:
        self.before()
        states = {}
        if self.happens:
            answer: Any = self.inner.swap_all(swaps)
            states = {swap.name: state.metadata_location for swap, state in zip(swaps, answer.states, strict=True)}
        return AllUnanswered("the line is dead", states if self.names_files else {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def memory(tmp_path: Path) -> Lake:
    return with_tables(esker.connect("memory:", warehouse=str(tmp_path / "warehouse")))


def both(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table(NAME).append(rows([3]))
        tx.table(OTHER).append(rows([3]))


@pytest.mark.parametrize("names_files", [False, True])
def test_f16_a_commit_that_was_made_and_not_answered_is_found(memory: Lake, names_files: bool) -> None:
    both(lake_over(Unclear(memory.catalog, happens=True, names_files=names_files)))  # type: ignore[arg-type]
    assert (rows_of(memory.table(NAME)), rows_of(memory.table(OTHER))) == ([1, 2, 3], [3])


def test_f17_a_commit_that_was_not_made_and_not_answered_is_unknown_and_keeps_its_files(memory: Lake) -> None:
    files = files_of(memory)
    with pytest.raises(OutcomeUnknown, match=r"the commit to sales\.orders, sales\.totals succeeded") as raised:
        both(lake_over(Unclear(memory.catalog, happens=False, names_files=False)))  # type: ignore[arg-type]
    assert raised.value.tables == [NAME, OTHER]
    assert len(files_of(memory) - files) >= 2 * 3  # data, manifest and list of each


def test_a_commit_that_was_not_answered_and_that_another_overtook_is_made_again(memory: Lake) -> None:
    catalog = Unclear(memory.catalog, happens=False, names_files=False)

    def overtake() -> None:
        memory.table(OTHER).append(rows([9]))
        catalog.swap_all = catalog.inner.swap_all  # type: ignore[method-assign]

    catalog.before = overtake
    both(lake_over(catalog))  # type: ignore[arg-type]
    assert (rows_of(memory.table(NAME)), rows_of(memory.table(OTHER))) == ([1, 2, 3], [3, 9])


def test_f15_races_that_are_lost_too_often_are_a_conflict(memory: Lake) -> None:
    catalog = Unclear(memory.catalog, happens=False, names_files=False)
    tries: list[int] = []

    def lose(swaps: Any) -> Rejected:
        tries.append(len(swaps))
        return Rejected("another writer was faster")

    catalog.swap_all = lose  # type: ignore[method-assign]
    with memory.table(OTHER).alter() as change:
        change.set_properties({"commit.retry.num-retries": "2"})
    files = files_of(memory)
    with pytest.raises(
        Conflict, match=r"cannot commit to sales\.orders, sales\.totals: other writers committed first 3 times"
    ):
        both(lake_over(catalog))  # type: ignore[arg-type]
    assert tries == [2, 2, 2]
    assert files_of(memory) == files
