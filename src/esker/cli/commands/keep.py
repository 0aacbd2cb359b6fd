"""``esker expire``, ``esker orphans`` and ``esker maintain``: keep a table small.

Each command shows its plan, and acts only with ``--yes``. At the end it shows before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from esker.cli.commands.refs import Age
from esker.cli.shared_options import chosen_limit, limit_options, shared_options, showing_progress, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.maintain.expire_snapshots import Expiry
    from esker.maintain.remove_orphans import OrphanRemoval
    from esker.maintain.table_health import Maintenance
    from esker.ports.own_writer import Expired, Orphans
    from esker.table import Table

ORPHANS = 20  # that are shown


# ---------------------------------------------------------------- ``esker expire``


@click.command("expire")
@click.argument("table")
@click.option("--older-than", type=Age(), metavar="AGE", help="Expire snapshots older than this: 7d, 12h.")
@click.option("--retain-last", type=click.IntRange(min=1), metavar="N", help="Keep N snapshots of each branch.")
@click.option("--snapshot-id", "ids", type=int, multiple=True, metavar="ID", help="Expire this one; may be repeated.")
@click.option(
    "--delete",
    type=click.Choice(["now", "later", "never"]),
    default="now",
    help="When files are deleted; later: by the next expire, from a journal [default: now].",
)
@click.option("--clean-metadata", is_flag=True, help="Also remove schemas and partition specs that nothing uses.")
@yes_option
@shared_options
def expire_command(
    table: str,
    older_than: int | None,
    retain_last: int | None,
    ids: tuple[int, ...],
    delete: Any,
    clean_metadata: bool,
    yes: bool,
) -> None:
    """Forget old snapshots of TABLE, and delete the files that only they reach.

    By default the table's history.expire.* properties decide. Branches and tags keep what their own retention says. For
    a Paimon table these are snapshot.num-retained.* and snapshot.time-retained, and all branches and tags are kept.
    """
    from datetime import timedelta

    from esker.cli.answer import answer
    from esker.cli.open_table import is_of_other_format, open_to_change

    opened = open_to_change(table)
    with showing_progress():
        result: Any = opened.expire_snapshots(
            older_than=None if older_than is None else timedelta(milliseconds=older_than),
            retain_last=retain_last,
            snapshot_ids=ids,
            delete=delete,
            clean_expired_metadata=clean_metadata,
            dry_run=not yes,
        )
    facts = _other_expiry_facts(opened, result) if is_of_other_format(opened) else expiry_facts(result)
    answer(facts, lambda screen: _show_expiry(screen, facts))


def expiry_facts(result: Expiry) -> dict[str, Any]:
    """The plan or the report as a document."""
    return {
        "name": result.name,
        "done": result.done,
        "snapshots_before": result.snapshots_before,
        "snapshots_after": result.snapshots_after,
        "snapshot_ids": list(result.snapshot_ids),
        "refs": list(result.refs),
        "files": dict(result.files),
        "files_total": result.files_total,
        "total_bytes": result.total_bytes,
        "kept_elsewhere": result.elsewhere,
        "journal": result.journal,
        "finished": result.finished,
        "failed": list(result.failed),
        "unreadable": list(result.unreadable),
    }


def _other_expiry_facts(table: Table, result: Expired) -> dict[str, Any]:
    """The same document for a table of another format."""
    return {
        "name": table.name,
        "done": result.done,
        "snapshots_before": result.snapshots_before,
        "snapshots_after": result.snapshots_before - len(result.snapshots),
        "snapshot_ids": list(result.snapshots),
        "refs": [],
        "files": dict(result.kinds),
        "files_total": len(result.files),
        "total_bytes": result.total_bytes,
        "kept_elsewhere": 0,
        "journal": None,
        "finished": 0,
        "failed": list(result.failed),
        "unreadable": [],
    }


def _show_expiry(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size

    done = facts["done"]
    verb = "Expired" if done else "Would expire"
    screen.title(f"{verb} {counted(len(facts['snapshot_ids']), 'snapshot')}", f"of {facts['name']}")
    kinds = ", ".join(f"{number(count)} {kind}" for kind, count in facts["files"].items())
    screen.card(
        [
            ("snapshots", f"{number(facts['snapshots_before'])} before, {number(facts['snapshots_after'])} after"),
            ("refs past their age", ", ".join(facts["refs"])),
            ("files", f"{kinds} ({size(facts['total_bytes'])})" if kinds else "none"),
            ("kept elsewhere", counted(facts["kept_elsewhere"], "file") if facts["kept_elsewhere"] else ""),
            ("left by earlier runs", f"{counted(facts['finished'], 'file')} deleted" if facts["finished"] else ""),
            ("journal", facts["journal"] or ""),
        ]
    )
    for file in facts["failed"][:10]:
        screen.warning(f"could not delete {file}")
    if not done:
        screen.note("Nothing was changed; --yes does it.")


# ---------------------------------------------------------------- ``esker orphans``


@click.command("orphans")
@click.argument("table")
@click.option(
    "--older-than", type=Age(), metavar="AGE", help="Files older than this, by the store's clock [default: 3d]."
)
@click.option("--location", metavar="FOLDER", help="A folder of the table to search [default: all of it].")
@click.option("--quarantine", metavar="FOLDER", help="Move the files there instead of deleting them.")
@click.option("--under-24-hours", is_flag=True, help="Allow younger files: only if no writer is at work.")
@click.option("--keep-mismatches", is_flag=True, help="Keep files that the table may record by another location.")
@click.option("--remove-other-tables", is_flag=True, help="Tables whose metadata is found here are gone for good.")
@click.option(
    "--engine", type=click.Choice(["arrow", "spark"]), default="arrow", help="Who lists the files [default: arrow]."
)
@limit_options(ORPHANS, "files")
@yes_option
@shared_options
def orphans_command(
    table: str,
    older_than: int | None,
    location: str | None,
    quarantine: str | None,
    under_24_hours: bool,
    keep_mismatches: bool,
    remove_other_tables: bool,
    engine: Literal["arrow", "spark"],
    limit: int | None,
    every: bool,
    yes: bool,
) -> None:
    """Delete files below TABLE that no version of it refers to, left by writers that failed."""
    from datetime import timedelta

    from esker.cli.answer import answer
    from esker.cli.open_table import open_to_change

    shown = chosen_limit(limit, every, ORPHANS)
    opened = open_to_change(table)
    with showing_progress():
        result: OrphanRemoval | Orphans = opened.remove_orphans(
            older_than=None if older_than is None else timedelta(milliseconds=older_than),
            location=location,
            quarantine=quarantine,
            under_24_hours=under_24_hours,
            mismatch="ignore" if keep_mismatches else "error",
            other_tables="remove" if remove_other_tables else "error",
            engine=engine,
            dry_run=not yes,
        )
    facts = orphan_facts(opened.name, result, shown)
    answer(facts, lambda screen: _show_orphans(screen, facts))


def orphan_facts(name: str, result: OrphanRemoval | Orphans, limit: int | None) -> dict[str, Any]:
    """The plan or the report as a document."""
    from esker.cli.answer import iso
    from esker.ports.own_writer import Orphans

    return {
        "name": name,
        "done": result.done,
        "location": result.location,
        "older_than": iso(result.older_than_ms),
        "older_than_ms": result.older_than_ms,
        "listed": result.listed,
        "in_use": result.reached,
        "young": result.young,
        "spared": result.spared,
        "orphans": len(result.files),
        "total_bytes": result.total_bytes,
        "quarantine": None if isinstance(result, Orphans) else result.quarantine,
        "failed": list(result.failed),
        "files": list(result.files[:limit]),
    }


def _show_orphans(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size

    verb = "moved" if facts["quarantine"] else "deleted"
    verb = verb.capitalize() if facts["done"] else f"Would have {verb}"
    screen.title(f"{verb} {counted(facts['orphans'] - len(facts['failed']), 'file')}", f"of {facts['name']}")
    before = facts["listed"]
    after = before - facts["orphans"] + len(facts["failed"])
    screen.card(
        [
            ("files", f"{number(before)} before, {number(after)} after"),
            ("orphans", f"{number(facts['orphans'])} ({size(facts['total_bytes'])})"),
            ("in use", number(facts["in_use"])),
            ("too young", number(facts["young"]) if facts["young"] else ""),
            ("spared", number(facts["spared"]) if facts["spared"] else ""),
            ("older than", facts["older_than"] or ""),
            ("moved to", facts["quarantine"] or ""),
        ]
    )
    for file in facts["files"]:
        screen.line(file)
    if facts["orphans"] > len(facts["files"]):
        screen.note(f"{counted(facts['orphans'] - len(facts['files']), 'more file')} not shown; --all shows them.")
    for file in facts["failed"][:10]:
        screen.warning(f"could not delete {file}")
    if not facts["done"]:
        screen.note("Nothing was changed; --yes does it.")


# ---------------------------------------------------------------- ``esker maintain``


@click.command("maintain")
@click.argument("table")
@click.option("--max-bytes", type=click.IntRange(min=0), metavar="N", help="Rewrite at most so many bytes in a step.")
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
                "plan": None if step.plan is None else repr(step.plan),
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
