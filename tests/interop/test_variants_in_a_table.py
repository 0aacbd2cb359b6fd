"""A table with variants lives its life: changed, asked and followed with no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import InvalidInput
from esker.model.variant_text import to_json

COLUMNS = "id bigint, v variant, s struct<x: variant>"
MODES = ["copy-on-write", "merge-on-read"]


def row(at: int) -> dict[str, Any]:
    return {"id": at, "v": None if at % 3 == 0 else {"n": at}, "s": {"x": at} if at % 2 else None}


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    made.create_namespace("n")
    return made


def table_of(lake: esker.Lake, mode: str = MODES[0]) -> esker.Table:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = lake.create_table("n.t", COLUMNS, format_version=3, properties=properties)
    table.append([row(at) for at in range(10)])
    return table.refresh()


def seen(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return json.loads(to_json(**value))
    return {key: seen(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def rows_of(found: pa.Table) -> dict[int, dict[str, Any]]:
    return {each["id"]: seen(each) for each in sorted(found.to_pylist(), key=lambda each: each["id"])}


@pytest.mark.parametrize("mode", MODES)
def test_every_change_of_rows_carries_variants_along(lake: esker.Lake, mode: str) -> None:
    table = table_of(lake, mode)
    began = table.current_snapshot.snapshot_id  # type: ignore[union-attr]
    table.delete("v IS NULL AND id > 5")
    table.update({"id": "id + 100"}, where="id = 1")
    table.upsert([{"id": 4, "v": {"up": True}, "s": None}, {"id": 50, "v": "new", "s": {"x": [1]}}], on=["id"])
    table.upsert(table.refresh().scan("id = 5").to_arrow(), on=["id"])
    table = table.refresh()
    expected = {at: row(at) for at in (0, 2, 3, 5, 7, 8)} | {101: {**row(1), "id": 101}}
    expected |= {4: {"id": 4, "v": {"up": True}, "s": None}, 50: {"id": 50, "v": "new", "s": {"x": [1]}}}
    assert rows_of(table.scan().to_arrow()) == expected
    told = table.scan_changes(began).to_arrow().to_pylist()
    changes = sorted((each["_change_type"], each["id"], json.dumps(seen(each["v"]))) for each in told)
    assert changes == [
        ("delete", 1, '{"n": 1}'),
        ("delete", 4, '{"n": 4}'),
        ("delete", 6, "null"),
        ("delete", 9, "null"),
        ("insert", 4, '{"up": true}'),
        ("insert", 50, '"new"'),
        ("insert", 101, '{"n": 1}'),
    ]


def test_a_scan_asks_whether_variants_are_there_and_nothing_more(lake: esker.Lake) -> None:
    table = table_of(lake)
    table.append([{"id": 20, "v": 1, "s": None}])
    table = table.refresh()
    assert list(rows_of(table.scan("v IS NULL").to_arrow())) == [0, 3, 6, 9]
    assert list(rows_of(table.scan("s.x IS NOT NULL").to_arrow())) == [1, 3, 5, 7, 9]
    with pytest.raises(InvalidInput, match="cannot compare column 'v' of type variant"):
        table.scan("v = 1")


def test_a_variant_tells_no_rows_apart(lake: esker.Lake) -> None:
    table = table_of(lake)
    for what in ({"partition_by": ["v"]}, {"partition_by": ["bucket(4, v)"]}, {"sort_by": ["v"]}):
        with pytest.raises(InvalidInput, match="cannot be used on a column of type variant"):
            lake.create_table("n.other", COLUMNS, format_version=3, **what)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cannot use 'v' as part of a key"):
        table.upsert([row(1)], on=["v"])
    with pytest.raises(InvalidInput, match="cannot use 'v' as part of a key"), table.transaction() as tx:
        tx.delete_by_key([{"v": 1}], on=["v"])
    with pytest.raises(InvalidInput, match="cannot identify rows by 'v', a variant"):
        table.scan_changes(None, keys=["v"])
    strict = lake.create_table("n.strict", "v variant not null", format_version=3)
    with (
        pytest.raises(InvalidInput, match="cannot identify rows by column 'v': values of type v"),
        strict.alter() as change,
    ):
        change.set_identifier_fields("v")


def test_bytes_that_are_no_variant_leave_the_table_as_it_was(lake: esker.Lake, tmp_path: Path) -> None:
    table = table_of(lake)
    files = set(tmp_path.rglob("*.parquet"))
    bad = pa.table({"id": [1], "v": [{"metadata": b"\x01\0\0", "value": b"\x18"}]})
    with pytest.raises(InvalidInput, match="column 'v' does not fit in row 0: its bytes are not a variant"):
        table.append(bad)
    assert table.refresh().scan().count() == 10
    assert set(tmp_path.rglob("*.parquet")) == files
