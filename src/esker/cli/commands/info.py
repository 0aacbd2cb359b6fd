"""``esker info``: one table or view on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table
    from esker.view import View


# ---------------------------------------------------------------- tables


@click.command("info")
@click.argument("table")
@click.option("--count", is_flag=True, help="Count the rows exactly; reads data files if there are deletes.")
@shared_options
def info_command(table: str, count: bool) -> None:
    """Show one table on one screen: size, last commit, partitioning, refs, properties. For a view, show its query."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_table_or_view
    from esker.view import View

    opened = open_table_or_view(table)
    if isinstance(opened, View):
        told = view_facts(opened)
        answer(told, lambda screen: show_view(screen, told))
        return
    facts = info_facts(opened)
    if count and facts["rows"] is None:
        facts |= {"rows": opened.scan().count(), "counted_from": "reading"}
    answer(facts, lambda screen: _show(screen, facts))


def info_facts(table: Table) -> dict[str, Any]:
    """All facts of the screen, with exact values."""
    from esker.cli.answer import iso
    from esker.cli.table_facts import commit_facts, partitioning, ref_names, sort_terms, totals

    metadata = table.metadata
    return {
        "name": table.name,
        "location": table.location,
        "metadata_location": table.metadata_location,
        "uuid": table.uuid,
        "format_version": table.format_version,
        **totals(table),
        "columns": len(table.schema.fields),
        "schema_id": metadata.current_schema_id,
        "schemas": len(metadata.schemas),
        "partitioning": partitioning(table),
        "partition_specs": len(metadata.specs),
        "sort_order": sort_terms(table),
        "snapshots": len(table.snapshots),
        "last_updated": iso(metadata.last_updated_ms),
        "last_updated_ms": metadata.last_updated_ms,
        "last_commit": commit_facts(table.current_snapshot),
        "refs": {name: id_ for id_, names in ref_names(table).items() for name in names},
        "properties": dict(table.properties),
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import number, when

    screen.title(facts["name"], f"Iceberg v{facts['format_version']}")
    specs = facts["partition_specs"]
    screen.card(
        [
            ("rows", _rows(facts)),
            ("files", _files(facts)),
            ("last commit", _last_commit(facts)),
            ("snapshots", number(facts["snapshots"])),
            ("refs", _refs(facts["refs"])),
            ("columns", f"{facts['columns']:,}" + (f" (schema {facts['schema_id']})" if facts["schemas"] > 1 else "")),
            (
                "partitioned",
                (", ".join(facts["partitioning"]) or "no") + (f" ({specs} specs over time)" if specs > 1 else ""),
            ),
            ("sorted", ", ".join(facts["sort_order"]) or "no"),
            ("updated", when(facts["last_updated_ms"])),
            ("location", _location(facts)),
            ("metadata", facts["metadata_location"]),
            ("uuid", facts["uuid"] or "none"),
            ("properties", "\n".join(f"{key} = {value}" for key, value in sorted(facts["properties"].items()))),
        ]
    )


def _location(facts: dict[str, Any]) -> str:
    """The recorded location, with a note if the table has been moved."""
    moved = not facts["metadata_location"].startswith(facts["location"])
    return facts["location"] + (" (as recorded; the table has been moved)" if moved else "")


def _rows(facts: dict[str, Any]) -> str:
    from esker.cli.humanize import counted, number

    if facts["rows"] is not None:
        return number(facts["rows"])
    if facts["rows_at_most"] is None:
        return "unknown"
    kinds = [("position_deletes", "position delete"), ("equality_deletes", "equality delete")]
    said = [counted(facts[key], what) for key, what in kinds if facts[key]]
    return f"at most {number(facts['rows_at_most'])}, less {' and '.join(said) or 'deletes'} (--count counts them)"


def _files(facts: dict[str, Any]) -> str:
    from esker.cli.humanize import counted, size

    said = counted(facts["data_files"], "data file")
    if facts["delete_files"]:
        said += f", {counted(facts['delete_files'], 'delete file')}"
    return said if facts["total_bytes"] is None else f"{said}, {size(facts['total_bytes'])}"


def _last_commit(facts: dict[str, Any]) -> str:
    from esker.cli.humanize import when

    last = facts["last_commit"]
    if last is None:
        return "never: the table is empty"
    engine = " ".join(part for part in (last["engine"], last["engine_version"]) if part)
    said = [
        last["operation"] or "commit",
        f"by {engine}" if engine else "",
        f"for {last['user']}" if last["user"] else "",
    ]
    return f"{' '.join(filter(None, said))}, {when(last['timestamp_ms'])}\nsnapshot {last['snapshot_id']}"


def _refs(refs: dict[str, int]) -> str:
    names = sorted(refs, key=lambda name: (name != "main", name))
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


# ---------------------------------------------------------------- views


def view_facts(view: View) -> dict[str, Any]:
    """All facts of the screen, with exact values."""
    from esker.cli.answer import iso

    version = view.current_version
    return {
        "name": view.name,
        "kind": "view",
        "sql": view.sql,
        "dialects": list(view.dialects),
        "default_namespace": ".".join(version.default_namespace),
        "default_catalog": version.default_catalog,
        "columns": len(view.schema.fields),
        "version_id": version.version_id,
        "versions": len(view.versions),
        "last_updated": iso(view.history[-1].timestamp_ms if view.history else version.timestamp_ms),
        "engine": " ".join(version.summary.get(key, "") for key in ("engine-name", "engine-version")).strip(),
        "location": view.location,
        "metadata_location": view.metadata_location,
        "uuid": view.uuid,
        "properties": dict(view.properties),
    }


def show_view(screen: Screen, facts: dict[str, Any]) -> None:
    """Show the facts of a view."""
    screen.title(facts["name"], "Iceberg view")
    versions = f" (version {facts['version_id']} of {facts['versions']} stored)" if facts["versions"] > 1 else ""
    screen.card(
        [
            ("query", facts["sql"]),
            ("dialects", ", ".join(facts["dialects"])),
            ("names in", facts["default_namespace"]),
            ("columns", f"{facts['columns']:,}"),
            ("updated", f"{facts['last_updated']}{versions}"),
            ("made by", facts["engine"]),
            ("location", facts["location"]),
            ("metadata", facts["metadata_location"]),
            ("uuid", facts["uuid"]),
            ("properties", "\n".join(f"{key} = {value}" for key, value in sorted(facts["properties"].items()))),
        ]
    )
