"""Files of rows into any table: each once, whatever their form; what does not fit is refused and named."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.errors import InvalidInput, NoSuchTable, StorageFailed
from esker.ingest.account import Account
from esker.ingest.ingest_rows import ingest_files
from esker.ingest.job import DataFiles
from esker.ingest.read_row_files import Reading, RowFormat, format_of
from esker.ingest.row_files_job import Target
from esker.ingest.spark.rows_worker import Piece, RowsOrder, carry_out
from esker.ingest.spark.telemetry_job import table_order
from esker.lake import Lake
from esker.storage.local import LocalStorage

ROWS = [{"id": 1, "name": "a", "price": 0.5}, {"id": 2, "name": None, "price": 1.5}]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")


def ingest(lake: Lake, folder: Path, *paths: Path, reading: Reading | None = None, **target: object) -> Account:
    where = Target(name="shop.sales", **target)  # type: ignore[arg-type]
    return ingest_files(lake, paths, where, checkpoint=folder / "checkpoint", reading=reading)


def rows(lake: Lake) -> list[dict[str, object]]:
    return lake.table("shop.sales").scan().to_arrow().sort_by("id").to_pylist()


def csv(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def parquet(folder: Path, name: str, **columns: object) -> Path:
    path = folder / name
    pq.write_table(pa.table(columns), path)
    return path


def test_the_first_file_makes_the_table(lake: Lake, tmp_path: Path) -> None:
    path = csv(tmp_path, "a.csv", "id,name,price\n1,a,0.5\n2,,1.5\n")
    account = ingest(lake, tmp_path, path, create=True, partition_by=["bucket(4, id)"])
    assert (account.received, account.tables, account.holds) == (2, {"shop.sales": 2}, True)
    assert rows(lake) == ROWS
    assert len(lake.table("shop.sales").spec.fields) == 1


@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "parquet"])
def test_rows_are_the_same_in_every_form(lake: Lake, tmp_path: Path, form: str) -> None:
    sign = "\t" if form == "tsv" else ","
    text = "".join(sign.join("" if v is None else str(v) for v in row.values()) + "\n" for row in ROWS)
    held = {
        "csv": ("id,name,price\n" + text).encode(),
        "tsv": ("id\tname\tprice\n" + text).encode(),
        "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    }
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        data = held[form.removesuffix(".gz")]
        path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    lake.create_namespace("shop")
    lake.create_table("shop.sales", "id bigint not null, name string, price double")
    assert ingest(lake, tmp_path, path).holds
    assert rows(lake) == ROWS


def test_each_file_goes_in_once(lake: Lake, tmp_path: Path) -> None:
    first = parquet(tmp_path, "a.parquet", id=[1])
    second = parquet(tmp_path, "b.parquet", id=[2])
    ingest(lake, tmp_path, first, create=True)
    account = ingest(lake, tmp_path, first, second)
    assert (account.received, account.known_files) == (1, 1)
    assert [row["id"] for row in rows(lake)] == [1, 2]


def test_values_take_the_types_of_the_table(lake: Lake, tmp_path: Path) -> None:
    lake.create_namespace("shop")
    lake.create_table("shop.sales", "id int, code string, at timestamp, day date")
    path = csv(tmp_path, "a.csv", "id,code,at,day\n7,007,2024-01-01T00:00:00Z,2024-02-03\n")
    ingest(lake, tmp_path, path)
    (row,) = rows(lake)
    assert (row["id"], row["code"], str(row["day"])) == (7, "007", "2024-02-03")


def test_columns_come_with_the_files_that_have_them(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, tmp_path, parquet(tmp_path, "a.parquet", id=pa.array([1], pa.int32())), create=True)
    wide = parquet(tmp_path, "b.parquet", id=pa.array([1 << 40], pa.int64()), **{"a.b": ["x"]})
    account = ingest(lake, tmp_path, wide)
    assert account.refused == [
        (str(wide), "cannot write the rows: the data has a column 'a.b' that the table does not have")
    ]
    assert (account.received, account.holds) == (0, True)
    assert ingest(lake, tmp_path, wide, evolve=True).received == 1
    assert rows(lake) == [{"id": 1, "a.b": None}, {"id": 1 << 40, "a.b": "x"}]


def test_a_bad_file_does_not_stop_the_good_ones(lake: Lake, tmp_path: Path) -> None:
    good = parquet(tmp_path, "a.parquet", id=[1])
    broken = tmp_path / "b.parquet"
    broken.write_bytes(b"PAR1 and nothing more")
    text = csv(tmp_path, "c.csv", "id\nx\n")
    account = ingest(lake, tmp_path, good, broken, text, create=True)
    assert [file for file, _ in account.refused] == [str(broken), str(text)]
    assert (account.received, account.holds) == (1, True)
    text.write_text("id\n3\n")
    assert ingest(lake, tmp_path, good, text).received == 1
    assert [row["id"] for row in rows(lake)] == [1, 3]


def test_a_table_that_is_missing_is_made_on_request_only(lake: Lake, tmp_path: Path) -> None:
    wrong = parquet(tmp_path, "wrong.parquet", id=[0])
    with pytest.raises(NoSuchTable, match="to make it, say --create"):
        ingest(lake, tmp_path, wrong)
    right = parquet(tmp_path, "right.parquet", id=[1])
    assert ingest(lake, tmp_path, right, create=True).received == 1  # and nothing of what failed before
    assert ingest(lake, tmp_path, wrong).received == 1  # its file is as new


def test_the_form_is_told_by_name_or_content(tmp_path: Path) -> None:
    for name, data, form in (
        ("a.CSV.gz", b"", RowFormat.CSV),
        ("plain", b"PAR1....", RowFormat.PARQUET),
        ("lines", b' {"a": 1}', RowFormat.JSON),
    ):
        (tmp_path / name).write_bytes(data)
        assert format_of(tmp_path / name) is form
    (tmp_path / "odd").write_bytes(b"a;b\n")
    with pytest.raises(InvalidInput, match=r"cannot detect the format of .*odd: name it with --format"):
        format_of(tmp_path / "odd")


def test_csv_may_have_another_delimiter(lake: Lake, tmp_path: Path) -> None:
    path = csv(tmp_path, "odd", "id;name\n1;a,b\n")
    ingest(lake, tmp_path, path, reading=Reading(format=RowFormat.CSV, delimiter=";"), create=True)
    assert rows(lake) == [{"id": 1, "name": "a,b"}]


def test_a_table_may_have_columns_that_json_cannot_hold(lake: Lake, tmp_path: Path) -> None:
    lake.create_namespace("shop")
    lake.create_table(
        "shop.sales", "id bigint, mark uuid, price decimal(10, 2), tags array<int>, day date, more map<string, int>"
    )
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "price": "1.25", "tags": [1], "day": "2024-02-03"}\n{"id": 2}\n')
    assert ingest(lake, tmp_path, path).received == 2
    found = [(row["id"], str(row["price"]), row["tags"], str(row["day"])) for row in rows(lake)]
    assert found == [(1, "1.25", [1], "2024-02-03"), (2, "None", None, "None")]


def test_a_column_without_a_value_is_text_wherever_it_lies(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "a": null, "b": {"x": null, "y": []}}\n')
    assert ingest(lake, tmp_path, path, create=True).holds
    assert [str(field.type) for field in lake.table("shop.sales").schema.fields][1] == "string"
    assert rows(lake) == [{"id": 1, "a": None, "b": {"x": None, "y": []}}]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not let such names be")
def test_a_name_that_is_not_utf_8_is_told(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/in/a\xff.csv")).write_text("id\n1\n")
    with pytest.raises(InvalidInput, match=r"cannot ingest .*a\\udcff\.csv: its name is not UTF-8"):
        ingest(lake, tmp_path, tmp_path / "in", create=True)


class FullDisk(LocalStorage):
    def open_new(self, location: str) -> NoReturn:
        raise StorageFailed("cannot write: no space is left", retryable=True)


def test_a_worker_reports_what_is_wrong_with_a_file_and_raises_what_is_wrong_with_the_disk(
    lake: Lake, tmp_path: Path
) -> None:
    ingest(lake, tmp_path, parquet(tmp_path, "a.parquet", id=[1]), create=True)
    table = table_order(DataFiles(lake.table("shop.sales")), lake.catalog.storage())

    def carried_out(storage: LocalStorage, text: str) -> dict[str, object]:
        order = RowsOrder(shares=(), table=table, storage=storage, reading=Reading(), operation_id="op")
        piece = Piece(source=0, path=str(csv(tmp_path, "b.csv", text)))
        (report,) = carry_out(order, piece, task=(0, 0), attempt=0).to_pylist()
        return report

    for text, said in (("id\nx\n", "CSV conversion error"), ("id,more\n1,2\n", "the data has a column 'more'")):
        report = carried_out(LocalStorage(), text)
        assert said in str(report["refusal"])
        assert (report["read"], report["files"]) == (None, None)
    with pytest.raises(StorageFailed, match="no space is left"):
        carried_out(FullDisk(), "id\n2\n")
    assert carried_out(LocalStorage(), "id\n2\n")["read"] == 1
