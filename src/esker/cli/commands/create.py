"""``esker init``, ``esker create``, ``esker register`` and ``esker convert``.

They create a lake, create a table or namespace, and add an existing table of Iceberg or of another format to a catalog.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import DEFAULT_CATALOG, current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


# ---------------------------------------------------------------- ``esker init``


_KINDS = {
    "sqlite": "SQLite catalog, local files",
    "postgresql": "PostgreSQL catalog",
    "directory": "the directory is the catalog",
}


@click.command("init")
@shared_options
def init_command() -> None:
    """Create a lake: a catalog and a folder for its tables.

    Without --catalog and $ESKER_CATALOG it is ./lake, a SQLite catalog and local files. A lake that exists is not
    changed, and the exit status is 2.
    """
    from esker.catalogs.open_catalog import make_catalog
    from esker.cli.answer import answer

    settings = current_settings()
    made = make_catalog(settings.catalog_uri, warehouse=settings.warehouse, properties=settings.properties)
    facts: dict[str, Any] = {
        "made": "lake",
        "catalog": settings.shown_catalog or DEFAULT_CATALOG,
        "kind": made.kind,
        "place": made.place,
        "warehouse": made.warehouse,
    }
    answer(facts, lambda screen: _show_lake(screen, facts, named=settings.warehouse is not None))


def _show_lake(screen: Screen, facts: dict[str, Any], *, named: bool) -> None:
    screen.title("Created a lake", _KINDS[facts["kind"]])
    screen.card([("catalog", facts["place"]), ("warehouse", facts["warehouse"])])
    if facts["catalog"] != DEFAULT_CATALOG and facts["kind"] != "postgresql":  # which may have a password
        screen.note(f"To use it without --catalog: export ESKER_CATALOG={shlex.quote(_from_anywhere(facts))}")
    if named:
        screen.note("The catalog does not record its warehouse: give --warehouse to esker create as well.")
    screen.note("Next: esker create --namespace NAME, then esker create NAME.TABLE --schema 'id bigint not null, …'")


def _from_anywhere(facts: dict[str, Any]) -> str:
    """The catalog's URI with an absolute path."""
    _, asked, options = facts["catalog"].partition("?")
    start = "sqlite:///" if facts["kind"] == "sqlite" else "file://"
    return f"{start}{facts['place']}{asked}{options}"


# ---------------------------------------------------------------- ``esker create``


@click.command("create")
@click.argument("name")
@click.option("--schema", metavar="DDL", help="The columns, for example 'id bigint not null, ts timestamp'.")
@click.option(
    "--partition-by",
    multiple=True,
    metavar="TERM",
    help="For example day(ts), bucket(16, id), region; may be repeated.",
)
@click.option("--sort-by", multiple=True, metavar="TERM", help="For example 'ts desc nulls last', id; may be repeated.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property; may be repeated.")
@click.option("--format-version", type=int, metavar="N", help="1, 2 or 3 [default: 2].")
@click.option("--location", metavar="PLACE", help="The table's location [default: below the warehouse].")
@click.option("--namespace", "is_namespace", is_flag=True, help="Create a namespace instead of a table.")
@shared_options
def create_command(name: str, properties: tuple[str, ...], is_namespace: bool, **table: Any) -> None:
    """Create the table NAME, or with --namespace the namespace NAME.

    The name of a table is namespace.table. Its namespace must exist.
    """
    from esker.cli.answer import answer

    settings = _settings(properties)
    if is_namespace:
        given = [f"--{option.replace('_', '-')}" for option, value in table.items() if value]
        if given:
            raise click.UsageError(f"{given[0]} is for tables; leave it out with --namespace")
        made = _make_namespace(name, settings)
        answer(made, lambda screen: screen.line(f"Created the namespace {name}."))
        return
    if not table["schema"]:
        raise click.UsageError(
            "--schema is missing: give the table's columns, for example --schema 'id bigint not null'"
        )
    facts = created_facts(_make_table(name, settings, **table))
    answer(facts, lambda screen: _show_created(screen, facts))


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
    from esker.cli.open_table import open_lake

    open_lake(current_settings(), may_make=True).create_namespace(name, settings)
    return {"made": "namespace", "namespace": name, "properties": settings}


def _make_table(name: str, settings: dict[str, str], *, format_version: int | None, **given: Any) -> Table:
    from esker.cli.open_table import open_lake
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
            f"{error.message}; create it with: esker create --namespace {namespace}", **error.facts
        ) from error


def created_facts(table: Table) -> dict[str, Any]:
    """The facts about a new table, for the answer."""
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


def _show_created(screen: Screen, facts: dict[str, Any]) -> None:
    columns = (f"{c['name']} {c['type']}{' not null' if c['required'] else ''}" for c in facts["columns"])
    screen.title(f"Created {facts['name']}", f"Iceberg v{facts['format_version']}")
    screen.card(
        [
            ("columns", ", ".join(columns)),
            ("partitioned", ", ".join(facts["partitioning"]) or "no"),
            ("sorted", ", ".join(facts["sort_order"]) or "no"),
            ("properties", "\n".join(f"{key} = {value}" for key, value in sorted(facts["properties"].items()))),
            ("location", facts["location"]),
        ]
    )


# ---------------------------------------------------------------- ``esker register``


@click.command("register")
@click.argument("name")
@click.argument("metadata_file")
@shared_options
def register_command(name: str, metadata_file: str) -> None:
    """Add an existing table to the catalog as NAME, by its newest metadata file or its directory.

    Nothing is copied: the table's files stay where they are. From now on, change the table only through this catalog.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake
    from esker.cli.table_facts import totals

    table = open_lake(current_settings()).register_table(name, metadata_location(metadata_file))
    facts: dict[str, Any] = created_facts(table) | {"made": "registration"} | totals(table, open_manifests=False)
    facts["snapshots"] = len(table.snapshots)
    answer(facts, lambda screen: _show_registered(screen, facts))


def metadata_location(text: str) -> str:
    """Return the absolute path of the metadata file: a catalog must not record a path that depends on the working
    directory.

    Raises ``NoSuchTable`` if there is no such file or directory.
    """
    from esker.catalogs.table_directory import current_metadata_file
    from esker.errors import NoSuchTable

    if "://" in text or text.startswith("file:"):
        return text
    place = Path(text)
    if not place.exists():
        raise NoSuchTable(f"no table at {text}: there is no such file or directory", path=text)
    return str((current_metadata_file(place) if place.is_dir() else place).resolve())


def _show_registered(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number

    screen.title(f"Registered {facts['name']}", f"Iceberg v{facts['format_version']}")
    screen.card(
        [
            ("rows", number(facts["rows"] if facts["rows"] is not None else facts["rows_at_most"])),
            ("files", counted(facts["data_files"], "data file")),
            ("snapshots", number(facts["snapshots"])),
            ("partitioned", ", ".join(facts["partitioning"]) or "no"),
            ("location", facts["location"]),
            ("metadata", facts["metadata_location"]),
        ]
    )


# ---------------------------------------------------------------- ``esker convert``


@click.command("convert")
@click.argument("source")
@click.argument("name")
@click.option("--format-version", type=int, default=2, metavar="N", help="2 or 3 [default: 2].")
@shared_options
def convert_command(source: str, name: str, format_version: int) -> None:
    """Make the Paimon table in the directory SOURCE the Iceberg table NAME of the catalog, over the same data files.

    Nothing is copied: only Iceberg's metadata is written. The rows of every file are read in both ways and compared
    before the table appears. Do not expire or compact the Paimon table afterwards while NAME is in use.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_lake, open_named
    from esker.cli.table_facts import totals

    lake = open_lake(current_settings(), may_make=True)
    table = lake.convert_table(name, open_named(source), format_version=format_version)
    facts: dict[str, Any] = created_facts(table) | {"made": "conversion", "source": source}
    facts |= totals(table, open_manifests=False)
    answer(facts, lambda screen: _show_converted(screen, facts))


def _show_converted(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number

    screen.title(f"Converted {facts['source']} to {facts['name']}", f"Iceberg v{facts['format_version']}")
    screen.card(
        [
            ("rows", f"{number(facts['rows'] if facts['rows'] is not None else facts['rows_at_most'])}, compared"),
            ("files", f"{counted(facts['data_files'], 'data file')}, not copied"),
            ("partitioned", ", ".join(facts["partitioning"]) or "no"),
            ("location", facts["location"]),
            ("metadata", facts["metadata_location"]),
        ]
    )
