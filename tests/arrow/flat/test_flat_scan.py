"""Files of one flat layout, read together: the same rows as `TaskReader` gives, in the same order."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.arrow import arrow_engine

pytest.importorskip("esker.arrow.flat._parquet", reason="the compiled part was not built: there was no C compiler")

from esker.arrow.flat import decode_columns, filter_steps, flat_scan  # they need the compiled part
from esker.arrow.flat._parquet import use_zstd

COLUMNS = {
    "n": ("int", pa.int32()),
    "big": ("bigint", pa.int64()),
    "f": ("float", pa.float32()),
    "d": ("double", pa.float64()),
    "day": ("date", pa.date32()),
    "at": ("timestamp", pa.timestamp("us", "UTC")),
    "local": ("timestamp_ntz", pa.timestamp("us")),
    "text": ("string", pa.string()),
    "raw": ("binary", pa.binary()),
    "yes": ("boolean", pa.bool_()),
    "money": ("decimal(9,2)", pa.decimal128(9, 2)),
    "more": ("decimal(18,4)", pa.decimal128(18, 4)),
    "most": ("decimal(38,6)", pa.decimal128(38, 6)),
    "key": ("uuid", pa.uuid()),
    "code": ("fixed(4)", pa.binary(4)),
    "clock": ("time", pa.time64("us")),
}
FILTERS = (
    None,
    "n >= 3 AND n < 7",
    "text = 'rather a long text, longer than sixteen bytes' OR d > 0.5",
    "yes AND day IS NOT NULL",
    "money > 1.5 AND text LIKE 'a%'",
    "big IS NULL",
    "n > 1000",
    "n >= 3 AND day IS NOT NULL AND d > 0 AND n < 9 AND text NOT IN ('a', 'b')",
    "text LIKE 'a%' AND (big IS NULL OR n = 4) AND d IS NOT NULL",
    "key = '03030303-0303-0303-0303-030303030303' OR clock > TIME '00:00:05'",
    "isnan(d) AND f >= -0.0 AND local > TIMESTAMP_NTZ '2026-01-01 00:00:02'",
)
Counts = dict[str, int]


def value(kind: pa.DataType, chance: random.Random) -> Any:
    """A value, drawn from few, so that dictionaries and filters have something to do."""
    few = chance.randint(0, 9)
    if pa.types.is_decimal(kind):
        return Decimal(few * chance.choice((1, -1, 10**4))).scaleb(-2)
    if pa.types.is_floating(kind):
        return chance.choice((few / 4, -0.0, float("nan"), -few / 8))
    if pa.types.is_date(kind):
        return dt.date(1970, 1, 1) + dt.timedelta(few - 5)
    if pa.types.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        return dt.datetime(2026, 1, 1, tzinfo=zone) + dt.timedelta(seconds=few, microseconds=few)
    if pa.types.is_boolean(kind):
        return few < 5
    if pa.types.is_time(kind):
        return dt.time(0, 0, few)
    if kind == pa.uuid() or pa.types.is_fixed_size_binary(kind):
        return bytes([few] * (16 if kind == pa.uuid() else kind.byte_width))
    text = chance.choice(
        ("", "a", "ab", "b" * few, "rather a long text, longer than sixteen bytes", f"a{chance.random()}")
    )
    if pa.types.is_string(kind):
        return text
    return text.encode() if pa.types.is_binary(kind) else few


def rows(count: int, chance: random.Random, *, nulls: float) -> pa.Table:
    """Random rows of every type that is read flat."""
    return pa.table(
        {
            name: pa.array([None if chance.random() < nulls else value(kind, chance) for _ in range(count)], kind)
            for name, (_, kind) in COLUMNS.items()
        }
    )


def with_ids(table: pa.Table) -> pa.Table:
    """The table with the ids that a new table gives its columns."""
    fields = [field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(table.schema, 1)]
    return table.cast(pa.schema(fields))


def lake(folder: Path, **how: Any) -> Any:
    """A lake in a folder, and an empty table ``db.t`` with all columns."""
    found = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), allowed_roots=[folder])
    found.create_namespace("db")
    text = ", ".join(f"{name} {sql}" for name, (sql, _) in COLUMNS.items())
    return found.create_table("db.t", text, properties={"write.delete.mode": "merge-on-read"}, **how)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """How many batches were decoded here, and how many pieces were left to `TaskReader`."""
    counts = {"here": 0, "careful": 0}
    pieces = flat_scan.FlatScan._pieces

    def watched(self: flat_scan.FlatScan) -> Iterator[flat_scan.Piece]:
        for piece in pieces(self):
            counts["careful" if isinstance(piece, flat_scan.Careful) else "here"] += 1
            yield piece

    with monkeypatch.context() as patched:
        patched.setattr(flat_scan.FlatScan, "_pieces", watched)
        yield counts


def carefully(monkeypatch: pytest.MonkeyPatch, scan: Any) -> pa.Table:
    """The rows of a scan by `TaskReader` alone."""
    with monkeypatch.context() as patched:
        patched.setattr(arrow_engine, "_flat_scan", lambda reader: None)
        return scan.to_arrow()


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether the rows are the same, in the same order, NaN and the sign of zero included."""
    return one.schema.equals(other.schema, check_metadata=True) and repr(one.to_pylist()) == repr(other.to_pylist())


WRITERS: tuple[dict[str, Any], ...] = (
    {"compression": "zstd"},
    {"compression": "snappy", "use_dictionary": False},
    {"compression": "none", "data_page_version": "2.0"},
    {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 64, "write_batch_size": 7},
    {"compression": "gzip", "row_group_size": 11, "dictionary_pagesize_limit": 32},
    {"compression": "lz4", "store_schema": False, "store_decimal_as_integer": True},
    {"compression": "brotli", "use_dictionary": ["text"], "store_decimal_as_integer": True},
)


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_are_those_of_the_careful_reader(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    table = lake(tmp_path, format_version=chance.choice((2, 3)))
    files = []
    for at in range(chance.randint(1, 12)):
        path = tmp_path / f"{at}.parquet"
        given = rows(chance.choice((1, 9, 100, 700)), chance, nulls=chance.choice((0, 0, 0.3, 1)))
        pq.write_table(with_ids(given), path, **chance.choice(WRITERS))
        files.append(str(path))
    table.add_files(files)
    if seed % 2:
        table.delete("n = 4 OR text = 'ab'")
    monkeypatch.setattr(flat_scan, "WHOLE", chance.choice((0, 1 << 20)))  # all files count as large, or as small
    monkeypatch.setattr(flat_scan, "TOGETHER_ROWS", chance.choice((500, 1 << 17)))
    monkeypatch.setattr(flat_scan, "WINDOW_BYTES", chance.choice((7000, 32 << 20)))
    monkeypatch.setattr(flat_scan, "_DICTIONARY_ROWS", chance.choice((1, 1, 1 << 14)))  # or no filter by dictionary
    monkeypatch.setattr(filter_steps, "FEW", chance.choice((1, 4)))
    for where in FILTERS:
        for columns in (None, ["text", "n"], ["money"]):
            scan = table.scan(where, columns=columns)
            with counted(monkeypatch) as counts:
                found = scan.to_arrow()
            found.validate(full=True)
            assert counts["careful"] == 0
            assert same(found, carefully(monkeypatch, scan)), (where, columns)
            assert scan.count() == len(found)


def test_filters_on_columns_with_few_values_are_decided_by_their_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path)
    chance = random.Random(3)
    files = []
    for at in range(2):
        given = rows(400, chance, nulls=0.1)
        given = given.set_column(1, "big", pa.array(range(at * 400, at * 400 + 400), pa.int64()))
        pq.write_table(with_ids(given), tmp_path / f"{at}.parquet", row_group_size=200)
        files.append(str(tmp_path / f"{at}.parquet"))
    table.add_files(files)
    asked: list[str] = []
    by_dictionary = flat_scan.by_dictionary

    def watched(step: Any, column: Any, chunk: Any, rows: int, *, first: int) -> Any:
        found = by_dictionary(step, column, chunk, rows, first=first)
        asked.append(f"{step.parts[0].field.name if hasattr(step, 'parts') else step.field.name} {found is not None}")
        return found

    monkeypatch.setattr(flat_scan, "by_dictionary", watched)
    monkeypatch.setattr(flat_scan, "WHOLE", 0)
    monkeypatch.setattr(flat_scan, "_DICTIONARY_ROWS", 200)
    monkeypatch.setattr(flat_scan.os, "cpu_count", lambda: 1)
    scan = table.scan("n >= 3 AND n < 7 AND big > 10 AND text <> 'ab'", columns=["text", "d"])
    with counted(monkeypatch) as counts:
        found = scan.to_arrow()
    assert counts == {"here": 4, "careful": 0}
    # Every value of "big" is another one: that is seen once, and not tried in the next row groups.
    assert asked.count("n True") == asked.count("text True") == 4
    assert asked.count("big False") == 1
    assert same(found, carefully(monkeypatch, scan))
    assert 0 < len(found) < 400


def test_without_libzstd_pyarrow_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake(tmp_path)
    table.append(rows(300, random.Random(1), nulls=0.1))
    try:
        use_zstd(0, 0, 0)
        with counted(monkeypatch) as counts:
            found = table.scan().to_arrow()
    finally:
        decode_columns.load_zstd()
    assert counts == {"here": 1, "careful": 0}
    assert same(found, carefully(monkeypatch, table.scan()))


def test_small_files_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake(tmp_path)
    chance = random.Random(3)
    for _ in range(5):
        table.append(rows(20, chance, nulls=0.1))
    with counted(monkeypatch) as counts:
        assert table.scan().to_arrow().num_rows == 100
    assert counts == {"here": 1, "careful": 0}


def test_files_of_other_layouts_are_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An added column, a wider type, a new name, a file without ids: rows and order are the same."""
    table = lake(tmp_path)
    chance = random.Random(5)
    table.append(rows(20, chance, nulls=0.1))
    with table.alter() as change:
        change.add_column("added", "string")
        change.rename_column("text", "words")
        change.widen_column("n", "bigint")
        change.widen_column("f", "double")
        change.widen_column("money", "decimal(12,2)")
    named = rows(30, chance, nulls=0.1).rename_columns(["words" if name == "text" else name for name in COLUMNS])
    table.append(named.append_column("added", pa.array(["x"] * 30)))
    path = tmp_path / "named.parquet"
    pq.write_table(named, path)
    table.add_files([str(path)])
    table.append(named.append_column("added", pa.array(["y"] * 30)))
    for where in (None, "n > 3", "added = 'y'", "added IS NULL AND n > 3", "words = 'a'", "money > 1.5 AND f > 0.25"):
        for whole in (0, 1 << 20):
            monkeypatch.setattr(flat_scan, "WHOLE", whole)
            monkeypatch.setattr(flat_scan, "_DICTIONARY_ROWS", 1)
            with counted(monkeypatch) as counts:
                found = table.scan(where).to_arrow()
            assert counts["careful"] == 0
            assert same(found, carefully(monkeypatch, table.scan(where))), where


def test_a_column_that_files_do_not_have_is_the_value_of_their_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hive lays tables out, with and without field ids. Deletes and filters leave some of the rows."""
    table = lake(tmp_path, partition_by=["text", "n"])
    chance = random.Random(11)
    for at, (text, n) in enumerate((("a", 1), ("__HIVE_DEFAULT_PARTITION__", 2), ("a", 3), ("b", 3), ("a", 1))):
        path = tmp_path / "hive" / f"text={text}" / f"n={n}" / f"{at}.parquet"
        path.parent.mkdir(exist_ok=True, parents=True)
        given = rows(20, chance, nulls=0.1)
        pq.write_table((given if at % 2 else with_ids(given)).drop_columns(["text", "n"]), path)
    table.add_files([str(tmp_path / "hive")])
    table.delete("d = 0.25")
    for where in (
        None,
        "big > 3",
        "text = 'a'",
        "text = 'a' AND big > 3",
        "text IS NULL OR big = 2",
        "n = 3 OR big = 3",
    ):
        for columns in (None, ["big"], ["text"], ["n", "big"]):
            with counted(monkeypatch) as counts:
                found = table.scan(where, columns=columns).to_arrow()
            assert counts["careful"] == 0
            assert same(found, carefully(monkeypatch, table.scan(where, columns=columns))), (where, columns)


def test_an_added_column_has_its_default_in_older_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake(tmp_path, format_version=3)
    table.append(rows(20, random.Random(13), nulls=0.1))
    with table.alter() as change:
        change.add_column("least", "int", default=7, required=True)
        change.add_column("point", "struct<x: int, y: int>")
    for where in (None, "least = 7 AND n > 3", "least > 7"):
        with counted(monkeypatch) as counts:
            found = table.scan(where).to_arrow()
        assert counts["careful"] == 0
        assert same(found, carefully(monkeypatch, table.scan(where))), where


def test_numbers_of_other_writers_are_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that Iceberg does not have: small and unsigned numbers, and times in milliseconds."""
    table = lake(tmp_path)
    with table.alter() as change:
        change.add_column("tiny", "int")
        change.add_column("byte", "bigint")
        change.add_column("moment", "timestamp_ntz")
        change.add_column("clock2", "time")
        change.add_column("wide", "bigint")
    given = {
        "tiny": pa.array([-3, None, 127], pa.int8()),
        "byte": pa.array([0, 255, None], pa.uint8()),
        "moment": pa.array([-1, None, 1_767_225_600_123], pa.timestamp("ms")),
        "clock2": pa.array([None, 1, 2], pa.time32("ms")),
    }
    pq.write_table(pa.table(given), tmp_path / "a.parquet")
    pq.write_table(pa.table({**given, "wide": pa.array([1, 2, 2**32 - 1], pa.uint32())}), tmp_path / "b.parquet")
    table.add_files([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    for columns, careful in ((["tiny", "byte", "moment", "clock2"], 0), (["wide"], 1)):
        for where in (None, "tiny < 5", "byte = 255 OR moment IS NOT NULL"):
            with counted(monkeypatch) as counts:
                found = table.scan(where, columns=columns).to_arrow()
            assert counts["careful"] == careful
            assert same(found, carefully(monkeypatch, table.scan(where, columns=columns))), (where, columns)


def test_a_value_that_does_not_fit_has_the_careful_readers_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path)
    pq.write_table(pa.table({"n": pa.array([1, 2**40], pa.int64())}), tmp_path / "a.parquet")
    table.add_files([str(tmp_path / "a.parquet")])
    with pytest.raises(esker.Corrupt, match=r"a\.parquet.*'n'"):
        table.scan(columns=["n"]).to_arrow()


@pytest.mark.parametrize("columns", [["n", "_pos"], ["_file"], ["_row_id", "n"]])
def test_metadata_columns_take_the_careful_path(
    columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path, format_version=3)
    table.append(rows(20, random.Random(7), nulls=0.1))
    with counted(monkeypatch) as counts:
        assert table.scan(columns=columns).to_arrow().num_rows == 20
    assert counts == {"here": 0, "careful": 0}


def test_a_limit_stops_early(tmp_path: Path) -> None:
    table = lake(tmp_path)
    table.append(rows(50, random.Random(9), nulls=0))
    table.append(rows(50, random.Random(9), nulls=0))
    [*_, last] = (Path(task.data_file.path.removeprefix("file://")) for task in table.scan().plan().tasks)
    last.unlink()
    assert table.scan(limit=10).to_arrow().num_rows == 10


def test_a_reader_that_stops_leaves_no_threads_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake(tmp_path)
    path = tmp_path / "many.parquet"
    pq.write_table(with_ids(rows(400, random.Random(2), nulls=0)), path, row_group_size=10)
    table.add_files([str(path)])
    monkeypatch.setattr(flat_scan, "WHOLE", 0)
    done: list[int] = []
    window = flat_scan.FlatScan._window

    def watched(self: flat_scan.FlatScan, job: Any) -> Any:
        done.append(job.index)
        return window(self, job)

    monkeypatch.setattr(flat_scan.FlatScan, "_window", watched)
    batches = table.scan()._batches()
    assert next(batches).num_rows == 10
    batches.close()
    assert len(done) < 40


def test_rows_that_cannot_be_decoded_here_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One window of a row group fails: pyarrow reads its rows, and not those of the windows beside it."""
    table = lake(tmp_path)
    path = tmp_path / "a.parquet"
    pq.write_table(with_ids(rows(400, random.Random(2), nulls=0.2)), path, row_group_size=200)
    table.add_files([str(path)])
    table.delete("n = 4")
    monkeypatch.setattr(flat_scan, "WHOLE", 0)
    monkeypatch.setattr(flat_scan, "WINDOW_BYTES", 9000)
    batch = flat_scan.FlatScan._batch

    def failing(self: flat_scan.FlatScan, layout: Any, parts: Any, *given: Any, **named: Any) -> Any:
        if parts[0].first:
            raise ValueError("as a page that only pyarrow can read")
        return batch(self, layout, parts, *given, **named)

    monkeypatch.setattr(flat_scan.FlatScan, "_batch", failing)
    for where in (None, "n > 3 AND yes"):
        with counted(monkeypatch) as counts:
            found = table.scan(where).to_arrow()
        assert counts["here"] == 2
        assert counts["careful"] >= 2
        assert same(found, carefully(monkeypatch, table.scan(where)))
