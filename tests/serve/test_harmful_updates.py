"""Updates after which another engine could not load, read or extend a table: 400, and the table is as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import esker
from esker.lake import Lake
from esker.serve.call import Call
from esker.serve.catalog_service import Service

TABLES = "/v1/namespaces/a/tables"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["x", "y"]})
DDL = "id bigint, name string, inner struct<x: int>"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("a")
    for name, version in (("a.t1", 1), ("a.t2", 2), ("a.t3", 3)):
        table = lake.create_table(name, DDL, format_version=version, partition_by=["bucket(4, id)"], sort_by=["name"])
        table.append(ROWS)
    return lake


@pytest.fixture
def service(lake: Lake) -> Service:
    return Service(lake)


def ask(service: Service, path: str, body: Any) -> tuple[int, Any]:
    answer = service.answer("POST", path, Call(body=msgspec.json.encode(body)))
    return answer.status, msgspec.json.decode(answer.body)


def commit(service: Service, name: str, *updates: dict[str, Any]) -> tuple[int, Any]:
    return ask(service, f"{TABLES}/{name}", {"requirements": [], "updates": list(updates)})


def schema(*names: str, **more: Any) -> dict[str, Any]:
    types: dict[str, tuple[int, Any]] = {"id": (1, "long"), "name": (2, "string")}
    fields = [{"id": types[one][0], "name": one, "type": types[one][1], "required": False} for one in names]
    return {"action": "add-schema", "schema": {"type": "struct", "fields": fields}, **more}


def spec(**field: Any) -> dict[str, Any]:
    part = {"source-id": 2, "transform": "identity", "name": "name", **field}
    return {"action": "add-spec", "spec": {"fields": [part]}}


def order(source: int, transform: str) -> dict[str, Any]:
    key = {"source-id": source, "transform": transform, "direction": "asc", "null-order": "nulls-first"}
    return {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [key]}}


def snapshot(lake: Lake, name: str, **changes: Any) -> dict[str, Any]:
    table = lake.table(name).metadata
    now = table.current_snapshot
    assert now is not None
    found: dict[str, Any] = {
        "snapshot-id": 77,
        "parent-snapshot-id": now.snapshot_id,
        "sequence-number": table.last_sequence_number + 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": now.manifest_list,
        "summary": {"operation": "append"},
        **changes,
    }
    return {"action": "add-snapshot", "snapshot": found}


LAST_SCHEMA = {"action": "set-current-schema", "schema-id": -1}
LAST_SPEC = {"action": "set-default-spec", "spec-id": -1}
LAST_ORDER = {"action": "set-default-sort-order", "sort-order-id": -1}
Updates = Callable[[Lake], list[dict[str, Any]]]
HARM: dict[str, tuple[str, Updates, str]] = {
    "a column id that Java cannot read": (
        "t2",
        lambda lake: [schema("id", "name", **{"last-column-id": 1 << 31})],
        "last-column-id is at most",
    ),
    "one id for two partition fields": ("t2", lambda lake: [spec(**{"field-id": 1000})], "belongs to 'id_bucket'"),
    "gaps between the partition fields of version 1": (
        "t1",
        lambda lake: [spec(**{"field-id": 1007})],
        "by their position",
    ),
    "an order by a transform of another type": (
        "t2",
        lambda lake: [order(2, "year"), LAST_ORDER],
        "sorted by year of 'name'",
    ),
    "an order by a struct": ("t2", lambda lake: [order(3, "identity"), LAST_ORDER], "sorted by identity of 'inner'"),
    "a schema without the column of the sort order": (
        "t2",
        lambda lake: [schema("id"), LAST_SCHEMA],
        "sorted by the column with id 2",
    ),
    "a snapshot that is its own parent": (
        "t2",
        lambda lake: [snapshot(lake, "a.t2", **{"parent-snapshot-id": 77})],
        "its parent 77 is not a snapshot",
    ),
    "a parent that the table does not have": (
        "t2",
        lambda lake: [snapshot(lake, "a.t2", **{"parent-snapshot-id": 5})],
        "its parent 5 is not a snapshot",
    ),
    "a branch without a name": (
        "t2",
        lambda lake: [
            {
                "action": "set-snapshot-ref",
                "ref-name": "",
                "type": "branch",
                "snapshot-id": lake.table("a.t2").metadata.current_snapshot_id,
            }
        ],
        "needs a name",
    ),
    "the schema of a snapshot": (
        "t2",
        lambda lake: [schema("id", "name"), LAST_SCHEMA, {"action": "remove-schemas", "schema-ids": [0]}],
        "cannot remove schema 0: snapshot",
    ),
    "the partition spec of files": (
        "t2",
        lambda lake: [
            {"action": "add-spec", "spec": {"fields": []}},
            LAST_SPEC,
            {"action": "remove-partition-specs", "spec-ids": [0]},
        ],
        "cannot remove partition spec 0 of a.t2: a snapshot has files with it",
    ),
    "a location in another store": (
        "t2",
        lambda lake: [{"action": "set-location", "location": "s3://bucket/t"}],
        "s3 locations are not local files",
    ),
    "data in another store": (
        "t2",
        lambda lake: [{"action": "set-properties", "updates": {"write.data.path": "s3://bucket/t"}}],
        "s3 locations are not local files",
    ),
    "a type that nobody knows": (
        "t2",
        lambda lake: [
            {
                "action": "add-schema",
                "schema": {
                    "type": "struct",
                    "fields": [{"id": 1, "name": "id", "type": "lnog", "required": False}],
                },
            }
        ],
        "unknown type 'lnog'",
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_harmful_update_is_400_and_changes_nothing(lake: Lake, service: Service, harm: str) -> None:
    name, updates, why = HARM[harm]
    before = lake.table(f"a.{name}").metadata_location
    status, answer = commit(service, name, *updates(lake))
    assert (status, lake.table(f"a.{name}").metadata_location) == (400, before), answer
    assert why in answer["error"]["message"]


def test_the_same_updates_without_the_fault_are_taken(lake: Lake, service: Service) -> None:
    """The faults above are the only ones."""
    right = [
        schema("id", "name", **{"last-column-id": 9}),
        spec(),
        spec(**{"field-id": 1000, "source-id": 1, "transform": "bucket[4]", "name": "id_bucket"}),
        order(2, "truncate[3]"),
        LAST_ORDER,
        snapshot(lake, "a.t2"),
    ]
    assert commit(service, "t2", *right)[0] == 200
    assert commit(service, "t1", spec(), LAST_SPEC)[0] == 200
    assert lake.table("a.t1").spec.fields[0].field_id == 1000


def test_schemas_and_specs_without_a_snapshot_are_removed(lake: Lake, service: Service) -> None:
    new = [schema("id", "name"), LAST_SCHEMA, {"action": "add-spec", "spec": {"fields": []}}, LAST_SPEC]
    assert commit(service, "t2", *new)[0] == 200
    lake.table("a.t2").overwrite(ROWS.slice(0, 1))
    table = lake.table("a.t2").metadata
    old = [one.snapshot_id for one in table.snapshots if one.snapshot_id != table.current_snapshot_id]
    status, answer = commit(
        service,
        "t2",
        {"action": "remove-snapshots", "snapshot-ids": old},
        {"action": "remove-schemas", "schema-ids": [0]},
    )
    assert status == 200, answer
    assert [one.schema_id for one in lake.table("a.t2").metadata.schemas] == [1]


def test_row_ids_after_a_gap_do_not_overlap(lake: Lake, service: Service) -> None:
    """A client may begin above next-row-id. The next one must not get ids that this one has used."""
    begins = (lake.table("a.t3").metadata.next_row_id or 0) + 100
    status, answer = commit(service, "t3", snapshot(lake, "a.t3", **{"first-row-id": begins, "added-rows": 50}))
    assert status == 200, answer
    assert answer["metadata"]["next-row-id"] == begins + 50


def test_a_new_table_has_a_uuid_and_an_order_that_others_can_follow(lake: Lake, service: Service) -> None:
    body = {"name": "new", "schema": schema("id", "name")["schema"]}
    status, answer = ask(service, TABLES, {**body, "write-order": order(1, "bogus")["sort-order"]})
    assert (status, "bogus" in answer["error"]["message"]) == (400, True)
    staged = ask(service, TABLES, {**body, "stage-create": True})[1]["metadata"]
    first = {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": "a name"},
            {"action": "add-schema", "schema": staged["schemas"][0]},
            LAST_SCHEMA,
            {"action": "add-spec", "spec": staged["partition-specs"][0]},
            LAST_SPEC,
            {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
            LAST_ORDER,
            {"action": "set-location", "location": staged["location"]},
        ],
    }
    status, answer = ask(service, f"{TABLES}/new", first)
    assert (status, "is no UUID" in answer["error"]["message"]) == (400, True)
    first["updates"][0] = {"action": "assign-uuid", "uuid": staged["table-uuid"]}
    assert ask(service, f"{TABLES}/new", first)[0] == 200


@pytest.mark.parametrize("kind", ["register", "register-view"])
def test_a_namespace_that_is_missing_is_reported_before_the_file_is_read(service: Service, kind: str) -> None:
    status, answer = ask(service, f"/v1/namespaces/none/{kind}", {"name": "x", "metadata-location": "/etc/passwd"})
    assert (status, answer["error"]["type"]) == (404, "NoSuchNamespaceException")


def test_s11_a_request_with_too_many_parts_is_refused_before_it_keeps_the_server_busy(
    lake: Lake, service: Service
) -> None:
    uuid = {"type": "assert-table-uuid", "uuid": lake.table("a.t2").uuid}
    empty = {"action": "set-properties", "updates": {}}
    for requirements, updates, why in (
        ([uuid] * 10_001, [], "10001 requirements at once"),
        ([], [empty] * 10_001, "10001 updates at once"),
        ([], [schema("id", "name")] * 300 + [order(1, "identity")] * 300, "600 new schemas"),
    ):
        status, answer = ask(service, f"{TABLES}/t2", {"requirements": requirements, "updates": updates})
        assert (status, why in answer["error"]["message"]) == (400, True), answer
    one = {"identifier": {"namespace": ["a"], "name": "t2"}, "requirements": [], "updates": []}
    status, answer = ask(service, "/v1/transactions/commit", {"table-changes": [one] * 1001})
    assert (status, "1001 tables at once" in answer["error"]["message"]) == (400, True)
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["a"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    new = {"name": "v", "schema": schema("id")["schema"], "view-version": version, "properties": {}}
    assert ask(service, "/v1/namespaces/a/views", new)[0] == 200
    status, answer = ask(service, "/v1/namespaces/a/views/v", {"requirements": [], "updates": [empty] * 501})
    assert (status, "501 updates to a view" in answer["error"]["message"]) == (400, True)


def test_snapshots_are_removed_one_by_one_as_at_once(lake: Lake, service: Service) -> None:
    """Older clients send an update for each snapshot. There may be more of them than of other updates."""
    table = lake.table("a.t2")
    for _ in range(3):
        table.append(ROWS)
    gone = [one.snapshot_id for one in lake.table("a.t2").metadata.snapshots][:-1]
    updates = [{"action": "remove-snapshots", "snapshot-ids": [id_]} for id_ in gone * 5000]
    status, answer = commit(service, "t2", {"action": "set-properties", "updates": {"a": "b"}}, *updates)
    assert status == 200, answer
    assert len(lake.table("a.t2").snapshots) == 1
    status, answer = commit(service, "t2", {"action": "remove-snapshots"})
    assert (status, "'snapshot-ids' is missing" in answer["error"]["message"]) == (400, True)
