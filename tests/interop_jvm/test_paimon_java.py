"""Paimon's own Java library and Esker write, tend and read the same tables in turns."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_judge import JARS, PaimonJudge

import esker
from esker.errors import Unsupported
from esker.lake import Lake

pytestmark = pytest.mark.skipif(not (JARS / "pom.xml").exists(), reason="Maven could not bring Paimon's jars")
EVERY_TYPE = {
    "p": "STRING",
    "id": "BIGINT NOT NULL",
    "b": "BOOLEAN",
    "t1": "TINYINT",
    "s2": "SMALLINT",
    "i": "INT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dt": "DATE",
    "tm": "TIME(3)",
    "d9": "DECIMAL(9, 2)",
    "d18": "DECIMAL(18, 4)",
    "d38": "DECIMAL(38, 10)",
    "ts3": "TIMESTAMP(3)",
    "ts6": "TIMESTAMP(6)",
    "tz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "y": "BYTES",
    "arr": {"type": "ARRAY", "element": "INT"},
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
    "r": {"type": "ROW", "fields": [{"id": 50, "name": "x", "type": "INT"}, {"id": 51, "name": "y", "type": "STRING"}]},
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "descending": {"sequence.field": "n", "sequence.field.sort-order": "descending", "write-only": "true"},
    "groups": {"merge-engine": "partial-update", "fields.n.sequence-group": "v", "write-only": "true"},
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paimon")


@pytest.fixture(scope="module")
def java(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaimonJudge]:
    judge = PaimonJudge(warehouse, tmp_path_factory.mktemp("judge"))
    yield judge
    judge.close()


@pytest.fixture
def lake(warehouse: Path, java: PaimonJudge) -> Lake:
    return esker.connect(f"paimon://{warehouse}")


def by_java(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def by_esker(lake: Lake, table: str, **more: Any) -> list[str]:
    """Rows in the form of the judge."""
    found = lake.table(table).scan(**more).to_arrow().to_pylist()
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in found)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            naive = value.replace(tzinfo=None)
            precise = naive.isoformat(timespec="microseconds" if naive.microsecond % 1000 else "milliseconds")
            shorter = naive.isoformat(timespec="seconds" if naive.second else "minutes")
            return precise if naive.microsecond else shorter
        case date():
            return value.isoformat()
        case time():
            text = value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")
            return text if value.second or value.microsecond else text[:5]
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case [(_, _), *_]:
            return [[_plain(key), _plain(item)] for key, item in value]
        case _:
            return value


def every_type() -> pa.Table:
    moment = datetime(2026, 1, 2, 3, 4, 5, 123456)
    zoned = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "p": ["a/b", "b", None],
            "id": [1, 2, 3],
            "b": [True, None, False],
            "t1": pa.array([1, None, -3], pa.int8()),
            "s2": pa.array([300, None, -5], pa.int16()),
            "i": pa.array([1, None, 3], pa.int32()),
            "f": pa.array([1.5, None, 0.0], pa.float32()),
            "d": [1.25, None, -1.0],
            "dt": [date(2026, 1, 2), None, date(1960, 1, 1)],
            "tm": [time(1, 2, 3, 4000), None, time(0)],
            "d9": [Decimal("1.25"), None, Decimal("-3.50")],
            "d18": [Decimal("12345678901234.5"), None, Decimal(-1)],
            "d38": [Decimal("1234567890123456789012345678.9"), None, Decimal(-7)],
            "ts3": pa.array([moment.replace(microsecond=6000), None, datetime(1960, 1, 1)], pa.timestamp("ms")),
            "ts6": [moment, None, datetime(1960, 1, 1)],
            "tz": pa.array([moment, None, datetime(1960, 1, 1)], zoned),
            "y": [b"ab", None, b""],
            "arr": pa.array([[1, None], None, []], pa.list_(pa.int32())),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "r": [{"x": 1, "y": "q"}, None, {"x": None, "y": None}],
        }
    )


def test_java_reads_every_type_that_esker_wrote(java: PaimonJudge, lake: Lake) -> None:
    java.create("d.types", EVERY_TYPE, partition=("p",))
    lake.table("d.types").append(every_type())
    assert by_esker(lake, "d.types") == by_java(java.read("d.types"))
    assert len(java.read("d.types")) == 3


def test_java_finds_each_row_of_esker_by_its_values(java: PaimonJudge, lake: Lake) -> None:
    """By partitions, statistics of files, and statistics and dictionaries inside of files."""
    java.create("d.found", EVERY_TYPE, partition=("p",))
    for number in range(3):
        lake.table("d.found").append(pa.concat_tables([every_type().slice(number, 1)] * 2))
    whole = java.read("d.found")
    assert len(whole) == 6
    columns = [name for name, type_ in EVERY_TYPE.items() if isinstance(type_, str)]
    for row in whole[::2]:
        for name in columns:
            for comparison in ("=", "<=", ">=") if row[name] is not None else ("is null",):
                found = java.read("d.found", where=(name, comparison, row[name]))
                assert sum(other[name] == row[name] for other in found) == sum(o[name] == row[name] for o in whole)


def test_both_change_and_compact_one_table_with_a_key_in_turns(java: PaimonJudge, lake: Lake) -> None:
    columns = {"p": "INT NOT NULL", "id": "BIGINT NOT NULL", "k": "STRING NOT NULL", "v": "STRING", "n": "INT"}
    java.create("d.turns", columns, partition=("p",), primary=("p", "id", "k"), options={"bucket": "3"})

    def some(ids: list[int], text: str) -> pa.Table:
        return pa.table(
            {"p": [i % 2 for i in ids], "id": ids, "k": [f"key {i}" for i in ids], "v": [f"{text}{i}" for i in ids]}
        )

    def same() -> list[str]:
        found = by_java(java.read("d.turns"))
        assert by_esker(lake, "d.turns") == found
        return found

    table = lake.table("d.turns")
    table.append(some(list(range(20)), "a"))
    table.upsert(some([3, 5, 100], "b"))
    table.delete("id in (5, 6)")
    assert len(same()) == 19
    java.write("d.turns", ["+I", 1, 3, "key 3", "java", 0], ["-D", 1, 7, "key 7", None, None])
    assert len(same()) == 18
    before = same()
    table.compact()
    assert same() == before
    table.upsert(some([3], "again"))
    java.compact("d.turns")
    assert len(same()) == 18
    table.overwrite_partitions(some([2, 4], "only"))
    java.alter("d.turns", ("add", "extra", "STRING"), ("type", "n", "BIGINT"), ("rename", "v", "w"))
    java.tag("d.turns", "kept", java.snapshot("d.turns"))
    kept = same()
    java.write("d.turns", ["+I", 0, 8, "key 8", "new", 5, "more"])
    table.refresh().compact()
    assert len(same()) == len(kept) + 1
    table.expire_snapshots(retain_last=1)
    tagged = by_java(java.read("d.turns", **{"scan__tag-name": "kept"}))  # with the columns of its time
    assert by_esker(lake, "d.turns", ref="kept") == tagged
    assert len(tagged) == len(kept)
    java.write("d.turns", ["+I", 1, 51, "key 51", "last", 5, None])
    java.expire("d.turns", keep=1)
    assert len(same()) == len(kept) + 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_esker_reads_each_merge_engine_as_java_does(
    java: PaimonJudge, lake: Lake, engine: str, file_format: str
) -> None:
    name = f"d.{engine.replace('-', '_')}_{file_format}"
    options = {"bucket": "2", "file.format": file_format, **ENGINES[engine]}
    java.create(name, {"id": "BIGINT NOT NULL", "v": "STRING", "n": "INT"}, primary=("id",), options=options)
    java.write(name, *(["+I", i, f"first {i}", i] for i in range(10)))
    java.write(name, ["+I", 2, None, 5], ["+I", 3, "second", None])
    if engine in ("deduplicate", "vectors"):
        java.write(name, ["-D", 4, None, None])
    for _ in range(2):
        assert by_esker(lake, name) == by_java(java.read(name))
        assert by_esker(lake, name, where="id > 2 and id < 6") == by_java(
            [row for row in java.read(name) if 2 < row["id"] < 6]
        )
        java.compact(name, options={"write-only": "false"})
        java.write(name, ["+I", 3, "third", 7], ["+I", 77, "new", None])


def test_a_branch_of_java_has_rows_and_columns_of_its_own(java: PaimonJudge, lake: Lake) -> None:
    java.create("d.branches", {"id": "BIGINT", "v": "STRING"})
    java.write("d.branches", ["+I", 1, "main"])
    java.tag("d.branches", "start", 1)
    java.branch("d.branches", "side", tag="start")
    java.write("d.branches", ["+I", 2, "side"], branch="side")
    java.write("d.branches", ["+I", 3, "main"])
    lake.table("d.branches").append({"id": [4], "v": ["of esker"]}, ref="side")
    assert by_esker(lake, "d.branches") == by_java(java.read("d.branches"))
    assert by_esker(lake, "d.branches", ref="side") == by_java(java.read("d.branches", branch="side"))
    assert len(java.read("d.branches", branch="side")) == 3


def test_a_table_of_java_becomes_an_iceberg_table_by_its_field_ids(
    java: PaimonJudge, lake: Lake, warehouse: Path, tmp_path: Path
) -> None:
    """Java's Parquet files have Paimon's field ids, which begin at 0. A name may even have had another column."""
    without_time = {name: type_ for name, type_ in EVERY_TYPE.items() if name != "tm"}  # which Iceberg has otherwise
    java.create("d.ids", without_time, partition=("p",))
    lake.table("d.ids").append(
        every_type().drop_columns("tm")
    )  # files without ids, then the same rows in files with them
    java.write("d.ids", *(["+I", *row.values()] for row in java.read("d.ids")))
    java.create("d.again", {"id": "BIGINT", "v": "STRING", "l": {"type": "ARRAY", "element": "INT"}})
    java.write("d.again", ["+I", 1, "old", [1, 2]])
    java.alter("d.again", ("drop", "v"))
    java.alter("d.again", ("add", "v", "STRING"))
    java.write("d.again", ["+I", 2, None, "new"])
    java.create("d.top", {"id": "BIGINT NOT NULL", "v": "STRING"}, primary=("id",), options={"bucket": "2"})
    java.write("d.top", *(["+I", number, "v"] for number in range(9)))
    java.write("d.top", ["-D", 3, None])
    java.compact("d.top")
    target = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", allowed_roots=[warehouse])
    target.create_namespace("db")
    static = pytest.importorskip("pyiceberg.table").StaticTable
    for name in ("ids", "again", "top"):
        made = target.convert_table(f"db.{name}", lake.table(f"d.{name}"))
        assert by_esker(target, f"db.{name}") == by_esker(lake, f"d.{name}") == by_java(java.read(f"d.{name}"))
        theirs = static.from_metadata(made.metadata_location).scan().to_arrow().to_pylist()
        assert sorted(map(repr, theirs)) == sorted(map(repr, made.to_arrow().to_pylist()))


KEPT: dict[tuple[str, str], list[Any]] = {  # changes of a type after which every old value is the same
    ("TINYINT", "BIGINT"): [1, -3, None],
    ("SMALLINT", "INT"): [300, None],
    ("INT", "BIGINT"): [70_000, -1, None],
    ("FLOAT", "DOUBLE"): [1.5, -0.25, None],
    ("DECIMAL(9, 2)", "DECIMAL(20, 2)"): ["1.25", "-3.50", None],
    ("VARCHAR(3)", "STRING"): ["abc", "", None],
    ("VARCHAR(3)", "VARCHAR(9)"): ["abc"],
    ("TIMESTAMP(3)", "TIMESTAMP(6)"): ["2026-01-02T03:04:05.123", None],
}
CAST: dict[tuple[str, str], list[Any]] = {  # Java casts the values of old files
    ("INT", "SMALLINT"): [70_000],
    ("VARCHAR(9)", "VARCHAR(3)"): ["abcdef"],
    ("TIMESTAMP(6)", "TIMESTAMP(3)"): ["2026-01-02T03:04:05.123456"],
    ("BIGINT", "INT"): [5_000_000_000],
    ("DOUBLE", "INT"): [2.75],
    ("INT", "STRING"): [12],
    ("DATE", "TIMESTAMP(6)"): ["2026-01-02"],
}


@pytest.mark.parametrize("change", [*KEPT, *CAST], ids=" to ".join)
def test_a_changed_type_is_read_as_java_reads_it_or_refused(
    java: PaimonJudge, lake: Lake, change: tuple[str, str]
) -> None:
    name = f"d.changed_{[*KEPT, *CAST].index(change)}"
    values = (KEPT | CAST)[change]
    java.create(name, {"k": "INT", "v": change[0]})
    java.write(name, *(["+I", number, value] for number, value in enumerate(values)))
    before = by_java(java.read(name))
    java.alter(name, ("type", "v", change[1]))
    if change in KEPT:
        assert by_esker(lake, name) == by_java(java.read(name)) == before
        return
    with pytest.raises(Unsupported, match=r"cannot read column 'v': its type was changed"):
        lake.table(name).to_arrow()
    assert by_java(java.read(name)) != before
