"""Row lineage, which version 3 demands: every row has an id that it keeps for life (checklist I)."""

from __future__ import annotations

from typing import Any

import fastavro
import pyarrow as pa
import pytest
from doors import MemoryLake, WatchedCatalog
from orders import NAME, orders, rows
from sound_tables import check_sound, entries_of, live_files, manifests_of
from with_deletes import commit_deletes, deletion_vectors

from esker.iceberg.manifests.manifest_list import assign_first_row_ids
from esker.model.table_names import TableName
from esker.ports.catalog import Rejected, Swap, TableState
from esker.table import Table
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def lineage(table: Table, **how: Any) -> dict[int, tuple[int | None, int | None]]:
    """Row id and the sequence number of the last change, by id."""
    found = table.scan(columns=["id", "_row_id", "_last_updated_sequence_number"], **how).to_arrow().to_pylist()
    return {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}


def manifest(path: str, added: int, existing: int, **more: Any) -> ManifestFile:
    return ManifestFile(path=path, length=1, spec_id=0, added_rows=added, existing_rows=existing, **more)


def test_the_worked_example() -> None:
    given = (manifest("a", 100, 25), manifest("b", 0, 100), manifest("c", 125, 25))
    assigned, after = assign_first_row_ids(given, 1000)
    assert [m.first_row_id for m in assigned] == [1000, 1125, 1225]
    assert after == 1375


def test_i1_a_snapshot_begins_at_the_table_s_next_row_id(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    assert table.metadata.next_row_id == 0
    first = table.append(rows([1, 2, 3]))
    second = table.append(rows([4]))
    third = table.append(rows([]))
    assert [(s.first_row_id, s.added_rows) for s in (first, second, third)] == [(0, 3), (3, 1), (4, 0)]
    assert table.metadata.next_row_id == 4
    assert lineage(table) == {1: (0, 1), 2: (1, 1), 3: (2, 1), 4: (3, 2)}


def test_i1_a_snapshot_that_takes_no_ids_still_names_its_first(memory: MemoryLake) -> None:
    import msgspec

    table = orders(memory.lake(), format_version=3)
    table.append(rows([1, 2]))
    table.delete("true")
    document = msgspec.json.decode(memory.storage.read(table.metadata_location))
    newest = document["snapshots"][-1]
    assert newest["first-row-id"] == 2
    assert newest["added-rows"] == 0
    assert document["next-row-id"] == 2


class Lost(WatchedCatalog):
    """Others commit just before the first swap."""

    def __init__(self, memory: MemoryLake) -> None:
        from doors import Door

        super().__init__(memory.catalog(), Door())
        self.rival = memory.lake().table(NAME)
        self.is_first = True

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        if self.is_first:
            self.is_first = False
            self.rival.append(rows([50, 51]))
            return Rejected("lost")
        return self.inner.swap(name, base, new)


def test_i1_i5_a_lost_race_takes_ids_anew_and_keeps_its_manifest(memory: MemoryLake) -> None:
    orders(memory.lake(), format_version=3).append(rows([1]))
    catalog = Lost(memory)
    table = lake_over(catalog).table(NAME)
    snapshot = table.append(rows([2, 3, 4]))
    assert (snapshot.first_row_id, snapshot.added_rows) == (3, 3)
    assert lineage(table) == {1: (0, 1), 50: (1, 2), 51: (2, 2), 2: (3, 3), 3: (4, 3), 4: (5, 3)}
    assert table.metadata.next_row_id == 6
    assert sum(path.endswith("m0.avro") for path in catalog.door.of("write")) == 1
    check_sound(memory.lake(), NAME)


def test_i2_a_manifest_keeps_its_first_row_id_and_deletes_have_none(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    table.append(rows([1, 2]))
    table.append(rows([3]))
    before = {m.path: m.first_row_id for m in manifests_of(table)}
    [file] = [f for f in live_files(table) if f.record_count == 2]
    commit_deletes(table, *deletion_vectors(table, [(file, [0])]))
    table.append(rows([4]))
    after = {m.path: m.first_row_id for m in manifests_of(table) if m.content is ManifestContent.DATA}
    assert before.items() <= after.items()
    assert [m.first_row_id for m in manifests_of(table) if m.content is ManifestContent.DELETES] == [None]
    assert lineage(table) == {2: (1, 1), 3: (2, 2), 4: (3, 4)}


def test_i3_a_commit_to_a_branch_takes_ids_from_the_same_table(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    table.append(rows([1]))
    table.branch("dev")
    table.append(rows([2, 3]), ref="dev")
    table.append(rows([4]))
    assert table.metadata.next_row_id == 4
    assert lineage(table) == {1: (0, 1), 4: (3, 3)}
    assert lineage(table, ref="dev") == {1: (0, 1), 2: (1, 2), 3: (2, 2)}


def test_i3_a_manifest_written_anew_takes_ids_for_its_existing_rows_too(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3, partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")]))
    snapshot = table.delete("region = 'us'")
    assert snapshot is not None
    assert (snapshot.first_row_id, snapshot.added_rows) == (3, 2)  # not one of them is used
    assert table.metadata.next_row_id == 5
    assert lineage(table) == {1: (0, 1), 2: (1, 1)}


def test_i4_new_files_write_null_and_copied_entries_what_they_inherited(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3, partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us"), rows([4, 5], "jp")]))
    [new] = manifests_of(table)
    assert _first_row_ids(memory, new) == [(1, None)] * 3
    inherited = {f.partition[0]: f.first_row_id for f in live_files(table)}
    table.delete("region = 'us'")
    [copied] = manifests_of(table)
    assert sorted(_first_row_ids(memory, copied)) == sorted(
        [(0, inherited["eu"]), (2, inherited["us"]), (0, inherited["jp"])]
    )
    assert {f.partition[0]: f.first_row_id for f in live_files(table)} == {
        region: inherited[region] for region in ("eu", "jp")
    }


def _first_row_ids(memory: MemoryLake, manifest: ManifestFile) -> list[tuple[int, int | None]]:
    with memory.storage.open(manifest.path) as file:
        return [(r["status"], r["data_file"]["first_row_id"]) for r in fastavro.reader(file)]


def test_i4_ids_are_settled_before_manifests_are_folded(memory: MemoryLake) -> None:
    folding = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}
    table = orders(memory.lake(), format_version=3, properties=folding)
    for at in range(5):
        table.append(rows([10 * at, 10 * at + 1]))
    changed = {id_: number for id_, (_, number) in lineage(table).items()}
    assert changed == {10 * at + n: at + 1 for at in range(5) for n in (0, 1)}
    before = lineage(table)
    table.append(rows([100]))
    assert {id_: found for id_, found in lineage(table).items() if id_ != 100} == before
    ids = [row_id for row_id, _ in lineage(table).values()]
    assert len(set(ids)) == len(ids)
    assert max(i for i in ids if i is not None) < (table.metadata.next_row_id or 0)


def test_i6_an_upgrade_gives_ids_to_old_rows_with_the_first_commit(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=1)
    table.append(rows([1, 2]))
    table.append(rows([3]))
    with table.alter() as change:
        change.upgrade_format(3)
    assert table.metadata.next_row_id == 0
    assert all(s.first_row_id is None for s in table.snapshots)
    assert lineage(table) == {1: (None, None), 2: (None, None), 3: (None, None)}  # I8
    snapshot = table.append(rows([4]))
    assert (snapshot.first_row_id, snapshot.added_rows) == (0, 4)
    found = lineage(table)
    assert sorted(row_id for row_id, _ in found.values()) == [0, 1, 2, 3]  # type: ignore[type-var]
    assert found[4][1] == 1
    assert table.metadata.next_row_id == 4
    assert all(m.first_row_id is not None for m in manifests_of(table))
    table.append(rows([5]))
    assert {id_: row for id_, row in lineage(table).items() if id_ != 5} == found
    check_sound(memory.lake(), NAME)


def test_i6_a_delete_as_the_first_commit_after_an_upgrade(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2]))
    with table.alter() as change:
        change.upgrade_format(3)
    table.delete("id = 1")
    [(row_id, changed)] = lineage(table).values()
    assert row_id is not None
    assert changed is not None
    check_sound(memory.lake(), NAME)


def test_i7_rows_that_are_copied_keep_their_id_and_their_last_change(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    table.append(rows([1, 2, 3, 4]))
    table.append(rows([5, 6]))
    before = lineage(table)
    table.delete("id in (1, 5)")
    assert lineage(table) == {id_: found for id_, found in before.items() if id_ not in (1, 5)}
    table.overwrite(rows([7]), where="id = 2")
    after = lineage(table)
    assert {id_: after[id_] for id_ in (3, 4, 6)} == {id_: before[id_] for id_ in (3, 4, 6)}
    assert after[7][1] == 4
    assert after[7][0] not in {row_id for row_id, _ in before.values()}
    table.delete("id = 3")  # a copy of a copy
    assert lineage(table) == {id_: after[id_] for id_ in (4, 6, 7)}
    check_sound(memory.lake(), NAME)


def test_i7_the_columns_of_lineage_are_in_copies_alone_and_hidden_from_a_scan(memory: MemoryLake) -> None:
    import io

    import pyarrow.parquet as pq

    table = orders(memory.lake(), format_version=3)
    table.append(rows([1, 2]))
    table.delete("id = 1")
    assert table.scan().to_arrow().column_names == ["id", "region", "n"]
    [file] = live_files(table)
    schema = pq.read_schema(io.BytesIO(memory.storage.read(file.path)))
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
    assert ids == {"id": 1, "region": 2, "n": 3, "_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
    assert file.metrics is not None
    assert not set(file.metrics.lower_bounds) & {2147483540, 2147483539}


def test_i7_below_version_3_no_lineage_is_written(memory: MemoryLake) -> None:
    import io

    import pyarrow.parquet as pq

    table = orders(memory.lake())
    table.append(rows([1, 2]))
    table.delete("id = 1")
    [file] = live_files(table)
    assert pq.read_schema(io.BytesIO(memory.storage.read(file.path))).names == ["id", "region", "n"]
    assert [e.rest.get("first_row_id") for m in manifests_of(table) for e in entries_of(table, m)] == [None] * 2
    assert table.snapshots[-1].first_row_id is None
