"""What a REST server says of itself, who asks, and what is sent where."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pyarrow as pa
import pytest
from faulty_rest import Fault, FaultyRest, faulty_rest

from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.files import CredentialRefresh, RestFiles
from esker.catalogs.rest.loaded import loaded_table
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import ASSUMED, S3_TABLES, Operation, Routes
from esker.catalogs.rest.rest_catalog import RestCatalog
from esker.catalogs.rest.service import RestService, new_key
from esker.catalogs.rest.settings import RestSettings
from esker.catalogs.rest.transport import Answer, Request
from esker.errors import Corrupt, EskerError, InvalidInput, NotFound, StorageFailed, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import AllAccepted, Rejected, TableSwap
from esker.wiring import lake_over

SECRET = "s3cr3t-t0ken-value"
T = TableName(("a",), "t")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyRest]:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    with faulty_rest(str(tmp_path)) as found:
        found.namespaces["a"] = {}
        yield found


def opened(server: FaultyRest, **properties: str) -> RestCatalog:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
    return open_rest_catalog(server.uri, allowed_roots=[server.warehouse], properties=named)


def service_of(server: FaultyRest, **properties: str) -> RestService:
    return opened(server, **properties)._service


# ---------------------------------------------------------------- configuration


def test_defaults_then_the_users_properties_then_overrides(server: FaultyRest) -> None:
    server.config = {
        "defaults": {"scope": "theirs", "rest-page-size": "7", "prefix": "none"},
        "overrides": {"prefix": "p/q", "header.X-Own": "server"},
    }
    settings = service_of(server, scope="mine", header__X_Own="user").settings
    assert settings.properties["scope"] == "mine"
    assert settings.properties["rest-page-size"] == "7"
    assert settings.properties["prefix"] == "p/q"
    assert settings.headers() == {"X-Own": "server"}


def test_the_warehouse_is_asked_for_and_a_missing_one_is_named(server: FaultyRest) -> None:
    open_rest_catalog(server.uri, warehouse="prod & more").namespaces()
    assert parse_qs(server.seen[0][1].partition("?")[2]) == {"warehouse": ["prod & more"]}
    server.faults.append(Fault(method="GET", path="/config", status=404))
    with pytest.raises(NotFound, match="it has no warehouse 'prod'"):
        open_rest_catalog(server.uri, warehouse="prod").namespaces()


def test_a_server_that_advertises_nothing_has_the_old_set(server: FaultyRest) -> None:
    assert service_of(server).configuration.operations == ASSUMED
    assert len(ASSUMED) == 14
    with pytest.raises(Unsupported, match="is not known to offer the operation load view"):
        service_of(server).require(Operation.LOAD_VIEW, "load view a.v")
    assert opened(server).view_catalog().views(("a",)) == ()
    assert Operation.LOAD_VIEW in service_of(server, view_endpoints_supported="true").configuration.operations


def test_what_is_not_advertised_is_not_called(server: FaultyRest) -> None:
    server.config["endpoints"] = ["GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}", "X /new"]
    catalog = opened(server)
    assert catalog.namespaces() == (("a",),)
    before = len(server.seen)
    for act in (
        lambda: catalog.create_namespace(("b",), {}),
        lambda: catalog.rename(T, TableName(("a",), "u")),
        lambda: catalog.drop(T),
        lambda: catalog.update_namespace_properties(("a",), {"x": "y"}, []),
    ):
        with pytest.raises(Unsupported, match="does not advertise the operation"):
            act()
    assert len(server.seen) == before
    with pytest.raises(Unsupported, match="nothing was changed; commit to one table at a time"):
        catalog.swap_all([])


def test_s3_tables_has_its_own_list_and_does_not_stage(monkeypatch: pytest.MonkeyPatch, server: FaultyRest) -> None:
    own = {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": "eu-west-1",
        "client.access-key-id": "AK",
        "client.secret-access-key": SECRET,
    }
    catalog = open_rest_catalog(server.uri, properties=own)
    assert catalog._service.configuration.operations == S3_TABLES
    assert len(S3_TABLES) == 12  # and the configuration itself
    assert all("AWS4-HMAC-SHA256" in headers["authorization"] for _, _, headers, _ in server.seen)
    with pytest.raises(Unsupported, match="create it first, then append to it"):
        lake_over(catalog).create_table_as("a.t", "id bigint", pa.table({"id": [1]}))
    assert not server.requests("POST", "/tables")
    with pytest.raises(Unsupported, match="transactions/commit"):
        catalog.swap_all([])


def test_a_server_does_not_send_secrets_to_another_host(server: FaultyRest) -> None:
    for name in ("uri", "oauth2-server-uri"):
        server.config = {"overrides": {name: "https://evil.example/x"}}
        with pytest.raises(InvalidInput, match=rf"sends {name} to https://evil\.example/x, another host"):
            service_of(server, token=SECRET).configuration  # noqa: B018
    server.config = {"overrides": {"oauth2-server-uri": f"{server.uri}/other"}}
    assert service_of(server).configuration


def test_redirects_are_not_followed(server: FaultyRest) -> None:
    server.faults.append(Fault(method="GET", path="/config", status=302, headers=(("Location", "http://[::1]:9/"),)))
    with pytest.raises(InvalidInput, match="redirects are not followed"):
        service_of(server).configuration  # noqa: B018


@pytest.mark.parametrize("uri", ["http://catalog.example", "http://10.0.0.7:8181"])
def test_secrets_are_not_sent_in_plain_text(uri: str) -> None:
    with pytest.raises(InvalidInput, match="plain http shows them"):
        RestSettings.of(uri, properties={"token": SECRET})
    assert RestSettings.of(uri).uri == uri
    assert RestSettings.of("http://localhost:1", properties={"token": SECRET})


@pytest.mark.parametrize(
    "uri", [f"https://me:{SECRET}@host/", f"https://host/?token={SECRET}", "https://", "https://h:x"]
)
def test_an_address_that_holds_more_than_a_place_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        RestSettings.of(uri)
    assert SECRET not in str(raised.value)


# ---------------------------------------------------------------- names and pages


def test_names_are_encoded_and_levels_joined_by_either_separator() -> None:
    name = TableName(("a b", "c/d"), "t?ü")
    assert Routes("https://h/base/", "p").url(Operation.LOAD_TABLE, name) == (
        "https://h/base/v1/p/namespaces/a%20b%1Fc%2Fd/tables/t%3F%C3%BC"
    )
    dotted = Routes("https://h", "", "%2E")
    assert dotted.url(Operation.LOAD_NAMESPACE, ("a", "b")) == "https://h/v1/namespaces/a%2Eb"
    assert (dotted.parent(("a", "b")), Routes("https://h").parent(("a", "b"))) == ("a.b", "a\x1fb")
    with pytest.raises(InvalidInput, match="is not a path"):
        Routes("https://h", "../admin")


def test_every_page_is_read(server: FaultyRest) -> None:
    server.namespaces = {f"n{number}": {} for number in range(7)}
    server.page_size = 3
    assert [name for (name,) in opened(server).namespaces()] == sorted(server.namespaces)
    tops = [path for _, path, _, _ in server.requests("GET", "/namespaces?") if "parent" not in path]
    assert len(tops) == 3
    assert "pageToken=" in tops[0]


def test_a_server_that_turns_in_circles_is_found_out(server: FaultyRest) -> None:
    page = '{"namespaces": [["a"]], "next-page-token": "same"}'
    server.faults += [Fault(method="GET", path="/namespaces", status=200, body=page)] * 3
    with pytest.raises(Corrupt, match="it names the same next page twice"):
        opened(server).namespaces()


# ---------------------------------------------------------------- loads


def test_an_unchanged_table_is_not_sent_again(server: FaultyRest) -> None:
    lake = lake_over(catalog := opened(server))
    lake.create_table("a.t", "id bigint")
    known = catalog.load(T)
    assert catalog.load(T, known) is known
    assert server.seen[-1][2]["if-none-match"] == '"1"'
    lake.table("a.t").append(pa.table({"id": pa.array([1], pa.int64())}))
    assert catalog.load(T, known) is not known
    before = lake.table("a.t")
    assert lake.table("a.t").metadata is before.metadata
    assert server.seen[-1][2]["if-none-match"] == '"2"'


def test_metadata_is_never_read_from_its_location(server: FaultyRest) -> None:
    lake = lake_over(catalog := opened(server))
    lake.create_table("a.t", "id bigint")
    assert catalog.load(T).metadata_location.startswith("https://elsewhere.example/")


def test_reads_are_tried_again_and_then_fail_as_a_store_that_does_not_answer(server: FaultyRest) -> None:
    catalog = opened(server)
    server.faults += [Fault(method="GET", path="/namespaces", status=status) for status in (503, 429, 500)]
    assert catalog.namespaces() == (("a",),)
    server.faults += [Fault(method="GET", path="/namespaces", cut=True)] * service_module.ATTEMPTS
    with pytest.raises(StorageFailed, match="does not answer") as raised:
        catalog.namespaces()
    assert raised.value.retryable


def test_vended_credentials_are_taken_from_the_list_first() -> None:
    answer = Answer(
        status=200,
        body=b"""{"metadata-location": "s3://b/t/m.json", "config": {"s3.access-key-id": "old", "token": "x"},
        "storage-credentials": [{"prefix": "s3://b/t", "config": {"s3.access-key-id": "new",
        "s3.session-token-expires-at-ms": "1700000000000"}}], "metadata": {"format-version": 2, "table-uuid":
        "u", "location": "s3://b/t", "last-updated-ms": 1, "last-column-id": 1, "last-sequence-number": 0, "schemas":
        [{"type": "struct", "schema-id": 0, "fields": []}], "current-schema-id": 0, "partition-specs":
        [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "last-partition-id": 999, "sort-orders":
        [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}}""",
    )
    (found,) = loaded_table(answer, "the server").credentials
    assert (found.prefix, found.config["s3.access-key-id"], found.expires_at_ms) == ("s3://b/t", "new", 1700000000000)
    assert "new" not in repr(found)


# ---------------------------------------------------------------- who asks


def test_a_token_is_sent_and_a_refused_one_is_an_error_that_does_not_show_it(server: FaultyRest) -> None:
    server.token = SECRET
    assert opened(server, token=SECRET).namespaces() == (("a",),)
    server.token = "another"
    with pytest.raises(InvalidInput, match="check the properties token and credential") as raised:
        opened(server, token=SECRET).namespaces()
    assert SECRET not in str(raised.value)


def test_client_credentials_get_a_token_and_a_new_one_when_it_is_refused(server: FaultyRest) -> None:
    server.tokens = [{"access_token": "one", "expires_in": 3600}, {"access_token": "two"}]
    catalog = opened(server, credential=f"me:{SECRET}", scope="PRINCIPAL_ROLE:ALL")
    assert catalog.namespaces() == (("a",),)
    form = parse_qs(server.requests("POST", "/oauth/tokens")[0][3].decode())
    assert form == {
        "grant_type": ["client_credentials"],
        "client_id": ["me"],
        "client_secret": [SECRET],
        "scope": ["PRINCIPAL_ROLE:ALL"],
    }
    server.token = "revoked"
    assert catalog.namespaces() == (("a",),)
    assert len(server.requests("POST", "/oauth/tokens")) == 2


def test_f22_a_token_that_ends_in_mid_commit_is_renewed_with_the_same_key(server: FaultyRest) -> None:
    server.tokens = [{"access_token": "one"}, {"access_token": "two"}]
    server.config["idempotency-key-lifetime"] = "PT5M"
    table = lake_over(opened(server, credential=SECRET)).create_table("a.t", "id bigint")
    server.faults.append(Fault(path="/tables/t", status=419))
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    assert len(table.snapshots) == 1
    posts = [one for one in server.requests("POST", "/tables/t") if one[1].endswith("/t")]
    assert posts[-1][2]["idempotency-key"] == posts[-2][2]["idempotency-key"]


def test_a_token_is_renewed_before_it_ends(server: FaultyRest) -> None:
    from esker.catalogs.rest.auth import ClientCredentials
    from esker.catalogs.rest.transport import HttpTransport, Request

    server.tokens = [{"access_token": "one", "expires_in": 100}, {"access_token": "two", "expires_in": 100}]
    settings = RestSettings.of(server.uri, properties={"credential": SECRET})
    at = [0.0]
    auth = ClientCredentials(settings, HttpTransport(settings), now=lambda: at[0])
    request = Request(method="GET", url=server.uri)
    assert auth.authorized(request).headers["Authorization"] == "Bearer one"
    at[0] = 89.0
    assert auth.authorized(request).headers["Authorization"] == "Bearer one"
    at[0] = 90.0
    assert auth.authorized(request).headers["Authorization"] == "Bearer two"


def test_s20_no_secret_is_shown_anywhere(server: FaultyRest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    server.token = "another"
    server.tokens = [{"error": "invalid_client", "error_description": f"no such secret: {SECRET}"}]
    for properties in (
        {"token": SECRET},
        {"credential": f"me:{SECRET}"},
        {"token": "another", "header__X_Api_Key": SECRET, "s3__secret_access_key": SECRET},
    ):
        catalog = opened(server, **properties)
        for thing in (catalog, catalog._service, catalog._service._given, catalog._files, catalog._service._auth):
            shown += [repr(thing), str(thing)]
        server.faults.append(
            Fault(method="GET", path="/namespaces", status=400, body=f'{{"error": {{"message": "bad {SECRET}"}}}}')
        )
        try:
            catalog.namespaces()
        except EskerError as error:
            shown += [str(error), repr(error), repr(error.facts)]
        server.faults.clear()
    shown += [record.getMessage() for record in caplog.records]
    assert shown
    assert not [text for text in shown if SECRET in text]


def test_settings_travel_to_other_processes() -> None:
    settings = RestSettings.of("https://h", properties={"token": SECRET})
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert SECRET not in repr(again)


def test_keys_are_uuids_of_version_7_in_order_of_time() -> None:
    keys = [new_key() for _ in range(100)]
    assert {key.version for key in keys} == {7}
    assert len(set(keys)) == 100
    assert [key.int >> 80 for key in keys] == sorted(key.int >> 80 for key in keys)


# ---------------------------------------------------------------- several tables


def test_several_tables_change_together_or_not_at_all(server: FaultyRest) -> None:
    from tables import next_snapshot

    lake = lake_over(catalog := opened(server))
    names = [TableName(("a",), "t"), TableName(("a",), "u")]
    for name in names:
        lake.create_table(str(name), "id bigint")
    states = [catalog.load(name) for name in names]
    changes = [TableSwap(name, state, next_snapshot(state.metadata)) for name, state in zip(names, states, strict=True)]
    assert isinstance(catalog.swap_all(changes), AllAccepted)
    assert all(len(server.tables["a", name.name].snapshots) == 1 for name in names)
    fresh = catalog.load(names[0])
    with_a_stale_one = [TableSwap(names[0], fresh, next_snapshot(fresh.metadata)), changes[1]]
    assert isinstance(catalog.swap_all(with_a_stale_one), Rejected)
    assert len(server.tables["a", "t"].snapshots) == 1


# ---------------------------------------------------------------- files


def test_a_server_opens_no_folder_of_this_machine(server: FaultyRest, tmp_path: Path) -> None:
    lake_over(opened(server)).create_table("a.t", "id bigint")
    stranger = open_rest_catalog(server.uri, allowed_roots=[f"{tmp_path}/elsewhere"])
    with pytest.raises(InvalidInput, match=r"cannot use .* allowed_roots="):
        stranger.load(T)
    with pytest.raises(InvalidInput, match=r"cannot use /etc/t as the table's location: .* allowed_roots="):
        lake_over(opened(server)).create_table("a.u", "id bigint", location="/etc/t")


def test_files_of_a_store_are_used_below_loaded_tables_alone(server: FaultyRest) -> None:
    server.warehouse = "s3://bucket/wh"
    server.extra = {
        "storage-credentials": [{"prefix": "s3://bucket/wh", "config": {"s3.access-key-id": "AK", "s3.region": "x"}}]
    }
    catalog = open_rest_catalog(server.uri, properties={"s3.endpoint": "http://127.0.0.1:9"})
    location = catalog.location_for(T)
    files = catalog.storage()
    assert isinstance(files, RestFiles)
    files.check(f"{location}/data/x.parquet")
    for outside in ("s3://bucket/wh/other/x.parquet", "s3://other/x", f"{location}-2/x"):
        with pytest.raises(InvalidInput, match="outside the tables that were loaded"):
            files.check(outside)
    again = pickle.loads(pickle.dumps(files))
    again.check(f"{location}/data/x.parquet")
    assert "AK" not in repr(again)


def test_workers_need_nothing_of_the_catalog_for_the_files_of_its_tables(server: FaultyRest) -> None:
    """Until the credentials expire: then the code of the catalog is needed, and an error says so."""
    server.warehouse = "s3://bucket/wh"
    config = {"s3.access-key-id": "AK", "s3.session-token-expires-at-ms": "1"}
    server.extra = {"storage-credentials": [{"prefix": "s3://bucket/wh", "config": config}]}
    catalog = open_rest_catalog(server.uri, properties={"s3.endpoint": "http://127.0.0.1:9"})
    location = catalog.location_for(T)
    program = (
        "import pickle, sys\n"
        "for name in ('esker.catalogs', 'msgspec', 'urllib3'): sys.modules[name] = None\n"
        "files = pickle.loads(sys.stdin.buffer.read())\n"
        f"files.check({location + '/data/x.parquet'!r})\n"
        "print(files.is_shared, files.parallel_reads > 1)\n"
        "(store,) = files._stores.values()\n"
        "for call in (lambda: files.check('s3://other/x'), store.configuration.refresh):\n"
        "    try: call()\n"
        "    except Exception as error: print(type(error).__name__, error.facts.get('retryable'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(catalog.storage()),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.decode().splitlines() == ["True True", "InvalidInput None", "StorageFailed True"], done.stderr


def test_new_credentials_are_asked_for(server: FaultyRest) -> None:
    server.config["endpoints"] = [operation.value for operation in Operation]
    lake_over(opened(server)).create_table("a.t", "id bigint")
    server.extra = {"storage-credentials": [{"prefix": "s3://b/t", "config": {"s3.access-key-id": "fresh"}}]}
    refresh = CredentialRefresh(RestSettings.of(server.uri), T, "s3://b/t")
    (found,) = pickle.loads(pickle.dumps(refresh))()
    assert (found.prefix, found.config) == ("s3://b/t", {"s3.access-key-id": "fresh"})
    assert server.requests("GET", "/tables/t/credentials")
    del server.config["endpoints"]
    (found,) = refresh()  # by a load where the server has no such operation
    assert found.prefix == "s3://b/t"


def test_a_slow_server_holds_up_no_other_one(server: FaultyRest, tmp_path: Path) -> None:
    """Each server is asked for its configuration on its own."""
    entered, free = threading.Event(), threading.Event()

    class Slow:
        def send(self, request: Request) -> Answer:
            entered.set()
            assert free.wait(30)
            return Answer(status=200, body=b"{}")

    slow = RestService(RestSettings.of("https://slow.example"), Slow())
    waiting = threading.Thread(target=lambda: slow.configuration)
    waiting.start()
    try:
        assert entered.wait(30)
        asked = threading.Thread(target=lambda: opened(server).namespaces(), daemon=True)
        asked.start()
        asked.join(20)
        assert not asked.is_alive()
    finally:
        free.set()
        waiting.join(30)
