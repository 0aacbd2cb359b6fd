"""``esker refs``: a table's branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import chosen_limit, limit_options, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

DEFAULT = 50


@click.command("refs")
@click.argument("table")
@limit_options(DEFAULT, "refs")
@shared_options
def command(table: str, limit: int | None, every: bool) -> None:
    """List a table's branches and tags, and how long each is kept."""
    from esker.cli.answer import answer
    from esker.cli.opening import open_named

    facts = refs_facts(open_named(table), chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))


def refs_facts(table: Table, limit: int | None) -> dict[str, Any]:
    """Branches first, then tags, ``main`` before all."""
    named = table.metadata.all_refs
    ordered = sorted(named, key=lambda name: (name != "main", named[name].kind.value, name))
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots}
    return {
        "name": table.name,
        "total": len(ordered),
        "refs": [
            {
                "ref": name,
                "kind": named[name].kind.value,
                "snapshot_id": named[name].snapshot_id,
                "timestamp_ms": snapshots[named[name].snapshot_id].timestamp_ms
                if named[name].snapshot_id in snapshots
                else None,
                "max_ref_age_ms": named[name].max_ref_age_ms,
                "min_snapshots_to_keep": named[name].min_snapshots_to_keep,
                "max_snapshot_age_ms": named[name].max_snapshot_age_ms,
            }
            for name in ordered[:limit]
        ],
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.screen import Column
    from esker.cli.wording import counted, when

    screen.title(facts["name"], counted(facts["total"], "ref"))
    if not facts["total"]:
        screen.note("No branches or tags: nothing has been written to this table yet.")
        return
    columns = [
        Column("ref", style="cyan", wraps=True),
        Column("kind"),
        Column("snapshot", right=True),
        Column("committed", wraps=True),
        Column("kept", wraps=True),
    ]
    rows = [
        (
            ref["ref"],
            ref["kind"],
            str(ref["snapshot_id"]),
            "expired" if ref["timestamp_ms"] is None else when(ref["timestamp_ms"]),
            kept_text(ref),
        )
        for ref in facts["refs"]
    ]
    screen.table(columns, rows)
    if facts["total"] > len(rows):
        screen.note(f"{counted(facts['total'] - len(rows), 'more ref')} not shown; --all shows them.")


def kept_text(ref: dict[str, Any]) -> str:
    """How long a ref and its snapshots are kept; nothing where the table's own rule holds."""
    from esker.cli.wording import duration

    said = []
    if ref["max_ref_age_ms"] is not None:
        said.append(f"itself for {duration(ref['max_ref_age_ms'])}")
    if ref["min_snapshots_to_keep"] is not None:
        said.append(f"at least {ref['min_snapshots_to_keep']} snapshots")
    if ref["max_snapshot_age_ms"] is not None:
        said.append(f"snapshots for {duration(ref['max_snapshot_age_ms'])}")
    return ", ".join(said)
