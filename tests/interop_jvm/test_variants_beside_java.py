"""Variants between Esker and Iceberg's own library: what one writes the other reads, shredded or not."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from jvm_peer import Refused
from jvm_writers import spark

from esker.model.variant import decode

ROWS: list[dict[str, Any]] = [
    {"id": 1, "v": {"a": [1, "two", None], "b": {"c": 2.5}}, "l": [{"x": True}, None], "s": {"x": "text", "n": 1}},
    {"id": 2, "v": None, "l": None, "s": None},
    {"id": 3, "v": "long " * 40, "l": [], "s": {"x": {"k": {}}, "n": None}},
    {"id": 4, "v": {f"key{at}": at for at in range(300)}, "l": [[], {}], "s": {"x": -(1 << 40), "n": 3}},
]
COLUMNS = "id bigint, v variant, l array<variant>, s struct<x: variant, n: int>"
SHRED = "'write.parquet.shred-variants'='true'"
JSON = """parse_json(CASE id % 3 WHEN 0 THEN '{{"a":1,"b":"x","c":[1,"y",null]}}'
    WHEN 1 THEN '{{"a":"other","d":{{"e":1.5}}}}' ELSE '{{"a":7}}' END)"""
EXPECTED = ({"a": 1, "b": "x", "c": [1, "y", None]}, {"a": "other", "d": {"e": 1.5}}, {"a": 7})


def seen(value: Any) -> Any:
    """A row of Arrow's with its variants read."""
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return decode(value["metadata"], value["value"])
    if isinstance(value, dict):
        return {key: seen(inner) for key, inner in value.items()}
    return [seen(inner) for inner in value] if isinstance(value, list) else value


def test_java_reads_the_variants_that_arrow_wrote(sqlite) -> None:
    sqlite.lake.create_table(sqlite.name("t"), COLUMNS, format_version=3).append(ROWS)
    found = sqlite.sql("SELECT * FROM {t} ORDER BY id")
    assert [dict(zip(("id", "v", "l", "s"), row, strict=True)) for row in found.rows] == ROWS


def test_java_asks_into_the_variants_that_arrow_wrote(sqlite) -> None:
    rows = [{"id": row["id"], "v": row["v"]} for row in ROWS]
    sqlite.lake.create_table(sqlite.name("t"), "id bigint, v variant", format_version=3).append(rows)
    assert sqlite.sql("SELECT id FROM {t} WHERE v IS NULL").rows == [(2,)]
    assert sqlite.sql("SELECT variant_get(v, '$.a[1]', 'string') FROM {t} WHERE id = 1").rows == [("two",)]


def test_a_property_keeps_java_from_the_reader_that_fails_over_variants_in_lists(sqlite) -> None:
    row_by_row = {"read.parquet.vectorization.enabled": "false"}
    sqlite.lake.create_table(sqlite.name("t"), COLUMNS, format_version=3, properties=row_by_row).append(ROWS)
    assert sqlite.sql("SELECT id FROM {t} WHERE v IS NULL").rows == [(2,)]
    sqlite.run(  # a file of Java's own without it
        "CREATE TABLE {own} (id bigint, l array<variant>) USING iceberg TBLPROPERTIES ('format-version'='3')",
        "INSERT INTO {own} SELECT 1L, array(parse_json('2'))",
    )
    with pytest.raises(Refused, match="Only non-nested columns are supported for vectorized reads"):
        sqlite.sql("SELECT id FROM {own}")


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_java_reads_the_variants_that_spark_s_workers_wrote(sqlite) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), "id bigint, v variant", format_version=3)
    table.append(spark().sql(f"SELECT id, {JSON.format()} v FROM range(6)"))
    assert sqlite.sql("SELECT v FROM {t} ORDER BY id").rows == [(value,) for value in EXPECTED * 2]


def test_java_goes_on_with_a_table_of_esker_s(sqlite) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), "id bigint, v variant", format_version=3)
    table.append([{"id": at, "v": {"n": at}} for at in range(4)])
    sqlite.run("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (9, parse_json('{{\"n\":9}}'))")
    rows = sqlite.table("t").scan().to_arrow().sort_by("id").to_pylist()
    assert [seen(row) for row in rows] == [{"id": at, "v": {"n": at}} for at in (0, 2, 3, 9)]


@pytest.mark.parametrize("shred", [False, True])
def test_esker_reads_what_java_wrote_shredded_or_not(sqlite, shred: bool) -> None:
    sqlite.run(
        "CREATE TABLE {t} (id bigint, v variant) USING iceberg TBLPROPERTIES ('format-version'='3'"
        + (f", {SHRED})" if shred else ")"),
        f"INSERT INTO {{t}} SELECT id, {JSON} FROM range(0, 9, 1, 1)",
    )
    (path,) = sqlite.table("t").inspect.files()["file_path"].to_pylist()
    assert ("typed_value" in str(pq.ParquetFile(path.removeprefix("file:")).schema)) == shred
    rows = sqlite.table("t").scan().to_arrow().sort_by("id").to_pylist()
    assert [seen(row["v"]) for row in rows] == list(EXPECTED * 3)
