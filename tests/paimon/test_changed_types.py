"""Columns whose type was changed: read if the new type holds every old value, else refused by name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable, schema

import esker
from esker.errors import Unsupported

ROW = {"type": "ROW", "fields": [{"id": 7, "name": "x", "type": "INT"}, {"id": 8, "name": "y", "type": "STRING"}]}
RENAMED = {"type": "ROW", "fields": [{"id": 7, "name": "x", "type": "INT"}, {"id": 8, "name": "z", "type": "STRING"}]}
SHORTER = {
    "type": "ROW",
    "fields": [{"id": 7, "name": "x", "type": "SMALLINT"}, {"id": 8, "name": "y", "type": "STRING"}],
}
STORED: dict[str, Any] = {
    "SMALLINT": pa.array([5], pa.int16()),
    "INT": pa.array([70_000], pa.int32()),
    "BIGINT": pa.array([5], pa.int64()),
    "FLOAT": pa.array([1.5], pa.float32()),
    "DOUBLE": pa.array([2.5], pa.float64()),
    "DECIMAL(9, 2)": pa.array(["1.25"]).cast(pa.decimal128(9, 2)),
    "STRING": pa.array(["12"]),
    "VARCHAR(3)": pa.array(["abc"]),
    "VARCHAR(9)": pa.array(["abcdef"]),
    "CHAR(3)": pa.array(["abc"]),
    "BYTES": pa.array([b"ab"]),
    "TIMESTAMP(3)": pa.array([datetime(2026, 1, 2)], pa.timestamp("ms")),
    "TIMESTAMP(6)": pa.array([datetime(2026, 1, 2, microsecond=123456)], pa.timestamp("us")),
    "DATE": pa.array([20_000], pa.int32()).cast(pa.date32()),
    "BOOLEAN": pa.array([True]),
}
READ = [
    ("SMALLINT", "INT"),
    ("SMALLINT", "BIGINT"),
    ("INT", "BIGINT"),
    ("FLOAT", "DOUBLE"),
    ("DECIMAL(9, 2)", "DECIMAL(20, 2)"),
    ("VARCHAR(3)", "VARCHAR(9)"),
    ("VARCHAR(3)", "STRING"),
    ("CHAR(3)", "STRING"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    ("INT", "INT NOT NULL"),
]
REFUSED = [
    ("INT", "SMALLINT"),  # the same type in the model: without a check it would be read without a cast
    ("VARCHAR(9)", "VARCHAR(3)"),
    ("STRING", "CHAR(9)"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)"),
    ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("BIGINT", "INT"),
    ("INT", "DOUBLE"),
    ("DOUBLE", "FLOAT"),
    ("DECIMAL(9, 2)", "DECIMAL(9, 1)"),
    ("DECIMAL(9, 2)", "DECIMAL(12, 4)"),
    ("INT", "STRING"),
    ("STRING", "INT"),
    ("STRING", "BYTES"),
    ("BYTES", "STRING"),
    ("DATE", "TIMESTAMP(6)"),
    ("TIMESTAMP(6)", "DATE"),
    ("BOOLEAN", "INT"),
]


def changed(folder: Path, old: Any, new: Any, values: pa.Array | None = None) -> PaimonTable:
    """A table with one file of the old type of column ``v``, and the new type in its newest schema."""
    table = PaimonTable(folder / "t", schema({"v": old, "other": "INT"}))
    held = STORED[old] if values is None else values
    table.append(pa.table({"v": held, "other": pa.array([1] * len(held), pa.int32())}))
    table.define(schema({"v": new, "other": "INT"}, id_=1))
    return table


@pytest.mark.parametrize(("old", "new"), READ)
def test_a_type_that_holds_every_old_value_is_read(tmp_path: Path, old: str, new: str) -> None:
    found = esker.open_table(changed(tmp_path, old, new).path).to_arrow()
    assert found["v"].to_pylist() == STORED[old].to_pylist()


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_any_other_change_is_refused_by_name(tmp_path: Path, old: str, new: str) -> None:
    table = esker.open_table(changed(tmp_path, old, new).path)
    with pytest.raises(Unsupported, match=r"cannot read column 'v': its type was changed from .* to ") as caught:
        table.to_arrow()
    assert (caught.value.feature, caught.value.column) == ("changed type", "v")
    assert old in caught.value.message
    assert new in caught.value.message


def test_only_files_that_are_live_and_columns_that_are_left_matter(tmp_path: Path) -> None:
    made = changed(tmp_path, "INT", "STRING")
    made.define(schema({"other": "INT"}, id_=2, ids=[1]))
    assert esker.open_table(made.path).to_arrow().to_pylist() == [{"other": 1}]


def test_an_older_snapshot_is_read_in_its_own_schema(tmp_path: Path) -> None:
    made = changed(tmp_path, "INT", "STRING")
    made.append(pa.table({"v": ["x"], "other": pa.array([2], pa.int32())}))
    table = esker.open_table(made.path)
    assert table.scan(snapshot_id=1).to_arrow()["v"].to_pylist() == [70_000]
    with pytest.raises(Unsupported, match="from INT to STRING"):
        table.to_arrow()


def test_a_field_of_a_row_is_checked_too(tmp_path: Path) -> None:
    values = pa.array([{"x": 70_000, "y": "a"}], pa.struct([("x", pa.int32()), ("y", pa.string())]))
    assert esker.open_table(changed(tmp_path, ROW, RENAMED, values).path).to_arrow()["v"].to_pylist() == [
        {"x": 70_000, "z": "a"}
    ]
    with pytest.raises(Unsupported, match="cannot read column 'v'"):
        esker.open_table(changed(tmp_path / "other", ROW, SHORTER, values).path).to_arrow()


@pytest.mark.parametrize(("old", "new"), [("INT", "STRING"), ("VARCHAR(9)", "VARCHAR(3)"), (ROW, RENAMED)])
def test_compaction_does_not_make_other_values_of_old_ones(tmp_path: Path, old: Any, new: Any) -> None:
    values = pa.array([{"x": 1, "y": "a"}], pa.struct([("x", pa.int32()), ("y", pa.string())])) if old is ROW else None
    made = changed(tmp_path, old, new, values)
    table = esker.open_table(made.path)
    made.schema = schema({"v": old, "other": "INT"})
    rows = pa.table({"v": values if values is not None else STORED[old], "other": pa.array([1], pa.int32())})
    made.append(rows)  # two small files
    for dry_run in (True, False):
        with pytest.raises(Unsupported, match="cannot read column 'v'"):
            table.refresh().compact(dry_run=dry_run)
    assert len(table.refresh().snapshots) == 2
