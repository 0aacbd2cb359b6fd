"""Paimon warehouses in an object store: the same tables, and commits that are created once or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from object_stores import QUICK
from s3_server import ANSWER_500, DENY, IGNORE_CONDITIONS, LOSE_ANSWER, LOSE_REQUEST, SLOW_DOWN, S3Server

import esker
from esker.errors import EskerError, NoSuchNamespace, OutcomeUnknown, Unsupported
from esker.lake import Lake

COLUMNS = "id bigint not null, v string, day date"


@pytest.fixture
def lake(s3: S3Server, bucket: str) -> Lake:
    return opened(s3, bucket)


def opened(s3: S3Server, bucket: str) -> Lake:
    return esker.connect(f"paimon:{bucket}/ware house", properties={**s3.properties, **QUICK})


def keyed(lake: Lake) -> Any:
    return lake.create_table("db.t", COLUMNS, identifier_fields=["id"], properties={"bucket": "2"})


def rows(*ids: int, v: str = "") -> dict[str, list[Any]]:
    return {
        "id": list(ids),
        "v": [v or str(id_) for id_ in ids],
        "day": [datetime(2026, 1, 2, tzinfo=UTC).date()] * len(ids),
    }


def values(table: Any, **more: Any) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.scan(**more).to_arrow().to_pylist()}


def test_a_table_is_made_written_read_and_kept_in_a_bucket(lake: Lake, s3: S3Server, bucket: str) -> None:
    made = keyed(lake)
    made.append(rows(1, 2, 3))
    made.upsert(rows(2, 4, v="new"))
    made.delete("id = 3")
    again = opened(s3, bucket)
    table = again.table("db.t")
    assert (again.namespaces(), again.tables("db")) == (["db"], ["db.t"])
    assert values(table) == {1: "1", 2: "new", 4: "new"}
    assert values(table, snapshot_id=1) == {1: "1", 2: "2", 3: "3"}
    assert values(table, where="id > 1") == {2: "new", 4: "new"}
    opened_directly = esker.open_table(table.location, properties=s3.properties)
    assert values(opened_directly) == values(table)
    table.compact()
    assert values(table) == {1: "1", 2: "new", 4: "new"}
    assert {row["level"] for row in table.inspect.files().to_pylist()} == {5}


def test_partitions_are_overwritten_and_columns_keep_their_values(lake: Lake) -> None:
    made = lake.create_table("db.log", COLUMNS, partition_by=["v"])
    made.append(rows(1, 2, v="a/b =%41"))
    made.append(rows(3, v="other"))
    made.overwrite_partitions(rows(9, v="a/b =%41"))
    assert values(made) == {9: "a/b =%41", 3: "other"}


def test_expiry_and_orphans_delete_only_what_nothing_names(lake: Lake, s3_storage: Any) -> None:
    table = keyed(lake)
    for number in range(3):
        table.append(rows(1, v=str(number)))
    table.compact()
    manifests = f"{table.location}/manifest"
    for name in (f"{manifests}/manifest-left-0", f"{table.location}/notes.txt"):
        s3_storage.write_new(name, b"x")
    before = {file.location for file in s3_storage.list(table.location)}
    done = table.expire_snapshots(retain_last=1)
    assert done.snapshots == (1, 2, 3)
    assert not done.failed
    left = {file.location for file in s3_storage.list(table.location)}
    assert set(done.files) <= before - left
    assert values(table) == {1: "2"}
    orphans = table.remove_orphans(older_than=datetime.now(UTC) + timedelta(hours=1), under_24_hours=True)
    assert orphans.files == (f"{manifests}/manifest-left-0",)
    assert values(table.refresh()) == {1: "2"}
    assert s3_storage.read(f"{table.location}/notes.txt") == b"x"  # not understood, so not deleted


def test_of_many_writers_none_loses_a_commit(lake: Lake, s3: S3Server, bucket: str) -> None:
    lake.create_table("db.log", COLUMNS)

    def write(number: int) -> None:
        opened(s3, bucket).table("db.log").append(rows(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(12)))
    table = lake.table("db.log")
    assert sorted(values(table)) == list(range(12))
    assert [one.snapshot_id for one in table.snapshots] == list(range(1, 13))


@pytest.mark.parametrize("fault", [SLOW_DOWN, LOSE_REQUEST, LOSE_ANSWER, ANSWER_500])
def test_a_request_that_is_sent_again_commits_once(lake: Lake, s3: S3Server, fault: str) -> None:
    table = keyed(lake)
    table.append(rows(1))
    s3.fail(fault, method="PUT", key="snapshot-2")
    table.append(rows(2))
    assert [one.snapshot_id for one in table.refresh().snapshots] == [1, 2]
    assert values(table) == {1: "1", 2: "2"}


def test_a_store_that_lets_nobody_read_is_an_error_and_not_an_empty_lake(lake: Lake, s3: S3Server) -> None:
    table = keyed(lake)
    table.append(rows(1))
    s3.fail(DENY, times=1000)
    with pytest.raises(EskerError, match=r"SignatureDoesNotMatch|403|denied"):
        lake.tables("db")
    with pytest.raises(EskerError) as caught:
        table.append(rows(2))
    assert not isinstance(caught.value, OutcomeUnknown | NoSuchNamespace)
    s3.heal()
    assert values(lake.table("db.t")) == {1: "1"}


def test_a_store_that_ignores_conditions_is_not_written_to(lake: Lake, s3: S3Server, s3_storage: Any) -> None:
    table = keyed(lake)
    table.append(rows(1))
    s3.fail(IGNORE_CONDITIONS, times=1000)  # as behind a proxy that drops the header
    with pytest.raises(Unsupported, match="the store ignores the condition If-None-Match"):
        table.append(rows(2))
    with pytest.raises(Unsupported, match="the store ignores the condition If-None-Match"):
        lake.create_table("db.other", COLUMNS)
    s3.heal()
    assert (values(lake.table("db.t")), lake.tables("db")) == ({1: "1"}, ["db.t"])
    assert not list(s3_storage.list(table.location.replace("db.db/t", "db.db/other")))
