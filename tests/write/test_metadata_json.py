"""What a commit leaves in the metadata file, as other engines read it (checklist D)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from doors import MemoryLake
from orders import orders, rows

from esker.table import Table


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def document(memory: MemoryLake, table: Table) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(memory.storage.read(table.metadata_location))
    return found


def test_d2_main_and_the_current_snapshot_agree(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    assert document(memory, table)["current-snapshot-id"] is None
    assert "main" not in document(memory, table)["refs"]
    for at in range(3):
        snapshot = table.append(rows([at]))
        found = document(memory, table)
        assert found["current-snapshot-id"] == snapshot.snapshot_id
        assert found["refs"]["main"] == {"snapshot-id": snapshot.snapshot_id, "type": "branch"}


def test_d3_the_log_tells_when_each_snapshot_became_current(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    made = [table.append(rows([at])) for at in range(3)]
    table.branch("dev")
    table.append(rows([9]), ref="dev")
    table.rollback(snapshot_id=made[0].snapshot_id)
    found = document(memory, table)
    ids = [entry["snapshot-id"] for entry in found["snapshot-log"]]
    assert ids == [*(s.snapshot_id for s in made), made[0].snapshot_id]
    times = [entry["timestamp-ms"] for entry in found["snapshot-log"]]
    assert times == sorted(set(times))
    assert times[-1] == found["last-updated-ms"]


def test_d4_the_log_of_metadata_files_ends_with_the_one_before(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    seen = [table.metadata_location]
    for at in range(3):
        table.append(rows([at]))
        assert [entry["metadata-file"] for entry in document(memory, table)["metadata-log"]] == seen
        seen.append(table.metadata_location)


def test_d4_the_log_is_cut_and_old_files_go_where_the_table_asks(memory: MemoryLake) -> None:
    table = orders(
        memory.lake(),
        properties={
            "write.metadata.previous-versions-max": "2",
            "write.metadata.delete-after-commit.enabled": "true",
        },
    )
    for at in range(5):
        table.append(rows([at]))
    log = [entry["metadata-file"] for entry in document(memory, table)["metadata-log"]]
    assert len(log) == 2
    assert {f for f in memory.files() if f.endswith(".metadata.json")} == {*log, table.metadata_location}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_d6_each_version_writes_the_fields_it_has(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version)
    table.append(rows([1]))
    found = document(memory, table)
    assert found["format-version"] == version
    assert ("schema" in found, "partition-spec" in found) == (version == 1, version == 1)
    assert ("last-sequence-number" in found) == (version > 1)
    assert ("next-row-id" in found) == (version > 2)
    [snapshot] = found["snapshots"]
    assert "manifests" not in snapshot
    assert ("sequence-number" in snapshot) == (version > 1)
    assert ("first-row-id" in snapshot, "added-rows" in snapshot) == (version > 2, version > 2)


def test_d7_a_summary_holds_strings(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1]), summary={"job": "7"})
    [snapshot] = document(memory, table)["snapshots"]
    assert all(isinstance(value, str) for value in snapshot["summary"].values())
    assert snapshot["summary"]["operation"] == "append"


def test_history_is_carried_on_as_the_text_it_came_in(memory: MemoryLake) -> None:
    """Fields of a later spec survive a commit, in the snapshots and in the table."""
    table = orders(memory.lake())
    table.append(rows([1]))
    found = document(memory, table)
    found["snapshots"][0]["from-the-future"] = {"a": [1, 2]}
    found["also-new"] = "kept"
    location = f"{table.location}/metadata/99999-tampered.metadata.json"
    memory.storage.write_new(location, msgspec.json.encode(found))
    lake = memory.lake()
    lake.drop_table("sales.orders")
    again = lake.register_table("sales.orders", location)
    again.append(rows([2]))
    again.delete("id = 1")
    after = document(memory, again)
    assert after["snapshots"][0] == found["snapshots"][0]
    assert after["also-new"] == "kept"
