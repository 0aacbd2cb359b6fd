"""DuckDB with its Iceberg extension, from packages rather than from the network."""

from __future__ import annotations

import pytest


def duckdb_with_iceberg() -> object:
    """A connection; the calling test is skipped where DuckDB or the extension is not installed."""
    duckdb = pytest.importorskip("duckdb")
    extensions = pytest.importorskip("duckdb_extensions")
    for name in ("avro", "iceberg"):
        try:
            extensions.import_extension(name)
        except Exception as error:  # not packaged for this platform
            pytest.skip(f"DuckDB's extension {name} is not here: {error}")
    connection = duckdb.connect()
    connection.execute("SET autoinstall_known_extensions = false; LOAD avro; LOAD iceberg; SET TimeZone = 'UTC'")
    return connection
