"""Partition values in folder names: what Hive and Spark write, and what it means in a column."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from esker.model.file_paths import hive_values, type_of_texts, value_of_text
from esker.model.types import BOOLEAN, DATE, DOUBLE, INT, LONG, STRING, DecimalType, TimestampType, Type


def test_folders_name_values_escaped_and_null() -> None:
    way = "day=2026-01-01/city=S%C3%A3o%20Paulo%3D1/p%3Dq=a+b/none=__HIVE_DEFAULT_PARTITION__/plain/x=y.parquet"
    assert hive_values(way) == {"day": "2026-01-01", "city": "São Paulo=1", "p=q": "a+b", "none": None}


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (STRING, "null", "null"),
        (STRING, None, None),
        (INT, "007", 7),
        (LONG, "-5", -5),
        (BOOLEAN, "TRUE", True),
        (DOUBLE, "1.5", 1.5),
        (DecimalType(5, 2), "1.5", Decimal("1.50")),
        (DATE, "1970-01-02", 1),
        (TimestampType(), "1970-01-01 00:00:01", 1_000_000),
    ],
)
def test_texts_become_values_of_the_column(type_: Type, text: str | None, value: object) -> None:
    assert value_of_text(type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (INT, "1_0"),
        (INT, " 1"),
        (INT, "٣"),
        (INT, str(2**31)),
        (LONG, "1.0"),
        (BOOLEAN, "yes"),
        (DOUBLE, "NaN"),
        (DecimalType(3, 2), "12.34"),
        (DATE, "2026-13-01"),
        (TimestampType(zoned=True), "2026-01-01 00:00:00"),  # whose midnight it is, no one knows
    ],
)
def test_texts_that_mean_no_value_are_refused(type_: Type, text: str) -> None:
    with pytest.raises(ValueError, match=f"is no {re.escape(str(type_))}"):
        value_of_text(type_, text)


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        ({"1", "-20", None}, "int"),
        ({"1", str(2**40)}, "bigint"),
        ({"1", str(2**70)}, "string"),
        ({"1", "2.5"}, "double"),
        ({"1", "nan"}, "string"),
        ({"2026-01-01", "2026-02-28"}, "date"),
        ({"2026-01-01", "2026-02-30"}, "string"),
        ({"20260101", "x"}, "string"),
        ({None}, "string"),
    ],
)
def test_a_column_of_folders_has_the_type_that_spark_takes_it_for(texts: set[str | None], type_: str) -> None:
    assert type_of_texts(texts) == type_
