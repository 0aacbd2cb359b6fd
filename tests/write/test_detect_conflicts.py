"""Two writers on one base: who may go on, and who would lose what the other wrote (L1, F26 to F33)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from compaction import compact
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, reachable, rows_of
from with_deletes import commit_deletes, position_delete

from esker.errors import Conflict, InvalidInput
from esker.table import Table
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import commit
from esker.write.context import MetadataNames, Scratch
from esker.write.steps import RemoveFiles

Verb = Callable[[Any], object]
SNAPSHOT = {"write.delete.isolation-level": "snapshot"}


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def start(memory: MemoryLake, properties: dict[str, str] | None = None, **how: Any) -> Table:
    """Two rows in eu, two in us."""
    table = orders(memory.lake(), partition_by=how.pop("partition_by", ["region"]), properties=properties, **how)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    return table


def race(memory: MemoryLake, ours: Verb, *theirs: Verb) -> Table:
    """Ours begins, theirs are committed, ours commits."""
    tx = memory.lake().table(NAME).transaction()
    ours(tx)
    before = memory.files()
    for other in theirs:
        other(memory.lake().table(NAME))
    try:
        tx.commit()
    except Conflict:
        kept = reachable(check_sound(memory.lake(), NAME))
        assert memory.files() == kept, "a conflict removes the files of its own operation and no others"
        assert not {path for path in before if tx._names.operation_id in path} & kept
        raise
    return check_sound(memory.lake(), NAME)


def test_f26_appends_never_conflict(memory: MemoryLake) -> None:
    start(memory)
    table = race(memory, lambda tx: tx.append(rows([5])), lambda t: t.append(rows([6])), lambda t: t.append(rows([7])))
    assert rows_of(table) == [1, 2, 3, 4, 5, 6, 7]
    assert [s.sequence_number for s in table.snapshots] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "theirs",
    [
        lambda t: t.append(rows([9], "us")),
        lambda t: t.overwrite(rows([9], "us"), where="region = 'us'"),
        lambda t: t.overwrite(rows([9], "eu")),
        lambda t: t.delete("id = 1"),
        lambda t: t.delete("true"),
        lambda t: t.overwrite_partitions(rows([9], "eu")),
    ],
)
def test_l1_an_append_goes_on_whatever_others_did(memory: MemoryLake, theirs: Verb) -> None:
    start(memory)
    assert 5 in rows_of(race(memory, lambda tx: tx.append(rows([5])), theirs))


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_f27_an_overwrite_against_an_append_outside_its_filter_passes(memory: MemoryLake, level: str) -> None:
    start(memory, {"write.delete.isolation-level": level})
    table = race(
        memory, lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"), lambda t: t.append(rows([9], "us"))
    )
    assert rows_of(table) == [3, 4, 9, 10]


def test_f27_an_overwrite_against_an_append_inside_its_filter_conflicts(memory: MemoryLake) -> None:
    start(memory)
    with pytest.raises(Conflict, match=r"another commit has added .*write\.delete\.isolation-level = snapshot"):
        race(
            memory,
            lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"),
            lambda t: t.append(rows([9], "eu")),
        )
    assert rows_of(memory.lake().table(NAME)) == [1, 2, 3, 4, 9]


def test_f27_under_snapshot_isolation_the_append_is_replaced_with_the_rest(memory: MemoryLake) -> None:
    start(memory, SNAPSHOT)
    table = race(
        memory, lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"), lambda t: t.append(rows([9], "eu"))
    )
    assert rows_of(table) == [3, 4, 10]


def test_f27_bounds_tell_that_an_append_lies_outside(memory: MemoryLake) -> None:
    start(memory, partition_by=[])
    table = race(memory, lambda tx: tx.overwrite(rows([10]), where="id < 3"), lambda t: t.append(rows([100, 200])))
    assert rows_of(table) == [3, 4, 10, 100, 200]


def test_f27_a_file_added_and_moved_to_another_manifest_since_is_still_seen(memory: MemoryLake) -> None:
    """The second commit rewrites the first one's manifest, where its file is listed as existing from then on."""
    start(memory)
    with pytest.raises(Conflict, match="has added"):
        race(
            memory,
            lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"),
            lambda t: t.append(pa.concat_tables([rows([9], "eu"), rows([8], "us")])),
            lambda t: t.delete("id = 8"),
        )
    assert 9 in rows_of(memory.lake().table(NAME))


def test_f27_what_a_compaction_wrote_is_not_an_append(memory: MemoryLake) -> None:
    """Each small file is outside the filter; the bounds of the compacted file include it."""
    table = start(memory, partition_by=[])
    table.append(rows([6, 7]))
    table.append(rows([11, 12]))
    table = race(memory, lambda tx: tx.overwrite(rows([9]), "id BETWEEN 8 AND 10"), lambda t: compact(t, "id > 5"))
    assert rows_of(table) == [1, 2, 3, 4, 6, 7, 9, 11, 12]


def test_f27_an_append_that_was_compacted_meanwhile_is_still_seen(memory: MemoryLake) -> None:
    start(memory, partition_by=[])
    with pytest.raises(
        Conflict, match=r"cannot overwrite: another commit has (added|removed) .* since the overwrite began"
    ):
        race(
            memory,
            lambda tx: tx.overwrite(rows([9]), "id BETWEEN 8 AND 10"),
            lambda t: t.append(rows([10])),
            lambda t: compact(t, "id = 10"),
        )


def test_f27_a_folded_manifest_does_not_hide_what_was_added(memory: MemoryLake) -> None:
    folding = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    start(memory, folding)
    with pytest.raises(Conflict, match="has added"):
        race(
            memory,
            lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"),
            lambda t: t.append(rows([9], "eu")),
            lambda t: t.append(rows([8], "us")),
        )


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize(
    "theirs",
    [
        lambda t: t.delete("id = 1"),  # a copy of the file takes its place
        lambda t: t.delete("region = 'eu'"),  # nothing does
        lambda t: t.overwrite(rows([9], "us"), where="region = 'eu'"),
    ],
)
def test_l1_an_overwrite_does_not_bring_back_what_others_removed(memory: MemoryLake, level: str, theirs: Verb) -> None:
    start(memory, {"write.delete.isolation-level": level})
    with pytest.raises(Conflict, match="another commit has"):
        race(memory, lambda tx: tx.overwrite(rows([1, 2], "eu"), where="region = 'eu'"), theirs)


def test_l1_what_was_removed_is_seen_even_when_a_later_commit_dropped_the_entry(memory: MemoryLake) -> None:
    start(memory, SNAPSHOT)
    with pytest.raises(Conflict, match="has removed"):
        race(
            memory,
            lambda tx: tx.overwrite(rows([1], "eu"), where="region = 'eu'"),
            lambda t: t.delete("region = 'eu'"),
            lambda t: t.append(rows([9], "us")),
            lambda t: t.append(rows([8], "us")),
        )


def test_l1_deletes_added_in_the_filter_s_partition_conflict(memory: MemoryLake) -> None:
    start(memory)

    def add_deletes(table: Table) -> None:
        [file] = [f for f in live_files(table) if f.partition == ("eu",)]
        commit_deletes(table, position_delete(table, file, [0]))

    with pytest.raises(Conflict, match="has added deletes in"):
        race(memory, lambda tx: tx.overwrite(rows([1], "eu"), where="region = 'eu'"), add_deletes)
    table = race(memory, lambda tx: tx.overwrite(rows([10], "us"), where="region = 'us'"), add_deletes_nowhere)
    assert 10 in rows_of(table)


def add_deletes_nowhere(table: Table) -> None:
    [file] = [f for f in live_files(table) if f.partition == ("eu",) and f.content == 0]
    commit_deletes(table, position_delete(table, file, [1]))


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_f28_of_two_overwrites_of_one_partition_one_conflicts(memory: MemoryLake, level: str) -> None:
    start(memory, {"write.delete.isolation-level": level})
    with pytest.raises(Conflict):
        race(
            memory,
            lambda tx: tx.overwrite_partitions(rows([10], "eu")),
            lambda t: t.overwrite_partitions(rows([11], "eu")),
        )
    assert rows_of(memory.lake().table(NAME)) == [3, 4, 11]


def test_f28_overwrites_of_two_partitions_both_pass(memory: MemoryLake) -> None:
    start(memory)
    table = race(
        memory, lambda tx: tx.overwrite_partitions(rows([10], "eu")), lambda t: t.overwrite_partitions(rows([11], "us"))
    )
    assert rows_of(table) == [10, 11]


def test_f28_a_partition_that_got_rows_meanwhile_conflicts(memory: MemoryLake) -> None:
    start(memory)
    with pytest.raises(Conflict, match="has added"):
        race(memory, lambda tx: tx.overwrite_partitions(rows([10], "eu")), lambda t: t.append(rows([9], "eu")))


def test_l1_a_delete_by_filter_is_applied_anew_to_what_arrived(memory: MemoryLake) -> None:
    start(memory)
    table = race(
        memory,
        lambda tx: tx.delete("id in (1, 9)"),
        lambda t: t.append(rows([9, 12], "eu")),
        lambda t: t.delete("id = 2"),
    )
    assert rows_of(table) == [3, 4, 12]
    assert memory.files() == reachable(table)


def test_f31_a_delete_of_rows_that_others_removed_is_done(memory: MemoryLake) -> None:
    start(memory)
    table = race(memory, lambda tx: tx.delete("id = 1"), lambda t: t.delete("region = 'eu'"))
    assert rows_of(table) == [3, 4]
    assert len(table.snapshots) == 2  # nothing was left to do


def test_f31_l1_a_replacement_of_files_demands_that_they_are_still_there(memory: MemoryLake) -> None:
    """What compaction will do: these very files out, others in."""
    table = start(memory)
    [eu] = [file for file in live_files(table) if file.partition == ("eu",)]
    assert table._home is not None
    tools = table._home.tools

    def replacing(*paths: str) -> SnapshotChange:
        return SnapshotChange(
            tools=tools,
            steps=(RemoveFiles(frozenset(paths)),),
            scratch=Scratch(tools.storage),
            names=MetadataNames(),
            start=table.current_snapshot,
            operation="replace",
        )

    table.append(rows([9], "us"))
    state = commit(table._home.catalog, table._home.name, table._state, replacing(eu.path))
    assert state.metadata.snapshots[-1].operation == "replace"
    assert rows_of(check_sound(memory.lake(), NAME)) == [3, 4, 9]
    with pytest.raises(Conflict, match=f"cannot replace {eu.path}: another commit has removed it"):
        commit(table._home.catalog, table._home.name, state, replacing(eu.path))
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_f32_a_column_added_or_renamed_meanwhile_is_settled_by_ids(memory: MemoryLake) -> None:
    start(memory)

    def evolve(table: Table) -> None:
        with table.alter() as change:
            change.rename_column("n", "amount")
            change.add_column("n", "string")
            change.widen_column("amount", "bigint")

    table = race(memory, lambda tx: tx.append(rows([5], "eu", 7)), evolve)
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert found[5] == {"id": 5, "region": "eu", "amount": 7, "n": None}


def test_f32_a_delete_by_a_column_renamed_meanwhile_means_the_same_column(memory: MemoryLake) -> None:
    start(memory)

    def rename(table: Table) -> None:
        with table.alter() as change:
            change.rename_column("id", "key")
            change.add_column("id", "bigint")

    assert rows_of(race(memory, lambda tx: tx.delete("id = 1"), rename), "key") == [2, 3, 4]


@pytest.mark.parametrize("ours", [lambda tx: tx.delete("n = 1"), lambda tx: tx.overwrite(rows([7]), where="n = 1")])
def test_f32_a_filter_on_a_column_dropped_meanwhile_conflicts(memory: MemoryLake, ours: Verb) -> None:
    start(memory)

    def drop(table: Table) -> None:
        with table.alter() as change:
            change.drop_column("n")

    with pytest.raises(Conflict, match="column 'n' was dropped since"):
        race(memory, ours, drop)
    assert rows_of(memory.lake().table(NAME)) == [1, 2, 3, 4]


def test_f32_a_filter_on_a_column_widened_meanwhile_conflicts(memory: MemoryLake) -> None:
    """A date in the filter would be compared with a timestamp's microseconds."""
    table = orders(memory.lake(), schema="id bigint, d date", format_version=3)
    table.append(pa.table({"id": [1, 2], "d": pa.array([10, 20], pa.date32())}))

    def widen(table: Table) -> None:
        with table.alter() as change:
            change.widen_column("d", "timestamp_ntz")

    with pytest.raises(Conflict, match="column 'd' was changed to timestamp since"):
        race(memory, lambda tx: tx.delete("d > '1970-01-15'"), widen)
    assert rows_of(memory.lake().table(NAME)) == [1, 2]


def test_f32_a_spec_changed_meanwhile_leaves_new_files_in_the_spec_they_were_written_with(memory: MemoryLake) -> None:
    start(memory)

    def change_spec(table: Table) -> None:
        with table.alter() as change:
            change.drop_partition("region")
            change.add_partition("bucket(4, id)")

    table = race(memory, lambda tx: tx.append(rows([5], "eu")), change_spec)
    assert {f.spec_id for f in live_files(table)} == {0}
    table.append(rows([6], "eu"))
    assert {f.spec_id for f in live_files(table)} == {0, 1}
    assert rows_of(table, where="region = 'eu'") == [1, 2, 5, 6]


def test_f33_an_overwrite_whose_start_is_no_longer_in_the_past_conflicts(memory: MemoryLake) -> None:
    table = start(memory)
    first = table.current_snapshot
    assert first is not None
    table.append(rows([5], "us"))
    with pytest.raises(Conflict, match=r"snapshot \d+, which the change began from, is no longer in the table's past"):
        race(
            memory,
            lambda tx: tx.overwrite(rows([10], "eu"), where="region = 'eu'"),
            lambda t: t.rollback(snapshot_id=first.snapshot_id),
        )


def test_f36_an_upgrade_meanwhile_writes_the_manifest_anew_and_keeps_the_data(memory: MemoryLake) -> None:
    start(memory)

    def upgrade(table: Table) -> None:
        with table.alter() as change:
            change.upgrade_format(3)

    table = race(memory, lambda tx: tx.append(rows([5])), upgrade)
    assert table.format_version == 3
    ids = table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
    assert sorted(row["_row_id"] for row in ids) == [0, 1, 2, 3, 4]
    assert memory.files() == reachable(table)


def test_an_isolation_level_nobody_knows_is_refused(memory: MemoryLake) -> None:
    from esker.write.rows.row_change_modes import is_serializable

    table = start(memory)
    assert is_serializable(table.metadata, "delete")
    with pytest.raises(InvalidInput, match=r"write\.delete\.isolation-level"), table.alter() as change:
        change.set_properties({"write.delete.isolation-level": "chaos"})
