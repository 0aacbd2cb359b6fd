"""Columns of every type that Spark can hold and rows for them, for the tests in ``tests/interop_jvm``."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

# name, type in Esker's DDL, type as Spark shows it, Arrow type, values: ordinary, extreme, awkward, null
_COLUMNS: list[tuple[str, str, str, pa.DataType, list[Any]]] = [
    ("flag", "boolean", "boolean", pa.bool_(), [True, False, True, None]),
    ("small", "int", "int", pa.int32(), [7, -(2**31), 2**31 - 1, None]),
    ("large", "bigint", "bigint", pa.int64(), [7, -(2**63), 2**63 - 1, None]),
    ("single", "float", "float", pa.float32(), [0.5, -3.4028234663852886e38, float("nan"), None]),
    ("double", "double", "double", pa.float64(), [0.1, float("-inf"), float("nan"), None]),
    ("money", "decimal(9,2)", "decimal(9,2)", pa.decimal128(9, 2), ["1.25", "-9999999.99", "0.00", None]),
    (
        "wide",
        "decimal(18,4)",
        "decimal(18,4)",
        pa.decimal128(18, 4),
        ["1.2500", "-99999999999999.9999", "0.0001", None],
    ),
    ("widest", "decimal(38,10)", "decimal(38,10)", pa.decimal128(38, 10), ["1.0", f"-{'9' * 28}.0", "1E-10", None]),
    ("day", "date", "date", pa.date32(), [date(2026, 11, 15), date(1, 1, 3), date(9999, 12, 31), None]),
    (
        "instant",
        "timestamp",
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        [
            datetime(2026, 11, 15, 23, 59, 59, 999999, UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(2262, 4, 12, tzinfo=UTC),
            None,
        ],
    ),
    (
        "reading",
        "timestamp_ntz",
        "timestamp_ntz",
        pa.timestamp("us"),
        [datetime(2026, 11, 15, 12), datetime(1900, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59), None],
    ),
    ("text", "string", "string", pa.string(), ["plain", "", "ångström 𝄞 " + "x" * 40, None]),
    ("raw", "binary", "binary", pa.binary(), [b"\x00\x01", b"", b"\xff" * 40, None]),
    ("key", "fixed(5)", "binary", pa.binary(5), [b"abcde", b"\x00" * 5, b"\xff" * 5, None]),
    (
        "place",
        "struct<lat: double, at: struct<x: int, name: string>>",
        "struct<lat:double,at:struct<x:int,name:string>>",
        pa.struct([("lat", pa.float64()), ("at", pa.struct([("x", pa.int32()), ("name", pa.string())]))]),
        [{"lat": 1.5, "at": {"x": 1, "name": "n"}}, {"lat": None, "at": None}, {"lat": 2.0, "at": {"x": None}}, None],
    ),
    ("list", "array<int>", "array<int>", pa.list_(pa.int32()), [[1, 2], [], [None, 3], None]),
    (
        "deep",
        "array<struct<k: string, v: array<double>>>",
        "array<struct<k:string,v:array<double>>>",
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.float64()))])),
        [[{"k": "a", "v": [1.0]}, {"k": None, "v": []}], [], [None], None],
    ),
    (
        "map",
        "map<string, bigint>",
        "map<string,bigint>",
        pa.map_(pa.string(), pa.int64()),
        [{"a": 1, "b": None}, {}, {"": 2}, None],
    ),
    (
        "map_of",
        "map<int, struct<a: date>>",
        "map<int,struct<a:date>>",
        pa.map_(pa.int32(), pa.struct([("a", pa.date32())])),
        [{1: {"a": date(2026, 1, 1)}}, {}, {2: None}, None],
    ),
]

EVERY_TYPE = "id bigint not null, " + ", ".join(f"{name} {type_}" for name, type_, *_ in _COLUMNS)
SPARK_TYPES = [("id", "bigint"), *((name, spark) for name, _, spark, *_ in _COLUMNS)]


def every_type(first: int = 0) -> pa.Table:
    """Four rows: ordinary, extreme, awkward, and one of nulls; ids from ``first``."""
    columns = {"id": pa.array(range(first, first + 4), pa.int64())}
    for name, _, _, type_, values in _COLUMNS:
        columns[name] = pa.array([_exact(type_, value) for value in values], type_)
    return pa.table(columns)


def _exact(type_: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(type_):
        return Decimal(value)
    return list(value.items()) if pa.types.is_map(type_) else value


def orders(first: int, count: int) -> pa.Table:
    """Rows of an everyday table: two regions and a null one, six days, amounts by id."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([("eu", "us", None)[n % 3] for n in ids], pa.string()),
            "amount": pa.array([Decimal(n * 100 + n % 7).scaleb(-2) for n in ids], pa.decimal128(12, 2)),
            "ts": pa.array([1_790_000_000_000_000 + n * 20_000_000_000 for n in ids], pa.timestamp("us", tz="UTC")),
        }
    )


ORDERS = "id bigint not null, region string, amount decimal(12,2), ts timestamp"
METADATA_TABLES = (
    "entries",
    "files",
    "data_files",
    "delete_files",
    "history",
    "metadata_log_entries",
    "snapshots",
    "refs",
    "manifests",
    "partitions",
    "all_data_files",
    "all_delete_files",
    "all_files",
    "all_manifests",
    "all_entries",
    "position_deletes",
)
