"""``esker compact`` and ``esker rewrite-manifests``: rewrite files of a table without changing its rows.

Each command shows its plan, and acts only with ``--yes``. At the end it shows before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import shared_options, showing_progress, yes_option

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.maintain.rewriting.compaction_results import CompactionPlan, CompactionReport, TableSize
    from esker.maintain.rewriting.rewrite_manifests import ManifestPlan, ManifestReport
    from esker.table import Table


class Bytes(click.ParamType[int]):
    """A size: 1048576, 512kb, 128mb, 1gb."""

    name = "size"
    _UNITS = (("gb", 30), ("mb", 20), ("kb", 10), ("b", 0))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().replace("ib", "b")
        unit, power = next(((unit, power) for unit, power in self._UNITS if text.endswith(unit)), ("", 0))
        digits = text.removesuffix(unit).strip()
        if not digits.isdecimal() or not digits.isascii() or int(digits) == 0:
            self.fail(f"{value!r} is not a size, such as 128mb", param, ctx)
        return int(digits) << power


# ---------------------------------------------------------------- ``esker compact``


@click.command("compact")
@click.argument("table")
@click.option(
    "--strategy",
    type=click.Choice(["bin-pack", "sort", "z-order"]),
    default="bin-pack",
    help="How rows are ordered [default: bin-pack: not at all].",
)
@click.option("--sort-by", "sort_by", multiple=True, metavar="COLUMN", help="A column to sort by; may be repeated.")
@click.option("--where", metavar="SQL", help="Only files that may have a matching row.")
@click.option("--target-size", type=Bytes(), metavar="SIZE", help="The size of new files: 128mb.")
@click.option("--min-input-files", type=click.IntRange(min=1), metavar="N", help="Small files that make a group [5].")
@click.option("--rewrite-all", is_flag=True, default=None, help="Rewrite every file, whatever its size.")
@click.option("--partial-progress", is_flag=True, default=None, help="Commit groups as they are done.")
@click.option("--engine", type=click.Choice(["auto", "arrow", "spark"]), default="auto", help="[default: by size]")
@click.option("--ref", metavar="BRANCH", default="main", help="The branch to compact [default: main].")
@yes_option
@shared_options
def compact_command(table: str, sort_by: tuple[str, ...], target_size: int | None, yes: bool, **more: Any) -> int:
    """Rewrite small files of TABLE, and files with many deletes, to fewer and larger ones. No row changes.

    With a strategy of sort or z-order, all files are rewritten, and rows that are near each other come together.
    """
    from esker.cli.answer import answer
    from esker.cli.open_table import is_of_other_format, open_to_change

    opened = open_to_change(table)
    given: dict[str, Any] = {**more, "sort_by": list(sort_by) or None, "target_file_size": target_size}
    if is_of_other_format(opened):
        facts = _compacted_other(opened, given, yes=yes)
        answer(facts, lambda screen: _show_compaction(screen, facts))
        return 0
    plan: CompactionPlan = opened.compact(dry_run=True, **given)
    facts = compaction_plan_facts(opened.name, plan)
    if yes:
        with showing_progress():
            report: CompactionReport = opened.compact(**given)
        facts |= compaction_facts(report)
    answer(facts, lambda screen: _show_compaction(screen, facts))
    return 1 if facts["failed_groups"] else 0


def compaction_plan_facts(name: str, plan: CompactionPlan) -> dict[str, Any]:
    """The plan as a document, with places for the report."""
    return {
        "name": name,
        "done": False,
        "strategy": plan.strategy,
        "plan": {
            "groups": len(plan.groups),
            "files": plan.files,
            "total_bytes": plan.bytes,
            "delete_files": plan.deletes,
            "files_after": plan.files_after,
        },
        "before": _size_facts(plan.before),
        "after": None,
        "files_rewritten": 0,
        "files_added": 0,
        "bytes_rewritten": 0,
        "bytes_added": 0,
        "rows_copied": 0,
        "deleted_rows_left_out": 0,
        "delete_files_removed": 0,
        "snapshot_ids": [],
        "failed_groups": [],
    }


def compaction_facts(report: CompactionReport) -> dict[str, Any]:
    """What was done, as a document."""
    return {
        "done": True,
        "after": _size_facts(report.after),
        "files_rewritten": report.files_rewritten,
        "files_added": report.files_added,
        "bytes_rewritten": report.bytes_rewritten,
        "bytes_added": report.bytes_added,
        "rows_copied": report.rows,
        "deleted_rows_left_out": report.rows_deleted,
        "delete_files_removed": report.delete_files_removed,
        "snapshot_ids": [snapshot.snapshot_id for snapshot in report.snapshots],
        "failed_groups": [{"files": len(failed.group.files), "why": failed.error.message} for failed in report.failed],
    }


def _compacted_other(table: Table, given: dict[str, Any], *, yes: bool) -> dict[str, Any]:
    """The same document for a table of another format, which is compacted if ``yes``."""
    plan: Any = table.compact(dry_run=True, **given)
    facts = {
        "name": table.name,
        "done": False,
        "strategy": given["strategy"],
        "plan": {
            "groups": plan.groups,
            "files": plan.files_before,
            "total_bytes": plan.bytes_before,
            "delete_files": 0,
            "files_after": plan.files_after,
        },
        "before": _other_size(table, given["ref"]),
        "after": None,
        "files_rewritten": 0,
        "files_added": 0,
        "bytes_rewritten": 0,
        "bytes_added": 0,
        "rows_copied": 0,
        "deleted_rows_left_out": 0,
        "delete_files_removed": 0,
        "snapshot_ids": [],
        "failed_groups": [],
    }
    if not yes:
        return facts
    with showing_progress():
        report: Any = table.compact(**given)
    return facts | {
        "done": True,
        "after": _other_size(table, given["ref"]),
        "files_rewritten": report.files_before,
        "files_added": report.files_after,
        "bytes_rewritten": report.bytes_before,
        "bytes_added": report.bytes_after,
        "rows_copied": report.rows_after,
        "deleted_rows_left_out": report.rows_before - report.rows_after,  # and replaced ones
        "snapshot_ids": list(report.snapshots),
    }


def _other_size(table: Table, ref: str) -> dict[str, Any]:
    """The totals of a branch, from its live files."""
    from esker.cli.open_table import chosen_snapshot, common_tables

    snapshot = chosen_snapshot(table, None, None, None if ref == "main" else ref)
    if snapshot is None:
        return {"data_files": 0, "delete_files": 0, "records": 0, "total_bytes": 0}
    files = common_tables(table).data_files(snapshot.snapshot_id)
    return {
        "data_files": files.num_rows,
        "delete_files": 0,
        "records": sum(files["record_count"].to_pylist()),
        "total_bytes": sum(files["file_size_in_bytes"].to_pylist()),
    }


def _size_facts(size: TableSize) -> dict[str, Any]:
    return {
        "data_files": size.data_files,
        "delete_files": size.delete_files,
        "records": size.records,
        "total_bytes": size.bytes,
    }


def _show_compaction(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, size

    plan, done = facts["plan"], facts["done"]
    screen.title(f"{'Compacted' if done else 'Would compact'} {facts['name']}", f"by {facts['strategy']}")
    files = f"{counted(plan['files'], 'file')} ({size(plan['total_bytes'])}) in {counted(plan['groups'], 'group')}"
    left_out, removed = facts["deleted_rows_left_out"], facts["delete_files_removed"]
    screen.card(
        [
            ("to rewrite", "nothing" if not plan["files"] else "" if done else files),
            ("delete files to apply", counted(plan["delete_files"], "delete file") if plan["delete_files"] else ""),
            ("files then", f"about {counted(plan['files_after'], 'file')}" if plan["files"] and not done else ""),
            ("rewritten", f"{counted(facts['files_rewritten'], 'file')} ({size(facts['bytes_rewritten'])})" * done),
            ("added", f"{counted(facts['files_added'], 'file')} ({size(facts['bytes_added'])})" * done),
            ("deleted rows left out", counted(left_out, "row") if left_out else ""),
            ("delete files removed", counted(removed, "delete file") if removed else ""),
            ("before", _shown_size(facts["before"])),
            ("after", _shown_size(facts["after"]) if done else ""),
        ]
    )
    for failed in facts["failed_groups"]:
        screen.warning(f"a group of {counted(failed['files'], 'file')} was left as it is: {failed['why']}")
    if not done:
        screen.note("Nothing was changed; --yes does it.")


def _shown_size(facts: dict[str, Any]) -> str:
    from esker.cli.humanize import counted, size

    files = "" if facts["data_files"] is None else counted(facts["data_files"], "data file")
    deletes = f", {counted(facts['delete_files'], 'delete file')}" if facts["delete_files"] else ""
    return f"{files}{deletes}, {size(facts['total_bytes'])}" if files and facts["total_bytes"] is not None else files


# ---------------------------------------------------------------- ``esker rewrite-manifests``


@click.command("rewrite-manifests")
@click.argument("table")
@click.option("--target-size", type=Bytes(), metavar="SIZE", help="The size of new manifests [default: 8mb].")
@click.option("--spec-id", type=int, metavar="ID", help="Only manifests of this partition spec.")
@click.option("--rewrite-all", is_flag=True, help="Also if there are not fewer afterwards.")
@click.option("--ref", metavar="BRANCH", default="main", help="The branch [default: main].")
@yes_option
@shared_options
def rewrite_manifests_command(
    table: str, target_size: int | None, spec_id: int | None, rewrite_all: bool, ref: str, yes: bool
) -> None:
    """List the files of TABLE in few manifests, files of a partition together, so that scans are planned faster."""
    from esker.cli.answer import answer
    from esker.cli.open_table import open_to_change

    opened = open_to_change(table)
    given: dict[str, Any] = {"target_size": target_size, "spec_id": spec_id, "rewrite_all": rewrite_all, "ref": ref}
    plan: ManifestPlan = opened.rewrite_manifests(dry_run=True, **given)
    facts: dict[str, Any] = {
        "name": opened.name,
        "done": False,
        "plan": {"manifests": plan.manifests, "total_bytes": plan.bytes, "manifests_after": plan.manifests_after},
        "manifests_before": plan.total,
        "manifests_after": None,
        "rewritten": 0,
        "added": 0,
        "snapshot_id": None,
    }
    if yes:
        report: ManifestReport = opened.rewrite_manifests(**given)
        facts |= {
            "done": True,
            "manifests_before": report.before,
            "manifests_after": report.after,
            "rewritten": report.rewritten,
            "added": report.added,
            "snapshot_id": None if report.snapshot is None else report.snapshot.snapshot_id,
        }
    answer(facts, lambda screen: _show_manifests(screen, facts))


def _show_manifests(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size

    plan, done = facts["plan"], facts["done"]
    screen.title(f"{'Rewrote' if done else 'Would rewrite'} manifests of {facts['name']}")
    asked = f"{counted(plan['manifests'], 'manifest')} ({size(plan['total_bytes'])})"
    screen.card(
        [
            ("to rewrite", "nothing" if not plan["manifests"] else "" if done else asked),
            ("they become", counted(plan["manifests_after"], "manifest") if plan["manifests"] and not done else ""),
            ("before", counted(facts["manifests_before"], "manifest")),
            ("after", number(facts["manifests_after"]) if done else ""),
        ]
    )
    if not done:
        screen.note("Nothing was changed; --yes does it.")
