"""``esker scan``: rows of a table."""

from __future__ import annotations

import click

from esker.cli.settings import chosen_limit, current_settings, limit_options, shared_options, snapshot_options

DEFAULT = 20


@click.command("scan")
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="Only rows that match, in Spark's SQL: \"day > '2026-01-01'\".")
@click.option("--columns", metavar="A,B,…", help="Only these columns, in this order.")
@snapshot_options
@limit_options(DEFAULT, "rows")
@shared_options
def command(
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
    from esker.cli.opening import open_named
    from esker.cli.printed_rows import print_rows, print_rows_json

    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    shown = chosen_limit(limit, every, DEFAULT)
    scan = open_named(table).scan(
        where,
        columns=wanted,
        snapshot_id=snapshot_id,
        as_of=as_of,
        ref=ref,
        # one more than is shown tells whether there are more
        limit=None if shown is None else shown + 1,
    )
    if current_settings().as_json:
        snapshot = scan.resolved.snapshot
        print_rows_json(scan, shown, {"snapshot_id": None if snapshot is None else snapshot.snapshot_id})
    else:
        print_rows(scan, shown)
