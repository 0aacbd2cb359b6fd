"""Tables that Esker writes, one for each thing that another engine must understand; each test of a peer reads all."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from held_rows import telling

from esker.lake import Lake
from esker.table import Table

NAME = "sales.t"
START = dt.datetime(1969, 12, 30, 22, 30)  # so that times lie on both sides of 1970
ROWS = 24
COLUMNS = {
    "id": ("bigint not null", pa.int64()),
    "b": ("boolean", pa.bool_()),
    "i": ("int", pa.int32()),
    "f": ("float", pa.float32()),
    "d": ("double", pa.float64()),
    "dec": ("decimal(9,2)", pa.decimal128(9, 2)),
    "dec18": ("decimal(18,3)", pa.decimal128(18, 3)),
    "dec38": ("decimal(38,10)", pa.decimal128(38, 10)),
    "day": ("date", pa.date32()),
    "clock": ("time", pa.time64("us")),
    "ts": ("timestamp_ntz", pa.timestamp("us")),
    "tz": ("timestamp", pa.timestamp("us", "UTC")),
    "s": ("string", pa.string()),
    "u": ("uuid", pa.uuid()),
    "fix": ("fixed(3)", pa.binary(3)),
    "bin": ("binary", pa.binary()),
    "st": ("struct<x: int, y: string, z: struct<deep: double>>", None),
    "li": ("array<float>", pa.list_(pa.float32())),
    "ma": ("map<string, bigint>", pa.map_(pa.string(), pa.int64())),
    "ls": ("array<struct<k: string, v: int>>", pa.list_(pa.struct([("k", pa.string()), ("v", pa.int32())]))),
}
_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.struct([("deep", pa.float64())]))])
ODD_TEXTS = ("", "a", "é", "😀x", "a/b=c%&d", "z" * 30, "a" * 15 + "\ud7ff" + "z", "\U0010ffff" * 17)


def a_row(n: int) -> dict[str, Any]:
    """Row number n; every fifth value is null."""

    def maybe(value: Any, salt: int) -> Any:
        return None if (n + salt) % 5 == 0 else value

    return {
        "id": n,
        "b": maybe(n % 2 == 0, 1),
        "i": maybe(n - 7, 2),
        "f": maybe([0.5, -0.0, float("inf"), float("nan"), -float(n)][n % 5], 3),
        "d": maybe([0.0, 2.25, float("-inf"), float("nan"), float(n)][n % 5], 4),
        "dec": maybe(Decimal(n - 8) / 4, 5),
        "dec18": maybe(Decimal(n - 8) * 1000, 6),
        "dec38": maybe(Decimal(n - 8) * 10**20, 7),
        "day": maybe((START + dt.timedelta(days=20 * n)).date(), 8),
        "clock": maybe(dt.time(n % 24, n % 60, 7, n), 9),
        "ts": maybe(START + dt.timedelta(hours=7 * n), 10),
        "tz": maybe((START + dt.timedelta(hours=300 * n)).replace(tzinfo=dt.UTC), 11),
        "s": maybe(ODD_TEXTS[n % len(ODD_TEXTS)], 12),
        "u": maybe(uuid.UUID(int=n * 2**100).bytes, 13),
        "fix": maybe(bytes([n % 256, 0, 255]), 14),
        "bin": maybe(bytes(range(n % 7)), 15),
        "st": maybe({"x": maybe(n, 1), "y": maybe(str(n), 2), "z": maybe({"deep": n / 2}, 3)}, 16),
        "li": maybe([1.0, None, float(n)], 17),
        "ma": maybe([("a", n), ("b", None)], 18),
        "ls": [[], [{"k": f"k{n}", "v": n}, None]][
            n % 2
        ],  # never null: PyIceberg reads a null list of structs as empty
    }


def some_rows(count: int = ROWS, first: int = 0, columns: tuple[str, ...] = tuple(COLUMNS)) -> pa.Table:
    """Rows of some columns."""
    made = [a_row(n) for n in range(first, first + count)]
    arrays = {}
    for name in columns:
        values, type_ = [row[name] for row in made], COLUMNS[name][1] or _STRUCT
        if type_ == pa.uuid():
            arrays[name] = pa.ExtensionArray.from_storage(type_, pa.array(values, pa.binary(16)))
        else:
            arrays[name] = pa.array(values, type_)
    return pa.table(arrays)


def ddl(columns: tuple[str, ...] = tuple(COLUMNS)) -> str:
    """The columns as DDL."""
    return ", ".join(f"{name} {COLUMNS[name][0]}" for name in columns)


def make(lake: Lake, columns: tuple[str, ...] = tuple(COLUMNS), **how: Any) -> Table:
    """The table, empty."""
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    return lake.create_table(NAME, ddl(columns), **how)


# ---------------------------------------------------------------- one function a thing to understand


def every_type(lake: Lake, version: int) -> Table:
    table = make(lake, format_version=version)
    table.append(some_rows())
    table.append(some_rows(first=100))
    return table


def deleted_from(lake: Lake, version: int) -> Table:
    table = make(lake, partition_by=["bucket(3, id)"], format_version=version)
    table.append(some_rows())
    table.append(some_rows(first=100))
    table.delete("id in (3, 5, 101)")
    table.delete("s is null")
    table.delete("id > 110")
    table.append(some_rows(3, first=200))
    return table


def overwritten(lake: Lake, version: int) -> Table:
    table = make(lake, partition_by=["truncate(10, id)"], format_version=version)
    table.append(some_rows())
    table.overwrite(some_rows(3, first=50), where="id between 4 and 11")
    table.overwrite_partitions(some_rows(2, first=20))
    with table.transaction() as tx:
        tx.append(some_rows(4, first=300))
        tx.delete("id = 301")
    return table


def emptied(lake: Lake, version: int) -> Table:
    table = make(lake, format_version=version)
    table.append(some_rows())
    table.delete("true")
    return table


def sorted_rows(lake: Lake, version: int) -> Table:
    table = make(lake, sort_by=["s desc nulls last", "bucket(4, id)"], format_version=version)
    table.append(some_rows())
    return table


def evolved(lake: Lake, version: int) -> Table:
    """Columns added, dropped, renamed, widened and moved, nested ones too, with rows of every age."""
    table = make(lake, ("id", "i", "f", "dec", "s", "st", "day"), format_version=version)
    table.append(some_rows(columns=("id", "i", "f", "dec", "s", "st", "day")))
    with table.alter() as change:
        change.widen_column("i", "bigint")
        change.widen_column("f", "double")
        change.widen_column("dec", "decimal(18,2)")
        change.rename_column("s", "text")
        change.drop_column("day")
        change.add_column("s", "int")
        change.add_column("st.w", "string")
        change.rename_column("st.y", "why")
        change.move_column("dec", first=True)
        change.make_optional("id")
    table.append(
        pa.table(
            {
                "id": pa.array([900, None], pa.int64()),
                "i": pa.array([1 << 40, None]),
                "f": pa.array([1e300, None]),
                "dec": pa.array([Decimal("1234567890123.25"), None], pa.decimal128(18, 2)),
                "text": ["new", None],
                "s": pa.array([7, None], pa.int32()),
                "st": pa.array([{"x": 1, "why": "b", "z": None, "w": "c"}, None]),
            }
        )
    )
    table.delete("id = 4")
    return table


def respecced(lake: Lake, version: int) -> Table:
    """A partition spec that changed twice; files of all three."""
    columns = ("id", "s", "tz")
    table = make(lake, columns, partition_by=["s"], format_version=version)
    table.append(some_rows(columns=columns))
    with table.alter() as change:
        change.add_partition("day(tz)")
    table.append(some_rows(6, first=100, columns=columns))
    with table.alter() as change:
        change.drop_partition("s")
        change.add_partition("bucket(4, id)")
    table.append(some_rows(6, first=200, columns=columns))
    table.delete("id in (1, 101, 201)")
    return table


def folded(lake: Lake, version: int) -> Table:
    """Manifests folded together."""
    folding = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}
    table = make(lake, ("id", "s"), partition_by=["s"], properties=folding, format_version=version)
    for at in range(5):
        table.append(some_rows(4, first=10 * at, columns=("id", "s")))
    table.delete("id = 21")
    return table


def upgraded(lake: Lake, version: int) -> Table:
    """Begun in version 1, with rows of every version up to this."""
    table = make(lake, ("id", "s"), partition_by=["bucket(2, id)"], format_version=1)
    table.append(some_rows(6, columns=("id", "s")))
    for to in range(2, version + 1):
        with table.alter() as change:
            change.upgrade_format(to)
        table.append(some_rows(6, first=100 * to, columns=("id", "s")))
    table.delete("id = 3")
    return table


def compressed(lake: Lake, version: int) -> Table:
    """Metadata as gzip, manifests uncompressed, data by another codec."""
    properties = {
        "write.metadata.compression-codec": "gzip",
        "write.avro.compression-codec": "uncompressed",
        "write.parquet.compression-codec": "snappy",
    }
    table = make(lake, ("id", "s"), properties=properties, format_version=version)
    table.append(some_rows(columns=("id", "s")))
    table.append(some_rows(first=50, columns=("id", "s")))
    return table


TABLES: tuple[Callable[[Lake, int], Table], ...] = (
    every_type,
    deleted_from,
    overwritten,
    emptied,
    sorted_rows,
    evolved,
    respecced,
    folded,
    upgraded,
    compressed,
)
TERMS = (
    "b",
    "i",
    "dec",
    "day",
    "clock",
    "ts",
    "tz",
    "s",
    "u",
    "fix",
    "bin",
    "d",
    *(f"bucket(5, {c})" for c in ("i", "id", "dec", "dec38", "day", "clock", "ts", "tz", "s", "u", "fix", "bin")),
    *(f"truncate(3, {c})" for c in ("i", "id", "dec", "s", "bin")),
    *(f"{part}({c})" for part in ("year", "month", "day") for c in ("day", "ts", "tz")),
    "hour(ts)",
    "hour(tz)",
)
FILTERS = (
    "id > 10 and id <= 20",
    "i = 5 or i = -5",
    "i is null",
    "dec >= 0.50",
    "day >= '1970-02-01'",
    "s = 'a'",
    "s is null",
    "s >= 'é'",
)


def alike(found: pa.Table) -> list[str]:
    """Rows whatever their order and however the engine spells the types, as values that compare."""
    names = sorted(found.column_names)
    return sorted(repr(telling([_plain(row[name]) for name in names])) for row in found.to_pylist())


def _plain(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return str(value)
        case dict():
            return {key: _plain(part) for key, part in sorted(value.items())}
        case list() if value and all(isinstance(part, tuple) for part in value):
            return {key: _plain(part) for key, part in sorted(value)}
        case list():
            return [_plain(part) for part in value]
        case _:
            return value
