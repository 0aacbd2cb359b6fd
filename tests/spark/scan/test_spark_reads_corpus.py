"""Real tables of other engines, read by Spark through Esker: the same rows as by Arrow."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import corpus_index, corpus_root, of_each
from spark_tables import agrees

import esker
from esker.model.types import TimestampType, VariantType

NEEDED_TO_READ = ("datafile(current)", "manifest-list(current)", "manifest(current)")
MOST_ROWS = 100_000


WHOLE = [
    entry
    for entry in corpus_index()
    if not any(part in entry["missing"] for part in NEEDED_TO_READ) and (entry["expected_rows"] or 0) < MOST_ROWS
]


@pytest.mark.slow
@of_each("entry", WHOLE, ids=[entry["id"] for entry in WHOLE])
def test_a_table_of_another_engine_reads_in_spark_as_in_arrow(entry: dict[str, Any], spark: Any) -> None:
    table = esker.open_table(corpus_root() / "iceberg" / entry["id"])
    # Spark has no nanoseconds, in variants neither.
    unfit = {
        path[0].name
        for id_, path in table.schema.path_by_id.items()
        if isinstance(type_ := table.schema.by_id[id_].type, VariantType)
        or (isinstance(type_, TimestampType) and type_.nanos)
    }
    columns = [f.name for f in table.schema if f.name not in unfit]
    assert agrees(table.scan(columns=columns), spark) == entry["expected_rows"]
