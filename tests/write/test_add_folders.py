"""Taking in folders: flat ones, and those that Hive and Spark partitioned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sound_tables import check_sound, live_files

import esker
from esker.errors import EskerError, InvalidInput, NoSuchFile, Unsupported
from esker.lake import Lake
from esker.table import Table

NAME = "s.t"
Rows = list[tuple[Any, ...]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", allowed_roots=[tmp_path / "given"])
    lake.create_namespace("s")
    return lake


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return tmp_path / "given"


def put(folder: Path, ids: list[int], name: str = "part-0.parquet", **columns: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), folder / name)
    return str(folder / name)


def rows_of(table: Table, *columns: str, where: str | None = None) -> Rows:
    found = table.scan(where, columns=list(columns)).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_a_flat_folder_is_all_its_files_but_hidden_ones(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint")
    for at in range(3):
        put(given / ("deep" if at == 2 else "."), [at], f"{at}.parquet")
    for hidden in ("_temporary/0", ".staging"):
        put(given / hidden, [99])
    (given / "_SUCCESS").touch()
    (given / ".0.parquet.crc").write_text("sum")
    snapshot = table.add_files([str(given)])
    assert (snapshot.summary["added-data-files"], snapshot.summary["changed-partition-count"]) == ("3", "1")
    assert rows_of(table, "id") == [(0,), (1,), (2,)]
    check_sound(lake, NAME)


def test_a_hive_folder_gives_the_columns_that_its_files_lack(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, day date, City string, n int", partition_by=["day", "City"])
    put(given / "day=2026-01-01" / "city=S%C3%A3o Paulo%2F1", [1, 2])
    put(given / "day=2026-01-01" / "city=__HIVE_DEFAULT_PARTITION__", [3])
    put(given / "day=__HIVE_DEFAULT_PARTITION__" / "city=x", [4])
    snapshot = table.add_files([f"{given}/"], parallelism=3)
    assert snapshot.summary["changed-partition-count"] == "3"
    day = pa.scalar("2026-01-01").cast(pa.date32()).as_py()
    expected = [
        (1, day, "São Paulo/1", None),
        (2, day, "São Paulo/1", None),
        (3, day, None, None),
        (4, None, "x", None),
    ]
    assert rows_of(table, "id", "day", "City", "n") == sorted(expected, key=repr)
    assert rows_of(table, "id", where="City = 'São Paulo/1'") == [(1,), (2,)]
    assert rows_of(table, "id", where="day is null") == [(4,)]
    assert table.scan("City = 'x'").plan().funnel.files_kept == 1
    check_sound(lake, NAME)


def test_relative_paths_are_recorded_from_the_root_on(
    lake: Lake, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table(NAME, "id bigint")
    put(given / "flat", [1])
    put(given, [2], "alone.parquet")
    monkeypatch.chdir(tmp_path)
    table.add_files(["given/flat", "given/alone.parquet"])
    monkeypatch.chdir("/")
    assert sorted(file.path for file in live_files(table)) == [f"{given}/alone.parquet", f"{given}/flat/part-0.parquet"]
    assert rows_of(table, "id") == [(1,), (2,)]


def test_changes_of_rows_keep_the_columns_that_folders_gave(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, region string", partition_by=["region"])
    put(given / "region=eu", [1, 2, 3])
    table.add_files([str(given)])
    table.delete("id = 2")
    table.upsert(pa.table({"id": [3], "region": ["us"]}), on=["id"])
    assert rows_of(table, "id", "region") == [(1, "eu"), (3, "us")]


def test_partitions_are_chosen_by_their_values(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, n int, r string", partition_by=["n", "r"])
    for at, (n, r) in enumerate([("01", "a"), ("01", "b"), ("2", "a"), ("__HIVE_DEFAULT_PARTITION__", "a")]):
        put(given / f"n={n}" / f"r={r}", [at])
    table.add_files([str(given)], partition_filter={"n": "1", "R": "b"})
    assert rows_of(table, "id", "n", "r") == [(1, 1, "b")]
    table.add_files([str(given)], partition_filter={"n": None})
    assert rows_of(table, "id") == [(1,), (3,)]
    with pytest.raises(InvalidInput, match="cannot add files: there is no partition with n = 9"):
        table.add_files([str(given)], partition_filter={"n": "9"})
    with pytest.raises(
        InvalidInput, match=r"cannot choose partitions by 'day': the folders of .* have the names: n, r"
    ):
        table.add_files([str(given)], partition_filter={"day": "1"})
    with pytest.raises(InvalidInput, match="it is in the table already"):
        table.add_files([str(given)])
    assert rows_of(table, "id") == [(1,), (3,)]


def test_folders_of_an_older_spec_are_taken_in_under_it(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, a string, b string", partition_by=["a"])
    with table.alter() as change:
        change.add_partition("b")
    put(given / "a=x", [1], b=["p"])
    table.add_files([str(given)])
    [file] = live_files(table)
    assert (file.spec_id, file.partition) == (0, ("x",))
    assert rows_of(table, "id", "a", "b") == [(1, "x", "p")]
    check_sound(lake, NAME)


def test_a_column_renamed_since_is_found_by_either_name(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, region string", partition_by=["region"])
    with table.alter() as change:
        change.rename_column("region", "area")
    put(given / "one" / "region=eu", [1])
    put(given / "two" / "area=us", [2])
    table.add_files([str(given / "one"), str(given / "two")])
    assert rows_of(table, "id", "area") == [(1, "eu"), (2, "us")]


@pytest.mark.parametrize(
    ("partition_by", "folders", "says"),
    [
        ([], ["r=1"], "its folders partition rows by r, and no partition spec .* the table is partitioned by nothing"),
        (["n"], ["r=1"], "its folders partition rows by r"),
        (["n", "r"], ["r=1"], r"the table is partitioned by identity\(n\), identity\(r\)"),
        (["bucket(4, n)"], ["n=1"], "no partition spec of the table has exactly these columns"),
        (["bucket(4, n)"], ["flat"], r"its partition 'n_bucket' \(bucket\[4\]\) cannot be decided"),
        (["n"], ["flat"], "nor a folder n=… above it"),
        (["n"], ["n=x"], "the folder's value 'x' is not a valid int"),
        (["n"], ["n=1", "r=2"], "they are in folders of different names"),
        (["n"], ["n=1", "n=2/r=3"], "they are in folders of different names"),
    ],
)
def test_partitions_that_do_not_fit_are_refused(
    lake: Lake, given: Path, partition_by: list[str], folders: list[str], says: str
) -> None:
    table = lake.create_table(NAME, "id bigint, n int, r string", partition_by=partition_by)
    for folder in folders:
        put(given / folder, [1])
    with pytest.raises(InvalidInput, match=says):
        table.add_files([str(given)])
    assert table.refresh().current_snapshot is None


def test_a_file_that_contradicts_its_folder_is_refused(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint, r string", partition_by=["r"])
    put(given / "good" / "r=a+b", [1], r=["a b"])  # as Iceberg's own writers call it
    put(given / "good" / "r=c", [], r=pa.array([], pa.string()))
    table.add_files([str(given / "good")])
    assert sorted(str(file.partition) for file in live_files(table)) == ["('a b',)", "('c',)"]
    put(given / "bad" / "r=eu", [2], r=["us"])
    with pytest.raises(InvalidInput, match="column 'r' is 'us' in the file and 'eu' in its folder"):
        table.add_files([str(given / "bad")])


def test_columns_that_the_table_does_not_have_are_refused_or_ignored(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint")
    put(given / "more", [1], extra=["x"], deep=pa.array([{"x": 1}]))
    with pytest.raises(InvalidInput, match="column 'extra': the table has no such column"):
        table.add_files([str(given / "more")])
    table.add_files([str(given / "more")], ignore_extra_columns=True)
    assert rows_of(table, "id") == [(1,)]
    other = pa.table(
        {"y": pa.array([1])}, schema=pa.schema([pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "77"})])
    )
    (given / "other").mkdir()
    pq.write_table(other, given / "other" / "a.parquet")
    with pytest.raises(InvalidInput, match="it has none of the table's columns, only y"):
        table.add_files([str(given / "other")], ignore_extra_columns=True)


def test_what_is_no_parquet_is_refused_by_name(lake: Lake, given: Path) -> None:
    table = lake.create_table(NAME, "id bigint")
    put(given / "a", [1])
    for name, error, says in (
        ("b.orc", Unsupported, r"cannot add .*b\.orc: files of the format orc"),
        ("b.avro", Unsupported, "files of the format avro"),
        ("b.csv", EskerError, r"b\.csv"),
    ):
        (given / "a" / name).write_text("something else")
        with pytest.raises(error, match=says):
            table.add_files([str(given / "a")])
        (given / "a" / name).unlink()
    (given / "empty").mkdir()
    with pytest.raises(NoSuchFile, match="it has no data file"):
        table.add_files([f"{given}/empty/"])
    with pytest.raises(InvalidInput, match="parallelism 0: give a number from 1 on"):
        table.add_files([str(given / "a")], parallelism=0)
    with pytest.raises(InvalidInput, match="twice"):
        table.add_files([str(given / "a"), f"file://{given}/a/part-0.parquet"])
    assert table.refresh().current_snapshot is None
