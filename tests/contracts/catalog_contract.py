"""What every catalog promises. Inherit the class and give it a ``uri``; say what the catalog cannot do."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from tables import empty_table, next_snapshot, with_properties

from esker.catalogs.open_catalog import open_catalog
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, Unsupported
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Accepted, AllAccepted, Catalog, Rejected, TableState, TableSwap
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata
from esker.write.table_changes import next_ms, with_partition_statistics, with_statistics

T = TypeVar("T")

ORDERS = TableName(("sales",), "orders")


def make(catalog: Catalog, name: TableName = ORDERS, **properties: str) -> TableState:
    """A new empty table, and its namespace if it needs one."""
    if name.namespace not in catalog.namespaces():
        catalog.create_namespace(name.namespace, {})
    return catalog.create(name, empty_table(catalog.location_for(name), **properties))


def count_up(catalog: Catalog, name: TableName, times: int) -> int:
    """Add one to the property ``n`` so many times, retrying lost races; how often a race was lost."""
    lost = 0
    for _ in range(times):
        while True:
            base = catalog.load(name)
            n = int(base.metadata.properties.get("n", "0"))
            new = with_properties(next_snapshot(base.metadata), {"n": str(n + 1)})
            outcome = catalog.swap(name, base, new)
            if isinstance(outcome, Accepted):
                break
            assert isinstance(outcome, Rejected), outcome
            lost += 1
    return lost


def count_up_in_a_process(job: tuple[str, tuple[str, ...], int]) -> int:
    """`count_up` on a catalog of its own."""
    uri, roots, times = job
    return count_up(open_catalog(uri, allowed_roots=roots), ORDERS, times)


def all_at_once(*jobs: Callable[[], T]) -> list[T]:
    """Run every job in a thread of its own, begun together."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T:
        start.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


class CatalogContract:
    """Laws of ``ports.catalog.Catalog``."""

    keeps_properties = True  # of namespaces
    renames = True
    outlives_its_process = True
    places_tables = True  # at a location of the caller's choice
    swaps_all = True  # several tables in one step
    names_stay = False  # of metadata files that were tidied away, since they are numbers
    # What differs from server to server of the REST catalog; each test names the server that needs it.
    compares_properties = True  # of tables; Iceberg's own server compares refs and ids alone
    keeps_metadata_log = True
    keeps_snapshots = True  # Nessie keeps the newest one only
    follows_metadata_settings = True  # for compression, and for old files that are deleted
    takes_local_places = True  # locations on this machine
    servers_own: frozenset[str] = frozenset()  # properties that a server adds to those of a namespace
    servers_own_of_tables: tuple[str, ...] = ()  # the beginnings of those that it adds to a table
    cannot_name: frozenset[str] = frozenset()  # names that a server does not take
    roots: tuple[str, ...] = ()  # places that every opening allows

    def properties(self, catalog: Catalog, namespace: Namespace) -> dict[str, str]:
        """The properties of a namespace that its users set."""
        found = catalog.namespace_properties(namespace)
        return {name: value for name, value in found.items() if name not in self.servers_own}

    def own(self, state: TableState) -> dict[str, str]:
        """The properties of a table that its users set."""
        found = state.metadata.properties.items()
        return {name: value for name, value in found if not name.startswith(self.servers_own_of_tables or ("\0",))}

    def begun(self, metadata: TableMetadata) -> TableMetadata:
        """The table with a change that the catalog compares, as far as properties are not compared."""
        return metadata if self.compares_properties else next_snapshot(metadata)

    def open(self, uri: str, *allowed: str) -> Catalog:
        """The catalog as a user opens it."""
        return open_catalog(uri, allowed_roots=(*self.roots, *allowed))

    @pytest.fixture
    def catalog(self, uri: str) -> Catalog:
        return self.open(uri)

    def test_a_new_catalog_is_empty(self, catalog: Catalog) -> None:
        assert catalog.namespaces() == ()

    def test_a_namespace_is_made_listed_and_dropped(self, catalog: Catalog) -> None:
        catalog.create_namespace(("b",), {})
        catalog.create_namespace(("a",), {})
        assert catalog.namespaces() == (("a",), ("b",))
        assert self.properties(catalog, ("a",)) == {}
        assert catalog.tables(("a",)) == ()
        catalog.drop_namespace(("a",))
        assert catalog.namespaces() == (("b",),)

    def test_a_nested_namespace_makes_those_above_it_exist(self, catalog: Catalog) -> None:
        catalog.create_namespace(("a", "b", "c"), {})
        assert catalog.namespaces() == (("a",), ("a", "b"), ("a", "b", "c"))
        with pytest.raises(AlreadyExists, match=r"cannot create namespace a\.b: it exists"):
            catalog.create_namespace(("a", "b"), {})
        with pytest.raises(InvalidInput, match=r"cannot drop namespace a: it holds a\.b"):
            catalog.drop_namespace(("a",))

    def test_namespaces_are_told_apart_by_case_and_by_signs_that_sql_reads_as_patterns(self, catalog: Catalog) -> None:
        for like, name in (("x_y", "xay"), ("Sales", "sales"), ("50%", "500")):
            if like in self.cannot_name:
                continue
            catalog.create_namespace((like, "in"), {})
            with pytest.raises(NoSuchNamespace, match=f"no namespace {name}"):
                catalog.tables((name,))
            catalog.create_namespace((name,), {})
            catalog.drop_namespace((name,))

    def test_properties_of_a_namespace_are_kept(self, catalog: Catalog) -> None:
        if not self.keeps_properties:
            pytest.skip("this catalog has no place for them")
        catalog.create_namespace(("a",), {"owner": "me", "comment": "ünï 'quoted'"})
        assert self.properties(catalog, ("a",)) == {"owner": "me", "comment": "ünï 'quoted'"}

    def test_properties_of_a_namespace_are_set_and_removed_together(self, catalog: Catalog) -> None:
        catalog.create_namespace(("a",), {"owner": "me", "old": "1"} if self.keeps_properties else {})
        catalog.create_namespace(("b", "c"), {})
        for namespace in (("a",), ("b",)):
            if not self.keeps_properties:
                with pytest.raises(Unsupported, match="cannot set properties of namespace"):
                    catalog.update_namespace_properties(namespace, {"comment": "x"}, [])
                continue
            catalog.update_namespace_properties(namespace, {"comment": "x", "owner": "you"}, ["old", "never"])
            assert self.properties(catalog, namespace) == {"comment": "x", "owner": "you"}
            catalog.update_namespace_properties(namespace, {}, ["comment", "owner"])
            assert self.properties(catalog, namespace) == {}
        catalog.drop_namespace(("b", "c"))
        assert ("a",) in catalog.namespaces()
        if self.keeps_properties:
            assert ("b",) in catalog.namespaces()  # what was given properties is there by itself
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
            catalog.update_namespace_properties(("nowhere",), {"a": "b"}, [])

    def test_properties_that_are_set_at_once_are_all_there(self, catalog: Catalog) -> None:
        if not self.keeps_properties:
            pytest.skip("this catalog has no place for them")
        catalog.create_namespace(("a",), {})
        all_at_once(*(lambda n=n: catalog.update_namespace_properties(("a",), {f"k{n}": "v"}, []) for n in range(4)))  # type: ignore[misc]
        assert self.properties(catalog, ("a",)) == {f"k{n}": "v" for n in range(4)}

    def test_what_is_missing_is_said_to_be_missing(self, catalog: Catalog) -> None:
        for call in (catalog.tables, catalog.drop_namespace, catalog.namespace_properties):
            with pytest.raises(NoSuchNamespace, match="no namespace nowhere") as raised:
                call(("nowhere",))
            assert raised.value.namespace == "nowhere"
        catalog.create_namespace(("sales",), {})
        for verb in (catalog.load, catalog.drop):
            with pytest.raises(NoSuchTable, match=r"no table sales\.orders") as missing:
                verb(ORDERS)
            assert missing.value.table == "sales.orders"

    def test_a_table_needs_its_namespace_and_leaves_nothing_without(self, catalog: Catalog) -> None:
        location = TableName(("nowhere",), "t")
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
            catalog.location_for(location) and catalog.create(location, empty_table(catalog.location_for(location)))
        assert catalog.namespaces() == ()

    def test_a_table_is_made_loaded_listed_and_dropped(self, catalog: Catalog) -> None:
        made = make(catalog)
        loaded = catalog.load(ORDERS)
        assert loaded.metadata_location == made.metadata_location
        assert loaded.metadata.uuid == made.metadata.uuid
        assert loaded.metadata.schema == made.metadata.schema
        assert loaded.metadata.metadata_log == ()
        assert catalog.tables(("sales",)) == (ORDERS,)
        with pytest.raises(InvalidInput, match=r"it holds sales\.orders"):
            catalog.drop_namespace(("sales",))
        catalog.drop(ORDERS)
        assert catalog.tables(("sales",)) == ()

    def test_a_dropped_table_keeps_its_files(self, catalog: Catalog) -> None:
        made = make(catalog)
        catalog.storage().write_new(f"{made.metadata.location}/data/a.parquet", b"x")
        catalog.drop(ORDERS)
        assert catalog.storage().exists(f"{made.metadata.location}/data/a.parquet")

    def test_a_version_that_is_known_and_still_current_is_given_back(self, catalog: Catalog) -> None:
        made = make(catalog)
        assert catalog.load(ORDERS, made) is made
        count_up(catalog, ORDERS, 1)
        newer = catalog.load(ORDERS, made)
        assert self.own(newer) == {"n": "1"}
        assert catalog.load(ORDERS, newer) is newer

    def test_a_taken_name_is_refused_and_the_first_table_stays(self, catalog: Catalog) -> None:
        made = make(catalog)
        with pytest.raises(AlreadyExists, match=r"cannot create table sales\.orders: a table of that name exists"):
            catalog.create(ORDERS, empty_table(made.metadata.location))
        assert catalog.load(ORDERS).metadata.uuid == made.metadata.uuid

    def test_tables_of_a_namespace_below_are_not_listed(self, catalog: Catalog) -> None:
        deep = TableName(("sales", "eu"), "orders")
        make(catalog, deep)
        make(catalog)
        assert catalog.tables(("sales",)) == (ORDERS,)
        assert catalog.tables(("sales", "eu")) == (deep,)

    def test_a_swap_makes_the_new_version_current(self, catalog: Catalog) -> None:
        base = make(catalog)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
        assert isinstance(outcome, Accepted)
        loaded = catalog.load(ORDERS)
        assert loaded.metadata_location == outcome.state.metadata_location != base.metadata_location
        assert self.own(loaded) == {"a": "b"}
        assert catalog.storage().exists(base.metadata_location)

    def test_statistics_of_snapshots_are_set_replaced_and_removed(self, catalog: Catalog) -> None:
        state = make(catalog)
        metadata = next_snapshot(next_snapshot(state.metadata))
        first, second = (snapshot.snapshot_id for snapshot in metadata.snapshots[-2:])
        first = first if self.keeps_snapshots else second
        blob = {"type": "t", "snapshot-id": first, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
        columns = StatisticsFile(
            snapshot_id=first, path=f"{metadata.location}/a", file_size=9, footer_size=7, blobs=(blob,)
        )
        partitions = PartitionStatisticsFile(snapshot_id=second, path=f"{metadata.location}/b", file_size=5)

        def swapped(base: TableState, new: TableMetadata) -> TableState:
            outcome = catalog.swap(ORDERS, base, new)
            assert isinstance(outcome, Accepted), outcome
            return catalog.load(ORDERS)

        state = swapped(state, metadata)
        state = swapped(state, with_partition_statistics(with_statistics(state.metadata, columns), partitions))
        assert (list(state.metadata.statistics), list(state.metadata.partition_statistics)) == ([columns], [partitions])
        newer = replace(columns, path=f"{metadata.location}/c", blobs=())
        state = swapped(state, with_statistics(state.metadata, newer))
        assert (list(state.metadata.statistics), list(state.metadata.partition_statistics)) == ([newer], [partitions])
        state = swapped(state, replace(state.metadata, statistics=(), last_updated_ms=next_ms(state.metadata)))
        assert (list(state.metadata.statistics), list(state.metadata.partition_statistics)) == ([], [partitions])
        state = swapped(
            state, replace(state.metadata, partition_statistics=(), last_updated_ms=next_ms(state.metadata))
        )
        assert (list(state.metadata.statistics), list(state.metadata.partition_statistics)) == ([], [])

    def test_d4_the_log_names_the_files_before_and_not_the_file_itself(self, catalog: Catalog) -> None:
        if not self.keeps_metadata_log:
            pytest.skip("this server keeps no log of metadata files")
        states = [make(catalog, **{"write.metadata.previous-versions-max": "2"})]
        for n in range(4):
            outcome = catalog.swap(ORDERS, states[-1], with_properties(states[-1].metadata, {"n": str(n)}))
            assert isinstance(outcome, Accepted)
            states.append(outcome.state)
            before = [state.metadata_location for state in states[:-1]]
            log = catalog.load(ORDERS).metadata.metadata_log
            assert [entry.metadata_file for entry in log] == before[-2:]
            assert [entry.timestamp_ms for entry in log] == [s.metadata.last_updated_ms for s in states[:-1]][-2:]
        assert all(catalog.storage().exists(state.metadata_location) for state in states)

    def test_old_files_go_after_the_commit_where_the_table_asks_for_it(self, catalog: Catalog) -> None:
        if not self.follows_metadata_settings:
            pytest.skip("this server follows no setting for metadata files")
        asked = {
            "write.metadata.previous-versions-max": "2",
            "write.metadata.delete-after-commit.enabled": "true",
        }
        states = [make(catalog, **asked)]
        for n in range(4):
            outcome = catalog.swap(ORDERS, states[-1], with_properties(states[-1].metadata, {"n": str(n)}))
            assert isinstance(outcome, Accepted)
            states.append(outcome.state)
        storage = catalog.storage()
        if self.names_stay:  # what goes is the content
            assert [storage.size(state.metadata_location) for state in states[:2]] == [0, 0]
            assert all(storage.size(state.metadata_location) for state in states[2:])
        else:
            there = [storage.exists(state.metadata_location) for state in states]
            assert there == [False, False, True, True, True]
        assert catalog.load(ORDERS).metadata.properties["n"] == "3"

    def test_d9_compressed_metadata_says_so_in_its_name_and_is_read_back(self, catalog: Catalog) -> None:
        if not self.follows_metadata_settings:
            pytest.skip("this server follows no setting for metadata files")
        base = make(catalog, **{"write.metadata.compression-codec": "gzip"})
        count_up(catalog, ORDERS, 2)
        loaded = catalog.load(ORDERS)
        assert loaded.metadata_location.endswith(".gz.metadata.json")
        assert catalog.storage().read(loaded.metadata_location)[:2] == b"\x1f\x8b"
        assert loaded.metadata.properties["n"] == "2"
        assert loaded.metadata.uuid == base.metadata.uuid

    def test_a_setting_that_means_nothing_is_refused_before_anything_is_written(self, catalog: Catalog) -> None:
        base = make(catalog)
        files = {file.location for file in catalog.storage().list(base.metadata.location)}
        for name in ("write.metadata.compression-codec", "write.metadata.previous-versions-max"):
            with pytest.raises(InvalidInput, match=f"{name} is 'soon'"):
                catalog.swap(ORDERS, base, with_properties(base.metadata, {name: "soon"}))
        assert {file.location for file in catalog.storage().list(base.metadata.location)} == files

    def test_a_swap_on_an_old_base_is_rejected_and_leaves_nothing(self, catalog: Catalog) -> None:
        base = make(catalog)
        count_up(catalog, ORDERS, 1)
        files = {file.location for file in catalog.storage().list(base.metadata.location)}
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"lost": "yes"}))
        assert isinstance(outcome, Rejected)
        assert self.own(catalog.load(ORDERS)) == {"n": "1"}
        assert {file.location for file in catalog.storage().list(base.metadata.location)} == files

    def test_a_swap_on_a_dropped_table_is_rejected(self, catalog: Catalog) -> None:
        base = make(catalog)
        catalog.drop(ORDERS)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
        assert isinstance(outcome, Rejected)
        assert "dropped" in outcome.why
        assert catalog.tables(("sales",)) == ()

    def test_d1_a_swap_does_not_land_in_a_table_made_anew_under_the_name(self, catalog: Catalog) -> None:
        base = make(catalog)
        count_up(catalog, ORDERS, 1)
        stale = catalog.load(ORDERS)
        catalog.drop(ORDERS)
        anew = make(catalog)
        count_up(catalog, ORDERS, 1)
        assert anew.metadata.uuid != base.metadata.uuid
        for old in (base, stale):
            assert isinstance(catalog.swap(ORDERS, old, with_properties(old.metadata, {"a": "b"})), Rejected)
        assert catalog.load(ORDERS).metadata.uuid == anew.metadata.uuid
        assert catalog.load(ORDERS, stale).metadata.uuid == anew.metadata.uuid

    def test_d1_a_table_never_changes_its_uuid(self, catalog: Catalog) -> None:
        base = make(catalog)
        with pytest.raises(InvalidInput, match="the table's uuid is"):
            catalog.swap(ORDERS, base, replace(base.metadata, uuid=str(uuid4())))
        assert catalog.load(ORDERS).metadata.uuid == base.metadata.uuid

    def test_a_renamed_table_keeps_its_files_and_its_old_name_is_free(self, catalog: Catalog) -> None:
        if not self.renames:
            pytest.skip("this catalog refuses to rename")
        made = make(catalog)
        new = TableName(("archive", "old"), "orders")
        catalog.create_namespace(new.namespace, {})
        catalog.rename(ORDERS, new)
        assert catalog.load(new).metadata_location == made.metadata_location
        assert catalog.tables(("sales",)) == ()
        again = make(catalog)
        assert again.metadata.location != made.metadata.location, "two tables must not share a folder"

    def test_a_rename_to_nowhere_or_onto_another_is_refused(self, catalog: Catalog) -> None:
        if not self.renames:
            pytest.skip("this catalog refuses to rename")
        other = TableName(("sales",), "other")
        make(catalog)
        make(catalog, other)
        with pytest.raises(AlreadyExists, match=r"a table of that name exists"):
            catalog.rename(ORDERS, other)
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
            catalog.rename(ORDERS, TableName(("nowhere",), "t"))
        with pytest.raises(NoSuchTable, match=r"no table sales\.missing"):
            catalog.rename(TableName(("sales",), "missing"), TableName(("sales",), "found"))
        assert catalog.tables(("sales",)) == (ORDERS, other)

    def test_a_dropped_table_can_be_registered_again(self, catalog: Catalog) -> None:
        made = make(catalog)
        content = catalog.storage().read(made.metadata_location)
        catalog.drop(ORDERS)
        kept = f"{made.metadata.location}/kept.metadata.json"
        catalog.storage().write_new(kept, content)
        assert catalog.register(ORDERS, kept).metadata.uuid == made.metadata.uuid
        count_up(catalog, ORDERS, 1)
        if self.keeps_metadata_log:
            assert kept in [entry.metadata_file for entry in catalog.load(ORDERS).metadata.metadata_log]
        with pytest.raises(AlreadyExists, match="a table of that name exists"):
            catalog.register(ORDERS, kept)

    @pytest.mark.parametrize("part", ["..", ".", "", " ", "a/b", "a\\b", "a\0b", "a\nb", "x" * 300, "a.b", "\ud800"])
    def test_s04_a_name_that_cannot_be_a_folder_is_refused_everywhere(self, catalog: Catalog, part: str) -> None:
        catalog.create_namespace(("sales",), {})
        base = empty_table("/nowhere")
        for name in (TableName(("sales",), part), TableName((part,), "t"), TableName(("sales", part), "t")):
            calls: list[Callable[[], Any]] = [
                lambda name=name: catalog.create(name, base),
                lambda name=name: catalog.load(name),
                lambda name=name: catalog.drop(name),
                lambda name=name: catalog.register(name, "/nowhere"),
                lambda name=name: catalog.location_for(name),
                lambda name=name: catalog.rename(ORDERS, name),
            ]
            for call in calls:
                with pytest.raises(InvalidInput, match="is not a name"):
                    call()
        for verb in (catalog.tables, catalog.drop_namespace, catalog.namespace_properties):
            with pytest.raises(InvalidInput, match="is not a name"):
                verb((part,))
        with pytest.raises(InvalidInput, match="is not a name"):
            catalog.create_namespace((part,), {})

    @pytest.mark.parametrize(
        "name", ["o'rders", 'or"ders', "or;--ders", "ör dérs", "*", "a?b", "a#b", "a%20d", "a@b", "ordres$", "😀"]
    )
    def test_an_odd_but_possible_name_is_only_a_name(self, catalog: Catalog, name: str) -> None:
        odd = TableName((name,), name)
        if name in self.cannot_name:
            catalog.create_namespace(("sales",), {})
            with pytest.raises(InvalidInput, match="cannot"):
                make(catalog, replace(odd, namespace=("sales",)))
            assert catalog.tables(("sales",)) == ()
            return
        made = make(catalog, odd)
        count_up(catalog, odd, 1)
        assert catalog.tables((name,)) == (odd,)
        assert catalog.load(odd).metadata.uuid == made.metadata.uuid
        catalog.drop(odd)

    @pytest.mark.parametrize("turn", range(5))
    def test_of_eight_threads_on_one_base_exactly_one_wins(self, catalog: Catalog, turn: int) -> None:
        base = make(catalog)
        begun = self.begun(base.metadata)
        jobs = [lambda n=n: catalog.swap(ORDERS, base, with_properties(begun, {"winner": str(n)})) for n in range(8)]
        outcomes = all_at_once(*jobs)
        winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Accepted)]
        assert len(winners) == 1, outcomes
        assert sum(isinstance(outcome, Rejected) for outcome in outcomes) == 7
        assert self.own(catalog.load(ORDERS)) == {"winner": str(winners[0])}

    def test_several_tables_change_in_one_step(self, catalog: Catalog) -> None:
        names = (ORDERS, TableName(("sales",), "totals"), TableName(("sales", "eu"), "orders"))
        bases = [make(catalog, name) for name in names]
        swaps = [
            TableSwap(name, base, with_properties(base.metadata, {"a": "b"}))
            for name, base in zip(names, bases, strict=True)
        ]
        if not self.swaps_all:
            with pytest.raises(Unsupported, match="cannot change several tables in one step"):
                catalog.check_swaps_all()
            with pytest.raises(Unsupported, match="cannot change several tables in one step"):
                catalog.swap_all(swaps)
            return
        catalog.check_swaps_all()
        answer = catalog.swap_all(swaps)
        assert isinstance(answer, AllAccepted)
        for name, state in zip(names, answer.states, strict=True):
            loaded = catalog.load(name)
            assert loaded.metadata_location == state.metadata_location
            assert self.own(loaded) == {"a": "b"}

    @pytest.mark.parametrize("late", [0, 1, 2])
    def test_if_one_of_several_tables_has_moved_on_none_changes(self, catalog: Catalog, late: int) -> None:
        if not self.swaps_all:
            pytest.skip("this catalog changes one table at a time")
        names = (ORDERS, TableName(("sales",), "totals"), TableName(("sales",), "zones"))
        bases = [make(catalog, name) for name in names]
        count_up(catalog, names[late], 1)
        files = {state.metadata_location for state in map(catalog.load, names)}
        answer = catalog.swap_all(
            [
                TableSwap(name, base, with_properties(base.metadata, {"a": "b"}))
                for name, base in zip(names, bases, strict=True)
            ]
        )
        assert isinstance(answer, Rejected)
        assert str(names[late]) in answer.why
        assert {state.metadata_location for state in map(catalog.load, names)} == files

    def test_steps_over_several_tables_lose_no_update(self, catalog: Catalog) -> None:
        if not self.swaps_all:
            pytest.skip("this catalog changes one table at a time")
        names = [ORDERS, TableName(("sales",), "totals")]
        for name in names:
            make(catalog, name)

        def count_both_up(order: Sequence[TableName]) -> None:
            for _ in range(5):
                answer: object = None
                while not isinstance(answer, AllAccepted):
                    bases = [catalog.load(name) for name in order]
                    counts = {base.metadata.properties.get("n", "0") for base in bases}
                    if len(counts) > 1:
                        continue  # another step came between the two loads
                    new = {"n": str(int(counts.pop()) + 1)}
                    answer = catalog.swap_all(
                        [
                            TableSwap(name, base, with_properties(self.begun(base.metadata), new))
                            for name, base in zip(order, bases, strict=True)
                        ]
                    )
                    assert isinstance(answer, AllAccepted | Rejected), answer

        all_at_once(*(lambda n=n: count_both_up(names if n % 2 else names[::-1]) for n in range(4)))  # type: ignore[misc]
        assert [self.own(catalog.load(name)) for name in names] == [{"n": "20"}] * 2

    def test_eight_threads_lose_no_update(self, catalog: Catalog) -> None:
        make(catalog)
        all_at_once(*[lambda: count_up(catalog, ORDERS, 5)] * 8)
        assert self.own(catalog.load(ORDERS)) == {"n": "40"}
        assert catalog.load(ORDERS).metadata.last_sequence_number == 40
        if self.keeps_metadata_log:
            assert len(catalog.load(ORDERS).metadata.metadata_log) == 40

    def test_four_processes_lose_no_update(self, catalog: Catalog, uri: str) -> None:
        if not self.outlives_its_process:
            pytest.skip("this catalog is one process's own")
        make(catalog)
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            pool.map(count_up_in_a_process, [(uri, self.roots, 10)] * 4, chunksize=1)
        loaded = catalog.load(ORDERS)
        assert self.own(loaded) == {"n": "40"}
        assert loaded.metadata.last_sequence_number == 40
        if self.keeps_metadata_log:
            assert len({entry.metadata_file for entry in loaded.metadata.metadata_log}) == 40

    def test_f35_of_eight_creators_of_one_name_exactly_one_wins(self, catalog: Catalog) -> None:
        catalog.create_namespace(("sales",), {})

        def create() -> TableState | None:
            try:
                return catalog.create(ORDERS, empty_table(catalog.location_for(ORDERS)))
            except AlreadyExists:
                return None

        made = [state for state in all_at_once(*[create] * 8) if state is not None]
        assert len(made) == 1
        assert catalog.load(ORDERS).metadata.uuid == made[0].metadata.uuid

    def test_what_one_opening_wrote_another_sees(self, catalog: Catalog, uri: str) -> None:
        if not self.outlives_its_process:
            pytest.skip("this catalog is one process's own")
        made = make(catalog)
        other = self.open(uri)
        assert other.namespaces() == (("sales",),)
        assert other.tables(("sales",)) == (ORDERS,)
        assert other.load(ORDERS).metadata.uuid == made.metadata.uuid
        count_up(other, ORDERS, 1)
        assert self.own(catalog.load(ORDERS, made)) == {"n": "1"}

    # ------------------------------------------------------------ places outside the warehouse

    @pytest.fixture
    def outside(self, tmp_path: Path) -> str:
        return f"{tmp_path}/outside"

    @pytest.fixture
    def allowing(self, uri: str, outside: str) -> Catalog:
        """The catalog, opened by somebody who allows the place outside."""
        catalog = self.open(uri, outside)
        catalog.create_namespace(("sales",), {})
        return catalog

    def test_a_location_outside_the_warehouse_is_refused(self, catalog: Catalog, outside: str) -> None:
        catalog.create_namespace(("sales",), {})
        match = (
            rf"{outside}/t.* name {outside}/t .* allowed_roots="
            if self.places_tables
            else f"{outside}/t.* its location"
        )
        with pytest.raises(InvalidInput, match=match):
            catalog.create(ORDERS, empty_table(f"{outside}/t"))
        assert catalog.tables(("sales",)) == ()
        assert not Path(outside).exists()

    def test_a_location_below_an_allowed_root_is_taken(self, allowing: Catalog, outside: str) -> None:
        if not self.takes_local_places:
            pytest.skip("this server takes no location on this machine")
        if not self.places_tables:
            pytest.skip("the name of a table is its folder")
        made = allowing.create(ORDERS, empty_table(f"{outside}/t"))
        count_up(allowing, ORDERS, 1)
        assert made.metadata_location.startswith(f"{outside}/t/metadata/")
        assert self.own(allowing.load(ORDERS)) == {"n": "1"}
        for near in (f"{outside}-2/t", f"{outside}/../t"):
            with pytest.raises(InvalidInput, match="cannot use"):
                allowing.create(TableName(("sales",), "near"), empty_table(near))

    def test_a_table_outside_is_refused_to_those_who_do_not_allow_its_place(
        self, allowing: Catalog, uri: str, outside: str
    ) -> None:
        if not self.places_tables or not self.outlives_its_process or not self.takes_local_places:
            pytest.skip("there is no such table")
        made = allowing.create(ORDERS, empty_table(f"{outside}/t"))
        catalog = self.open(uri)
        assert catalog.tables(("sales",)) == (ORDERS,)
        with pytest.raises(InvalidInput, match=rf"cannot use {outside}/t/.* allowed_roots="):
            catalog.load(ORDERS)
        with pytest.raises(InvalidInput, match=rf"cannot use {outside}/t/.* allowed_roots="):
            catalog.register(TableName(("sales",), "again"), made.metadata_location)
        allowing.drop(ORDERS)  # a server lets no two tables share a folder
        allowing.register(TableName(("sales",), "again"), made.metadata_location)

    @pytest.mark.parametrize("name", ["write.data.path", "write.object-storage.path", "write.folder-storage.path"])
    def test_a_path_for_new_files_outside_is_refused_by_name(self, catalog: Catalog, outside: str, name: str) -> None:
        base = make(catalog)
        named = {name: f"{outside}/data"}
        for act in (
            lambda: make(catalog, TableName(("sales",), "other"), **named),
            lambda: catalog.swap(ORDERS, base, with_properties(base.metadata, named)),
        ):
            with pytest.raises(InvalidInput, match=rf"cannot use {outside}/data as {name}: .* allowed_roots="):
                act()
        assert self.own(catalog.load(ORDERS)) == {}

    def test_a_table_that_writes_outside_already_can_be_mended(self, allowing: Catalog, uri: str, outside: str) -> None:
        allowing.create(ORDERS, empty_table(allowing.location_for(ORDERS), **{"write.data.path": f"{outside}/data"}))
        allowing.storage().write_new(f"{outside}/data/f", b"x")
        if not self.outlives_its_process:
            return
        catalog = self.open(uri)
        with pytest.raises(InvalidInput, match="allowed_roots="):
            catalog.storage().read(f"{outside}/data/f")
        count_up(catalog, ORDERS, 1)
        now = catalog.load(ORDERS)
        assert isinstance(catalog.swap(ORDERS, now, with_properties(now.metadata, {"write.data.path": ""})), Accepted)

    def test_a_namespace_opens_no_place_outside(self, catalog: Catalog, outside: str) -> None:
        if not self.keeps_properties or not self.takes_local_places:
            pytest.skip("a namespace names no place on this machine")
        catalog.create_namespace(("sales",), {"location": outside})
        with pytest.raises(
            InvalidInput, match=rf"cannot use {outside} as the location of namespace sales: .*allowed_r"
        ):
            catalog.location_for(ORDERS)
