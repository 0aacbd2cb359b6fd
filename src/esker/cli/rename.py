"""``esker rename``: another name for a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen


@click.command("rename")
@click.argument("old")
@click.argument("new")
@shared_options
def command(old: str, new: str) -> None:
    """Give the table OLD the name NEW, in the same namespace or another; its files stay where they are."""
    from esker.cli.answer import answer
    from esker.cli.opening import open_lake

    table = open_lake(current_settings()).rename_table(old, new)
    facts: dict[str, Any] = {"from": old, "to": table.name, "location": table.location, "uuid": table.uuid}
    answer(facts, lambda screen: _show(screen, facts))


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    screen.title(f"Renamed {facts['from']} to {facts['to']}")
    screen.card([("location", f"{facts['location']} (as before)")])
