"""What a snapshot says of itself: counted, carried on, and all of it text (D7, T18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import live_files
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

import esker
from esker.errors import InvalidInput
from esker.tree.data_file import DataFile, FileContent
from esker.tree.snapshot import Snapshot
from esker.write.summary import build_summary


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def file(records: int = 10, *, path: str = "f", **more: Any) -> DataFile:
    return DataFile(path=path, file_format="parquet", record_count=records, file_size=100, **more)


def parent(**summary: str) -> Snapshot:
    return Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="l", summary=summary)


def summary(**how: Any) -> dict[str, str]:
    given = {"parent": None, "added": (), "removed": (), "manifests": {}, "extra": {}, **how}
    return build_summary("append", **given)


def test_d7_every_value_is_text(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for snapshot in (table.append(rows([1])), table.delete("id = 1")):
        assert snapshot is not None
        assert all(type(value) is str for value in snapshot.summary.values())


def test_d7_a_total_the_parent_lacks_is_left_out() -> None:
    full = summary(parent=parent(**{"total-records": "5", "total-data-files": "2"}), added=[file(10)])
    assert full["total-records"] == "15"
    assert full["total-data-files"] == "3"
    assert "total-delete-files" not in full
    assert "total-files-size" not in full


@pytest.mark.parametrize("nonsense", ["", "-1", "many", "1.5", "٣"])
def test_d7_a_total_that_is_no_number_is_not_carried_on(nonsense: str) -> None:
    assert "total-records" not in summary(parent=parent(**{"total-records": nonsense}), added=[file()])


def test_d7_a_total_never_goes_below_nothing() -> None:
    wrong = parent(**{"total-records": "5"})
    assert "total-records" not in summary(parent=wrong, removed=[file(10)])


def test_d7_what_a_user_adds_never_replaces_what_was_counted(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    snapshot = table.append(
        rows([1, 2]), summary={"added-records": "99", "operation": "delete", "total-records": "7", "job": "nightly"}
    )
    assert snapshot.operation == "append"
    assert snapshot.summary["operation"] == "append"
    assert snapshot.summary["added-records"] == "2"
    assert snapshot.summary["total-records"] == "2"
    assert snapshot.summary["job"] == "nightly"


@pytest.mark.parametrize("extra", [{"a": 1}, {1: "a"}, {"a": None}])
def test_d7_what_is_not_text_is_refused(memory: MemoryLake, extra: Any) -> None:
    table = orders(memory.lake())
    with pytest.raises(InvalidInput, match="keys and values must be text"):
        table.append(rows([1]), summary=extra)


def test_d7_operations_are_the_four_of_the_spec(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    made = [
        table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")])),
        table.overwrite(rows([4], "us"), where="region = 'us'"),
        table.delete("id = 1"),
        table.delete("region = 'us'"),
        table.overwrite_partitions(rows([5], "jp")),
    ]
    assert [s.operation for s in made if s] == ["append", "overwrite", "overwrite", "delete", "overwrite"]


def test_t18_an_append_counts_files_records_bytes_and_partitions(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(rows([9], "eu"))
    snapshot = table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")]))
    sizes = [f.file_size for f in live_files(table)]
    new = [f.file_size for f in live_files(table) if f.sequence_number == 2]
    assert snapshot.summary == {
        "operation": "append",
        "engine-name": "esker",
        "engine-version": esker.__version__,
        "added-data-files": "2",
        "added-records": "3",
        "added-files-size": str(sum(new)),
        "changed-partition-count": "2",
        "manifests-created": "1",
        "manifests-kept": "1",
        "manifests-replaced": "0",
        "total-data-files": "3",
        "total-delete-files": "0",
        "total-records": "4",
        "total-files-size": str(sum(sizes)),
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_t18_deletes_are_counted_by_kind(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"], format_version=3)
    table.append(pa.concat_tables([rows([1, 2, 3], "eu"), rows([4, 5], "us")]))
    files = {f.partition[0]: f for f in live_files(table)}
    [vector] = deletion_vectors(table, [(files["eu"], [0, 1])])
    commit_deletes(table, vector, equality_delete(table, [4], files["us"]), position_delete(table, files["us"], [1]))
    assert table.current_snapshot is not None
    found = table.current_snapshot.summary
    expected = {
        "added-delete-files": "3",
        "added-dvs": "1",
        "added-equality-delete-files": "1",
        "added-position-delete-files": "1",
        "added-position-deletes": "3",
        "added-equality-deletes": "1",
        "total-delete-files": "3",
        "total-position-deletes": "3",
        "total-equality-deletes": "1",
        "total-records": "5",
        "changed-partition-count": "2",
    }
    assert {key: found[key] for key in expected} == expected
    removed = table.delete("region = 'eu'")
    assert removed is not None
    assert removed.summary["removed-dvs"] == "1"
    assert removed.summary["removed-position-deletes"] == "2"
    assert removed.summary["total-position-deletes"] == "1"


def test_a_deletion_vector_weighs_its_own_bytes_not_those_of_the_file_it_shares() -> None:
    vector = replace(
        file(3, content=FileContent.POSITION_DELETES), file_format="puffin", content_offset=4, content_size=40
    )
    assert summary(added=[vector])["added-files-size"] == "40"


def test_files_of_one_partition_change_one_partition() -> None:
    some = [file(path="a", partition=(float("nan"),)), file(path="b", partition=(float("nan"),))]
    assert (
        summary(added=some, removed=[file(partition=(0.0,)), file(partition=(-0.0,))])["changed-partition-count"] == "3"
    )


def test_totals_follow_a_branch_not_the_table(memory: MemoryLake) -> None:
    from esker.tree.snapshot import RefKind

    table = orders(memory.lake())
    table.append(rows([1, 2]))
    table.branch("dev")
    table.append(rows([3]), ref="dev")
    main = table.append(rows([4, 5, 6]))
    dev = table.metadata.snapshot(table.refs["dev"].snapshot_id)
    assert dev is not None
    assert table.refs["dev"].kind is RefKind.BRANCH
    assert (main.summary["total-records"], dev.summary["total-records"]) == ("5", "3")
    assert main.parent_snapshot_id == dev.parent_snapshot_id
    assert [entry.snapshot_id for entry in table.history].count(dev.snapshot_id) == 0  # D3: other branches do not log
    assert memory.lake().table(NAME).current_snapshot == main
