"""The page about the golden tables, made from their catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

HEAD = """# Golden tables

{count} small tables of the project's own, written by four engines: {engines}. `make golden` makes them again; it needs
what `make interop-jvm` needs. `tables/` has the tables, `answers/` the rows that the engine named in the catalogue
read from each of them: all rows, the rows of each snapshot, and answers to some conditions, branches and tags. Esker
is never the engine that answers. Tables that Esker wrote are answered by Iceberg Java.

Every table was written to `s3://golden/<name>`, a place that does not exist: each engine was led to a local folder.
`esker.open_table` takes recorded locations relative to where the table is now, so the tables open here.

What DuckDB can do: without a REST catalog it writes a table only by `COPY … TO … (FORMAT iceberg)`, unpartitioned, as
version 2, with one snapshot. So there are three such tables, and one of PyIceberg's with Parquet files of DuckDB's.

This page and `catalogue.json` are made by `make golden`. `test_golden_tables.py` compares both with the folder.

| table | written by | exercises | what it is |
|---|---|---|---|
"""
COVERED = """
How many tables exercise what:

| | tables |
|---|---|
"""


def page(lines: Iterable[Mapping[str, Any]]) -> str:
    """The page, for the lines of the catalogue."""
    lines = list(lines)
    engines = sorted({line["writer"].partition(", by")[0] for line in lines if " and " not in line["writer"]})
    text = HEAD.format(count=len(lines), engines=", ".join(engines))
    for line in lines:
        text += f"| {line['name']} | {line['writer']} | {', '.join(line['exercises'])} | {line['about']} |\n"
    text += COVERED
    for feature in sorted({feature for line in lines for feature in line["exercises"]}):
        text += f"| {feature} | {sum(feature in line['exercises'] for line in lines)} |\n"
    return text
