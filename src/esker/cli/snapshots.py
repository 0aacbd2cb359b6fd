"""``esker snapshots``: a table's states, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import chosen_limit, limit_options, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

DEFAULT = 20


@click.command("snapshots")
@click.argument("table")
@limit_options(DEFAULT, "snapshots")
@shared_options
def command(table: str, limit: int | None, every: bool) -> None:
    """List a table's snapshots, newest first, with what each changed."""
    from esker.cli.answer import answer
    from esker.cli.opening import open_named

    facts = snapshots_facts(open_named(table), chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))


def snapshots_facts(table: Table, limit: int | None) -> dict[str, Any]:
    """The newest snapshots, with their names and changes."""
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


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.screen import Column
    from esker.cli.wording import ago, change, counted, number
    from esker.model.wording import show_ms

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
