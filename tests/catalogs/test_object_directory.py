"""A directory catalog in an object store: what every catalog promises, and what the store holds."""

from __future__ import annotations

import multiprocessing
import threading
import time
from uuid import uuid4

import pytest
from catalog_contract import ORDERS, CatalogContract, count_up, make
from object_stores import QUICK
from orders import QUICK as FEW_WAITS
from s3_server import (
    ANSWER_500,
    CONFLICT,
    DENY,
    IGNORE_CONDITIONS,
    LOSE_ANSWER,
    LOSE_REQUEST,
    SLOW_DOWN,
    S3Server,
)
from sound_tables import check_sound, rows_of
from tables import with_properties

from esker.catalogs.directory import DirectoryCatalog
from esker.catalogs.object_folders import ObjectFolders, VersionObjects
from esker.errors import InvalidInput, NoSuchTable, OutcomeUnknown, StorageFailed, Unsupported
from esker.ports.catalog import Accepted, Catalog, Rejected, Unanswered
from esker.storage.objects import object_storage
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage


@pytest.mark.slow
@pytest.mark.usefixtures("s3_environment")
class TestObjectDirectoryCatalog(CatalogContract):
    keeps_properties = False
    renames = False
    names_stay = True
    places_tables = False
    swaps_all = False

    @pytest.fixture
    def uri(self, bucket: str) -> str:
        return f"{bucket}/warehouse"

    @pytest.fixture
    def outside(self, s3: S3Server) -> str:
        return s3.make_bucket(f"outside-{uuid4().hex[:8]}") + "/outside"


@pytest.fixture
def catalog(s3: S3Server, bucket: str) -> Catalog:
    return opened(s3, bucket)


def opened(s3: S3Server, bucket: str) -> DirectoryCatalog:
    root = f"{bucket}/warehouse"
    storage = ObjectStorage(ObjectConfiguration.of({**s3.properties, **QUICK}, {}), roots=[root])
    return DirectoryCatalog(ObjectFolders(root, storage))


def test_a_table_lies_where_hadoop_tables_lie(catalog: Catalog, bucket: str) -> None:
    made = make(catalog)
    count_up(catalog, ORDERS, 2)
    assert made.metadata.location == f"{bucket}/warehouse/sales/orders"
    assert sorted(file.location for file in catalog.storage().list(f"{bucket}/warehouse")) == [
        f"{bucket}/warehouse/sales/.namespace",
        *(f"{bucket}/warehouse/sales/orders/metadata/v{number}.metadata.json" for number in (1, 2, 3)),
    ]


def test_a_load_is_two_requests_and_a_version_that_is_known_one(s3: S3Server, catalog: Catalog) -> None:
    make(catalog)
    count_up(catalog, ORDERS, 3)
    for number in range(5):  # what else is in the folder is not listed
        place = catalog.location_for(ORDERS)
        catalog.storage().write_new(f"{place}/metadata/{number}-m0.avro", b"x")
    with s3.counted() as requests:
        known = catalog.load(ORDERS)
    assert len(requests) == 2
    with s3.counted() as again:
        assert catalog.load(ORDERS, known) is known
    assert len(again) == 1


def test_no_version_number_is_used_twice(catalog: Catalog) -> None:
    first = make(catalog)
    stale = catalog.load(ORDERS)
    catalog.drop(ORDERS)
    with pytest.raises(NoSuchTable):
        catalog.load(ORDERS)
    again = make(catalog)
    assert again.metadata_location.endswith("/v3.metadata.json")
    assert catalog.load(ORDERS).metadata.uuid == again.metadata.uuid != first.metadata.uuid
    assert isinstance(catalog.swap(ORDERS, stale, with_properties(stale.metadata, {"a": "b"})), Rejected)
    catalog.drop(ORDERS)
    assert catalog.tables(("sales",)) == ()


def test_a_drop_and_a_commit_cannot_both_win(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    base = make(catalog)
    create = VersionObjects.create

    def drop_first(self: VersionObjects, name: str, data: bytes) -> None:
        monkeypatch.setattr(VersionObjects, "create", create)
        catalog.drop(ORDERS)
        create(self, name, data)

    monkeypatch.setattr(VersionObjects, "create", drop_first)
    assert isinstance(catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})), Rejected)
    assert catalog.tables(("sales",)) == ()


def test_a_drop_goes_on_after_a_commit_that_was_quicker(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    make(catalog)
    create = VersionObjects.create

    def commit_first(self: VersionObjects, name: str, data: bytes) -> None:
        monkeypatch.setattr(VersionObjects, "create", create)
        count_up(catalog, ORDERS, 1)
        create(self, name, data)

    monkeypatch.setattr(VersionObjects, "create", commit_first)
    catalog.drop(ORDERS)
    assert catalog.tables(("sales",)) == ()


def test_a_namespace_of_dropped_tables_goes_and_leaves_nothing(catalog: Catalog, bucket: str) -> None:
    made = make(catalog)
    catalog.drop(ORDERS)
    with pytest.raises(InvalidInput, match="it holds orders/metadata/v1"):
        catalog.drop_namespace(("sales",))
    catalog.storage().delete(made.metadata_location)
    catalog.drop_namespace(("sales",))
    assert list(catalog.storage().list(f"{bucket}/warehouse")) == []


def test_f44_a_store_that_ignores_conditions_is_refused_by_name(s3: S3Server, catalog: Catalog, bucket: str) -> None:
    s3.fail(IGNORE_CONDITIONS, times=999)
    with pytest.raises(Unsupported, match="the store ignores the condition If-None-Match") as raised:
        catalog.create_namespace(("sales",), {})
    assert raised.value.feature == "conditional create"
    assert raised.value.location == f"{bucket}/warehouse"
    assert list(catalog.storage().list(f"{bucket}/warehouse")) == []


def test_f44_a_commit_to_a_store_that_ignores_conditions_is_refused_by_name(s3: S3Server, bucket: str) -> None:
    """A lake that was made on a store that knows them, and is reached by way of a proxy that drops the header."""
    base = make(opened(s3, bucket))
    s3.fail(IGNORE_CONDITIONS, times=999)
    catalog = opened(s3, bucket)
    for act in (
        lambda: catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})),
        lambda: catalog.drop(ORDERS),
    ):
        with pytest.raises(Unsupported, match="the store ignores the condition If-None-Match") as raised:
            act()
        assert raised.value.location == f"{bucket}/warehouse"
    assert catalog.load(ORDERS).metadata_location == base.metadata_location
    s3.heal()
    assert catalog.namespaces() == (("sales",),)
    with s3.counted() as requests:
        count_up(opened(s3, bucket), ORDERS, 2)
    assert sum(request.endswith("/.namespace") for request in requests) == 1  # once for each catalog


@pytest.mark.parametrize("action", [SLOW_DOWN, CONFLICT, LOSE_ANSWER, LOSE_REQUEST, ANSWER_500])
def test_f16_f18_a_commit_with_a_fault_at_any_request_is_made_once(s3: S3Server, bucket: str, action: str) -> None:
    catalog = opened(s3, bucket)
    make(catalog)
    base = catalog.load(ORDERS)
    with s3.counted() as requests:
        assert isinstance(catalog.swap(ORDERS, base, with_properties(base.metadata, {"n": "0"})), Accepted)
    for number in range(1, len(requests) + 1):
        base = catalog.load(ORDERS)
        s3.fail(action, method="PUT" if action == CONFLICT else "", skip=number - 1)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"n": str(number)}))
        s3.heal()
        assert isinstance(outcome, Accepted), (number, outcome)
        assert catalog.load(ORDERS).metadata.properties == {"n": str(number)}
        assert len(catalog.load(ORDERS).metadata.metadata_log) == number + 1


@pytest.mark.parametrize("action", [SLOW_DOWN, LOSE_ANSWER, LOSE_REQUEST, ANSWER_500])
def test_f16_f17_a_store_that_is_gone_from_any_request_on_hides_no_outcome(
    s3: S3Server, bucket: str, action: str
) -> None:
    """From the create on the answer is unknown, before it nothing was done, and never is it success."""
    catalog = opened(s3, bucket)
    make(catalog)
    for number in range(3):
        before = catalog.load(ORDERS)
        s3.fail(action, skip=number, times=999)
        try:
            outcome = catalog.swap(ORDERS, before, with_properties(before.metadata, {"n": str(number)}))
        except StorageFailed as error:
            outcome = error
        s3.heal()
        after = catalog.load(ORDERS)
        if number == 0:  # the listing before the create
            assert isinstance(outcome, StorageFailed)
            assert outcome.retryable
            assert after.metadata_location == before.metadata_location
        else:
            assert isinstance(outcome, Unanswered)


@pytest.mark.parametrize("action", [LOSE_ANSWER, ANSWER_500])
def test_f20_a_version_that_others_built_on_and_emptied_before_the_answer_is_found(
    s3: S3Server, bucket: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The create of a version is applied and not answered. Before it is repeated, two commits of another writer empty
    that version, so that the object no longer says who created it."""
    import pyarrow as pa

    import esker

    def rows(id_: int) -> pa.Table:
        return pa.table({"id": pa.array([id_], pa.int64())})

    tidy = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    # the client of this writer repeats nothing, so that the wait of Esker's own attempts is where the others commit
    alone = {**s3.properties, "s3.retry.num-retries": "0"}
    other = esker.connect(f"{bucket}/warehouse", properties=s3.properties)
    other.create_namespace("sales")
    other.create_table("sales.orders", "id bigint", properties={**FEW_WAITS, **tidy}).append(rows(1))
    table = esker.connect(f"{bucket}/warehouse", properties=alone).table("sales.orders")
    came: list[float] = []
    here, sleep = threading.current_thread(), time.sleep

    def wait(seconds: float) -> None:
        if threading.current_thread() is not here:  # another thread of this process, which has nothing to do with it
            sleep(seconds)
            return
        came.append(seconds)
        if len(came) == 1:
            s3.heal()
            for id_ in (3, 4, 5):
                other.table("sales.orders").append(rows(id_))

    monkeypatch.setattr(object_storage.time, "sleep", wait)
    s3.fail(action, method="PUT", key=r"metadata\.json")
    table.append(rows(2))
    monkeypatch.undo()
    assert came
    found = check_sound(other, "sales.orders")
    assert rows_of(found) == [1, 2, 3, 4, 5]
    assert len(found.snapshots) == 5


@pytest.mark.parametrize("first", [LOSE_ANSWER, ANSWER_500])
def test_f16_a_commit_that_was_made_and_then_refused_is_unknown_and_keeps_every_file(
    s3: S3Server, bucket: str, first: str
) -> None:
    """The answer to the commit is lost, and the credentials end before it is repeated."""
    import pyarrow as pa

    import esker

    lake = esker.connect(f"{bucket}/warehouse", properties={**s3.properties, **QUICK})
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint", properties=FEW_WAITS)
    s3.fail(first, method="PUT", key=r"metadata\.json")
    s3.fail(DENY, method="PUT", key=r"metadata\.json", times=999)
    s3.fail(DENY, method="GET", key="list-type", skip=3, times=999)  # and the table cannot be asked
    with pytest.raises(OutcomeUnknown, match=r"whether the commit to sales\.orders succeeded"):
        table.append(pa.table({"id": pa.array([1], pa.int64())}))
    s3.heal()
    assert rows_of(check_sound(lake, "sales.orders")) == [1]


def append_in_a_process(job: tuple[str, int, int]) -> int:
    """Append rows one by one to a table of a lake of its own; how many."""
    import pyarrow as pa

    import esker

    uri, writer, times = job
    table = esker.connect(uri).table("sales.orders")
    for number in range(times):
        table.append(pa.table({"id": pa.array([writer * 1000 + number], pa.int64())}))
    return times


@pytest.mark.slow
@pytest.mark.usefixtures("s3_environment")
def test_eight_processes_append_and_every_row_is_there_once(bucket: str) -> None:
    import esker

    uri = f"{bucket}/warehouse"
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint", properties={"commit.retry.num-retries": "200"})
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        pool.map(append_in_a_process, [(uri, writer, 25) for writer in range(8)], chunksize=1)
    table = check_sound(lake, "sales.orders", deep=False)
    assert len(table.snapshots) == 200
    assert rows_of(table) == sorted(writer * 1000 + number for writer in range(8) for number in range(25))
    parents = [snapshot.parent_snapshot_id for snapshot in table.snapshots]
    assert parents == [None, *(snapshot.snapshot_id for snapshot in table.snapshots[:-1])]
    assert [snapshot.sequence_number for snapshot in table.snapshots] == list(range(1, 201))
    # what lost attempts wrote is gone: lists and data files are as many as there are snapshots
    files = [file.location.rpartition("/")[2] for file in lake.catalog.storage().list(table.location)]
    assert sum(name.startswith("snap-") for name in files) == 200
    assert sum(name.endswith(".parquet") for name in files) == 200
    versions = [name for name in files if name.endswith(".metadata.json")]
    assert sorted(versions) == sorted(f"v{number}.metadata.json" for number in range(1, 202))
