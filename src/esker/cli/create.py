"""``esker create``: a new table, or a new namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


@click.command("create")
@click.argument("name")
@click.option("--schema", metavar="DDL", help="The columns: 'id bigint not null, ts timestamp'.")
@click.option("--partition-by", multiple=True, metavar="TERM", help="day(ts), bucket(16, id), region; may be repeated.")
@click.option("--sort-by", multiple=True, metavar="TERM", help="'ts desc nulls last', id; may be repeated.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated.")
@click.option("--format-version", type=int, metavar="N", help="1, 2 or 3 [default: 2].")
@click.option("--location", metavar="PLACE", help="Where the table is to lie, unless below the warehouse.")
@click.option("--namespace", "is_namespace", is_flag=True, help="NAME is a namespace to make, not a table.")
@shared_options
def command(name: str, properties: tuple[str, ...], is_namespace: bool, **table: Any) -> None:
    """Make the table NAME, or with --namespace the namespace NAME.

    A table's name is namespace.table, and its namespace must be there.
    """
    from esker.cli.answer import answer

    settings = _settings(properties)
    if is_namespace:
        given = [f"--{option.replace('_', '-')}" for option, value in table.items() if value]
        if given:
            raise click.UsageError(f"{given[0]} is for tables, and --namespace makes a namespace")
        made = _make_namespace(name, settings)
        answer(made, lambda screen: screen.line(f"Made the namespace {name}."))
        return
    if not table["schema"]:
        raise click.UsageError("--schema is missing: say the table's columns, as in --schema 'id bigint not null'")
    facts = created_facts(_make_table(name, settings, **table))
    answer(facts, lambda screen: _show(screen, facts))


def _settings(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--property takes KEY=VALUE, not {pair!r}")
        if key in found:
            raise click.UsageError(f"--property {key} is given twice")
        found[key] = value
    return found


def _make_namespace(name: str, settings: dict[str, str]) -> dict[str, Any]:
    from esker.cli.opening import open_lake

    open_lake(current_settings(), may_make=True).create_namespace(name, settings)
    return {"made": "namespace", "namespace": name, "properties": settings}


def _make_table(name: str, settings: dict[str, str], *, format_version: int | None, **given: Any) -> Table:
    from esker.cli.opening import open_lake
    from esker.errors import NoSuchNamespace

    try:
        return open_lake(current_settings(), may_make=True).create_table(
            name,
            properties=settings,
            format_version=2 if format_version is None else format_version,
            **given,
        )
    except NoSuchNamespace as error:
        namespace = name.rpartition(".")[0]
        raise type(error)(
            f"{error.message}; make it with: esker create --namespace {namespace}", **error.facts
        ) from error


def created_facts(table: Table) -> dict[str, Any]:
    """What a table is that holds nothing yet."""
    from esker.cli.table_facts import partitioning, sort_terms

    return {
        "made": "table",
        "name": table.name,
        "location": table.location,
        "metadata_location": table.metadata_location,
        "uuid": table.uuid,
        "format_version": table.format_version,
        "columns": [
            {"id": field.id, "name": field.name, "type": str(field.type), "required": field.required}
            for field in table.schema.fields
        ],
        "partitioning": partitioning(table),
        "sort_order": sort_terms(table),
        "properties": dict(table.properties),
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    columns = (f"{c['name']} {c['type']}{' not null' if c['required'] else ''}" for c in facts["columns"])
    screen.title(f"Made {facts['name']}", f"Iceberg v{facts['format_version']}")
    screen.card(
        [
            ("columns", ", ".join(columns)),
            ("partitioned", ", ".join(facts["partitioning"]) or "no"),
            ("sorted", ", ".join(facts["sort_order"]) or "no"),
            ("properties", "\n".join(f"{key} = {value}" for key, value in sorted(facts["properties"].items()))),
            ("location", facts["location"]),
        ]
    )
