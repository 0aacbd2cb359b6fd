"""A faulty client gets 400 or 409, and the tables are as they were."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from postgres_server import PostgresServer

import esker
from esker.lake import Lake
from esker.serve.call import Call
from esker.serve.catalog_service import Service

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
TABLE = "/v1/namespaces/a/tables/t"
TABLES = "/v1/namespaces/a/tables"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("a")
    for name, version in (("a.t", 2), ("a.other", 2), ("a.rows", 3)):
        lake.create_table(name, "id bigint", format_version=version).append(ROWS)
    return lake


@pytest.fixture
def service(lake: Lake) -> Service:
    return Service(lake)


def ask(service: Service, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = service.answer(method, path, Call(body=content, headers=headers))
    return answer.status, msgspec.json.decode(answer.body) if answer.body else None


def state(lake: Lake) -> dict[str, str]:
    return {name: lake.table(name).metadata_location for name in lake.tables("a")}


def commit(*updates: dict[str, Any], **requirement: Any) -> dict[str, Any]:
    return {"requirements": [requirement] if requirement else [], "updates": list(updates)}


def snapshot(lake: Lake, name: str = "a.t", **changes: Any) -> dict[str, Any]:
    """The update of a snapshot that is right, with changes that make it wrong."""
    table = lake.table(name)
    now = table.metadata.current_snapshot
    assert now is not None
    found: dict[str, Any] = {
        "snapshot-id": 77,
        "parent-snapshot-id": now.snapshot_id,
        "sequence-number": table.metadata.last_sequence_number + 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": now.manifest_list,
        "summary": {"operation": "append"},
        "schema-id": table.metadata.current_schema_id,
    }
    if table.metadata.format_version >= 3:
        found |= {"first-row-id": table.metadata.next_row_id, "added-rows": 3}
    return {"action": "add-snapshot", "snapshot": {**found, **changes}}


Update = Callable[[Lake], dict[str, Any]]
WRONG: dict[str, Update] = {
    "an id in use": lambda lake: snapshot(lake, **{"snapshot-id": lake.table("a.t").metadata.current_snapshot_id}),
    "a negative id": lambda lake: snapshot(lake, **{"snapshot-id": -5}),
    "an old sequence number": lambda lake: snapshot(lake, **{"sequence-number": 1}),
    "a sequence number that leaves none": lambda lake: snapshot(lake, **{"sequence-number": (1 << 63) - 1}),
    "a schema that is not there": lambda lake: snapshot(lake, **{"schema-id": 9}),
    "a time long ago": lambda lake: snapshot(lake, **{"timestamp-ms": 1}),
    "a time far ahead": lambda lake: snapshot(lake, **{"timestamp-ms": 1 << 50}),
    "a manifest list outside": lambda lake: snapshot(lake, **{"manifest-list": "/etc/passwd"}),
    "a manifest list of another table": lambda lake: snapshot(
        lake,
        **{"manifest-list": lake.table("a.other").metadata.current_snapshot.manifest_list},
    ),
    "a manifest list beside its folder": lambda lake: snapshot(
        lake, **{"manifest-list": f"{lake.table('a.t').location}/../other/metadata/x.avro"}
    ),
    "the location of another table": lambda lake: {
        "action": "set-location",
        "location": lake.table("a.other").location,
    },
    "a location inside another table": lambda lake: {
        "action": "set-location",
        "location": f"{lake.table('a.other').location}/data/x",
    },
    "a location around another table": lambda lake: {
        "action": "set-location",
        "location": lake.table("a.other").location.rpartition("/")[0],
    },
    "a location outside": lambda lake: {"action": "set-location", "location": "/tmp/elsewhere"},
    "data in another table": lambda lake: {
        "action": "set-properties",
        "updates": {"write.data.path": f"{lake.table('a.other').location}/data"},
    },
    "metadata in another table": lambda lake: {
        "action": "set-properties",
        "updates": {"write.metadata.path": f"{lake.table('a.other').location}/metadata"},
    },
    "statistics of another table": lambda lake: {
        "action": "set-statistics",
        "statistics": {
            "snapshot-id": lake.table("a.t").metadata.current_snapshot_id,
            "statistics-path": f"{lake.table('a.other').location}/metadata/s.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        },
    },
    "a schema that is not there to choose": lambda lake: {"action": "set-current-schema", "schema-id": 5},
    "an update that nobody knows": lambda lake: {"action": "drop-everything"},
    "a number of over 64 bits": lambda lake: snapshot(lake, **{"added-rows": 1 << 63}),
    "no operation": lambda lake: snapshot(lake, summary={}),
    "no summary": lambda lake: snapshot(lake, summary=None),
    "an operation that nobody knows": lambda lake: snapshot(lake, summary={"operation": "guess"}),
    "a summary with a number": lambda lake: snapshot(lake, summary={"operation": "append", "added-records": 5}),
    "a negative row id": lambda lake: snapshot(lake, **{"first-row-id": -1, "added-rows": 1}),
    "a partition field without a name": lambda lake: add_spec(name=""),
    "a partition field with the id of a column": lambda lake: add_spec(**{"field-id": 5}),
    "a partition field with an id of over 32 bits": lambda lake: add_spec(**{"field-id": 1 << 40}),
    "more buckets than 32 bits count": lambda lake: add_spec(transform="bucket[99999999999]"),
    "buckets of thousands of digits": lambda lake: add_spec(transform=f"bucket[{'9' * 5000}]"),
    "a sort order that nobody can follow": lambda lake: {
        "action": "add-sort-order",
        "sort-order": {
            "order-id": 1,
            "fields": [{"source-id": 1, "transform": "bogus", "direction": "asc", "null-order": "nulls-first"}],
        },
    },
    "an encryption key without its metadata": lambda lake: {
        "action": "add-encryption-key",
        "encryption-key": {"key-id": "k"},
    },
    "an encryption key that is not base64": lambda lake: {
        "action": "add-encryption-key",
        "encryption-key": {"key-id": "k", "encrypted-key-metadata": "!!!"},
    },
    "statistics without a size": lambda lake: {"action": "set-statistics", "statistics": statistics_of(lake)},
    "partition statistics without a size": lambda lake: {
        "action": "set-partition-statistics",
        "partition-statistics": statistics_of(lake),
    },
    "statistics under another name": lambda lake: {
        "action": "set-statistics",
        "partition-statistics": {**statistics_of(lake), "file-size-in-bytes": 1},
    },
    "more snapshots to keep than 32 bits count": lambda lake: {
        "action": "set-snapshot-ref",
        "ref-name": "b",
        "type": "branch",
        "snapshot-id": lake.table("a.t").metadata.current_snapshot_id,
        "min-snapshots-to-keep": 1 << 40,
    },
}


def add_spec(*, name: str = "part", transform: str = "identity", **more: int) -> dict[str, Any]:
    part = {"source-id": 1, "name": name, "transform": transform, **more}
    return {"action": "add-spec", "spec": {"spec-id": 1, "fields": [part]}}


def statistics_of(lake: Lake) -> dict[str, Any]:
    table = lake.table("a.t")
    path = f"{table.location}/metadata/s.puffin"
    return {"snapshot-id": table.metadata.current_snapshot_id, "statistics-path": path}


def test_updates_that_are_right_are_taken(lake: Lake, service: Service) -> None:
    """The faults of partition fields, keys and statistics above are the only ones."""
    key = {"key-id": "k", "encrypted-key-metadata": "a2V5", "encrypted-by-id": "master", "properties": {"a": "b"}}
    right = [
        add_spec(transform="bucket[2147483647]"),
        add_spec(name="id"),
        {
            "action": "set-partition-statistics",
            "partition-statistics": {**statistics_of(lake), "file-size-in-bytes": 1},
        },
        {"action": "add-encryption-key", "encryption-key": key},
    ]
    status, answer = ask(service, "POST", f"{TABLES}/t", commit(*right))
    assert status == 200, answer
    status, answer = ask(service, "POST", f"{TABLES}/rows", commit(right[-1]))
    assert (status, answer["metadata"]["encryption-keys"]) == (200, [key])


@pytest.mark.parametrize(
    "parts",
    [
        [{"name": "p", "transform": "identity"}, {"name": "p", "transform": "bucket[2]"}],
        [{"name": "", "transform": "identity"}],
        [{"name": "other", "transform": "identity"}],
        [{"name": "p", "transform": "bucket[99999999999]"}],
    ],
)
def test_a_table_that_other_engines_could_not_read_is_not_created(
    lake: Lake, service: Service, parts: list[dict[str, Any]]
) -> None:
    before = state(lake)
    columns = [{"id": id_, "name": name, "type": "long", "required": False} for id_, name in ((1, "id"), (2, "other"))]
    spec = {"spec-id": 0, "fields": [{"source-id": 1, **part} for part in parts]}
    for staged in (True, False):
        body = {"name": "new", "schema": {"type": "struct", "fields": columns}, "partition-spec": spec}
        status, answer = ask(service, "POST", TABLES, {**body, "stage-create": staged})
        assert status in (400, 406), answer
    assert state(lake) == before


@pytest.mark.parametrize("version", ["1" * 5000, "²", "-2", "2.0", ""])
def test_a_format_version_that_is_no_number_of_a_version_is_refused(service: Service, version: str) -> None:
    body = {"name": "new", "schema": SCHEMA, "properties": {"format-version": version}}
    assert ask(service, "POST", TABLES, body)[0] == 400


def test_a_body_of_many_levels_is_the_fault_of_its_sender(service: Service) -> None:
    for body in (b"[" * 100_000, b'{"schema":' * 100_000, b'{"name":"x","schema":' + b"[" * 5000 + b"]" * 5000 + b"}"):
        assert service.answer("POST", TABLES, Call(body=body)).status == 400


def test_a_compressed_body_is_refused_with_what_to_do(service: Service) -> None:
    answer = service.answer("POST", TABLES, Call(body=gzip.compress(b"{}"), headers={"content-encoding": "gzip"}))
    assert answer.status == 400
    assert b"without 'gzip' encoding" in answer.body


def test_a_namespace_that_no_path_can_name_is_not_created(service: Service) -> None:
    for name in ("%1F", "a%1fb"):
        assert ask(service, "POST", "/v1/namespaces", {"namespace": [name]})[0] == 400


@pytest.mark.parametrize(("size", "status"), [("9" * 5000, 200), ("0" * 5000, 400), ("01", 200), ("+1", 400)])
def test_a_page_size_of_thousands_of_digits_is_read(service: Service, size: str, status: int) -> None:
    call = Call(query={"pageSize": size, "pageToken": ""})
    assert service.answer("GET", "/v1/namespaces", call).status == status


@pytest.mark.parametrize("field", ["select", "stats-fields"])
def test_columns_of_a_plan_are_names(service: Service, field: str) -> None:
    for wrong in (5, "id", [1]):
        assert ask(service, "POST", f"{TABLE}/plan", {field: wrong})[0] == 400
    assert ask(service, "POST", f"{TABLE}/plan", {field: ["id"]})[0] == 200


@pytest.mark.parametrize("wrong", WRONG)
def test_an_update_that_would_harm_a_table_is_400_and_changes_nothing(lake: Lake, service: Service, wrong: str) -> None:
    before = state(lake)
    good = {"action": "set-properties", "updates": {"x": "1"}}
    status, answer = ask(service, "POST", TABLE, commit(good, WRONG[wrong](lake), good))
    assert (status, state(lake)) == (400, before), answer
    both = {"identifier": {"namespace": ["a"], "name": "rows"}, **commit(good)}
    harmful = {"identifier": {"namespace": ["a"], "name": "t"}, **commit(WRONG[wrong](lake))}
    status, answer = ask(service, "POST", "/v1/transactions/commit", {"table-changes": [both, harmful]})
    assert (status, state(lake)) == (400, before), answer


def test_a_snapshot_that_is_right_is_taken(lake: Lake, service: Service) -> None:
    """The faults above are the only ones."""
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77}
    for name in ("t", "rows"):
        status, answer = ask(service, "POST", f"{TABLES}/{name}", commit(snapshot(lake, f"a.{name}"), main))
        assert status == 200, answer


@pytest.mark.parametrize("changes", [{"first-row-id": 0}, {"first-row-id": 1 << 62}, {"added-rows": -1}])
def test_row_ids_that_are_wrong_are_400(lake: Lake, service: Service, changes: dict[str, int]) -> None:
    before = state(lake)
    status, answer = ask(service, "POST", f"{TABLES}/rows", commit(snapshot(lake, "a.rows", **changes)))
    assert (status, state(lake)) == (400, before), answer


def test_a_requirement_that_is_not_met_is_409_and_changes_nothing(lake: Lake, service: Service) -> None:
    before = state(lake)
    good = {"action": "set-properties", "updates": {"x": "1"}}
    late = commit(good, **{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1})
    assert ask(service, "POST", TABLE, late)[0] == 409
    assert ask(service, "POST", TABLE, commit(good, type="assert-create"))[0] == 409
    assert state(lake) == before


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("where", ["", "/below", "/.."])
def test_a_new_table_gets_no_folder_of_another(lake: Lake, service: Service, where: str, staged: bool) -> None:
    before = state(lake)
    home = lake.table("a.t").location
    place = home.rpartition("/")[0] if where == "/.." else home + where
    body = {"name": "new", "schema": SCHEMA, "location": place, "stage-create": staged}
    status, answer = ask(service, "POST", TABLES, body)
    assert (status, state(lake)) == (400, before), answer
    assert "a.t" not in answer["error"]["message"].replace(place, "")  # a name may be hidden from this caller


def test_a_table_whose_namespace_has_the_name_of_a_table_gets_a_folder_of_its_own(lake: Lake, service: Service) -> None:
    lake.create_namespace("a.t")
    status, answer = ask(service, "POST", "/v1/namespaces/a%1Ft/tables", {"name": "x", "schema": SCHEMA})
    assert status == 200
    assert not answer["metadata"]["location"].startswith(lake.table("a.t").location + "/")
    assert answer["metadata"]["location"].endswith("/x")


def test_a_table_is_registered_over_another_only_if_that_is_asked_for(lake: Lake, service: Service) -> None:
    table = lake.table("a.t")
    first = table.metadata_location
    table.append(ROWS)
    body = {"name": "t", "metadata-location": first}
    assert ask(service, "POST", "/v1/namespaces/a/register", body)[0] == 409
    assert lake.table("a.t").metadata_location != first
    other = {"name": "t", "metadata-location": lake.table("a.other").metadata_location, "overwrite": True}
    assert ask(service, "POST", "/v1/namespaces/a/register", other)[0] == 400  # two tables in one folder
    for wrong, status in (("/etc/passwd", 400), (f"{table.location}/none.metadata.json", 404)):
        assert ask(service, "POST", "/v1/namespaces/a/register", {**body, "metadata-location": wrong})[0] in (409, 400)
        assert ask(service, "POST", "/v1/namespaces/a/register", {**other, "metadata-location": wrong})[0] == status
    data = next(iter(table.scan().plan().tasks)).data_file.path
    status, answer = ask(service, "POST", "/v1/namespaces/a/register", {**other, "metadata-location": data})
    assert status == 400
    assert "PAR1" not in answer["error"]["message"]
    status, answer = ask(service, "POST", "/v1/namespaces/a/register", {**body, "overwrite": True})
    assert (status, answer["metadata-location"]) == (200, first)
    assert lake.table("a.t").metadata_location == first


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    match request.param:
        case "sqlite":
            lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
        case "memory":
            lake = esker.connect("memory:")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            lake = esker.connect(server.new_catalog(tmp_path))
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint")
    return lake


def created(lake: Lake, name: str, location: str | None = None) -> dict[str, Any]:
    """The change that creates a table."""
    place = location or f"{lake.table('a.t').location}-{uuid4().hex}"
    updates = [
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": place},
    ]
    return {"identifier": {"namespace": ["a"], "name": name}, **commit(*updates, type="assert-create")}


def test_a_table_is_created_in_one_step_with_commits_to_others_or_not_at_all(any_lake: Lake) -> None:
    service = Service(any_lake)
    change = {
        "identifier": {"namespace": ["a"], "name": "t"},
        **commit({"action": "set-properties", "updates": {"x": "1"}}),
    }
    late = {**change, "requirements": [{"type": "assert-table-uuid", "uuid": str(uuid4())}]}
    new = created(any_lake, "new")
    before = state(any_lake)

    def send(*changes: dict[str, Any]) -> int:
        return ask(service, "POST", "/v1/transactions/commit", {"table-changes": list(changes)})[0]

    assert send(late, new) == 409
    twin = created(any_lake, "twin", new["updates"][-1]["location"])
    assert send(change, new, twin) == 400
    assert state(any_lake) == before
    assert send(change, new) == 204
    assert any_lake.tables("a") == ["a.new", "a.t"]
    assert any_lake.table("a.t").properties["x"] == "1"
    before = state(any_lake)
    assert send(change, created(any_lake, "new")) == 409
    assert state(any_lake) == before
    any_lake.table("a.new").append(ROWS)
    assert any_lake.table("a.new").to_arrow().equals(ROWS)


def test_an_unregister_that_is_sent_again_answers_with_the_last_version(lake: Lake, service: Service) -> None:
    last = lake.table("a.t").metadata_location
    key = str(uuid4())
    first = ask(service, "POST", f"{TABLE}/unregister", {}, **{"idempotency-key": key})
    again = ask(Service(lake), "POST", f"{TABLE}/unregister", {}, **{"idempotency-key": key})
    assert first == again
    assert (first[0], first[1]["metadata-location"]) == (200, last)
    assert ask(service, "POST", f"{TABLE}/unregister", {}, **{"idempotency-key": str(uuid4())})[0] == 404


def test_files_appended_after_one_snapshot_up_to_another_are_planned(lake: Lake, service: Service) -> None:
    table = lake.table("a.t")
    snapshots = []
    for id_ in (10, 20, 30):
        table.append(pa.table({"id": pa.array([id_], pa.int64())}))
        snapshots.append(table.metadata.current_snapshot_id)
    table.delete("id = 1")

    def planned(**asked: Any) -> tuple[int, list[str]]:
        status, answer = ask(service, "POST", f"{TABLE}/plan", asked)
        return status, sorted(one["data-file"]["file-path"] for one in answer.get("file-scan-tasks", ()))

    def whole(snapshot_id: int) -> set[str]:
        return {task.data_file.path for task in table.scan(snapshot_id=snapshot_id).plan().tasks}

    one, two, three = snapshots
    span = {"start-snapshot-id": one, "end-snapshot-id": three}
    assert planned(**span) == (200, sorted(whole(three) - whole(one)))
    assert planned(**{"end-snapshot-id": two}) == (200, sorted(whole(two)))
    filtered = {"type": "eq", "term": "id", "value": 30}
    assert planned(**span, filter=filtered) == (200, sorted(whole(three) - whole(two)))
    now = table.metadata.current_snapshot_id  # a delete appends nothing
    assert planned(**{"start-snapshot-id": three, "end-snapshot-id": now}) == (200, [])
    wrong = ({"start-snapshot-id": one}, {**span, "snapshot-id": one}, {"start-snapshot-id": 5, "end-snapshot-id": two})
    for body in (*wrong, {"start-snapshot-id": three, "end-snapshot-id": one}):
        assert planned(**body)[0] == 400


@pytest.mark.parametrize("version", [99, 0, -3, True, "2", None])
def test_a_table_of_a_version_that_nobody_knows_is_not_created(lake: Lake, service: Service, version: Any) -> None:
    new = created(lake, "new")
    new["updates"] = [one for one in new["updates"] if one["action"] != "upgrade-format-version"]
    path = "/v1/namespaces/a/tables/new"
    asked = {"action": "upgrade-format-version", "format-version": version}
    status, answer = ask(service, "POST", path, {**new, "updates": [asked, *new["updates"]]})
    assert status == 400, answer
    assert "a.new" not in lake.tables("a")
    other = {"action": "set-properties", "updates": {}, "format-version": version}  # of no meaning in this update
    status, answer = ask(service, "POST", path, {**new, "updates": [*new["updates"], other]})
    assert (status, answer["metadata"]["format-version"]) == (200, 2)


def test_a_snapshot_of_format_version_1_has_no_sequence_number(lake: Lake, service: Service) -> None:
    """After an upgrade to version 2, a large one would leave none for later snapshots."""
    lake.create_table("a.old", "id bigint", format_version=1).append(ROWS)
    wrong = snapshot(lake, "a.old", **{"sequence-number": (1 << 63) - 1})
    before = state(lake)
    status, answer = ask(service, "POST", "/v1/namespaces/a/tables/old", commit(wrong))
    assert status == 400
    assert "sequence number" in answer["error"]["message"]
    assert state(lake) == before
    right = snapshot(lake, "a.old", **{"sequence-number": 0})
    assert ask(service, "POST", "/v1/namespaces/a/tables/old", commit(right))[0] == 200
