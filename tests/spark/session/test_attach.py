"""A lake attached to a session: what people type first works, and nothing but the session object changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attached import EXPECTED, typed

import esker
from esker.errors import InvalidInput, NoSuchTable
from esker.spark.attached.attach import Attachment
from esker.spark.attached.table_streams import StreamTable, stream_table
from esker.spark.sql.run_statement import SqlRunner


@pytest.mark.spark
def test_what_people_type_first_works(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    assert typed(spark, lake) == EXPECTED


@pytest.mark.spark
def test_only_the_session_object_changes(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint")
    before = type(spark), dict(vars(type(spark))), dict(vars(DataFrame)), dict(vars(spark))
    other = spark.newSession()
    esker.spark.attach(spark, lake, name="house")
    try:
        assert isinstance(spark, before[0])
        assert spark.sql("SELECT count(*) FROM house.s.t").collect()[0][0] == 0
        assert (dict(vars(before[0])), dict(vars(DataFrame))) == before[1:3]
        assert type(other.range(1)) is DataFrame
        with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|SINGLE_PART_NAMESPACE"):
            other.sql("SELECT * FROM house.s.t")
        with pytest.raises(InvalidInput, match="plain name"):
            esker.spark.attach(spark, lake, name="spark_catalog")
    finally:
        esker.spark.detach(spark)
    esker.spark.detach(spark)
    assert (type(spark), dict(vars(spark))) == (before[0], before[3])
    assert type(spark.range(1)) is DataFrame


def test_a_stream_has_a_table_or_a_branch_of_a_lake_that_others_can_open() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    lake.create_table("s.t", "id bigint")

    def table(name: str, partition_by: list[str] | None = None) -> StreamTable:
        return stream_table(attached, None, name, partition_by=partition_by)

    attached = Attachment(SqlRunner(lake, lambda: None), None, lake)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="cannot stream tables of this lake: it exists only in this process"):
        table("lake.s.t")
    attached.streams = True  # as if the session knew the data source
    assert table("lake.s.t") == StreamTable("s.t", {})
    assert table("s.t.branch_x") == StreamTable("s.t", {"branch": "x"})
    for name in ("s.t.files", "s.t.snapshot_id_5", "s.t.at_timestamp_5"):
        with pytest.raises(InvalidInput, match="only a table or a branch can be streamed"):
            table(name)
    with pytest.raises(NoSuchTable):
        table("s.new")
    assert table("s.new", []) == StreamTable("s.new", {"create": "true"})
    assert table("s.new", ["a", "day(b)"]) == StreamTable("s.new", {"create": "true", "partition-by": "a, day(b)"})
