"""A column of a new file gets a dictionary if its first rows repeat values; otherwise it is written plainly."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from write_tables import Written, table_of, write

from esker.arrow.write.choose_dictionaries import SAMPLE, columns_without_dictionary
from esker.model.types import BOOLEAN, DOUBLE, LONG, STRING, DecimalType, Field, ListType, StructType, Type, UuidType

ROWS = SAMPLE + 1_000


def written(type_: Type, values: list[object], **properties: str) -> Written:
    table = table_of(Field(id=1, name="c", type=type_), properties=properties)
    return write(table, [{"c": value} for value in values])


def has_dictionary(of: Written, leaf: int = 0) -> bool:
    return bool(of.parquet().metadata.row_group(0).column(leaf).has_dictionary_page)


@pytest.mark.parametrize(
    ("type_", "make"),
    [
        (LONG, lambda n: n),
        (DOUBLE, lambda n: n / 8),
        (STRING, lambda n: f"name-{n}"),
        (DecimalType(12, 2), lambda n: Decimal(n) / 100),
        (UuidType(), lambda n: UUID(int=n)),
        (StructType((Field(id=2, name="x", type=LONG),)), lambda n: {"x": n}),
    ],
)
def test_values_that_repeat_get_a_dictionary_and_others_do_not(type_: Type, make: object) -> None:
    different = [make(n) for n in range(ROWS)]  # type: ignore[operator]
    same = [make(n % 7) for n in range(ROWS)]  # type: ignore[operator]
    plain, repeated = written(type_, different), written(type_, same)
    assert not has_dictionary(plain)
    assert has_dictionary(repeated)
    assert [row["c"] for row in plain.rows()] == different
    assert [row["c"] for row in repeated.rows()] == same


def test_metrics_and_rows_do_not_depend_on_the_dictionary() -> None:
    values = [None if n % 11 == 0 else f"name-{n}" for n in range(ROWS)]
    plain = written(STRING, values)
    few = written(STRING, values[: SAMPLE - 1])  # too few rows to decide: with a dictionary
    assert not has_dictionary(plain)
    assert has_dictionary(few)
    found, metrics = plain.files[0], plain.files[0].metrics
    assert metrics is not None
    assert (found.record_count, metrics.null_counts[1]) == (ROWS, sum(value is None for value in values))
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (b"name-1", b"name-9998")
    assert len(found.split_offsets) == 1


def test_the_rows_after_the_sample_do_not_change_the_choice() -> None:
    values = pa.array([n % 3 for n in range(SAMPLE)] + list(range(SAMPLE)))
    schema = table_of(Field(id=1, name="c", type=LONG)).schema
    halves = [pa.record_batch([part], names=["c"]) for part in (values.slice(0, SAMPLE), values.slice(SAMPLE))]
    assert columns_without_dictionary(schema, halves) == frozenset()
    assert columns_without_dictionary(schema, halves[::-1]) == {1}


def test_nulls_booleans_and_lists_keep_their_dictionary() -> None:
    assert has_dictionary(written(LONG, [None] * ROWS))
    assert has_dictionary(written(ListType(element_id=2, element=LONG), [[n] for n in range(ROWS)]))
    schema = table_of(Field(id=1, name="c", type=BOOLEAN)).schema
    batch = pa.record_batch([pa.array([n % 2 == 0 for n in range(ROWS)])], names=["c"])
    assert columns_without_dictionary(schema, [batch]) == frozenset()


def test_a_property_switches_a_dictionary_off_and_never_on() -> None:
    key = "write.parquet.dict-encoding-enabled.column.c"
    assert not has_dictionary(written(LONG, [1] * ROWS, **{key: "false"}))
    assert not has_dictionary(written(LONG, list(range(ROWS)), **{key: "true"}))
