"""A Paimon table becomes an Iceberg table over the same files, or is refused with the reason."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import run_json
from paimon_tables import PaimonTable, schema, versions

import esker
from esker import Lake
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, Unsupported
from esker.paimon.manifests.statistics import simple_stats


@pytest.fixture
def paimon(tmp_path: Path) -> Lake:
    return esker.connect(f"paimon://{tmp_path}/paimon")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", allowed_roots=[tmp_path / "paimon"])
    made.create_namespace("db")
    return made


def rows(table: Any, where: str | None = None) -> list[str]:
    return sorted(map(repr, table.scan(where).to_arrow().to_pylist()))


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def append_table(paimon: Lake, name: str = "db.t") -> Any:
    table = paimon.create_table(name, "id bigint, p string, v double, r struct<a: int, b: string>", partition_by=["p"])
    values = {"id": [1, 2, 3], "p": ["x", "a/b", None], "v": [1.5, math.nan, None]}
    table.append(pa.table({**values, "r": [{"a": 1, "b": "s"}, None, {"a": None, "b": None}]}))
    return table


def test_an_append_table_keeps_its_rows_files_and_partitions(paimon: Lake, lake: Lake) -> None:
    source = append_table(paimon)
    before = files_of(Path(source.location))
    made = lake.convert_table("db.made", source.location)
    assert rows(made) == rows(source)
    assert made.scan("p = 'a/b'").plan().funnel.files_kept == 1
    assert made.scan("p IS NULL").to_arrow()["id"].to_pylist() == [3]
    assert made.scan("id > 2").plan().funnel.files_kept == 1  # by bounds
    assert {task.data_file.path for task in made.scan().plan().tasks} <= set(map(str, before))
    assert files_of(Path(source.location)) == before
    assert rows(lake.table("db.made")) == rows(source)


def test_files_of_the_source_are_never_deleted_by_the_new_table(paimon: Lake, lake: Lake) -> None:
    source = append_table(paimon)
    made = lake.convert_table("db.made", source)
    made.delete("id = 1")
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        made.expire_snapshots(retain_last=1)
    lake.drop_table("db.made")
    assert len(rows(source)) == 3


def test_a_compacted_table_with_a_key_is_converted_and_another_is_refused(paimon: Lake, lake: Lake) -> None:
    source = paimon.create_table(
        "db.k", "id bigint not null, v string", identifier_fields=["id"], properties={"bucket": "2"}
    )
    source.append({"id": list(range(20)), "v": ["a"] * 20})
    source.upsert({"id": [3, 4], "v": ["b", "b"]})
    source.delete("id = 5")
    with pytest.raises(Unsupported, match=r"not fully compacted, .* at level 0; compact the table first"):
        lake.convert_table("db.made", source)
    assert lake.tables("db") == []
    source.compact()
    made = lake.convert_table("db.made", source)
    assert rows(made) == rows(source)
    assert made.scan().count() == 19
    assert made.schema.identifier_field_ids == {0}
    source.upsert({"id": [100], "v": ["new"]})
    assert made.refresh().scan().count() == 19  # a later change of the source is not in it


def test_columns_are_found_by_their_names_at_the_time_of_the_file(tmp_path: Path, lake: Lake) -> None:
    old = PaimonTable(tmp_path / "paimon/db.db/t", schema({"a": "INT", "b": "STRING", "c": "INT"}))
    old.append(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": pa.array([7], pa.int32())}))
    old.define(schema({"a": "BIGINT", "renamed": "STRING", "d": "STRING"}, id_=1, ids=[0, 1, 3]))
    old.append(pa.table({"a": [2], "renamed": ["y"], "d": ["z"]}))
    made = lake.convert_table("db.made", str(old.path))
    expected = [{"a": 1, "renamed": "x", "d": None}, {"a": 2, "renamed": "y", "d": "z"}]
    assert rows(made) == sorted(map(repr, expected))
    with made.alter() as change:
        change.add_column("c", "int")
    assert made.schema.fields[-1].id == 4  # not the id of a column that was dropped before
    assert made.to_arrow()["c"].to_pylist() == [None, None]


def test_columns_with_field_ids_may_have_had_other_names(tmp_path: Path, lake: Lake) -> None:
    made = PaimonTable(tmp_path / "paimon" / "t", schema({"a": "BIGINT", "b": "STRING"}))

    def with_ids(**columns: int) -> pa.Table:
        fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id_)}) for name, id_ in columns.items()]
        return pa.table([pa.array([id_ + 10]) for id_ in columns.values()], pa.schema(fields))

    made.append(with_ids(a=0))
    made.define(schema({"c": "BIGINT", "a": "BIGINT"}, id_=1, ids=[0, 2]))  # renamed, and its name given again
    made.append(with_ids(c=0, a=2))
    source = esker.open_table(made.path)
    assert rows(lake.convert_table("db.made", source)) == rows(source)
    assert rows(source) == ["{'c': 10, 'a': 12}", "{'c': 10, 'a': None}"]


def test_a_name_that_two_columns_had_is_refused(tmp_path: Path, lake: Lake) -> None:
    old = PaimonTable(tmp_path / "paimon/db.db/t", schema({"a": "INT", "b": "INT"}))
    old.append(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}))
    old.define(schema({"a": "INT", "b": "INT"}, id_=1, ids=[0, 2]))
    old.append(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([3], pa.int32())}))
    with pytest.raises(Unsupported, match="use the name 'b' for two columns"):
        lake.convert_table("db.made", str(old.path))
    assert lake.tables("db") == []


def test_rows_that_would_differ_stop_the_conversion(tmp_path: Path, lake: Lake) -> None:
    """A row that deletes, which its writer did not count, would come back to life."""
    ghost = PaimonTable(tmp_path / "paimon/db.db/g", schema({"k": "BIGINT NOT NULL", "v": "STRING"}, keys=["k"]))
    ghost.append(versions([1, 2, 3], 0, [0, 3, 0], v=["a", "b", "c"]), level=5)
    with pytest.raises(Unsupported, match="has other rows if it is read as Iceberg"):
        lake.convert_table("db.made", str(ghost.path))
    assert lake.tables("db") == []
    assert not list((tmp_path / "lake").rglob("*.avro"))  # nothing is left behind


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats_are_converted_with_the_statistics_of_the_source(
    tmp_path: Path, lake: Lake, file_format: str
) -> None:
    table = PaimonTable(tmp_path / "paimon/db.db/t", schema({"id": "BIGINT", "s": "STRING"}))
    types = [field.type for field in table.schema.fields]
    for first in (0, 10):
        entry = table.file(pa.table({"id": [first, first + 1], "s": ["x", None]}), file_format=file_format)
        stats = simple_stats(types, [first, "x"], [first + 1, "x"], [0, 1])
        table.commit(replace(entry, file=replace(entry.file, value_stats=stats, value_stats_columns=None)))
    made = lake.convert_table("db.made", str(table.path))
    assert rows(made) == rows(esker.open_table(table.path))
    assert made.scan("id >= 10").plan().funnel.files_kept == 1
    assert made.scan("s IS NULL AND id = 1").to_arrow().num_rows == 1
    assert made.scan().count() == 4


@pytest.mark.parametrize("type_", ["TIMESTAMP(9)", "TIME(3)", {"type": "ARRAY", "element": "TIME(3)"}], ids=str)
def test_what_iceberg_does_not_have_is_refused(tmp_path: Path, lake: Lake, type_: Any) -> None:
    odd = PaimonTable(tmp_path / "paimon/db.db/t", schema({"id": "BIGINT", "ts": type_}))
    with pytest.raises(Unsupported, match=r"column 'ts' is TIME(STAMP)?\([39]\)"):
        lake.convert_table("db.made", str(odd.path))


def test_a_table_without_rows_is_converted(paimon: Lake, lake: Lake) -> None:
    source = paimon.create_table("db.empty", "id bigint")
    assert lake.convert_table("db.made", source).scan().count() == 0


def test_wrong_names_and_places_are_refused(tmp_path: Path, paimon: Lake, lake: Lake) -> None:
    source = append_table(paimon)
    with pytest.raises(NoSuchNamespace):
        lake.convert_table("nowhere.made", source)
    lake.convert_table("db.made", source)
    with pytest.raises(AlreadyExists):
        lake.convert_table("db.made", source)
    with pytest.raises(Unsupported, match="an Iceberg table already"):
        lake.convert_table("db.again", lake.table("db.made"))
    narrow = esker.connect(f"sqlite:///{tmp_path}/narrow/catalog.db")
    narrow.create_namespace("db")
    with pytest.raises(InvalidInput, match="allowed_roots"):
        narrow.convert_table("db.made", source)


def test_the_command_converts_and_counts(tmp_path: Path, paimon: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = append_table(paimon)
    run_json("create", "--namespace", "db")
    found = run_json("--allow-root", str(tmp_path / "paimon"), "convert", source.location, "db.made")
    assert found["made"] == "conversion"
    assert (found["rows"], found["data_files"], found["partitioning"]) == (3, 3, ["p"])
    assert found["source"] == source.location
