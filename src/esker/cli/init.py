"""``esker init``: a lake where there is none."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import DEFAULT_CATALOG, current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen


@click.command("init")
@shared_options
def command() -> None:
    """Make a lake: a catalog and a folder for its tables.

    Without --catalog and $ESKER_CATALOG it is ./lake, a SQLite catalog and local files. One that is there already
    is left as it is, and the exit status is 2.
    """
    from esker.catalogs.make import make_catalog
    from esker.cli.answer import answer

    settings = current_settings()
    made = make_catalog(settings.catalog_uri, warehouse=settings.warehouse)
    facts: dict[str, Any] = {
        "made": "lake",
        "catalog": settings.catalog_uri,
        "kind": made.kind,
        "place": made.place,
        "warehouse": made.warehouse,
    }
    answer(facts, lambda screen: _show(screen, facts, named=settings.warehouse is not None))


def _show(screen: Screen, facts: dict[str, Any], *, named: bool) -> None:
    screen.title(
        "Made a lake", {"sqlite": "SQLite catalog, local files"}.get(facts["kind"], "a directory is its catalog")
    )
    screen.card([("catalog", facts["place"]), ("warehouse", facts["warehouse"])])
    if facts["catalog"] != DEFAULT_CATALOG:
        screen.note(f"To find it without --catalog: export ESKER_CATALOG={shlex.quote(_from_anywhere(facts))}")
    if named:
        screen.note("A catalog does not remember its warehouse: give --warehouse to esker create as well.")
    screen.note("Next: esker create --namespace NAME, then esker create NAME.TABLE --schema 'id bigint not null, …'")


def _from_anywhere(facts: dict[str, Any]) -> str:
    """The catalog's URI with its path in full."""
    _, asked, options = facts["catalog"].partition("?")
    start = "sqlite:///" if facts["kind"] == "sqlite" else "file://"
    return f"{start}{facts['place']}{asked}{options}"
