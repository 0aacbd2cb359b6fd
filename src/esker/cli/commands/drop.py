"""``esker drop``, ``esker undrop`` and ``esker rename``: remove a table or a namespace from a catalog, bring a table
back, or give it another name.

With ``--purge``, drop also deletes the table's own files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import current_settings, shared_options, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.lake import Lake


# ---------------------------------------------------------------- ``esker drop``


@click.command("drop")
@click.argument("name")
@click.option("--purge", is_flag=True, help="Also delete the table's own files.")
@click.option("--namespace", "is_namespace", is_flag=True, help="Drop a namespace, which must be empty.")
@yes_option
@shared_options
def drop_command(name: str, purge: bool, is_namespace: bool, yes: bool) -> None:
    """Drop the table NAME, or with --namespace the namespace NAME.

    Shows what would be removed, and does it only with --yes. The table's files stay where they are, so that it can be
    registered again. --purge deletes them, except files that other tables may use.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake

    lake = open_lake(current_settings())
    if is_namespace:
        if purge:
            raise click.UsageError("--purge is for tables: leave it out, a namespace is dropped only if it is empty")
        facts = _namespace_plan(lake, name)
        if yes:
            lake.drop_namespace(name)
        facts["done"] = yes
        answer(facts, lambda screen: _show_namespace(screen, facts))
        return
    facts = table_plan(lake, name, purge=purge)
    if yes:
        lake.drop_table(name, purge=purge)
        facts |= {"done": True, "files_left": _files_left(lake, facts) if purge else None}
    answer(facts, lambda screen: _show_dropped(screen, facts))


def table_plan(lake: Lake, name: str, *, purge: bool) -> dict[str, Any]:
    """What dropping would remove. A table whose metadata cannot be read can be dropped, but not purged."""
    from esker.cli.table_facts import totals
    from esker.errors import Corrupt, InvalidInput, NoSuchFile, Unsupported
    from esker.model.table_names import TableName

    TableName.parse(name)
    plan: dict[str, Any] = {"drop": "table", "name": name, "purge": purge, "done": False, "problem": None}
    nothing = dict.fromkeys(("location", "metadata_location", "snapshots", "rows_at_most", "data_files", "total_bytes"))
    plan |= {**nothing, "files_to_delete": None, "files_left": None}
    try:
        table = lake.table(name)
    except (Corrupt, NoSuchFile, Unsupported, InvalidInput) as error:
        if purge:
            raise
        return plan | {"problem": error.message}
    counted = totals(table, open_manifests=False)
    plan |= {
        "location": table.location,
        "metadata_location": table.metadata_location,
        "snapshots": len(table.snapshots),
        **{key: counted[key] for key in ("rows_at_most", "data_files", "total_bytes")},
    }
    if purge:
        from esker.maintain.purge import own_files
        from esker.ports.catalog import TableState

        state = TableState(metadata=table.metadata, metadata_location=table.metadata_location)
        plan["files_to_delete"] = len(own_files(state, table.inspect))
    return plan


def _files_left(lake: Lake, facts: dict[str, Any]) -> int:
    """How many files are still in the table's folder: files of no snapshot, and files that could not be deleted."""
    return sum(1 for _ in lake.catalog.storage().list(facts["location"]))


def _namespace_plan(lake: Lake, name: str) -> dict[str, Any]:
    from esker.errors import InvalidInput

    held = [*lake.tables(name), *(inner for inner in lake.namespaces() if inner.startswith(f"{name}."))]
    if held:
        raise InvalidInput(
            f"cannot drop namespace {name}: it has {', '.join(held[:5])}"
            + (f" and {len(held) - 5} more" if len(held) > 5 else ""),
            namespace=name,
            holds=held,
        )
    return {"drop": "namespace", "namespace": name, "done": False}


def _show_namespace(screen: Screen, facts: dict[str, Any]) -> None:
    if facts["done"]:
        screen.line(f"Dropped the namespace {facts['namespace']}.")
        return
    screen.line(f"Would drop the namespace {facts['namespace']}, which is empty.")
    screen.note("Nothing was changed; --yes does it.")


def _show_dropped(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size

    screen.title(f"{'Dropped' if facts['done'] else 'Would drop'} {facts['name']}")
    held = facts["data_files"] is not None
    screen.card(
        [
            ("rows", number(facts["rows_at_most"]) if held else ""),
            ("files", f"{counted(facts['data_files'], 'data file')}, {size(facts['total_bytes'])}" if held else ""),
            ("snapshots", number(facts["snapshots"]) if facts["snapshots"] is not None else ""),
            ("location", facts["location"] or ""),
            ("metadata", facts["metadata_location"] or "" if not facts["purge"] else ""),
            ("problem", facts["problem"] or ""),
        ]
    )
    screen.line(_fate(facts))
    if not facts["done"]:
        screen.note("Nothing was changed; --yes does it.")


def _fate(facts: dict[str, Any]) -> str:
    from esker.cli.humanize import counted

    done = facts["done"]
    if not facts["purge"]:
        back = f"esker register {facts['name']} {facts['metadata_location']}" if facts["metadata_location"] else ""
        return f"Its files {'stay' if done else 'would stay'} where they are." + (f" To undo: {back}" if back else "")
    files = counted(facts["files_to_delete"], "file")
    if not done:
        return f"Would permanently delete {files}."
    left = facts["files_left"]
    return f"Deleted {files}." + (f" {counted(left, 'file')} of no snapshot still there." if left else "")


# ---------------------------------------------------------------- ``esker rename``


@click.command("rename")
@click.argument("old")
@click.argument("new")
@shared_options
def rename_command(old: str, new: str) -> None:
    """Give the table OLD the name NEW, in the same namespace or another. Its files stay where they are."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake

    table = open_lake(current_settings()).rename_table(old, new)
    facts: dict[str, Any] = {"from": old, "to": table.name, "location": table.location, "uuid": table.uuid}
    answer(facts, lambda screen: _show_renamed(screen, facts))


def _show_renamed(screen: Screen, facts: dict[str, Any]) -> None:
    screen.title(f"Renamed {facts['from']} to {facts['to']}")
    screen.card([("location", f"{facts['location']} (as before)")])


# ---------------------------------------------------------------- ``esker undrop``


@click.command("undrop")
@click.argument("name", required=False)
@click.option("--as", "new_name", metavar="NAME", help="Bring it back under this name.")
@shared_options
def undrop_command(name: str | None, new_name: str | None) -> None:
    """Bring back the table NAME, which was dropped through `esker serve`. Without NAME, list such tables.

    The server keeps dropped tables for some days (--keep-dropped). The last one of that name is brought back.
    """
    from esker.catalogs.sql_dropped import dropped_tables
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake
    from esker.errors import Unsupported
    from esker.model.table_names import TableName

    kept = dropped_tables(open_lake(current_settings()).catalog)
    if kept is None:
        raise Unsupported(
            "cannot bring a table back: only catalogs in SQLite and PostgreSQL keep dropped tables", feature="undrop"
        )
    if name is None:
        found = [{"table": str(one.name), "dropped_ms": one.dropped_ms, "purges": one.purges} for one in kept.listed()]
        answer({"dropped": found}, lambda screen: _show_all(screen, found))
        return
    back = TableName.parse(name) if new_name is None else TableName.parse(new_name)
    kept.undrop(TableName.parse(name), back)
    facts = {"table": str(back)}
    answer(facts, lambda screen: screen.line(f"Brought back {back}."))


def _show_all(screen: Screen, found: list[dict[str, Any]]) -> None:
    from esker.model.display_text import show_ms

    if not found:
        screen.line("No table was dropped through the server, or their time is over.")
    for one in found:
        screen.line(f"{one['table']}  dropped {show_ms(one['dropped_ms'])}")
