"""Change feeds as a user meets them: which snapshots, which rows, and what it costs to know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from change_feeds import applied, rows_at
from counting_storage import CountingStorage
from table_maker import TableMaker
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

import esker
from esker.errors import InvalidInput
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import LONG, STRING, Field
from esker.model.values import to_bytes
from esker.read.scan_changes import ChangeScan
from esker.table import Table
from esker.tree.data_file import DataFile, Metrics
from esker.tree.snapshot import RefKind, SnapshotRef


def people(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": pa.array([id_ for id_, _ in rows], pa.int64()), "name": [name for _, name in rows]})


@pytest.fixture
def lake() -> esker.Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("ns")
    return lake


@pytest.fixture
def table(lake: esker.Lake) -> Table:
    made = lake.create_table("ns.t", "id bigint, name string")
    made.append(people((1, "a"), (2, "b"), (3, "c")))
    return made


def told(feed: ChangeScan) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:-1] for row in feed.to_arrow().to_pylist()]


# ---------------------------------------------------------------- which rows


def test_an_append_inserts(table: Table) -> None:
    first = table.current_snapshot
    second = table.append(people((4, "d")))
    feed = table.scan_changes(first.snapshot_id)
    assert feed.to_arrow().to_pylist() == [
        {
            "id": 4,
            "name": "d",
            "_change_type": "insert",
            "_change_ordinal": 0,
            "_commit_snapshot_id": second.snapshot_id,
        }
    ]
    assert feed.count() == 1
    assert told(table.scan_changes(None)) == [
        (1, "a", "insert", 0),
        (2, "b", "insert", 0),
        (3, "c", "insert", 0),
        (4, "d", "insert", 1),
    ]


def test_net_changes_leave_out_what_came_and_went_and_tell_the_rest_as_iceberg_does(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.append(people((4, "d"), (5, "e"), (5, "e")))  # 0
    table.delete("id = 4 or id = 1")  # 1
    table.append(people((1, "a"), (5, "e"), (6, "f")))  # 2: 1 is back
    table.delete("id = 6 or id = 3")  # 3
    table.append(people((6, "f"), (1, "a")))  # 4: 6 is there again, and 1 is there twice
    feed = table.scan_changes(start, net=True)
    # 5 is there three times more: all of them are told by the first commit that added it.
    expected = [(5, "e", "insert", 0)] * 3 + [(3, "c", "delete", 3), (6, "f", "insert", 4), (1, "a", "insert", 4)]
    assert told(feed) == expected
    assert feed.count() == 6
    by_name = table.scan_changes(start, where="id < 6", columns=["name"], net=True).to_arrow()
    assert by_name["name"].to_pylist() == ["e", "e", "e", "c", "a"]
    assert by_name.column_names == ["name", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert told(table.scan_changes(table.current_snapshot.snapshot_id, net=True)) == []
    assert "changes net" in repr(feed)
    with pytest.raises(InvalidInput, match="cannot read net changes as updates: give net=True or keys, not both"):
        table.scan_changes(start, keys=["id"], net=True)


def test_rows_that_copy_on_write_only_moved_are_no_changes(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.delete("id = 2")
    assert told(table.scan_changes(start)) == [(2, "b", "delete", 0)]
    table.overwrite(people((1, "a"), (9, "z")), where="id <= 3")
    assert told(table.scan_changes(start)) == [(2, "b", "delete", 0), (3, "c", "delete", 1), (9, "z", "insert", 1)]


def test_equal_rows_cancel_out_one_for_one(lake: esker.Lake) -> None:
    table = lake.create_table("ns.twins", "id bigint, name string")
    start = table.append(people((1, "a"), (1, "a"), (1, "a"))).snapshot_id
    table.overwrite(people((1, "a"), (2, "b")))
    assert told(table.scan_changes(start)) == [(1, "a", "delete", 0), (1, "a", "delete", 0), (2, "b", "insert", 0)]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_delete_files_take_are_deletes(lake: esker.Lake, version: int) -> None:
    table = lake.create_table("ns.deleted", "id bigint, name string", format_version=version)
    start = table.append(people(*((at, f"n{at}") for at in range(10)))).snapshot_id
    [data] = [task.data_file for task in table.scan().plan().tasks]
    if version == 2:
        commit_deletes(table, position_delete(table, data, [1, 4]))
        commit_deletes(table, position_delete(table, data, [4, 5], named=True))
    else:
        commit_deletes(table, *deletion_vectors(table, [(data, [1, 4])]))
    commit_deletes(table, equality_delete(table, [1, 7], data))
    found = told(table.scan_changes(start))
    expected = [(1, "n1", "delete", 0), (4, "n4", "delete", 0)]
    expected += [(5, "n5", "delete", 1), (7, "n7", "delete", 2)] if version == 2 else [(7, "n7", "delete", 1)]
    assert found == expected


def test_a_row_written_and_deleted_in_one_snapshot_never_was(table: Table) -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    data = maker.data_file([{"id": 1}, {"id": 2}])
    maker.manifest([data])
    maker.manifest([maker.position_deletes([(data.path, 0)])])
    assert told(maker.table().scan_changes(None)) == [(2, "insert", 0)]


def test_a_snapshot_that_replaces_files_changes_no_row(lake: esker.Lake) -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    small = maker.manifest([maker.data_file([{"id": 1}]), maker.data_file([{"id": 2}])])
    maker.snapshot([small])
    large = maker.manifest([maker.data_file([{"id": 1}, {"id": 2}])])
    maker.snapshot([large], summary={"operation": "replace"})
    maker.snapshot([large, maker.manifest([maker.data_file([{"id": 3}])])])
    table = maker.table()
    feed = table.scan_changes(table.snapshots[0].snapshot_id)
    assert told(feed) == [(3, "insert", 0)]
    assert [commit.snapshot_id for commit in feed.plan().commits] == [table.snapshots[2].snapshot_id]


def test_rows_are_shown_by_the_schema_of_the_last_snapshot(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.delete("id = 1")
    with table.alter() as change:
        change.rename_column("name", "title")
        change.add_column("extra", "int")
    last = table.append(pa.table({"id": [5], "title": ["e"], "extra": pa.array([7], pa.int32())}))
    feed = table.scan_changes(start, last.snapshot_id)
    assert feed.schema.names[:3] == ["id", "title", "extra"]
    assert told(feed) == [(1, "a", None, "delete", 0), (5, "e", 7, "insert", 1)]
    schema = feed.range.schema
    ends = [rows_at(table, table.metadata.snapshot(id_), schema) for id_ in (start, last.snapshot_id)]
    assert applied(ends[0], feed) == ends[1]


# ---------------------------------------------------------------- which snapshots


def test_snapshots_go_by_id_branch_or_tag(table: Table) -> None:
    table.tag("first")
    start = table.current_snapshot.snapshot_id
    table.branch("side")
    table.append(people((5, "side")), ref="side")
    table.append(people((4, "main")))
    assert told(table.scan_changes("first", "side")) == [(5, "side", "insert", 0)]
    assert told(table.scan_changes("first")) == told(table.scan_changes(start, "main")) == [(4, "main", "insert", 0)]
    assert told(table.scan_changes(str(start), "main")) == [(4, "main", "insert", 0)]
    assert told(table.scan_changes("main")) == []


def test_the_one_must_have_come_from_the_other(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.branch("side")
    side = table.append(people((5, "side")), ref="side").snapshot_id
    main = table.append(people((4, "main"))).snapshot_id
    for first, last in ((side, main), (main, start)):
        message = f"cannot read changes from snapshot {first} to {last}: the first is not an ancestor of the second"
        with pytest.raises(esker.InvalidInput, match=message):
            table.scan_changes(first, last)


def test_a_snapshot_that_has_expired_on_the_way_is_named() -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    for at in range(4):
        maker.manifest([maker.data_file([{"id": at}])])
        maker.snapshot()
    kept = (maker.snapshots[0], *maker.snapshots[2:])
    table = maker.table(snapshots=kept)
    assert told(table.scan_changes(1002)) == [(3, "insert", 0)]
    with pytest.raises(esker.NoSuchSnapshot, match="snapshot 1001, the parent of 1002, has expired; start from 1002"):
        table.scan_changes(1000)
    with pytest.raises(esker.NoSuchSnapshot, match="cannot read changes from the beginning to snapshot 1003"):
        table.scan_changes(None)
    with pytest.raises(esker.NoSuchSnapshot, match="no snapshot 1001: it never existed, or it has expired"):
        table.scan_changes(1001)


def test_a_snapshot_that_is_its_own_ancestor_ends_the_search() -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    maker.snapshot([])
    maker.snapshot([])
    first, second = maker.snapshots
    table = maker.table(snapshots=(replace(first, parent_snapshot_id=second.snapshot_id), second))
    with pytest.raises(esker.NoSuchSnapshot, match="cannot read changes"):
        table.scan_changes(None)


def test_a_snapshot_id_that_is_no_long_is_refused() -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    maker.snapshot([], snapshot_id=2**63)
    with pytest.raises(
        esker.Corrupt, match="its snapshot has the id 9223372036854775808, which is not a 64-bit number"
    ):
        maker.table().scan_changes(None).plan()


@pytest.mark.parametrize("name", [True, 1.5, b"main"])
def test_what_names_no_snapshot_is_refused(table: Table, name: Any) -> None:
    with pytest.raises(esker.InvalidInput, match="give a snapshot's id, or the name of a branch or tag"):
        table.scan_changes(name)


def test_an_empty_table_has_no_changes(lake: esker.Lake) -> None:
    table = lake.create_table("ns.empty", "id bigint")
    assert told(table.scan_changes(None)) == []
    assert table.scan_changes(None).count() == 0


# ---------------------------------------------------------------- conditions, columns, keys


def test_a_condition_is_about_rows_before_and_after(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.overwrite(people((1, "a"), (2, "far"), (3, "c")))
    assert told(table.scan_changes(start, where="name = 'b'")) == [(2, "b", "delete", 0)]
    assert told(table.scan_changes(start, where="name > 'e'")) == [(2, "far", "insert", 0)]
    assert table.scan_changes(start, where="id = 1").count() == 0


def test_columns_choose_what_is_shown_and_not_what_is_compared(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.overwrite(people((1, "a"), (2, "new"), (3, "c")))
    assert told(table.scan_changes(start, columns=["id"])) == [(2, "delete", 0), (2, "insert", 0)]
    with pytest.raises(esker.InvalidInput, match="cannot use columns='id': give a list of names"):
        table.scan_changes(start, columns="id")
    with pytest.raises(esker.InvalidInput, match="no column 'nope'"):
        table.scan_changes(start, columns=["nope"])


def test_keys_tell_updates_from_deletes_and_inserts(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.overwrite(people((1, "a"), (2, "new"), (4, "d")))
    assert told(table.scan_changes(start, keys=["id"])) == [
        (3, "c", "delete", 0),
        (2, "b", "update_before", 0),
        (2, "new", "update_after", 0),
        (4, "d", "insert", 0),
    ]


def test_keys_that_several_rows_share_are_refused(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    last = table.overwrite(people((2, "x"), (2, "y"))).snapshot_id
    with pytest.raises(esker.InvalidInput, match=f"cannot tell updates of snapshot {last} by id: several rows"):
        table.scan_changes(start, keys=["id"]).to_arrow()
    with pytest.raises(esker.InvalidInput, match="cannot use keys='id': give a list of names"):
        table.scan_changes(start, keys="id")


def test_a_key_must_be_one_value(lake: esker.Lake) -> None:
    table = lake.create_table("ns.nested", "id bigint, s struct<x: int>")
    with pytest.raises(esker.InvalidInput, match="cannot identify rows by 's'"):
        table.scan_changes(None, keys=["s"])
    with pytest.raises(esker.InvalidInput, match="cannot use 'x' for keys of a change feed: give whole columns"):
        table.scan_changes(None, keys=["s.x"])


def test_a_table_with_a_column_of_that_name_is_refused() -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="_change_type", type=LONG),)))
    maker.snapshot([])
    table = maker.table()
    with pytest.raises(
        esker.InvalidInput, match="has a column '_change_type', which a change feed adds; rename it first"
    ):
        table.scan_changes(None)


def test_every_verb_gives_the_same_rows(table: Table) -> None:
    start = table.current_snapshot.snapshot_id
    table.append(people((4, "d")))
    table.delete("id = 1")
    feed = table.scan_changes(start)
    rows = feed.to_arrow().to_pylist()
    assert feed.to_batches().read_all().to_pylist() == rows
    assert feed.to_pandas().to_dict("records") == rows
    assert feed.to_polars().to_dicts() == rows
    assert feed.to_duckdb().fetchall() == [tuple(row.values()) for row in rows]


def test_a_table_without_spark_says_so() -> None:
    maker = TableMaker(Schema(fields=(Field(id=1, name="id", type=LONG),)))
    maker.snapshot([])
    feed = replace(maker.table().scan_changes(None), frames=None)
    with pytest.raises(esker.Unsupported, match="cannot return a Spark DataFrame: this table was opened without Spark"):
        feed.to_spark()


# ---------------------------------------------------------------- what it costs


PEOPLE = Schema(fields=(Field(id=1, name="id", type=LONG), Field(id=2, name="name", type=STRING)))
BY_NAME = PartitionSpec(fields=(PartitionField(source_id=2, field_id=1000, name="name", transform=IDENTITY),))


def grown(appends: int, *specs: PartitionSpec) -> TableMaker:
    """A table of many appends, each a file in a manifest of its own, and each a partition if there are any."""
    maker = TableMaker(PEOPLE, specs=specs or (PartitionSpec(),), format_version=3)
    for at in range(appends):
        facts = {"partition": (f"n{at}",)} if specs else {}
        maker.manifest([maker.data_file([{"id": at, "name": f"n{at}"}], **facts)])
        maker.snapshot()
    return maker


def test_an_append_costs_its_own_manifest_however_many_there_are() -> None:
    for appends in (3, 30):
        table = grown(appends).table()
        plan = table.scan_changes(table.snapshots[-2].snapshot_id).plan()
        assert plan.funnel.manifests_read == 1
        assert plan.funnel.manifests_total == appends
        assert (plan.funnel.files_total, plan.funnel.files_kept, plan.funnel.rows_kept) == (1, 1, 1)


def test_an_append_to_a_table_full_of_deletes_opens_none_of_them() -> None:
    maker = grown(10)
    for task in maker.table().scan().plan().tasks:
        maker.manifest([maker.vector([0], task.data_file)])
        maker.snapshot()
    maker.manifest([maker.data_file([{"id": 99, "name": "new"}])])
    maker.snapshot()
    table = maker.table()
    feed = table.scan_changes(table.snapshots[-2].snapshot_id)
    assert told(feed) == [(99, "new", "insert", 0)]
    assert feed.plan().funnel.manifests_read == 1


@pytest.mark.parametrize("way", ["vector", "positions", "keys"])
def test_a_delete_costs_the_manifests_that_can_hold_its_rows(way: str) -> None:
    for appends in (5, 30):
        maker = grown(appends, BY_NAME)
        target = maker.table().scan().plan().tasks[3].data_file
        deleted = {"spec_id": target.spec_id, "partition": target.partition}
        match way:
            case "vector":
                delete = maker.vector([0], target)
            case "positions":
                delete = maker.position_deletes([(target.path, 0)], **deleted)
            case _:
                delete = maker.equality_deletes(Schema(fields=PEOPLE.fields[:1]), [{"id": 3}], **deleted)
        maker.manifest([delete])
        maker.snapshot(summary={"operation": "delete"})
        table = maker.table()
        feed = table.scan_changes(table.snapshots[-2].snapshot_id)
        assert told(feed) == [(3, "n3", "delete", 0)]
        assert [task.data_file.path for task in feed.plan().tasks] == [target.path]
        assert feed.plan().funnel.manifests_read == 2, "its own, and that of the data"
        assert feed.plan().funnel.manifests_total == appends + 1


def test_a_file_that_goes_with_its_deletes_is_not_looked_for() -> None:
    maker = grown(30)
    target = maker.table().scan().plan().tasks[3].data_file
    kept = [manifest for at, manifest in enumerate(maker.manifests) if at != 3]
    old = maker.manifests[3]
    maker.snapshot([*kept, old, maker.manifest([maker.vector([0], target)])], summary={"operation": "delete"})
    maker.snapshot([*kept, maker.manifest([maker.data_file([{"id": 77, "name": "new"}])])])
    table = maker.table()
    feed = table.scan_changes(table.snapshots[-2].snapshot_id)
    assert told(feed) == [(77, "new", "insert", 0)]
    assert feed.plan().funnel.manifests_read == 3, "that of the file, that of its deletes, and the new one"


def with_bounds(maker: TableMaker, at: int) -> DataFile:
    edge = {1: to_bytes(LONG, at)}
    rows = [{"id": at, "name": f"n{at}"}]
    return maker.data_file(rows, metrics=Metrics(lower_bounds=edge, upper_bounds=edge, null_counts={1: 0}))


def test_keys_reach_only_files_whose_bounds_they_meet() -> None:
    maker = TableMaker(PEOPLE)
    maker.manifest([with_bounds(maker, at) for at in range(6)])
    maker.snapshot()
    keys = Schema(fields=PEOPLE.fields[:1])
    bounds = {"lower_bounds": {1: to_bytes(LONG, 2)}, "upper_bounds": {1: to_bytes(LONG, 3)}, "null_counts": {1: 0}}
    maker.manifest([maker.equality_deletes(keys, [{"id": 2}, {"id": 3}], metrics=Metrics(**bounds))])
    maker.snapshot(summary={"operation": "delete"})
    table = maker.table()
    feed = table.scan_changes(table.snapshots[0].snapshot_id)
    assert told(feed) == [(2, "n2", "delete", 0), (3, "n3", "delete", 0)]
    assert len(feed.plan().tasks) == 2


def test_a_condition_leaves_manifests_and_files_unread() -> None:
    table = grown(5, BY_NAME).table()
    feed = table.scan_changes(None, where="name = 'n3'")
    assert told(feed) == [(3, "n3", "insert", 3)]
    assert (feed.plan().funnel.manifests_read, feed.plan().funnel.files_kept) == (1, 1)


def test_a_vector_that_replaces_another_opens_its_file_once() -> None:
    maker = TableMaker(PEOPLE, format_version=3)
    data = maker.data_file([{"id": at, "name": "x"} for at in range(9)], row_group_size=3)
    appended = maker.manifest([data])
    maker.snapshot([appended, maker.manifest([maker.vector([1], data)])])
    maker.snapshot([appended, maker.manifest([maker.vector([1, 7], data)])], summary={"operation": "delete"})
    storage = CountingStorage(maker.storage)
    table = maker.table(storage=storage)
    assert told(table.scan_changes(1000)) == [(7, "x", "delete", 0)]
    assert storage.opened[data.path] == 1


def test_a_file_that_claims_countless_rows_costs_no_more_than_its_vector() -> None:
    maker = TableMaker(PEOPLE, format_version=3)
    data = replace(maker.data_file([{"id": at, "name": "x"} for at in range(9)]), record_count=2**45)
    appended = maker.manifest([data])
    maker.snapshot([appended])
    maker.snapshot([appended, maker.manifest([maker.vector([1, 7], data)])], summary={"operation": "delete"})
    assert told(maker.table().scan_changes(1000)) == [(1, "x", "delete", 0), (7, "x", "delete", 0)]


def test_nothing_is_read_where_there_is_no_way_to_go() -> None:
    maker = grown(2)
    refs = {"old": SnapshotRef(snapshot_id=1000, kind=RefKind.TAG)}
    table = maker.table(refs={**maker.metadata().refs, **refs})
    assert table.scan_changes("old", "old").plan().funnel.manifests_read == 0
