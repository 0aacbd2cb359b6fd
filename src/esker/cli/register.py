"""``esker register``: take a table that lies there already into a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen


@click.command("register")
@click.argument("name")
@click.argument("metadata_file")
@shared_options
def command(name: str, metadata_file: str) -> None:
    """Take a table into the catalog as NAME, by its newest metadata file or its directory.

    Nothing is copied: the table's files stay where they are, and from now on the catalog's writers move it on.
    """
    from esker.cli.answer import answer
    from esker.cli.create import created_facts
    from esker.cli.opening import open_lake
    from esker.cli.table_facts import totals

    table = open_lake(current_settings()).register_table(name, metadata_location(metadata_file))
    facts: dict[str, Any] = created_facts(table) | {"made": "registration"} | totals(table, open_manifests=False)
    facts["snapshots"] = len(table.snapshots)
    answer(facts, lambda screen: _show(screen, facts))


def metadata_location(text: str) -> str:
    """Where the metadata file is, in full: a catalog's pointer must not depend on where one stands."""
    from esker.errors import NoSuchTable
    from esker.wiring import current_metadata_file

    if "://" in text or text.startswith("file:"):
        return text
    place = Path(text)
    if not place.exists():
        raise NoSuchTable(f"no table at {text}: there is no such file or directory", path=text)
    return str((current_metadata_file(place) if place.is_dir() else place).resolve())


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.wording import counted, number

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
