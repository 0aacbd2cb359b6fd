"""Partition values read aloud."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.metadata_tables.human_values import human
from esker.model.transform import DAY, HOUR, IDENTITY, MONTH, YEAR, Transform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Type,
)


@pytest.mark.parametrize(
    ("transform", "type_", "value", "said"),
    [
        (YEAR, INT, 56, "2026"),
        (YEAR, INT, -1, "1969"),
        (MONTH, INT, 0, "1970-01"),
        (MONTH, INT, -1, "1969-12"),
        (DAY, DATE, -1, "1969-12-31"),
        (HOUR, INT, -1, "1969-12-31-23"),
        (HOUR, INT, 25, "1970-01-02-01"),
        (IDENTITY, DATE, 19_000, "2022-01-08"),
        (IDENTITY, TIME, 3_723_000_001, "01:02:03.000001"),
        (IDENTITY, TIMESTAMP, 0, "1970-01-01T00:00:00"),
        (IDENTITY, TIMESTAMPTZ, -1, "1969-12-31T23:59:59.999999+00:00"),
        (IDENTITY, TIMESTAMP_NS, 1, "1970-01-01T00:00:00.000000001"),
        (IDENTITY, BOOLEAN, True, "true"),
        (IDENTITY, STRING, "x", "x"),
        (IDENTITY, DecimalType(9, 2), Decimal("14.20"), "14.20"),
        (IDENTITY, BINARY, b"\x00\x01", "AAE="),
        (IDENTITY, UUID, bytes(16), "00000000-0000-0000-0000-000000000000"),
        (DAY, DATE, None, "null"),
    ],
)
def test_a_partition_value_reads_as_people_write_it(transform: Transform, type_: Type, value: Any, said: str) -> None:
    assert human(transform, type_, value) == said


@given(st.integers(-(10**7), 10**7))
def test_every_day_has_a_date_even_where_the_calendar_of_python_ends(days: int) -> None:
    from datetime import date

    said = human(IDENTITY, DATE, days)
    if date.min.toordinal() <= days + 719163 <= date.max.toordinal():
        assert said == date.fromordinal(days + 719163).isoformat()
