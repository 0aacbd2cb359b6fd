"""The golden tables, read by Spark through Esker: the same rows as by Arrow, as many as were recorded."""

from __future__ import annotations

from typing import Any

import pytest
from golden_tables import GoldenTable, catalogue
from spark_tables import agrees

import esker

NOT_IN_SPARK = frozenset({"variant", "nanoseconds"})  # whose answers have no one form in Arrow and Spark
READ = [golden for golden in catalogue() if NOT_IN_SPARK.isdisjoint(golden.exercises)]


@pytest.mark.slow
@pytest.mark.parametrize("golden", READ, ids=[golden.name for golden in READ])
def test_a_golden_table_reads_in_spark_as_recorded(golden: GoldenTable, spark: Any) -> None:
    table = esker.open_table(golden.directory)
    for answer in golden.answers():
        if answer["asked"].keys() <= {"ref"}:  # conditions and snapshots are asked of Arrow, which is quick
            assert agrees(table.scan(**answer["asked"]), spark) == len(answer["rows"]), answer["asked"]
