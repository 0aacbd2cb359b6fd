"""``esker explain``: what a predicate prunes, level by level."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.read.scan import Scan


@click.command("explain")
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="The predicate to explain, in Spark's SQL.")
@snapshot_options
@shared_options
def command(table: str, where: str | None, snapshot_id: int | None, as_of: str | None, ref: str | None) -> None:
    """Show what a scan would read, and which term of its predicate prunes what."""
    from esker.cli.answer import answer
    from esker.cli.opening import open_named

    scan = open_named(table).scan(where, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
    facts = explain_facts(scan, where)
    answer(facts, lambda screen: screen.lines(scan.explain()))


def explain_facts(scan: Scan, where: str | None) -> dict[str, Any]:
    """The funnel, and each term with what it alone would drop."""
    from esker.model.bind import to_sql

    plan = scan.plan()
    names = dict(plan.schema.name_by_id)
    return {
        "snapshot_id": None if plan.snapshot is None else plan.snapshot.snapshot_id,
        "where": where,
        "filter": to_sql(plan.filter, names),
        "funnel": asdict(plan.funnel),
        "terms": [
            {
                "term": to_sql(effect.term, names),
                "manifests_dropped_alone": effect.manifests,
                "files_dropped_alone": effect.files,
            }
            for effect in plan.effects
        ],
    }
