"""``esker schema``: the columns of a table or a view."""

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
    answer(facts, lambda screen: _show(screen, facts))


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


def _show(screen: Screen, facts: dict[str, Any]) -> None:
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
