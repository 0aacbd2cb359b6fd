"""``esker verify`` and ``esker health``: is a table right, and is it in good shape?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options, showing_progress, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.maintain.table_health import Health
    from esker.maintain.verify.findings import Verification

DEFAULT = 50


@click.command("verify")
@click.argument("table")
@click.option("--deep", is_flag=True, help="Read the data files and compare them with what is recorded of them.")
@click.option("--repair", is_flag=True, help="Correct totals, a late hint and dangling deletes, with --yes.")
@limit_options(DEFAULT, "findings")
@yes_option
@shared_options
def verify_command(table: str, deep: bool, repair: bool, limit: int | None, every: bool, yes: bool) -> int:
    """Check that every file of TABLE exists and that all counts agree.

    Nothing is changed, unless --repair and --yes are given. Then a new snapshot corrects what can be corrected.

    The exit status is 1 if there is an error. Warnings, for example about deletes of files that are gone, do not change
    the status.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named, open_to_change

    if yes and not repair:
        raise click.UsageError("--yes is for --repair: verify alone changes nothing")
    opened = open_to_change(table) if repair else open_named(table)
    with showing_progress():
        found = opened.verify(deep=deep, repair=repair, dry_run=not yes)
    facts = verify_facts(found, chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))
    return 0 if found.ok else 1


def verify_facts(found: Verification, limit: int | None) -> dict[str, Any]:
    """The result as a document. ``findings`` has the first ones, ``counts`` counts all."""
    return {
        "name": found.name,
        "ok": found.ok,
        "deep": found.deep,
        "snapshots": found.snapshots,
        "manifests": found.manifests,
        "files": found.files,
        "rows_read": found.rows_read if found.deep else None,
        "errors": len(found.errors),
        "warnings": len(found.findings) - len(found.errors),
        "counts": dict(found.counts),
        "is_cut": found.is_cut,
        "repairable": list(found.repairable),
        "repaired": list(found.repaired),
        "findings": [
            {
                "severity": finding.severity.value,
                "rule": finding.rule,
                "must_hold": finding.must_hold,
                "file": finding.file,
                "snapshot_id": finding.snapshot_id,
                "why": finding.why,
            }
            for finding in found.findings[:limit]
        ],
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted
    from esker.cli.screen import Column

    seen = ", ".join(counted(facts[what], what[:-1]) for what in ("snapshots", "manifests", "files"))
    screen.title(facts["name"], seen + (f", {counted(facts['rows_read'], 'row')}" if facts["deep"] else ""))
    if facts["repaired"]:
        screen.line(f"Repaired: {', '.join(facts['repaired'])}.")
    if not facts["findings"]:
        total = facts["errors"] + facts["warnings"]
        screen.line("Nothing wrong." if not total else f"{counted(total, 'finding')}; --all shows them.")
        return
    columns = [Column("severity"), Column("rule", style="cyan"), Column("file", wraps=True), Column("why", wraps=True)]
    screen.table(columns, [[f["severity"], f["rule"], f["file"], f["why"]] for f in facts["findings"]])
    screen.line(f"{counted(facts['errors'], 'error')}, {counted(facts['warnings'], 'warning')}.")
    if facts["repairable"]:
        screen.note(f"Would repair: {', '.join(facts['repairable'])}. Nothing was changed; --yes does it.")
    hidden = facts["errors"] + facts["warnings"] - len(facts["findings"])
    if hidden:
        screen.note(f"{counted(hidden, 'more finding')} not shown; --all shows them.")


# ---------------------------------------------------------------- ``esker health``


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
