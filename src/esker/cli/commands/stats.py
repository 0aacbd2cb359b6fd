"""``esker stats``: show the statistics files of a table, and compute them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

DEFAULT = 20


@click.command("stats")
@click.argument("table")
@click.option("--snapshot-id", type=int, metavar="ID", help="The snapshot with this id [default: the current one].")
@click.option("--compute", is_flag=True, help="Compute them, and register them in the table's metadata.")
@click.option("--column", "columns", multiple=True, metavar="NAME", help="Compute this column; may be repeated.")
@yes_option
@limit_options(DEFAULT, "partitions")
@shared_options
def stats_command(
    table: str,
    snapshot_id: int | None,
    compute: bool,
    columns: tuple[str, ...],
    yes: bool,
    limit: int | None,
    every: bool,
) -> None:
    """Show the distinct values per column and the counts per partition that are recorded for TABLE.

    They are those of the snapshot, or of its nearest ancestor that has any. With --compute and --yes they are computed
    first: the data files are read once, and for partitions the manifests that changed.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_iceberg_to_change, open_named

    if (columns or yes) and not compute:
        raise click.UsageError("--column and --yes are for --compute: add it")
    opened = open_iceberg_to_change(table, "compute statistics of") if compute else open_named(table)
    if yes:
        opened.compute_statistics(list(columns) or None, snapshot_id)
        if _is_partitioned(opened):
            opened.compute_partition_statistics(snapshot_id)
    facts = stats_facts(opened, snapshot_id, chosen_limit(limit, every, DEFAULT))
    facts["plan"] = _plan(opened, snapshot_id, list(columns)) if compute and not yes else None
    facts["done"] = yes
    answer(facts, lambda screen: _show(screen, facts))


def stats_facts(table: Table, snapshot_id: int | None, limit: int | None) -> dict[str, Any]:
    """The recorded statistics. ``partitions`` has the first ones, ``partitions_total`` counts all."""
    from esker.maintain.statistics.register import nearest

    metadata = table.metadata
    of_columns = nearest(metadata, metadata.statistics, snapshot_id)
    of_partitions = nearest(metadata, metadata.partition_statistics, snapshot_id)
    rows = None if of_partitions is None else table.partition_statistics(snapshot_id)
    return {
        "name": table.name,
        "snapshot_id": metadata.current_snapshot_id if snapshot_id is None else snapshot_id,
        "columns_of": None if of_columns is None else of_columns.snapshot_id,
        "columns": [
            {"column": column, "distinct_values": count} for column, count in table.distinct_values(snapshot_id).items()
        ],
        "partitions_of": None if of_partitions is None else of_partitions.snapshot_id,
        "partitions_total": 0 if rows is None else rows.num_rows,
        "partitions": [] if rows is None else rows.slice(0, limit).to_pylist(),
    }


def _plan(table: Table, snapshot_id: int | None, columns: list[str]) -> dict[str, Any]:
    funnel = table.scan(columns=columns or None, snapshot_id=snapshot_id).plan().funnel
    return {"columns": columns or None, "files": funnel.files_kept, "bytes": funnel.bytes_kept}


def _is_partitioned(table: Table) -> bool:
    return any(spec.fields for spec in table.metadata.specs)


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.commands.files import partition_text
    from esker.cli.humanize import counted, number, size
    from esker.cli.screen import Column

    screen.title(facts["name"], f"snapshot {facts['snapshot_id']}")
    if not facts["columns"]:
        screen.line("No distinct values are recorded.")
    else:
        _say_which(screen, facts, "columns_of")
        columns = [Column("column", style="cyan", wraps=True), Column("distinct values", right=True)]
        screen.table(columns, [(one["column"], number(one["distinct_values"])) for one in facts["columns"]])
    if facts["partitions_of"] is None:
        screen.line("No partition statistics are recorded.")
    else:
        _say_which(screen, facts, "partitions_of")
        right = ("rows", "files", "size", "position deletes", "equality deletes")
        shown = [Column("partition", style="cyan", wraps=True), *(Column(name, right=True) for name in right)]
        screen.table(
            shown,
            [
                (
                    partition_text(one["partition"]),
                    number(one["data_record_count"]),
                    number(one["data_file_count"]),
                    size(one["total_data_file_size_in_bytes"]),
                    number(one["position_delete_record_count"]),
                    number(one["equality_delete_record_count"]),
                )
                for one in facts["partitions"]
            ],
        )
        hidden = facts["partitions_total"] - len(facts["partitions"])
        if hidden:
            screen.note(f"{counted(hidden, 'more partition')} not shown; --all shows them.")
    if facts["plan"] is not None:
        files, read = facts["plan"]["files"], facts["plan"]["bytes"]
        screen.note(
            f"--compute would read {counted(files, 'file')} ({size(read)}). Nothing was changed; --yes does it."
        )


def _say_which(screen: Screen, facts: dict[str, Any], which: str) -> None:
    if facts[which] != facts["snapshot_id"]:
        screen.note(f"Of snapshot {facts[which]}, an ancestor.")
