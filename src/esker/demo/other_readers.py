"""Counts of a table by engines that others wrote, through a REST catalog and S3."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any


def counted_by_others(address: str, token: str, table: str) -> dict[str, int]:
    """The rows that each installed engine reads. The keys of S3 are those of the environment."""
    counted: dict[str, int] = {}
    if find_spec("pyiceberg"):
        counted.update(_pyiceberg(address, token, table))
    if find_spec("duckdb_extensions"):
        counted["DuckDB"] = _duckdb(address, token, table)
    return counted


def _pyiceberg(address: str, token: str, name: str) -> dict[str, int]:
    from pyiceberg.catalog.rest import RestCatalog

    settings = {
        "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "s3.region": os.environ["AWS_REGION"],
    }
    table = RestCatalog("demo", uri=address, token=token, **settings).load_table(name)
    counted = {"PyIceberg": table.scan(selected_fields=("SpanId",)).to_arrow().num_rows}
    if find_spec("polars"):
        import polars

        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else it warns that it has no planner of its own
        counted["Polars"] = polars.scan_iceberg(table).select("SpanId").collect().height
    return counted


def _duckdb(address: str, token: str, name: str) -> int:
    import duckdb
    import duckdb_extensions

    session: Any = duckdb.connect()
    for extension in ("avro", "httpfs", "iceberg"):
        duckdb_extensions.import_extension(extension)
        session.load_extension(extension)
    endpoint = os.environ["AWS_ENDPOINT_URL"].partition("://")[2]
    keys = f"KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}'"
    place = f"REGION '{os.environ['AWS_REGION']}', ENDPOINT '{endpoint}', USE_SSL false, URL_STYLE 'path'"
    session.execute(f"CREATE SECRET (TYPE s3, {keys}, {place})")
    session.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{address}', TOKEN '{token}')")
    rows = session.execute(f"SELECT count(SpanId) FROM lake.{name}").fetchone()
    return int(rows[0]) if rows else 0
