"""``esker tag``: a name that stays with one snapshot."""

from __future__ import annotations

import click

from esker.cli.ages import Age
from esker.cli.settings import shared_options, snapshot_options


@click.command("tag")
@click.argument("table")
@click.argument("name")
@snapshot_options
@click.option("--retain", type=Age(), metavar="AGE", help="How long the tag is kept: 7d, 12h; for ever without it.")
@click.option("--replace", is_flag=True, help="Move the tag if there is one of that name.")
@click.option("--drop", is_flag=True, help="Forget the tag; its snapshot stays until it expires.")
@shared_options
def command(
    table: str,
    name: str,
    snapshot_id: int | None,
    as_of: str | None,
    ref: str | None,
    retain: int | None,
    replace: bool,
    drop: bool,
) -> None:
    """Name a snapshot of TABLE, the current one unless another is chosen; the name stays with it."""
    from esker.cli.answer import answer
    from esker.cli.named_snapshots import drop_named, made_facts, refuse_with_drop, show_named, wanted_snapshot
    from esker.cli.opening import open_to_change

    if drop:
        refuse_with_drop(snapshot_id=snapshot_id, as_of=as_of, ref=ref, retain=retain, replace=replace)
    opened = open_to_change(table)
    if drop:
        facts = drop_named(opened, name, "tag")
    else:
        chosen = wanted_snapshot(opened, snapshot_id, as_of, ref)
        opened.tag(name, chosen, max_ref_age_ms=retain, replace=replace)
        facts = made_facts(opened, name, "tag")
    answer(facts, lambda screen: show_named(screen, facts))
