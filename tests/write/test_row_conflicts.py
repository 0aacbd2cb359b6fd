"""Changes of rows against what others commit meanwhile: who may go on, and what the conflict says (L1, F29 to F36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from compaction import compact
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, reachable, rows_of

from esker.errors import Conflict
from esker.table import Table
from esker.tree.data_file import FileContent

Verb = Callable[[Any], object]
BESIDE = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
MODES = [{}, BESIDE]


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def start(memory: MemoryLake, properties: dict[str, str] | None = None, **how: Any) -> Table:
    """Ids 1 to 3 in a file of eu, 4 to 6 in one of us."""
    table = orders(memory.lake(), partition_by=how.pop("partition_by", ["region"]), properties=properties, **how)
    table.append(rows([1, 2, 3], "eu"))
    table.append(rows([4, 5, 6], "us"))
    return table


def race(memory: MemoryLake, ours: Verb, *theirs: Verb, door: Door | None = None) -> Table:
    """Ours begins, theirs are committed, ours commits."""
    tx = memory.lake(door).table(NAME).transaction()
    ours(tx)
    for other in theirs:
        other(memory.lake().table(NAME))
    if door is not None:
        door.calls.clear()
    try:
        tx.commit()
    except Conflict:
        kept = reachable(check_sound(memory.lake(), NAME))
        assert memory.files() == kept, "a conflict removes the files of its own operation and no others"
        raise
    return check_sound(memory.lake(), NAME)


def ns(table: Table) -> dict[int, int]:
    found = table.scan(columns=["id", "n"]).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def update(tx: Any) -> None:
    tx.update({"n": "n + 10"}, "region = 'eu' AND id >= 2")


def upsert(tx: Any) -> None:
    tx.upsert(rows([2, 9], "eu", 7), on=["id", "region"])


@pytest.mark.parametrize("properties", MODES, ids=["rewriting", "beside"])
@pytest.mark.parametrize(
    "theirs",
    [
        lambda t: t.append(rows([8], "us")),
        lambda t: t.delete("id = 5"),
        lambda t: t.update({"n": "99"}, "id = 6"),
        lambda t: t.overwrite_partitions(rows([7], "us")),
        lambda t: t.tag("now"),
    ],
    ids=["append", "delete", "update", "replace", "tag"],
)
@pytest.mark.parametrize("ours", [update, upsert])
def test_changes_elsewhere_are_no_conflict(
    memory: MemoryLake, properties: dict[str, str], ours: Verb, theirs: Verb
) -> None:
    start(memory, properties)
    found = ns(race(memory, ours, theirs))
    assert (found[1], found[2]) == (1, 11 if ours is update else 7)


@pytest.mark.parametrize("properties", MODES, ids=["rewriting", "beside"])
@pytest.mark.parametrize("ours", [update, upsert])
def test_rows_that_arrive_where_it_looked_are_a_conflict(
    memory: MemoryLake, properties: dict[str, str], ours: Verb
) -> None:
    start(memory, properties)
    with pytest.raises(
        Conflict, match=r"snapshot \d+ has added .*\.parquet since the change began.*isolation-level = snapshot"
    ):
        race(memory, ours, lambda t: t.append(rows([2], "eu")))
    assert rows_of(memory.lake().table(NAME)) == [1, 2, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("ours", [update, upsert])
def test_under_snapshot_isolation_rows_that_arrive_stay_as_they_are(memory: MemoryLake, ours: Verb) -> None:
    start(memory, {**BESIDE, "write.update.isolation-level": "snapshot", "write.merge.isolation-level": "snapshot"})
    table = race(memory, ours, lambda t: t.append(rows([2], "eu", 5)))
    found = table.scan("id = 2", columns=["n"]).to_arrow().column(0).to_pylist()
    assert sorted(found) == ([5, 11] if ours is update else [5, 7])


def test_what_the_key_range_leaves_out_may_arrive(memory: MemoryLake) -> None:
    start(memory, BESIDE, partition_by=[])
    table = race(memory, lambda tx: tx.upsert(rows([2, 3], "jp"), on=["id"]), lambda t: t.append(rows([100], "jp")))
    assert rows_of(table) == [1, 2, 3, 4, 5, 6, 100]


def between(tx: Any) -> None:
    """Rows from 4 to 6: between the two files that ``spread`` adds."""
    tx.update({"n": "n + 10"}, "id BETWEEN 4 AND 6")


def spread(table: Table) -> None:
    """A file of small ids and one of large ones; written as one, its bounds include everything between them."""
    table.append(rows([1, 2], "jp"))
    table.append(rows([8, 9], "jp"))


def test_what_a_compaction_wrote_is_not_new(memory: MemoryLake) -> None:
    spread(start(memory))
    table = race(memory, between, lambda t: compact(t, "region = 'jp'"))
    assert table.snapshots[-2].operation == "replace"
    assert ns(table) == {1: 1, 2: 1, 3: 1, 4: 11, 5: 11, 6: 11, 8: 1, 9: 1}


def test_what_a_compaction_rewrote_is_new_if_it_arrived_meanwhile(memory: MemoryLake) -> None:
    start(memory)
    with pytest.raises(
        Conflict, match=r"cannot update rows: snapshot \d+ has added .*\.parquet since the change began"
    ):
        race(memory, between, lambda t: t.append(rows([5], "jp")), lambda t: compact(t, "region = 'jp'"))
    assert memory.lake().table(NAME).current_snapshot.operation == "replace"  # type: ignore[union-attr]


def test_what_arrived_elsewhere_and_was_compacted_is_no_conflict(memory: MemoryLake) -> None:
    start(memory)
    race(memory, between, spread, lambda t: compact(t, "region = 'jp'"), lambda t: compact(t, "region = 'jp'"))


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("properties", MODES, ids=["rewriting", "beside"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("theirs", "did"),
    [
        (lambda t: t.delete("id = 1"), "(removed|deleted rows of)"),
        (lambda t: t.update({"n": "0"}, "id = 1"), "(removed|deleted rows of)"),
        (lambda t: t.overwrite_partitions(rows([7], "eu")), "removed"),
        (lambda t: t.delete("region = 'eu'"), "removed"),
    ],
    ids=["delete", "update", "replace", "drop"],
)
def test_f30_f31_a_file_that_others_touched_is_a_conflict(
    memory: MemoryLake, version: int, properties: dict[str, str], level: str, theirs: Verb, did: str
) -> None:
    start(memory, {**properties, "write.update.isolation-level": level}, format_version=version)
    with pytest.raises(
        Conflict, match=rf"cannot update rows: snapshot \d+ has {did} .*\.parquet since the change began"
    ) as caught:
        race(memory, update, theirs)
    table = memory.lake().table(NAME)
    assert caught.value.facts["snapshot_id"] == table.current_snapshot.snapshot_id  # type: ignore[union-attr]
    assert caught.value.facts["file"].endswith(".parquet")


def test_f29_a_delete_by_key_of_rows_that_change_is_a_conflict(memory: MemoryLake) -> None:
    def stream(table: Table) -> None:
        with table.transaction() as tx:
            tx.delete_by_key({"id": [1], "region": ["eu"]}, on=["id", "region"])

    start(memory, BESIDE)
    with pytest.raises(Conflict, match=r"snapshot \d+ has deleted rows of"):
        race(memory, update, stream)


@pytest.mark.parametrize("version", [2, 3])
def test_f30_two_deletes_of_one_file_are_merged(memory: MemoryLake, version: int) -> None:
    start(memory, BESIDE, format_version=version)
    table = race(memory, lambda tx: tx.delete("id IN (1, 4)"), lambda t: t.delete("id IN (2, 4)"))
    assert rows_of(table) == [3, 5, 6]
    vectors = [file for file in live_files(table) if file.is_deletion_vector]
    assert len(vectors) == (2 if version == 3 else 0)


@pytest.mark.parametrize("ours", [lambda tx: tx.delete("id = 1"), update, upsert], ids=["delete", "update", "upsert"])
def test_f36_deletes_for_v2_become_vectors_where_the_table_was_upgraded_meanwhile(
    memory: MemoryLake, ours: Verb
) -> None:
    def upgrade(table: Table) -> None:
        with table.alter() as change:
            change.upgrade_format(3)

    start(memory, BESIDE)
    table = race(memory, ours, upgrade)
    deletes = [file for file in live_files(table) if file.content is not FileContent.DATA]
    assert deletes
    assert all(file.is_deletion_vector for file in deletes)


def test_f32_a_column_that_is_gone_or_widened_is_a_conflict_where_the_filter_asks_for_it(memory: MemoryLake) -> None:
    def widen(table: Table) -> None:
        with table.alter() as change:
            change.widen_column("n", "bigint")

    start(memory, BESIDE)
    with pytest.raises(Conflict, match=r"column 'n' was changed to long since"):
        race(memory, lambda tx: tx.update({"region": "'x'"}, "n = 1"), widen)


def test_f32_a_column_that_came_and_a_spec_that_changed_are_no_conflict(memory: MemoryLake) -> None:
    def evolve(table: Table) -> None:
        with table.alter() as change:
            change.add_column("note", "string")
            change.add_partition("bucket(4, id)")

    start(memory, BESIDE)
    table = race(memory, update, evolve)
    assert ns(table) == {1: 1, 2: 11, 3: 11, 4: 1, 5: 1, 6: 1}


def test_f34_a_table_made_again_under_the_name_is_another(memory: MemoryLake) -> None:
    def remake(table: Table) -> None:
        memory.lake().drop_table(NAME)
        orders(memory.lake())

    start(memory, BESIDE)
    tx = memory.lake().table(NAME).transaction()
    update(tx)
    remake(memory.lake().table(NAME))
    with pytest.raises(Conflict, match="dropped and another table has its name"):
        tx.commit()


def test_f33_a_start_that_is_no_longer_in_the_past_is_a_conflict(memory: MemoryLake) -> None:
    table = start(memory, BESIDE)
    first = table.snapshots[0].snapshot_id
    with pytest.raises(Conflict, match=r"cannot update rows: snapshot \d+, which the change began from, is no longer"):
        race(memory, update, lambda t: t.rollback(first))


def test_a_rebase_reads_what_was_committed_since_and_no_older_manifest(memory: MemoryLake) -> None:
    start(memory, BESIDE)
    for at in range(20):
        memory.lake().table(NAME).append(rows([100 + at], f"r{at}"))
    old = {m["path"] for m in memory.lake().table(NAME).inspect.manifests().to_pylist()}
    door = Door()
    race(memory, update, lambda t: t.append(rows([8], "us")), door=door)
    assert not old & set(door.of("read")), "manifests that were there before tell nothing new"
