"""``esker schema``: a table's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.model.schema import Schema
    from esker.table import Table


@click.command("schema")
@click.argument("table")
@click.option("--schema-id", type=int, metavar="ID", help="An earlier schema; the current one without.")
@shared_options
def command(table: str, schema_id: int | None) -> None:
    """Show a table's columns: ids, types, defaults and comments."""
    from esker.cli.answer import answer
    from esker.cli.opening import open_named

    facts = schema_facts(open_named(table), schema_id)
    answer(facts, lambda screen: _show(screen, facts))


def schema_facts(table: Table, schema_id: int | None) -> dict[str, Any]:
    """The columns of one schema at every depth, by full name."""
    from esker.cli.table_facts import partitioning, sort_terms
    from esker.errors import InvalidInput

    known = table.metadata.schema_by_id
    schema = table.schema if schema_id is None else known.get(schema_id)
    if schema is None:
        ids = ", ".join(map(str, sorted(known)))
        raise InvalidInput(f"no schema {schema_id} in {table.name}: it has {ids}", schema_id=schema_id)
    return {
        "name": table.name,
        "schema_id": schema.schema_id,
        "current": schema.schema_id == table.metadata.current_schema_id,
        "schemas": sorted(known),
        "identifier_columns": sorted(schema.name_by_id.get(i, f"#{i}") for i in schema.identifier_field_ids),
        "partitioning": partitioning(table),
        "sort_order": sort_terms(table),
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
    from esker.cli.plain_values import plain

    initial, written = column["initial_default"], column["write_default"]
    if written is None and initial is None:
        return ""
    said = str(plain(written))
    return said if written == initial else f"{said} (older rows: {plain(initial)})"
