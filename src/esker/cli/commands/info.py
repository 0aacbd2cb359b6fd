"""``esker info`` and ``esker schema``: one table or view on one screen, and its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import shared_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esker.cli.screen import Screen
    from esker.model.schema import Schema
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
    is_iceberg = opened._workings.make_inspect is None
    title = f"Iceberg v{facts['format_version']}" if is_iceberg else "another format"
    answer(facts, lambda screen: _show(screen, facts, title))


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


def _show(screen: Screen, facts: dict[str, Any], title: str) -> None:
    from esker.cli.humanize import number, when

    screen.title(facts["name"], title)
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


# ---------------------------------------------------------------- ``esker schema``


@click.command("schema")
@click.argument("table")
@click.option("--schema-id", type=int, metavar="ID", help="An earlier schema [default: the current one].")
@shared_options
def schema_command(table: str, schema_id: int | None) -> None:
    """Show the columns of a table or a view: ids, types, defaults and comments."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_table_or_view
    from esker.view import View

    opened = open_table_or_view(table)
    facts = _view_schema_facts(opened, schema_id) if isinstance(opened, View) else schema_facts(opened, schema_id)
    answer(facts, lambda screen: _show_schema(screen, facts))


def schema_facts(table: Table, schema_id: int | None) -> dict[str, Any]:
    """The columns of one schema at every depth, by full name. Raises ``NotFound`` for an unknown id."""
    from esker.cli.table_facts import partitioning, sort_terms

    more = {"partitioning": partitioning(table), "sort_order": sort_terms(table)}
    return _shown(table.name, table.metadata.schema_by_id, table.schema, schema_id, more)


def _view_schema_facts(view: View, schema_id: int | None) -> dict[str, Any]:
    known = {schema.schema_id: schema for schema in view.metadata.schemas}
    return _shown(view.name, known, view.schema, schema_id, {"partitioning": [], "sort_order": []})


def _shown(
    name: str, known: Mapping[int, Schema], current: Schema, schema_id: int | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    from esker.errors import InvalidInput

    schema = current if schema_id is None else known.get(schema_id)
    if schema is None:
        ids = ", ".join(map(str, sorted(known)))
        raise InvalidInput(f"no schema {schema_id} in {name}: it has {ids}", schema_id=schema_id)
    return {
        "name": name,
        "schema_id": schema.schema_id,
        "current": schema.schema_id == current.schema_id,
        "schemas": sorted(known),
        "identifier_columns": sorted(schema.name_by_id.get(i, f"#{i}") for i in schema.identifier_field_ids),
        **more,
        "columns": _columns(schema),
    }


def _columns(schema: Schema) -> list[dict[str, Any]]:
    from esker.model.types import is_nested

    return [
        {
            "id": id_,
            "name": schema.name_by_id[id_],
            "own_name": field.name,
            "depth": len(schema.path_by_id[id_]) - 1,
            "type": _kind(field.type) if is_nested(field.type) else str(field.type),
            "required": field.required,
            "doc": field.doc,
            "initial_default": field.initial_default,
            "write_default": field.write_default,
        }
        for id_, field in schema.by_id.items()
    ]


def _kind(type_: Any) -> str:
    return str(type(type_).__name__.removesuffix("Type").lower())


def _show_schema(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.screen import Column

    which = "current" if facts["current"] else "not the current one"
    several = f" of {len(facts['schemas'])}" if len(facts["schemas"]) > 1 else ""
    screen.title(facts["name"], f"schema {facts['schema_id']}{several}, {which}")
    columns = [
        Column("id", right=True),
        Column("column"),
        Column("type", wraps=True),
        Column("null"),
        Column("default"),
        Column("comment", wraps=True, style="dim"),
    ]
    rows = [
        (
            str(column["id"]),
            "  " * column["depth"] + column["own_name"],
            column["type"],
            "not null" if column["required"] else "",
            _default(column),
            column["doc"] or "",
        )
        for column in facts["columns"]
    ]
    screen.table(columns, rows)
    screen.card(
        [
            ("identified by", ", ".join(facts["identifier_columns"])),
            ("partitioned by", ", ".join(facts["partitioning"])),
            ("sorted by", ", ".join(facts["sort_order"])),
        ]
    )


def _default(column: dict[str, Any]) -> str:
    from esker.cli.answer import plain

    initial, written = column["initial_default"], column["write_default"]
    if written is None and initial is None:
        return ""
    said = str(plain(written))
    return said if written == initial else f"{said} (older rows: {plain(initial)})"
