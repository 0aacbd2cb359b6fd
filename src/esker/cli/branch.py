"""``esker branch``: a name that moves on with every commit to it."""

from __future__ import annotations

from typing import Any

import click

from esker.cli.ages import Age
from esker.cli.settings import shared_options, snapshot_options


@click.command("branch")
@click.argument("table")
@click.argument("name")
@snapshot_options
@click.option("--retain", type=Age(), metavar="AGE", help="How long the branch is kept: 7d, 12h; for ever without it.")
@click.option("--retain-snapshots", type=click.IntRange(min=1), metavar="N", help="Expiry leaves it N snapshots.")
@click.option("--retain-snapshots-for", type=Age(), metavar="AGE", help="Expiry leaves it snapshots younger than AGE.")
@click.option("--replace", is_flag=True, help="Move the branch if there is one of that name.")
@click.option("--drop", is_flag=True, help="Forget the branch; its snapshots stay until they expire.")
@shared_options
def command(table: str, name: str, drop: bool, **given: Any) -> None:
    """Make a branch of TABLE at a snapshot, the current one unless another is chosen."""
    from esker.cli.answer import answer
    from esker.cli.named_snapshots import drop_named, made_facts, refuse_with_drop, show_named, wanted_snapshot
    from esker.cli.opening import open_to_change

    if drop:
        refuse_with_drop(**given)
    opened = open_to_change(table)
    if drop:
        facts = drop_named(opened, name, "branch")
    else:
        opened.branch(
            name,
            wanted_snapshot(opened, given["snapshot_id"], given["as_of"], given["ref"]),
            min_snapshots_to_keep=given["retain_snapshots"],
            max_snapshot_age_ms=given["retain_snapshots_for"],
            max_ref_age_ms=given["retain"],
            replace=given["replace"],
        )
        facts = made_facts(opened, name, "branch")
    answer(facts, lambda screen: show_named(screen, facts))
