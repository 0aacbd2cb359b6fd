"""``esker ls``: the tables and views of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.humanize import ago, counted, number, size
from esker.cli.shared_options import current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.lake import Lake


@click.command("ls")
@click.argument("namespace", required=False)
@click.option("-l", "--long", "detailed", is_flag=True, help="Open each table: rows, files, size, last commit.")
@shared_options
def ls_command(namespace: str | None, detailed: bool) -> None:
    """List the tables and views of a catalog, or of one of its namespaces."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake

    lake = open_lake(current_settings())
    namespaces = [namespace] if namespace is not None else lake.namespaces()
    facts: dict[str, Any] = {
        "catalog": current_settings().shown_catalog,
        "namespaces": [
            {"namespace": name, "tables": _tables(lake, name, detailed), "views": lake.views(name)}
            for name in namespaces
        ],
    }
    answer(facts, lambda screen: _show(screen, facts, detailed))


def _tables(lake: Lake, namespace: str, detailed: bool) -> list[dict[str, Any]]:
    """The tables of a namespace. A table that cannot be opened is listed with the reason, and does not hide the
    others."""
    from esker.cli.table_facts import totals
    from esker.errors import EskerError

    found: list[dict[str, Any]] = []
    for name in lake.tables(namespace):
        facts: dict[str, Any] = {"name": name}
        if detailed:
            try:
                table = lake.table(name)
                facts |= totals(table, open_manifests=False)
                current = table.current_snapshot
                facts["snapshots"] = len(table.snapshots)
                facts["last_commit_ms"] = None if current is None else current.timestamp_ms
                facts["problem"] = None
            except EskerError as error:
                facts["problem"] = error.message
        found.append(facts)
    return found


def _show(screen: Screen, facts: dict[str, Any], detailed: bool) -> None:
    tables = [table for namespace in facts["namespaces"] for table in namespace["tables"]]
    views = [view for namespace in facts["namespaces"] for view in namespace["views"]]
    if detailed and (tables or views):
        _show_details(screen, tables, views)
    elif screen.is_terminal:
        _show_namespaces(screen, facts["namespaces"])
    else:  # one name on each line, for a pipe
        for table in tables:
            screen.line(table["name"])
        for view in views:
            screen.line(f"{view} (view)")
    if not facts["namespaces"]:
        screen.note("The catalog is empty. Create a namespace with: esker create --namespace NAME")
    elif not (tables or views):
        names = [namespace["namespace"] for namespace in facts["namespaces"]]
        screen.note(f"No tables in {counted(len(names), 'namespace')}: {', '.join(names)}.")
    elif detailed or screen.is_terminal:
        screen.note(_in_all(facts["namespaces"], tables, views))


def _show_namespaces(screen: Screen, namespaces: list[dict[str, Any]]) -> None:
    for namespace in namespaces:
        tables, views = namespace["tables"], namespace["views"]
        held = [counted(len(tables), "table") if tables else "no tables"]
        held += [counted(len(views), "view")] if views else []
        screen.title(namespace["namespace"], ", ".join(held))
        for table in tables:
            screen.line(f"  {table['name']}")
        for view in views:
            screen.line(f"  {view} (view)")


def _in_all(namespaces: list[dict[str, Any]], tables: list[dict[str, Any]], views: list[str]) -> str:
    held = counted(len(tables), "table") + (f" and {counted(len(views), 'view')}" if views else "")
    said = f"{held} in {counted(len(namespaces), 'namespace')}"
    sizes = [table["total_bytes"] for table in tables if table.get("total_bytes") is not None]
    broken = sum(table.get("problem") is not None for table in tables)
    if sizes:
        said += f", {size(sum(sizes))}"
    return said + (f"; {broken} cannot be opened." if broken else ".")


def _show_details(screen: Screen, tables: list[dict[str, Any]], views: list[str]) -> None:
    from esker.cli.screen import Column

    columns = [
        Column("table"),
        Column("rows", right=True),
        Column("files", right=True),
        Column("deletes", right=True, spare=1),
        Column("size", right=True),
        Column("snapshots", right=True, spare=2),
        Column("last commit"),
        Column("", wraps=True, style="red"),
    ]
    screen.table(columns, [*map(_row, tables), *((view, "", "", "", "", "", "view", "") for view in views)])


def _row(table: dict[str, Any]) -> tuple[str, ...]:
    if table["problem"] is not None:
        return (table["name"], "", "", "", "", "", "", table["problem"])
    last = table["last_commit_ms"]
    at_most = table["rows"] is None and table["rows_at_most"] is not None
    return (
        table["name"],
        f"≤ {number(table['rows_at_most'])}" if at_most else number(table["rows"]),
        number(table["data_files"]),
        number(table["delete_files"]),
        size(table["total_bytes"]),
        number(table["snapshots"]),
        "never" if last is None else ago(last),
        "",
    )
