"""The answers of the service, without HTTP: every operation, statuses, paging, ETags, and commits that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import esker
from esker.catalogs.rest.operations import Operation
from esker.lake import Lake
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.find_operation import ALL_OPERATIONS, CONFIG, TOKEN

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 5, "name": "id", "type": "long", "required": True},
        {"id": 9, "name": "name", "type": "string", "required": False},
    ],
}


class Client:
    """Sends requests to a service as HTTP would."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def __call__(self, method: str, path: str, body: Any = None, **query: str) -> Answer:
        return self.sent(method, path, body, query, {})

    def sent(self, method: str, path: str, body: Any, query: dict[str, str], headers: dict[str, str]) -> Answer:
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        return self.service.answer(method, path, Call(query=query, headers=headers, body=content))

    def ok(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        answer = self(method, path, body, **query)
        assert answer.status in (200, 204), answer.body
        return msgspec.json.decode(answer.body) if answer.body else None

    def error(self, status: int, method: str, path: str, body: Any = None, **query: str) -> str:
        answer = self(method, path, body, **query)
        error = msgspec.json.decode(answer.body)["error"]
        assert (answer.status, error["code"]) == (status, status), answer.body
        return f"{error['type']}: {error['message']}"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def client(lake: Lake) -> Client:
    return Client(Service(lake))


@pytest.fixture
def table(client: Client) -> Any:
    client.ok("POST", "/v1/namespaces", {"namespace": ["sales"]})
    return client.ok("POST", "/v1/namespaces/sales/tables", {"name": "t", "schema": SCHEMA})


def test_each_of_the_35_operations_is_served_or_refused_by_name(client: Client) -> None:
    assert len(ALL_OPERATIONS) == len(set(ALL_OPERATIONS)) == 35
    assert set(client.service.served) | set(client.service.refused) == set(ALL_OPERATIONS)
    assert not set(client.service.served) & set(client.service.refused)
    assert list(client.service.refused) == [Operation.SIGN_REQUEST.value]  # unless the server is started to sign
    advertised = client.ok("GET", "/v1/config")["endpoints"]
    assert set(advertised) == set(client.service.served) - {CONFIG, TOKEN}


def test_what_is_not_served_is_refused_with_406(client: Client, table: Any) -> None:
    for operation in client.service.refused:
        method, _, template = operation.partition(" ")
        path = template.replace("/{prefix}", "").replace("{namespace}", "sales").replace("{table}", "t")
        assert client.error(406, method, path, {}).startswith("UnsupportedOperationException")


def test_paths_and_methods_that_do_not_exist(client: Client) -> None:
    assert client.error(404, "GET", "/v1/nothing").startswith("NoSuchRouteException")
    assert client("PUT", "/v1/namespaces").headers["allow"] == "GET, POST"
    client.error(405, "PUT", "/v1/namespaces")
    client.error(400, "GET", "/v1/namespaces/%ff")


def test_missing_things_say_what_they_are(client: Client, table: Any) -> None:
    assert client.error(404, "GET", "/v1/namespaces/no").startswith("NoSuchNamespaceException")
    assert client.error(404, "GET", "/v1/namespaces/sales/tables/no").startswith("NoSuchTableException")
    assert client.error(404, "GET", "/v1/namespaces/sales/views/t").startswith("NoSuchViewException")
    assert client.error(404, "GET", "/v1/namespaces", parent="no").startswith("NoSuchNamespaceException")
    assert client("HEAD", "/v1/namespaces/no").status == 404
    assert client("HEAD", "/v1/namespaces/sales").status == 204
    assert client("HEAD", "/v1/namespaces/sales/tables/t").status == 204


@pytest.mark.parametrize(
    "body", [None, b"", b"{", b"[]", b"7", b"\xff", b'{"namespace": "sales"}', b'{"namespace": []}']
)
def test_a_body_that_is_wrong_is_the_fault_of_its_sender(client: Client, body: bytes | None) -> None:
    assert client.error(400, "POST", "/v1/namespaces", body).startswith("BadRequestException: cannot")


def test_names_that_exist_conflict(client: Client, table: Any) -> None:
    assert client.error(409, "POST", "/v1/namespaces", {"namespace": ["sales"]}).startswith("AlreadyExistsException")
    again = {"name": "t", "schema": SCHEMA}
    assert client.error(409, "POST", "/v1/namespaces/sales/tables", again).startswith("AlreadyExistsException")
    assert client.error(409, "POST", "/v1/namespaces/sales/tables", {**again, "stage-create": True})
    assert client.error(409, "DELETE", "/v1/namespaces/sales").startswith("NamespaceNotEmptyException")
    both = {"removals": ["a"], "updates": {"a": "1"}}
    assert client.error(422, "POST", "/v1/namespaces/sales/properties", both)


def test_a_namespace_is_found_by_both_separators(client: Client) -> None:
    client.ok("POST", "/v1/namespaces", {"namespace": ["a", "b"]})
    assert client.ok("GET", "/v1/namespaces/a%1Fb")["namespace"] == ["a", "b"]
    assert client.ok("GET", "/v1/namespaces/a%251Fb")["namespace"] == ["a", "b"]
    assert client.ok("GET", "/v1/namespaces", parent="a")["namespaces"] == [["a", "b"]]


@pytest.mark.parametrize("suffix", ["", "/plan"])
def test_a_dot_in_a_name_never_reaches_another_table(client: Client, lake: Lake, suffix: str) -> None:
    lake.create_namespace("a.b")
    lake.create_table("a.b.t", "id int")
    method, body = ("POST", {}) if suffix else ("DELETE", None)
    for path in ("/v1/namespaces/a/tables/b.t", "/v1/namespaces/a.b/tables/t"):
        client.error(400, method, f"{path}{suffix}", body)
    assert lake.tables("a.b") == ["a.b.t"]


def test_pages_hold_every_name_once_while_others_come_and_go(client: Client, lake: Lake) -> None:
    client.ok("POST", "/v1/namespaces", {"namespace": ["sales"]})
    for at in range(7):
        lake.create_table(f"sales.t{at}", "id int")
    whole = client.ok("GET", "/v1/namespaces/sales/tables")
    assert (len(whole["identifiers"]), whole["next-page-token"]) == (7, None)
    found: list[str] = []
    token = ""
    while token is not None:
        page = client.ok("GET", "/v1/namespaces/sales/tables", pageToken=token, pageSize="3")
        assert len(page["identifiers"]) <= 3
        found += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
        lake.drop_table(f"sales.{found[0]}", if_exists=True)
    assert found == [f"t{at}" for at in range(7)]
    client.error(400, "GET", "/v1/namespaces/sales/tables", pageToken="nonsense")
    client.error(400, "GET", "/v1/namespaces/sales/tables", pageToken="", pageSize="0")


def test_columns_of_a_new_table_are_numbered_from_one(client: Client) -> None:
    client.ok("POST", "/v1/namespaces", {"namespace": ["sales"]})
    made = client.ok(
        "POST",
        "/v1/namespaces/sales/tables",
        {
            "name": "t",
            "schema": SCHEMA,
            "partition-spec": {"fields": [{"source-id": 9, "name": "n", "transform": "truncate[3]"}]},
            "write-order": {
                "order-id": 7,
                "fields": [{"transform": "identity", "source-id": 5, "direction": "asc", "null-order": "nulls-first"}],
            },
            "properties": {"format-version": "3", "owner": "ann"},
        },
    )["metadata"]
    assert [field["id"] for field in made["schemas"][0]["fields"]] == [1, 2]
    assert made["partition-specs"][0]["fields"][0]["source-id"] == 2
    assert made["sort-orders"][0]["fields"][0]["source-id"] == 1
    assert (made["format-version"], made["properties"]) == (3, {"owner": "ann"})


def test_a_staged_table_is_nowhere_until_it_is_committed(client: Client, lake: Lake) -> None:
    client.ok("POST", "/v1/namespaces", {"namespace": ["sales"]})
    staged = client.ok("POST", "/v1/namespaces/sales/tables", {"name": "t", "schema": SCHEMA, "stage-create": True})
    assert staged["metadata-location"] is None
    assert lake.tables("sales") == []
    metadata = staged["metadata"]
    assert list(Path(metadata["location"]).rglob("*")) == [Path(metadata["location"]) / "metadata"]  # for DuckDB
    commit = {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": metadata["schemas"][0], "last-column-id": 2},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": metadata["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": metadata["location"]},
            {"action": "set-properties", "updates": {"a": "b"}},
        ],
    }
    made = client.ok("POST", "/v1/namespaces/sales/tables/t", commit)
    assert made["metadata"]["table-uuid"] == metadata["table-uuid"]
    assert lake.table("sales.t").properties == {"a": "b"}
    assert client.error(409, "POST", "/v1/namespaces/sales/tables/t", commit).startswith("CommitFailedException")
    short = {**commit, "updates": commit["updates"][:-2]}
    assert "no location" in client.error(400, "POST", "/v1/namespaces/sales/tables/u", short)


@pytest.mark.parametrize("form", ["all", "refs"])
def test_an_etag_is_compared_weakly(client: Client, table: Any, form: str) -> None:
    path = "/v1/namespaces/sales/tables/t"
    tag = client("GET", path, snapshots=form).headers["etag"]

    def status(sent: str) -> int:
        return client.sent("GET", path, None, {"snapshots": form}, {"if-none-match": sent}).status

    for same in (tag, tag.removeprefix("W/"), f'"other", {tag}', f'W/"other",{tag}', "*"):
        assert status(same) == 304, same
    for other in ('"other"', "", tag[:-2] + '"', tag.strip('W/"')):
        assert status(other) == 200, other


def test_an_etag_saves_the_answer_and_differs_by_form(client: Client, table: Any, lake: Lake) -> None:
    path = "/v1/namespaces/sales/tables/t"
    whole, refs = client("GET", path), client("GET", path, snapshots="refs")
    assert whole.headers["etag"] != refs.headers["etag"]
    same = client.sent("GET", path, None, {}, {"if-none-match": whole.headers["etag"]})
    assert (same.status, same.body) == (304, b"")
    lake.table("sales.t").append(pa.table({"id": [1], "name": ["a"]}))
    assert client.sent("GET", path, None, {}, {"if-none-match": whole.headers["etag"]}).status == 200
    client.error(400, "GET", path, snapshots="some")


def test_only_snapshots_that_refs_name_are_loaded_when_asked(client: Client, table: Any, lake: Lake) -> None:
    ours = lake.table("sales.t")
    for at in range(4):
        ours.append(pa.table({"id": [at], "name": ["a"]}))
    first = ours.snapshots[0].snapshot_id
    ours.tag("first", first)
    found = client.ok("GET", "/v1/namespaces/sales/tables/t", snapshots="refs")
    ids = [snapshot["snapshot-id"] for snapshot in found["metadata"]["snapshots"]]
    assert ids == [first, ours.current_snapshot.snapshot_id]  # type: ignore[union-attr]
    assert found["metadata-location"] == ours.metadata_location
    whole = client.ok("GET", "/v1/namespaces/sales/tables/t")
    assert len(whole["metadata"]["snapshots"]) == 4
    assert len(found["metadata"]["snapshot-log"]) == 4


def _snapshot(lake: Lake, **changed: Any) -> dict[str, Any]:
    table = lake.table("sales.t")
    return {
        "snapshot-id": 77,
        "sequence-number": table.metadata.last_sequence_number + 1,
        "timestamp-ms": table.metadata.last_updated_ms + 1,
        "manifest-list": f"{table.location}/metadata/snap-77.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **changed,
    }


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ({"action": "make-coffee"}, "not known"),
        ({"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}, "never changes"),
        ({"action": "upgrade-format-version", "format-version": 1}, "go back"),
        ({"action": "upgrade-format-version", "format-version": 9}, "newest known"),
        ({"action": "upgrade-format-version", "format-version": "2"}, "format-version"),
        ({"action": "set-current-schema", "schema-id": 4}, "none with this id"),
        ({"action": "set-current-schema", "schema-id": -1}, "adds none"),
        ({"action": "set-default-spec", "spec-id": 4}, "none with this id"),
        ({"action": "set-default-sort-order", "sort-order-id": 4}, "none with this id"),
        ({"action": "add-schema", "schema": {"type": "list"}}, "struct"),
        ({"action": "add-schema", "schema": SCHEMA, "last-column-id": "1"}, "last-column-id"),
        ({"action": "add-spec", "spec": {"fields": [{"source-id": 99, "name": "x", "transform": "day"}]}}, "99"),
        ({"action": "add-spec", "spec": {"fields": [{"source-id": 2, "name": "x", "transform": "day"}]}}, "day"),
        ({"action": "set-location", "location": "/etc/tables"}, "outside"),
        ({"action": "set-location", "location": "relative"}, "absolute"),
        ({"action": "set-properties", "updates": {"a": 1}}, "string"),
        ({"action": "remove-properties", "removals": [1]}, "text"),
        ({"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 5, "type": "branch"}, "no snapshot 5"),
        ({"action": "set-statistics", "statistics": {"snapshot-id": 5}}, "does not have it"),
        ({"action": "remove-schemas", "schema-ids": [0]}, "current"),
        ({"action": "remove-partition-specs", "spec-ids": [0]}, "current"),
    ],
    ids=lambda value: value.get("action") if isinstance(value, dict) else None,
)
def test_an_update_that_would_harm_the_table_is_refused_and_changes_nothing(
    client: Client, table: Any, lake: Lake, update: dict[str, Any], why: str
) -> None:
    before = lake.table("sales.t").metadata_location
    updates = [{"action": "set-properties", "updates": {"x": "y"}}, update]
    said = client.error(400, "POST", "/v1/namespaces/sales/tables/t", {"requirements": [], "updates": updates})
    assert why in said
    assert lake.table("sales.t").metadata_location == before


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"snapshot-id": -4}, "positive"),
        ({"sequence-number": 0}, "does not follow"),
        ({"timestamp-ms": 5}, "a minute before"),
        ({"schema-id": 8}, "no schema 8"),
        ({"manifest-list": "/etc/passwd"}, "outside"),
        ({"manifest-list": None}, "neither 'manifest-list' nor"),
        ({"manifest-list": None, "manifests": ["/x/m.avro"]}, "no manifest list"),
    ],
)
def test_a_snapshot_that_would_harm_the_table_is_refused(
    client: Client, table: Any, lake: Lake, changed: dict[str, Any], why: str
) -> None:
    snapshot = {name: value for name, value in _snapshot(lake, **changed).items() if value is not None}
    body = {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}]}
    assert why in client.error(400, "POST", "/v1/namespaces/sales/tables/t", body)


def test_rows_of_version_3_are_numbered_without_overlap(client: Client, table: Any, lake: Lake) -> None:
    with lake.table("sales.t").alter() as change:
        change.upgrade_format(3)
    path = "/v1/namespaces/sales/tables/t"

    def add(**changed: Any) -> dict[str, Any]:
        return {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": _snapshot(lake, **changed)}]}

    assert "requires first-row-id" in client.error(400, "POST", path, add())
    made = client.ok("POST", path, add(**{"first-row-id": 0, "added-rows": 10}))
    assert made["metadata"]["next-row-id"] == 10
    late = add(**{"snapshot-id": 78, "first-row-id": 9, "added-rows": 1})
    assert "below the table's next-row-id" in client.error(400, "POST", path, late)


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-create"},
        {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
        {"type": "assert-current-schema-id", "current-schema-id": 1},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
        {"type": "assert-default-spec-id", "default-spec-id": 1},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
    ],
    ids=lambda value: value["type"],
)
def test_a_requirement_that_is_not_met_is_a_conflict(
    client: Client, table: Any, lake: Lake, requirement: dict[str, Any]
) -> None:
    before = lake.table("sales.t").metadata_location
    body = {"requirements": [requirement], "updates": [{"action": "set-properties", "updates": {"x": "y"}}]}
    assert client.error(409, "POST", "/v1/namespaces/sales/tables/t", body).startswith("CommitFailedException")
    assert lake.table("sales.t").metadata_location == before
    unknown = {"requirements": [{"type": "assert-weather"}], "updates": []}
    assert "not known" in client.error(400, "POST", "/v1/namespaces/sales/tables/t", unknown)


def test_several_tables_change_together_or_not_at_all(client: Client, table: Any, lake: Lake) -> None:
    client.ok("POST", "/v1/namespaces/sales/tables", {"name": "u", "schema": SCHEMA})

    def change(name: str, uuid: str | None = None) -> dict[str, Any]:
        real = lake.table(f"sales.{name}").uuid
        return {
            "identifier": {"namespace": ["sales"], "name": name},
            "requirements": [{"type": "assert-table-uuid", "uuid": uuid or real}],
            "updates": [{"action": "set-properties", "updates": {"n": "1"}}],
        }

    wrong = change("u", "9c12d441-03fe-4693-9a96-a0705ddf69c1")
    client.error(409, "POST", "/v1/transactions/commit", {"table-changes": [change("t"), wrong]})
    assert lake.table("sales.t").properties == {}
    client.error(400, "POST", "/v1/transactions/commit", {"table-changes": [change("t"), change("t")]})
    client.ok("POST", "/v1/transactions/commit", {"table-changes": [change("t"), change("u")]})
    assert [lake.table(f"sales.{name}").properties for name in "tu"] == [{"n": "1"}, {"n": "1"}]


def test_equal_definitions_are_used_again_and_others_get_the_next_id(client: Client, table: Any) -> None:
    same = {**table["metadata"]["schemas"][0], "schema-id": 40}
    wider = {**same, "fields": [*same["fields"], {"id": 3, "name": "x", "type": "int", "required": False}]}
    path = "/v1/namespaces/sales/tables/t"
    for schema, expected in ((same, [0]), (wider, [0, 1]), (wider, [0, 1])):
        updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        made = client.ok("POST", path, {"requirements": [], "updates": updates})["metadata"]
        assert [one["schema-id"] for one in made["schemas"]] == expected
        assert made["current-schema-id"] == expected[-1]
    assert made["last-column-id"] == 3


def test_going_back_is_logged_at_the_time_of_going_back(client: Client, table: Any, lake: Lake) -> None:
    ours = lake.table("sales.t")
    ours.append(pa.table({"id": [1], "name": ["a"]}))
    first = ours.current_snapshot
    ours.append(pa.table({"id": [2], "name": ["b"]}))
    assert first is not None
    update = {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": first.snapshot_id, "type": "branch"}
    path = "/v1/namespaces/sales/tables/t"
    log = client.ok("POST", path, {"requirements": [], "updates": [update]})["metadata"]["snapshot-log"]
    assert [entry["snapshot-id"] for entry in log][-1] == first.snapshot_id
    assert [entry["timestamp-ms"] for entry in log] == sorted(entry["timestamp-ms"] for entry in log)
    assert lake.table("sales.t").scan().count() == 1


def test_unregister_gives_the_last_state_and_keeps_the_files(client: Client, table: Any, lake: Lake) -> None:
    found = client.ok("POST", "/v1/namespaces/sales/tables/t/unregister", {})
    assert found["metadata-location"] == table["metadata-location"]
    assert lake.tables("sales") == []
    location = {"name": "t", "metadata-location": table["metadata-location"]}
    client.ok("POST", "/v1/namespaces/sales/register", location)
    assert lake.tables("sales") == ["sales.t"]
    client.error(409, "POST", "/v1/namespaces/sales/register", location)


def test_there_are_no_functions(client: Client, table: Any) -> None:
    assert client.ok("GET", "/v1/namespaces/sales/functions")["identifiers"] == []
    client.error(404, "GET", "/v1/namespaces/sales/functions/f")
    client.error(404, "GET", "/v1/namespaces/no/functions")


def test_an_error_that_nobody_expected_is_500_and_tells_nothing(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr(type(lake.catalog), "namespaces", fail)
    assert "secret" not in client.error(500, "GET", "/v1/namespaces")
