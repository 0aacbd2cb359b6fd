"""What the pages take for granted that their reader has."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def order_rows(first: int, count: int) -> pa.Table:
    """Orders as the pages have them."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "customer": [f"c-{number % 20}" for number in numbers],
            "amount": pa.array([Decimal(number) for number in numbers], pa.decimal128(12, 2)),
            "ts": pa.array(
                [datetime(2026, 10 + number % 2, 5, tzinfo=UTC) for number in numbers], pa.timestamp("us", "UTC")
            ),
        }
    )


GIVEN: dict[str, dict[str, Any]] = {
    "README.md": {
        "arrow_table": order_rows(0, 200),
        "fixed": order_rows(300, 10).filter(pa.array([False, True] * 5)),
    },
    "docs/guide.md": {
        "rows": order_rows(0, 200),
        "corrections": order_rows(300, 10),
        "more_rows": order_rows(400, 10).rename_columns(["id", "customer", "net", "ts"]),
    },
    "docs/inspect.md": {},
    "docs/reference.md": {},
    "docs/views.md": {},
}
