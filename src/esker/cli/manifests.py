"""``esker manifests``: the manifests of one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import chosen_limit, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

DEFAULT = 50


@click.command("manifests")
@click.argument("table")
@snapshot_options
@limit_options(DEFAULT, "manifests")
@shared_options
def command(
    table: str, snapshot_id: int | None, as_of: str | None, ref: str | None, limit: int | None, every: bool
) -> None:
    """List the manifests of a snapshot: files in each, and the partitions they cover."""
    from esker.cli.answer import answer
    from esker.cli.opening import chosen_snapshot, open_named

    opened = open_named(table)
    snapshot = chosen_snapshot(opened, snapshot_id, as_of, ref)
    at = None if snapshot is None else snapshot.snapshot_id
    facts = manifests_facts(opened, at, chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))


def manifests_facts(table: Table, snapshot_id: int | None, limit: int | None) -> dict[str, Any]:
    """The first manifests, with the names of the partition fields that their bounds are of."""
    listed = table.inspect.manifests(snapshot_id)
    shown = listed if limit is None else listed.slice(0, limit)
    return {
        "name": table.name,
        "location": table.location,
        "snapshot_id": snapshot_id,
        "total": listed.num_rows,
        "bytes": sum(listed["length"].to_pylist()),
        "manifests": [_manifest(table, row) for row in shown.to_pylist()],
    }


def _manifest(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    kind = "delete" if row["content"] else "data"
    spec = table.metadata.spec_by_id.get(row["partition_spec_id"])
    names = [field.name for field in spec.fields] if spec is not None else []
    return {
        "path": row["path"],
        "content": "deletes" if row["content"] else "data",
        "bytes": row["length"],
        "spec_id": row["partition_spec_id"],
        "added_snapshot_id": row["added_snapshot_id"],
        **{f"{what}_files": row[f"{what}_{kind}_files_count"] for what in ("added", "existing", "deleted")},
        "partitions": [
            {"field": name, **summary} for name, summary in zip(names, row["partition_summaries"] or (), strict=False)
        ],
    }


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.opening import relative_path
    from esker.cli.screen import Column
    from esker.cli.wording import counted, number, size

    screen.title(facts["name"], "empty" if facts["snapshot_id"] is None else f"snapshot {facts['snapshot_id']}")
    if not facts["total"]:
        screen.note("No manifests.")
        return
    columns = [
        Column("content"),
        Column("size", right=True),
        Column("added", right=True),
        Column("existing", right=True),
        Column("deleted", right=True, spare=1),
        Column("by snapshot", right=True, spare=2),
        Column("partitions", wraps=True),
        Column("manifest", wraps=True),
    ]
    rows = [
        (
            manifest["content"],
            size(manifest["bytes"]),
            number(manifest["added_files"]),
            number(manifest["existing_files"]),
            number(manifest["deleted_files"]),
            str(manifest["added_snapshot_id"] or "?"),
            ", ".join(map(_range, manifest["partitions"])),
            relative_path(manifest["path"], facts["location"]),
        )
        for manifest in facts["manifests"]
    ]
    screen.table(columns, rows)
    left = facts["total"] - len(rows)
    said = f"{counted(facts['total'], 'manifest')}, {size(facts['bytes'])}"
    screen.note(said + (f". {number(left)} not shown; --all shows them." if left else "."))


def _range(summary: dict[str, Any]) -> str:
    lower, upper = summary["lower_bound"], summary["upper_bound"]
    if lower is None and upper is None:
        return f"{summary['field']} {'null' if summary['contains_null'] else '?'}"
    said = lower if lower == upper else f"{lower} to {upper}"
    return f"{summary['field']} {said}{' or null' if summary['contains_null'] else ''}"
