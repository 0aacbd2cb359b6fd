"""From options to a table, in the process that plans: on the driver, or on a Connect server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esker.errors import AlreadyExists, InvalidInput, NoSuchTable
from esker.lake import Lake, open_table_at
from esker.lake import open_lake as connect
from esker.spark.source.options import Options
from esker.table import MAIN, Table

Address = Mapping[str, Any]


def open_lake(options: Options, registered: Address | None) -> Lake:
    """The lake that the options name, else the one that was registered."""
    uri, warehouse = options.get("catalog"), options.get("warehouse")
    if uri is not None:
        return connect(uri, warehouse=warehouse, allowed_roots=options.names("allowed-roots"))
    for alone in ("warehouse", "allowed-roots"):
        if options.get(alone) is not None:
            raise InvalidInput(f"cannot take the option {alone} alone: name its catalog too", option=alone)
    if registered is None:
        raise InvalidInput("cannot open a table: no lake was registered; give the option catalog", option="catalog")
    return connect(**registered)


def open_table(options: Options, registered: Address | None) -> Table:
    """The table that ``load`` or ``save`` named: by its name in the catalog, or where it lies."""
    name = table_name(options)
    if is_path(name):
        return open_table_at(name, allowed_roots=options.names("allowed-roots"))
    return open_lake(options, registered).table(name)


def open_or_create(lake: Lake, options: Options, schema: Any) -> Table | None:
    """The table to write to; one that is missing is made with the frame's columns where ``create`` says so. None where
    the table is there and ``if-exists = ignore``."""
    name = table_name(options)
    if is_path(name):
        raise InvalidInput(
            f"cannot write to {name}: a table opened by its path is read-only; name it as its catalog does, or "
            "register it there with lake.register_table(name, metadata_location)",
            path=name,
        )
    create = options.switch("create")
    for extra in ("partition-by", "sort-by", "format-version"):
        if options.get(extra) is not None and not create:
            raise InvalidInput(f"cannot take the option {extra} without create = true", option=extra)
    if_exists = options.choice("if-exists", "append", "error", "ignore")
    try:
        table = lake.table(name)
    except NoSuchTable as error:
        if not create:
            raise NoSuchTable(f"{error.message}; to make it, set the option create = true", **error.facts) from error
        return _created(lake, name, options, schema)
    if if_exists == "error":
        raise AlreadyExists(f"cannot make {name}: there is such a table, and if-exists = error", table=name)
    return None if if_exists == "ignore" else table


def _created(lake: Lake, name: str, options: Options, schema: Any) -> Table:
    try:
        return lake.create_table(
            name,
            schema,
            partition_by=options.names("partition-by"),
            sort_by=options.names("sort-by"),
            format_version=options.number("format-version", at_least=1) or 2,
        )
    except AlreadyExists:  # another writer was quicker
        return lake.table(name)


def table_name(options: Options) -> str:
    """What ``load``, ``save`` or ``start`` was given."""
    name = (options.get("path") or "").strip()
    if not name:
        raise InvalidInput("cannot tell which table is meant: name it, as in load('sales.orders')", option="path")
    return name


def is_path(name: str) -> bool:
    """Whether a name is that of a directory or file: no table's name has a slash."""
    return "/" in name


def branch_of(options: Options) -> str:
    """The branch to write to or to follow."""
    return options.get("branch") or MAIN
