"""``esker rollback``: take a table back to a snapshot it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import shared_options, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


@click.command("rollback")
@click.argument("table")
@click.option("--snapshot-id", type=int, metavar="ID", help="The snapshot of that id.")
@click.option("--as-of", metavar="TIME", help="The snapshot current at that time (ISO 8601 or epoch ms).")
@yes_option
@shared_options
def command(table: str, snapshot_id: int | None, as_of: str | None, yes: bool) -> None:
    """Take TABLE's main branch back to a snapshot it came from.

    Shows what would be left behind, and does it only with --yes. No file is removed: snapshots left behind can be read
    by their ids, and returned to by a branch, until they expire.
    """
    from esker.cli.answer import answer
    from esker.cli.opening import open_to_change

    if (snapshot_id is None) == (as_of is None):
        raise click.UsageError("say where to go back to: one of --snapshot-id and --as-of")
    opened = open_to_change(table)
    facts = rollback_plan(opened, snapshot_id, as_of)
    if yes:
        opened.rollback(facts["to"]["snapshot_id"])
        facts["done"] = True
    answer(facts, lambda screen: _show(screen, facts))


def rollback_plan(table: Table, snapshot_id: int | None, as_of: str | None) -> dict[str, Any]:
    """From where to where, and which snapshots main would no longer hold."""
    from itertools import takewhile

    from esker.cli.table_facts import commit_facts, summary_number
    from esker.write.ancestry import ancestors
    from esker.write.versions import rollback_target

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


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.wording import counted

    done = facts["done"]
    left = len(facts["left_behind"])
    if not left:
        screen.line(f"{facts['name']} is at snapshot {facts['to']['snapshot_id']} already: nothing to do.")
        return
    screen.title(facts["name"], "rolled back" if done else "would be rolled back")
    screen.card([("from", _side(facts["from"], facts["rows_before"])), ("to", _side(facts["to"], facts["rows_after"]))])
    screen.line(f"{counted(left, 'snapshot')} {'left' if done else 'would be left'} behind; no file is removed.")
    if done:
        back = facts["from"]["snapshot_id"]
        screen.note(f"To keep what was left: esker tag {facts['name']} before-rollback --snapshot-id {back}")
    else:
        screen.note("Nothing was done; --yes does it.")


def _side(commit: dict[str, Any], rows: int | None) -> str:
    from esker.cli.wording import counted, when

    held = "" if rows is None else f", {counted(rows, 'row')}"
    return f"{commit['snapshot_id']}  {commit['operation'] or 'commit'}{held}, {when(commit['timestamp_ms'])}"
