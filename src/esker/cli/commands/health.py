"""``esker health`` and ``esker maintain``: how well a table is, and do what would make it better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.commands.refs import Age
from esker.cli.shared_options import shared_options, showing_progress, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.maintain.maintain_table import Maintenance
    from esker.maintain.table_health import Health


@click.command("health")
@click.argument("table")
@click.option("--orphans", is_flag=True, help="Also list the table's location, to count orphans.")
@shared_options
def health_command(table: str, orphans: bool) -> int:
    """Score TABLE from 0 to 100: small files, deletes, manifests, snapshots, skew.

    Each finding has its formula, one action, and what the action would change. The exit status is 1 if there is one.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named

    opened = open_named(table)
    with showing_progress():
        found = opened.health(orphans=orphans)
    facts = health_facts(found)
    answer(facts, lambda screen: _show_health(screen, facts))
    return 1 if found.findings else 0


def health_facts(found: Health) -> dict[str, Any]:
    """The scores as a document."""
    return {
        "name": found.name,
        "score": found.score,
        "formula": found.formula,
        "measures": [
            {
                "name": one.name,
                "score": one.score,
                "weight": one.weight,
                "formula": one.formula,
                "said": one.said,
                "needs_action": one.needs_action,
                "action": one.call if one.needs_action else None,
                "effect": one.effect if one.needs_action else None,
            }
            for one in found.measures
        ],
    }


def _show_health(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.screen import Column

    screen.title(facts["name"], f"health {facts['score']} of 100")
    columns = [
        Column("measure", style="cyan"),
        Column("score", right=True),
        Column("now", wraps=True),
        Column("action", wraps=True),
        Column("effect", wraps=True),
        Column("formula", wraps=True, spare=1),
    ]
    rows = [
        [one["name"], str(one["score"]), one["said"], one["action"] or "", one["effect"] or "", one["formula"]]
        for one in facts["measures"]
    ]
    screen.table(columns, rows)
    screen.note(f"score = {facts['formula']}")


# ---------------------------------------------------------------- ``esker maintain``


@click.command("maintain")
@click.argument("table")
@click.option("--max-bytes", type=click.IntRange(min=0), metavar="N", help="Leave out a step that would rewrite more.")
@click.option("--max-time", type=Age(), metavar="AGE", help="Begin no step after this time: 30m, 2h.")
@click.option("--orphans", is_flag=True, help="Also remove orphans.")
@yes_option
@shared_options
def maintain_command(table: str, max_bytes: int | None, max_time: int | None, orphans: bool, yes: bool) -> None:
    """Do what `esker health TABLE` recommends: compact, fold deletes, rewrite manifests, expire snapshots."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_to_change

    opened = open_to_change(table)
    with showing_progress():
        result = opened.maintain(
            max_bytes=max_bytes,
            max_seconds=None if max_time is None else max_time / 1000,
            orphans=orphans,
            dry_run=not yes,
        )
    facts = maintenance_facts(result)
    answer(facts, lambda screen: _show_maintenance(screen, facts))


def maintenance_facts(result: Maintenance) -> dict[str, Any]:
    """The plan or the report as a document."""
    return {
        "name": result.name,
        "done": result.done,
        "score_before": result.before.score,
        "score_after": None if result.after is None else result.after.score,
        "steps": [
            {
                "verb": step.verb,
                "arguments": dict(step.arguments),
                "why": step.why,
                "effect": step.effect,
                "plan": repr(step.plan),
                "report": None if step.report is None else repr(step.report),
                "skipped": step.skipped,
            }
            for step in result.steps
        ],
    }


def _show_maintenance(screen: Screen, facts: dict[str, Any]) -> None:
    after = "" if facts["score_after"] is None else f", {facts['score_after']} after"
    screen.title(facts["name"], f"health {facts['score_before']} before{after}")
    for step in facts["steps"]:
        screen.line(f"{step['verb']}: {step['why']}")
        screen.line(f"  {step['skipped'] or step['report'] or step['plan']}")
    if not facts["steps"]:
        screen.line("Nothing to do.")
    if not facts["done"]:
        screen.note("Nothing was changed; --yes does it.")
