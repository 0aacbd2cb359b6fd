"""DuckDB with its Iceberg extension, from packages rather than from the network."""

from __future__ import annotations

import pytest


def duckdb_with_iceberg(*more: str) -> object:
    """A connection with this extension and others; the calling test is skipped where one is not installed."""
    duckdb = pytest.importorskip("duckdb")
    extensions = pytest.importorskip("duckdb_extensions")
    names = ("avro", *more, "iceberg")
    for name in names:
        try:
            extensions.import_extension(name)
        except Exception as error:  # not packaged for this platform
            pytest.skip(f"DuckDB's extension {name} is not here: {error}")
    connection = duckdb.connect()
    load = "; ".join(f"LOAD {name}" for name in names)
    connection.execute(f"SET autoinstall_known_extensions = false; {load}; SET TimeZone = 'UTC'")
    return connection
