"""Upserting rows without Spark: keys, nulls, duplicates, pruning, lineage."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, rows_of

from esker.errors import InvalidInput
from esker.table import Table

BESIDE = {"write.merge.mode": "merge-on-read"}
MODES = pytest.mark.parametrize("properties", [{}, BESIDE], ids=["rewriting", "beside"])


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def values(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.scan(columns=list(columns)).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True), key=repr)


def keyed(ids: list[int | None], n: int = 9) -> pa.Table:
    count = len(ids)
    return pa.table({"id": pa.array(ids, pa.int64()), "region": ["eu"] * count, "n": pa.array([n] * count, pa.int32())})


@MODES
@pytest.mark.parametrize("version", [1, 2, 3])
def test_known_keys_are_replaced_and_new_ones_added_in_one_snapshot(
    memory: MemoryLake, version: int, properties: dict[str, str]
) -> None:
    table = orders(memory.lake(), format_version=version, properties=properties)
    table.append(rows([1, 2, 3]))
    snapshot = table.upsert(rows([2, 4], "us", 7), on=["id"])
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert values(table, "id", "region", "n") == [(1, "eu", 1), (2, "us", 7), (3, "eu", 1), (4, "us", 7)]
    assert len(table.snapshots) == 2
    check_sound(memory.lake(), NAME)


@MODES
def test_new_keys_alone_make_an_append(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 2]))
    snapshot = table.upsert(rows([3, 4]), on=["id"])
    assert snapshot is not None
    assert snapshot.operation == "append"
    assert rows_of(table) == [1, 2, 3, 4]


def test_into_an_empty_table_all_rows_are_new(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.upsert(rows([1, 2]), on=["id"])
    assert rows_of(table) == [1, 2]


def test_no_rows_are_no_commit(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    first = table.append(rows([1]))
    assert table.upsert(rows([]), on=["id"]) == first


@MODES
def test_h3_null_equals_null(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), schema="id bigint, region string, n int", properties=properties)
    table.append(keyed([None, 1], 1))
    table.upsert(keyed([None, 2], 5), on=["id"])
    assert values(table, "id", "n") == [(1, 1), (2, 5), (None, 5)]


@MODES
def test_a_key_may_be_of_several_columns(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), partition_by=["region"], properties=properties)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([1, 2], "us")]))
    table.upsert(pa.concat_tables([rows([1], "us", 8), rows([2], None, 8)]), on=["region", "id"])
    wanted = [(1, "eu", 1), (1, "us", 8), (2, "eu", 1), (2, "us", 1), (2, None, 8)]
    assert values(table, "id", "region", "n") == sorted(wanted, key=repr)


@MODES
def test_a_key_that_the_table_has_twice_is_replaced_twice(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 1, 2]))
    table.upsert(rows([1], n=5), on=["id"])
    assert values(table, "id", "n") == [(1, 5), (1, 5), (2, 1)]


@pytest.mark.parametrize(
    ("data", "on", "message"),
    [
        (rows([1, 2, 1]), ["id"], r"the key id = 1 occurs twice in the rows given"),
        (rows([1]), [], "as the key: give a list of columns"),
        (rows([1]), "id", "as the key: give a list of columns"),
        (rows([1]), ["nope"], "nope"),
        (rows([1]).drop_columns(["id"]), ["id"], "id"),
        (object(), ["id"], "cannot write rows from"),
    ],
)
def test_what_cannot_be_upserted_is_refused_and_leaves_nothing_behind(
    memory: MemoryLake, data: Any, on: Any, message: str
) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2]))
    there = memory.files()
    with pytest.raises(InvalidInput, match=message):
        table.upsert(data, on=on)
    assert memory.files() == there


@pytest.mark.parametrize("kind", ["double", "float", "struct<a: int>", "array<int>"])
def test_values_that_are_not_compared_for_equality_make_no_key(memory: MemoryLake, kind: str) -> None:
    table = orders(memory.lake(), schema=f"id bigint, x {kind}")
    with pytest.raises(InvalidInput, match="cannot use 'x' as part of a key"):
        table.upsert([{"id": 1, "x": None}], on=["x"])


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("string", "a", "b"),
        ("binary", b"a", b"b"),
        ("date", 1, 2),
        ("boolean", True, False),
        ("decimal(20,3)", "1.5", "2.5"),
        ("timestamp_ntz", 5, 6),
        ("uuid", b"0" * 16, b"1" * 16),
    ],
)
def test_keys_may_be_of_any_type_that_is(memory: MemoryLake, kind: str, one: Any, other: Any) -> None:
    arrow = {
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "boolean": pa.bool_(),
        "decimal(20,3)": pa.decimal128(20, 3),
        "timestamp_ntz": pa.timestamp("us"),
        "uuid": pa.binary(16),
    }[kind]

    def of(n: int, *keys: Any) -> pa.Table:
        held = pa.array(list(keys)).cast(arrow) if isinstance(keys[0], str) else pa.array(list(keys), arrow)
        return pa.table({"k": held, "n": pa.array([n] * len(keys), pa.int64())})

    table = orders(memory.lake(), schema=f"k {kind}, n bigint", properties=BESIDE)
    table.append(of(1, one))
    table.upsert(of(2, one, other), on=["k"])
    assert rows_of(table, "n") == [2, 2]


@MODES
def test_only_files_that_can_hold_a_key_are_read(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    for at in range(10):
        table.append(rows(range(at * 100, at * 100 + 100)))
    door = Door()
    watched = memory.lake(door).table(NAME)
    door.calls.clear()
    watched.upsert(rows([250, 251, 5000], n=3), on=["id"])
    assert len({what for what in door.of("open") if what.endswith(".parquet")}) == 1
    assert rows_of(watched, "id", where="n = 3") == [250, 251, 5000]


def test_many_keys_prune_by_their_range_and_by_partition(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["truncate(1000, id)"], properties=BESIDE)
    table.append(rows(range(10_000)))
    door = Door()
    watched = memory.lake(door).table(NAME)
    door.calls.clear()
    watched.upsert(rows(range(3000, 4000), n=3), on=["id"])
    assert len({what for what in door.of("open") if what.endswith(".parquet")}) == 1
    assert watched.scan("n = 3").count() == 1000
    assert watched.scan().count() == 10_000


@MODES
def test_i7_replaced_rows_keep_their_ids_and_new_ones_get_theirs(
    memory: MemoryLake, properties: dict[str, str]
) -> None:
    table = orders(memory.lake(), format_version=3, properties=properties)
    table.append(rows([1, 2, 3]))
    table.upsert(rows([2, 9], n=5), on=["id"])
    found = {row[0]: row[1:] for row in values(table, "id", "_row_id", "_last_updated_sequence_number")}
    assert (found[1], found[2], found[3]) == ((0, 1), (1, 2), (2, 1))
    assert found[9][0] > 2
    assert found[9][1] == 2


def test_beside_files_the_source_alone_is_written(memory: MemoryLake) -> None:
    table = orders(memory.lake(), properties=BESIDE)
    table.append(rows(range(1000)))
    table.upsert(rows([7, 8, 2000]), on=["id"])
    assert sorted(file.record_count for file in live_files(table)) == [2, 3, 1000]


@MODES
def test_a_transaction_upserts_into_what_it_has_added(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 2]))
    with table.transaction() as tx:
        tx.append(rows([3, 4]))
        tx.upsert(rows([2, 3, 5], n=7), on=["id"])
        tx.upsert(rows([5], n=8), on=["id"])
        tx.delete("id = 2")
    assert values(table, "id", "n") == [(1, 1), (3, 7), (4, 1), (5, 8)]
    check_sound(memory.lake(), NAME)
