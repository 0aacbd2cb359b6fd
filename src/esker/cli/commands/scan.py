"""``esker scan`` and ``esker explain``: the rows of a table, and what a predicate prunes at each level."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, current_settings, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.read.scan import Scan


# ---------------------------------------------------------------- ``esker scan``


DEFAULT = 20


@click.command("scan")
@click.argument("table")
@click.option(
    "--where", metavar="PREDICATE", help="Only rows that match a predicate in Spark SQL: \"day > '2026-01-01'\"."
)
@click.option("--columns", metavar="A,B,…", help="Only these columns, in this order.")
@snapshot_options
@limit_options(DEFAULT, "rows")
@shared_options
def scan_command(
    table: str,
    where: str | None,
    columns: str | None,
    snapshot_id: int | None,
    as_of: str | None,
    ref: str | None,
    limit: int | None,
    every: bool,
) -> None:
    """Print rows of a table."""
    from esker.cli.open_table import open_named
    from esker.cli.print_rows import print_rows, print_rows_json

    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    shown = chosen_limit(limit, every, DEFAULT)
    scan = open_named(table).scan(
        where,
        columns=wanted,
        snapshot_id=snapshot_id,
        as_of=as_of,
        ref=ref,
        # One row more than is shown, to find out if there are more.
        limit=None if shown is None else shown + 1,
    )
    if current_settings().as_json:
        snapshot = scan.resolved.snapshot
        print_rows_json(scan, shown, {"snapshot_id": None if snapshot is None else snapshot.snapshot_id})
    else:
        print_rows(scan, shown)


# ---------------------------------------------------------------- ``esker explain``


@click.command("explain")
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="The predicate to explain, in Spark SQL.")
@snapshot_options
@shared_options
def explain_command(table: str, where: str | None, snapshot_id: int | None, as_of: str | None, ref: str | None) -> None:
    """Show what a scan would read, and which term of its predicate prunes what."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named

    scan = open_named(table).scan(where, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
    facts = explain_facts(scan, where)
    answer(facts, lambda screen: screen.lines(scan.explain()))


def explain_facts(scan: Scan, where: str | None) -> dict[str, Any]:
    """The number of files left after each step, and what each term alone would prune."""
    from esker.model.predicates.bind import to_sql

    plan = scan.plan()
    names = dict(plan.schema.name_by_id)
    return {
        "snapshot_id": None if plan.snapshot is None else plan.snapshot.snapshot_id,
        "where": where,
        "filter": to_sql(plan.filter, names),
        "planner": plan.planner,
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
