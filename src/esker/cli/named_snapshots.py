"""What ``esker tag`` and ``esker branch`` have in common: naming a snapshot, and forgetting a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

Kind = Literal["tag", "branch"]


def wanted_snapshot(table: Table, snapshot_id: int | None, as_of: str | None, ref: str | None) -> int | None:
    """The id that the options choose; None for the current one."""
    from esker.cli.opening import chosen_snapshot

    if snapshot_id is None and as_of is None and ref is None:
        return None
    found = chosen_snapshot(table, snapshot_id, as_of, ref)
    return None if found is None else found.snapshot_id


def refuse_with_drop(**given: Any) -> None:
    """Options that say how a name is made say nothing about dropping it."""
    for option, value in given.items():
        if value not in (None, False):
            raise click.UsageError(f"--drop and --{option.replace('_', '-')} exclude each other")


def drop_named(table: Table, name: str, kind: Kind) -> dict[str, Any]:
    """Forget a name of that kind; where it pointed is told, so that it can be made again."""
    from esker.errors import InvalidInput

    before = table.refs.get(name)
    if before is not None and before.kind.value != kind and name != "main":
        raise InvalidInput(
            f"cannot drop {kind} {name!r}: it is a {before.kind.value}; use esker {before.kind.value} --drop", ref=name
        )
    table.drop_ref(name)
    return {
        "name": table.name,
        "ref": name,
        "kind": kind,
        "change": "dropped",
        "snapshot_id": None if before is None else before.snapshot_id,
    }


def made_facts(table: Table, name: str, kind: Kind) -> dict[str, Any]:
    """The name as it is now."""
    ref = table.metadata.all_refs[name]
    return {
        "name": table.name,
        "ref": name,
        "kind": kind,
        "change": "made",
        "snapshot_id": ref.snapshot_id,
        "max_ref_age_ms": ref.max_ref_age_ms,
        "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        "max_snapshot_age_ms": ref.max_snapshot_age_ms,
    }


def show_named(screen: Screen, facts: dict[str, Any]) -> None:
    """One line, and for a dropped name the way back."""
    from esker.cli.refs import kept_text

    where = f"snapshot {facts['snapshot_id']}"
    if facts["change"] == "made":
        kept = kept_text(facts)
        screen.line(f"{facts['name']}: {facts['kind']} {facts['ref']} at {where}" + (f"; keeps {kept}" if kept else ""))
        return
    screen.line(f"{facts['name']}: dropped {facts['kind']} {facts['ref']}, which was at {where}")
    back = f"esker {facts['kind']} {facts['name']} {facts['ref']} --snapshot-id {facts['snapshot_id']}"
    screen.note(f"The snapshot stays until it expires. Back with: {back}")
