"""Paimon tables read by Spark: the rows are merged in the JVM, and they are those that Arrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from corpus import corpus_root, of_each
from paimon_corpus import Case, as_text, cases

import esker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHOSEN = (  # one for each way of merging, of finding files and of storing rows
    "py.db/append_part", "py.db/pk_agg", "py.db/pk_dedup", "py.db/pk_partial", "py.db/pk_seqfield",
    "java.db/jdv", "java.db/jfirst", "java.db/jorc", "java.db/jpartial", "java.db/jpk",
    "spark.db/s_pk", "ghost.db/g", "py20_partitions.db/pstr",
)  # fmt: skip


def text_of(frame: DataFrame) -> list[str]:
    maps = {field.name for field in frame.schema.fields if field.dataType.typeName() == "map"}
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return as_text([{name: _pairs(value) if name in maps else value for name, value in row.items()} for row in rows])


def _pairs(value: Any) -> Any:
    return None if value is None else list(value.items())


def check(case: Case, spark: SparkSession) -> None:
    scan = esker.open_table(case.path).scan(snapshot_id=case.snapshot)
    assert text_of(scan.to_spark(spark)) == case.rows()


@of_each("case", [case for case in cases() if case.table in CHOSEN and case.snapshot is None], ids=str)
def test_a_table_has_the_rows_that_its_writer_put_in(case: Case, spark: SparkSession) -> None:
    check(case, spark)


@pytest.mark.cluster
@of_each("case", [case for case in cases() if case.table not in CHOSEN or case.snapshot is not None], ids=str)
def test_every_other_table_too(case: Case, spark: SparkSession) -> None:
    check(case, spark)


def test_sql_reads_a_warehouse_and_no_python_touches_a_row(spark: SparkSession) -> None:
    lake = esker.connect(f"paimon://{corpus_root() / 'paimon'}", spark=spark)
    found = lake.sql("SELECT v FROM java.jpk WHERE id = 1 AND dt = 'a'").collect()
    assert [row.v for row in found] == ["v1c"]
    plan = lake.table("java.jpk").to_spark()._jdf.queryExecution().executedPlan().toString()
    assert "Window" in plan
    assert "Python" not in plan
    assert "MapInArrow" not in plan


@of_each("name", ["java.db/jpk", "py.db/pk_agg", "java.db/jpartial", "spark.db/s_pk"], ids=str)
def test_a_filter_on_a_value_is_above_the_merge(name: str, spark: SparkSession) -> None:
    table = esker.open_table(Path(corpus_root()) / "paimon" / name)
    whole = table.to_arrow().to_pylist()
    column = next(field.name for field in reversed(table.schema.fields) if str(field.type) in ("long", "int", "string"))
    value = whole[0][column]
    where = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
    expected = as_text([row for row in whole if row[column] == value])
    assert text_of(table.scan(where).to_spark(spark)) == expected
    assert as_text(table.scan(where).to_arrow().to_pylist()) == expected
