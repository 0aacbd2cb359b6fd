"""Variants by every way through Spark: written, changed, carried along, and read again by everyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_writes import lake_at, on_disk

import esker
from esker.errors import EskerError, NoSuchTable
from esker.model.variant import decode, encode
from esker.model.variant_text import to_json
from esker.spark.source.register_source import PUSH_DOWN

# What Spark makes a variant of, and how it reads in Python.
VALUES = [
    ('parse_json(\'{"b":[1,2.5,"x",null],"a":{"c":true}}\')', '{"a":{"c":true},"b":[1,2.5,"x",null]}'),
    ("parse_json('null')", "null"),
    ("parse_json('12345678901234567890123456789')", "12345678901234567890123456789"),
    ("cast(date'2020-02-03' as variant)", '"2020-02-03"'),
    ("cast(timestamp'2020-02-03 04:05:06.5Z' as variant)", '"2020-02-03 04:05:06.500000+00:00"'),
    ("cast(timestamp_ntz'2020-02-03 04:05:06' as variant)", '"2020-02-03 04:05:06"'),
    ("cast(float(1.5) as variant)", "1.5"),
    ("cast(double('NaN') as variant)", '"NaN"'),
    ("cast(unhex('00FF') as variant)", '"AP8="'),
    ("cast(1.230BD as variant)", "1.230"),
    ("cast(repeat('x', 100) as variant)", f'"{"x" * 100}"'),
]
COLUMNS = "id bigint, v variant, l array<variant>, s struct<a: int, x: variant>"
ROWS = """
    select id,
        if(id % 3 = 0, null, parse_json(concat('{"n":', id, ',"t":["a",', id, '.5]}'))) v,
        if(id % 4 = 0, null, array(parse_json(string(id)), null)) l,
        if(id % 5 = 0, null, named_struct('a', int(id), 'x', if(id % 2 = 0, null, parse_json('"s"')))) s
    from range(0, 12, 1, 2)
"""


def seen(value: Any) -> Any:
    """A row's value with its variants read."""
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return json.loads(to_json(value["metadata"], value["value"]))
    if isinstance(value, dict):
        return {key: seen(inner) for key, inner in value.items()}
    return [seen(inner) for inner in value] if isinstance(value, list) else value


def by_arrow(table: esker.Table) -> list[dict[str, Any]]:
    """All rows as Arrow reads them."""
    return sorted((seen(row) for row in table.scan().to_arrow().to_pylist()), key=lambda row: row["id"])


def by_spark(table: esker.Table) -> list[dict[str, Any]]:
    """All rows as Spark does."""
    shown = table.scan().to_spark().selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) row", "id")
    return [json.loads(row.row) for row in shown.orderBy("id").collect()]


def expected(ids: range | list[int] = range(12)) -> list[dict[str, Any]]:
    """What ``ROWS`` makes."""
    return [
        {
            "id": at,
            "v": None if at % 3 == 0 else {"n": at, "t": ["a", at + 0.5]},
            "l": None if at % 4 == 0 else [at, None],
            "s": None if at % 5 == 0 else {"a": at, "x": None if at % 2 == 0 else "s"},
        }
        for at in ids
    ]


def filled(spark: Any, folder: Path, **more: Any) -> esker.Table:
    """A table of those rows, written by Spark's workers."""
    table = lake_at(folder).create_table("a.t", COLUMNS, format_version=3, **more)
    table.append(spark.sql(ROWS))
    return table


@pytest.mark.parametrize(("given", "text"), VALUES, ids=[given[:40] for given, _ in VALUES])
def test_every_kind_of_value_comes_back_from_the_workers(spark: Any, tmp_path: Path, given: str, text: str) -> None:
    table = lake_at(tmp_path).create_table("a.t", "id bigint, v variant", format_version=3)
    table.append(spark.range(0, 2, 1, 1).selectExpr("id", f"if(id = 0, {given}, null) v"))
    held = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert to_json(held[0]["metadata"], held[0]["value"]) == text
    assert held[1] is None
    same = f"to_json(v) = to_json({given}) and schema_of_variant(v) = schema_of_variant({given}) same"
    found = table.scan().to_spark().selectExpr("id", same).collect()
    assert {row.id: row.same for row in found} == {0: True, 1: None}


def test_variants_at_every_depth_are_read_alike_by_arrow_and_by_spark(spark: Any, tmp_path: Path) -> None:
    table = filled(spark, tmp_path)
    assert by_arrow(table) == by_spark(table) == expected()
    assert all("v (Variant(1))" in str(pq.ParquetFile(path).schema) for path in on_disk(table))


def test_sparks_own_reader_takes_the_files_for_variants(spark: Any, tmp_path: Path) -> None:
    table = filled(spark, tmp_path)
    frame = spark.read.parquet(*map(str, on_disk(table)))
    assert frame.schema.simpleString() == "struct<id:bigint,v:variant,l:array<variant>,s:struct<a:int,x:variant>>"
    assert frame.selectExpr("sum(variant_get(v, '$.n', 'int'))").first()[0] == 48


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changes_of_rows_carry_variants_along(spark: Any, tmp_path: Path, mode: str) -> None:
    verbs = ("delete", "update", "merge")
    table = filled(spark, tmp_path, properties={f"write.{verb}.mode": mode for verb in verbs})
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("UPDATE a.t SET s = null WHERE id = 1")
    lake.sql("""UPDATE a.t SET v = parse_json('{"new":[true]}') WHERE id = 2""")
    lake.sql("DELETE FROM a.t WHERE variant_get(v, '$.n', 'int') = 4")
    lake.sql("INSERT INTO a.t VALUES (20, parse_json('[1]'), array(), null)")
    spark.sql("select 5L id, parse_json('5') v union all select 30L, parse_json('30')").createOrReplaceTempView("news")
    try:
        lake.sql("""MERGE INTO a.t t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v
                    WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)""")
    finally:
        spark.catalog.dropTempView("news")
    rows = {row["id"]: row for row in expected() if row["id"] != 4}
    rows[1]["s"], rows[2]["v"], rows[5]["v"] = None, {"new": [True]}, 5
    rows[20] = {"id": 20, "v": [1], "l": [], "s": None}
    rows[30] = {"id": 30, "v": 30, "l": None, "s": None}
    table = table.refresh()
    assert by_arrow(table) == by_spark(table) == list(rows.values())


def test_rows_are_upserted_with_their_variants(spark: Any, tmp_path: Path) -> None:
    table = filled(spark, tmp_path)
    table.upsert(spark.sql(f"select id, parse_json('\"up\"') v, l, s from ({ROWS}) where id in (3, 4)"), on=["id"])
    rows = [{**row, "v": "up"} if row["id"] in (3, 4) else row for row in expected()]
    assert by_arrow(table.refresh()) == by_spark(table) == rows


def test_a_table_is_made_of_a_query_with_variants(spark: Any, tmp_path: Path) -> None:
    filled(spark, tmp_path)
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE TABLE a.u TBLPROPERTIES ('format-version'='3') AS SELECT id, v FROM a.t WHERE id > 5")
    assert [row["v"] for row in by_arrow(lake.table("a.u"))] == [row["v"] for row in expected(range(6, 12))]
    with pytest.raises(EskerError, match="of type variant in format version 2"):
        lake.sql("CREATE TABLE a.w AS SELECT id, v FROM a.t")
    with pytest.raises(NoSuchTable):
        lake.table("a.w")


def test_a_filter_on_a_variant_reaches_the_rows(spark: Any, tmp_path: Path) -> None:
    filled(spark, tmp_path)
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    found = lake.sql("SELECT id FROM a.t WHERE variant_get(v, '$.t[1]', 'double') > 7 AND v IS NOT NULL ORDER BY id")
    assert [row.id for row in found.collect()] == [7, 8, 10, 11]
    short = lake.sql("SELECT id, v:t[0]::string FROM a.t WHERE v:n::int > 7 AND id < 11 ORDER BY id")
    assert [tuple(row) for row in short.collect()] == [(8, "a"), (10, "a")]
    lake.sql("""MERGE INTO a.t t USING (SELECT parse_json('{"k":8}') j) s ON t.id = s.j:k::int AND t.v:n::int = 8
                WHEN MATCHED THEN UPDATE SET v = s.j""")
    (row,) = lake.sql("SELECT to_json(v) v FROM a.t WHERE id = 8").collect()
    assert row.v == '{"k":8}'


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=5, deadline=None)
@given(st.lists(JSON, min_size=20, max_size=40))
def test_spark_and_python_make_the_same_of_json(spark_session: Any, values: list[Any]) -> None:
    frame = spark_session.createDataFrame(
        [(at, json.dumps(value)) for at, value in enumerate(values)], "id int, t string"
    )
    theirs = frame.selectExpr("id", "parse_json(t) v").orderBy("id").collect()
    assert [decode(bytes(row.v.metadata), bytes(row.v.value)) for row in theirs] == values
    ours = [row_of(*encode(value)) for value in values]
    back = spark_session.createDataFrame([(at, value) for at, value in enumerate(ours)], "id int, v variant")
    texts = [row.t for row in back.selectExpr("id", "to_json(v) t").orderBy("id").collect()]
    assert [json.loads(text) for text in texts] == values


def row_of(metadata: bytes, value: bytes) -> Any:
    """A variant of Spark's."""
    from pyspark.sql.types import VariantVal

    return VariantVal(value, metadata)


def test_files_that_spark_shredded_are_added_and_read_alike(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql(ROWS)
    rows.coalesce(1).write.parquet(str(tmp_path / "theirs"))
    (path,) = (tmp_path / "theirs").glob("*.parquet")
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    lake = lake_at(tmp_path, allowed_roots=[path.parent])
    mapping = [{"field-id": at, "names": [name]} for at, name in enumerate(("id", "v", "l", "s"), 1)]
    mapping[2]["fields"] = [{"field-id": 5, "names": ["element"]}]  # type: ignore[assignment]
    mapping[3]["fields"] = [{"field-id": 6, "names": ["a"]}, {"field-id": 7, "names": ["x"]}]  # type: ignore[assignment]
    named = {"schema.name-mapping.default": json.dumps(mapping)}
    table = lake.create_table("a.t", COLUMNS, format_version=3, properties=named)
    table.add_files([str(path)])
    assert by_arrow(table) == by_spark(table) == expected()
    table.delete("id < 6")
    assert by_arrow(table.refresh()) == by_spark(table) == expected(range(6, 12))


def test_the_data_source_gives_and_takes_variants(spark: Any, tmp_path: Path) -> None:
    table = filled(spark, tmp_path)
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    esker.spark.register(spark, lake)
    try:
        frame = spark.read.format("esker").load("a.t")
        assert frame.schema.simpleString() == table.scan().to_spark().schema.simpleString()
        shown = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) row", "id").orderBy("id")
        assert [json.loads(row.row) for row in shown.collect()] == expected()
        frame.selectExpr("id + 12 id", "v", "l", "s").write.format("esker").mode("append").save("a.t")
    finally:
        spark.conf.unset(PUSH_DOWN)
    again = [{**row, "id": row["id"] + 12} for row in expected()]
    assert by_arrow(table.refresh()) == by_spark(table) == [*expected(), *again]


def test_files_that_arrow_reads_for_spark_give_variants(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(spark, tmp_path)
    taken = []

    def unreadable(*column: Any) -> bool:
        taken.append(column)
        return False

    monkeypatch.setattr("esker.spark.scan.file_layouts.reads_natively", unreadable)
    assert by_spark(table) == expected()
    assert taken
