"""``esker snapshots`` and ``esker rollback``: list a table's snapshots, and move ``main`` back to an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


# ---------------------------------------------------------------- ``esker snapshots``


DEFAULT = 20


@click.command("snapshots")
@click.argument("table")
@limit_options(DEFAULT, "snapshots")
@shared_options
def snapshots_command(table: str, limit: int | None, every: bool) -> None:
    """List a table's snapshots, newest first, with what each changed."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_named

    facts = snapshots_facts(open_named(table), chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show_snapshots(screen, facts))


def snapshots_facts(table: Table, limit: int | None) -> dict[str, Any]:
    """The newest ``limit`` snapshots, with their refs and changes."""
    from esker.cli.table_facts import commit_facts, ref_names, summary_number

    names = ref_names(table)
    newest = sorted(table.snapshots, key=lambda s: s.timestamp_ms, reverse=True)
    shown = []
    for snapshot in newest[:limit]:
        facts = commit_facts(snapshot) or {}
        facts["refs"] = names.get(snapshot.snapshot_id, [])
        facts["current"] = snapshot.snapshot_id == table.metadata.current_snapshot_id
        facts["changes"] = {
            "data_files_added": summary_number(snapshot.summary, "added-data-files"),
            "data_files_removed": summary_number(snapshot.summary, "deleted-data-files"),
            "delete_files_added": summary_number(snapshot.summary, "added-delete-files"),
            "delete_files_removed": summary_number(snapshot.summary, "removed-delete-files"),
            "rows_added": summary_number(snapshot.summary, "added-records"),
            "rows_removed": summary_number(snapshot.summary, "deleted-records"),
            "total_rows": summary_number(snapshot.summary, "total-records"),
        }
        shown.append(facts)
    return {"name": table.name, "total": len(newest), "snapshots": shown}


def _show_snapshots(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import ago, change, counted, number
    from esker.cli.screen import Column
    from esker.model.display_text import show_ms

    screen.title(facts["name"], counted(facts["total"], "snapshot"))
    if not facts["total"]:
        screen.note("Nothing has been written to this table yet.")
        return
    columns = [
        Column("", style="green"),
        Column("snapshot", right=True),
        Column("committed"),
        Column("", style="dim", spare=4),
        Column("operation"),
        Column("files", right=True, spare=2),
        Column("deletes", right=True, spare=3),
        Column("rows", right=True),
        Column("total rows", right=True, spare=1),
        Column("refs", wraps=True, style="cyan"),
    ]
    rows = []
    for snapshot in facts["snapshots"]:
        made = snapshot["changes"]
        rows.append(
            (
                "*" if snapshot["current"] else "",
                str(snapshot["snapshot_id"]),
                show_ms(snapshot["timestamp_ms"]),
                ago(snapshot["timestamp_ms"]),
                snapshot["operation"] or "",
                f"{change(made['data_files_added'], '+')} {change(made['data_files_removed'], '-')}".strip(),
                f"{change(made['delete_files_added'], '+')} {change(made['delete_files_removed'], '-')}".strip(),
                f"{change(made['rows_added'], '+')} {change(made['rows_removed'], '-')}".strip(),
                "" if made["total_rows"] is None else number(made["total_rows"]),
                ", ".join(snapshot["refs"]),
            )
        )
    screen.table(columns, rows)
    left = facts["total"] - len(rows)
    if left:
        screen.note(f"{counted(left, 'older snapshot')} not shown; --all shows them.")


# ---------------------------------------------------------------- ``esker rollback``


@click.command("rollback")
@click.argument("table")
@click.option("--snapshot-id", type=int, metavar="ID", help="The snapshot of that id.")
@click.option("--as-of", metavar="TIME", help="The snapshot current at that time (ISO 8601 or epoch ms).")
@yes_option
@shared_options
def rollback_command(table: str, snapshot_id: int | None, as_of: str | None, yes: bool) -> None:
    """Move the branch main of TABLE back to one of its earlier snapshots.

    Shows which snapshots would no longer be in main, and does it only with --yes. No file is removed. The other
    snapshots can be read by their ids, and a branch can be created at them, until they expire.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import open_iceberg_to_change

    if (snapshot_id is None) == (as_of is None):
        raise click.UsageError("give the snapshot to go back to: one of --snapshot-id and --as-of")
    opened = open_iceberg_to_change(table, "roll back")
    facts = rollback_plan(opened, snapshot_id, as_of)
    if yes:
        opened.rollback(facts["to"]["snapshot_id"])
        facts["done"] = True
    answer(facts, lambda screen: _show_rollback(screen, facts))


def rollback_plan(table: Table, snapshot_id: int | None, as_of: str | None) -> dict[str, Any]:
    """The present and the new snapshot of main, and the snapshots that main would no longer have."""
    from itertools import takewhile

    from esker.cli.table_facts import commit_facts, summary_number
    from esker.write.refs.branches_and_tags import rollback_target
    from esker.write.table_changes import ancestors

    target = rollback_target(table.metadata, snapshot_id=snapshot_id, as_of=as_of)
    line = ancestors(table.metadata, table.metadata.current_snapshot_id)
    left = list(takewhile(lambda snapshot: snapshot.snapshot_id != target.snapshot_id, line))
    current = table.current_snapshot
    assert current is not None  # it has an ancestor
    return {
        "name": table.name,
        "from": commit_facts(current),
        "to": commit_facts(target),
        "left_behind": [commit_facts(snapshot) for snapshot in left],
        "rows_before": summary_number(current.summary, "total-records"),
        "rows_after": summary_number(target.summary, "total-records"),
        "done": False,
    }


def _show_rollback(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted

    done = facts["done"]
    left = len(facts["left_behind"])
    if not left:
        screen.line(f"{facts['name']} is already at snapshot {facts['to']['snapshot_id']}: nothing to do.")
        return
    screen.title(facts["name"], "rolled back" if done else "would be rolled back")
    screen.card([("from", _side(facts["from"], facts["rows_before"])), ("to", _side(facts["to"], facts["rows_after"]))])
    screen.line(f"{counted(left, 'snapshot')} {'left' if done else 'would be left'} behind; no file is removed.")
    if done:
        back = facts["from"]["snapshot_id"]
        screen.note(f"To keep the newest of them: esker tag {facts['name']} before-rollback --snapshot-id {back}")
    else:
        screen.note("Nothing was changed; --yes does it.")


def _side(commit: dict[str, Any], rows: int | None) -> str:
    from esker.cli.humanize import counted, when

    held = "" if rows is None else f", {counted(rows, 'row')}"
    return f"{commit['snapshot_id']}  {commit['operation'] or 'commit'}{held}, {when(commit['timestamp_ms'])}"
