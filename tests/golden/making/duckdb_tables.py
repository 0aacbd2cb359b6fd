"""The golden tables that DuckDB writes; its own queries are the answers.

Without a REST catalog DuckDB 1.5 writes Iceberg tables only by ``COPY … TO … (FORMAT iceberg)``: unpartitioned, one
snapshot, version 2. Its Parquet files come into a table of PyIceberg's beside these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from golden_answers import Question, answered
from golden_tables import plain_rows
from tests.golden.making.neutral import PLACE

TYPES = """
    SELECT i::INTEGER AS id, (i - 5)::BIGINT AS l, (i / 8)::DOUBLE AS d, (i / 4)::FLOAT AS f,
        (i / 3)::DECIMAL(20, 4) AS n,
        DATE '1969-12-30' + i::INTEGER AS day, TIMESTAMP '1969-12-31 22:30:00' + INTERVAL (i) HOUR AS ntz,
        TIMESTAMPTZ '2024-01-30 22:30:00+00' + INTERVAL (i) MINUTE AS tz, TIME '01:02:03.000004' AS clock,
        CASE WHEN i % 5 = 0 THEN NULL ELSE 'row ' || i END AS s, i % 2 = 0 AS flag, ('x' || i)::BLOB AS b,
        ('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))::UUID AS u
    FROM range(10) r(i)
"""
FLOATS = "SELECT unnest(['nan'::DOUBLE, '-0'::DOUBLE, 0, 'inf'::DOUBLE, '-inf'::DOUBLE, NULL, 1.5]) AS d"
NESTED = """
    SELECT i::INTEGER AS id, CASE WHEN i % 3 = 0 THEN NULL ELSE {'x': i, 'y': {'z': 'é' || i}} END AS st,
        [i, NULL] AS li, [[i], []] AS ll, MAP {'a': i, 'b': NULL} AS ma, [{'k': i}] AS ls
    FROM range(6) r(i)
"""
MADE = (
    (
        "duckdb_types",
        TYPES,
        ("v2", "decimals", "timestamps", "binary", "uuid"),
        "every type of DuckDB's that Iceberg has",
        ("s = 'row 3'", "day < DATE '1970-01-01'", "u = '00000000-0000-0000-0000-000000000007'"),
    ),
    ("duckdb_floats", FLOATS, ("v2", "nan", "negative-zero"), "NaN, infinities and both zeros", ()),
    (
        "duckdb_nested",
        NESTED,
        ("v2", "nested"),
        "structs, lists and maps inside each other",
        ("st.x = 2", "st IS NULL"),
    ),
)


def duckdb_engine(connection: Any) -> str:
    """DuckDB with its version."""
    return f"DuckDB {connection.execute('SELECT version()').fetchone()[0].lstrip('v')}"


def duckdb_tables(connection: Any) -> Iterator[dict[str, Any]]:
    """Write each table at the neutral place, and say what it is with DuckDB's answers about it."""
    engine = duckdb_engine(connection)
    for name, query, exercises, about, conditions in MADE:
        place = f"{PLACE}/{name}"
        connection.execute(f"COPY ({query}) TO '{place}' (FORMAT iceberg)")
        answers = []
        for where in (None, *conditions):
            clause = f" WHERE {where}" if where else ""
            rows = connection.execute(f"SELECT * FROM iceberg_scan('{place}'){clause}").to_arrow_table()
            answers.append(answered(Question(where=where), rows.column_names, plain_rows(rows)))
        yield {"name": name, "writer": engine, "exercises": exercises, "about": about, "answers": answers}
