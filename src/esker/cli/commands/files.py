"""``esker files`` and ``esker manifests``: the files and the manifests of one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import chosen_limit, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table


# ---------------------------------------------------------------- ``esker files``


DEFAULT = 50
KINDS = {0: "data", 1: "position deletes", 2: "equality deletes"}
_COLUMNS = (
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "referenced_data_file",
)


@click.command("files")
@click.argument("table")
@snapshot_options
@limit_options(DEFAULT, "files")
@shared_options
def files_command(
    table: str, snapshot_id: int | None, as_of: str | None, ref: str | None, limit: int | None, every: bool
) -> None:
    """List the data and delete files of a snapshot: rows, size, partition."""
    from esker.cli.answer import answer
    from esker.cli.open_table import chosen_snapshot, open_named

    opened = open_named(table)
    snapshot = chosen_snapshot(opened, snapshot_id, as_of, ref)
    at = None if snapshot is None else snapshot.snapshot_id
    facts = files_facts(opened, at, chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show_files(screen, facts))


def files_facts(table: Table, snapshot_id: int | None, limit: int | None) -> dict[str, Any]:
    """The first ``limit`` files, and the totals of all of them."""
    import numpy as np

    from esker.cli.open_table import common_tables

    files = common_tables(table).files(snapshot_id, columns=_COLUMNS)
    content, rows, size = (files[name].to_numpy() for name in ("content", "record_count", "file_size_in_bytes"))
    shown = files if limit is None else files.slice(0, limit)
    return {
        "name": table.name,
        "location": table.location,
        "snapshot_id": snapshot_id,
        "total": files.num_rows,
        "sums": {
            kind: {
                "files": int(np.count_nonzero(content == number)),
                "rows": int(rows[content == number].sum()),
                "bytes": int(size[content == number].sum()),
            }
            for number, kind in ((0, "data"), (1, "position_deletes"), (2, "equality_deletes"))
        },
        "files": [_file(row) for row in shown.to_pylist()],
    }


def _file(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "path": row["file_path"],
        "content": KINDS[row["content"]],
        "format": row["file_format"].lower(),
        "rows": row["record_count"],
        "bytes": row["file_size_in_bytes"],
        "spec_id": row["spec_id"],
        "partition": row.get("partition"),
        "referenced_data_file": row["referenced_data_file"],
    }


def _show_files(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Column

    screen.title(facts["name"], "empty" if facts["snapshot_id"] is None else f"snapshot {facts['snapshot_id']}")
    if not facts["total"]:
        screen.note(
            "No files: this snapshot has no rows."
            if facts["snapshot_id"]
            else "No files: the table has no snapshot yet."
        )
        return
    data_only = all(file["content"] == "data" for file in facts["files"])
    columns = [
        Column("rows", right=True),
        Column("size", right=True),
        Column("content"),
        Column("partition", wraps=True),
        Column("file", wraps=True),
    ]
    rows = [
        (
            number(file["rows"]),
            size(file["bytes"]),
            "" if data_only else _kind(file),
            partition_text(file["partition"]),
            relative_path(file["path"], facts["location"]),
        )
        for file in facts["files"]
    ]
    screen.table(columns, rows)
    sums = facts["sums"]
    said = f"{counted(sums['data']['files'], 'data file')}, {counted(sums['data']['rows'], 'row')}"
    said += f", {size(sums['data']['bytes'])}"
    for kind in ("position_deletes", "equality_deletes"):
        if sums[kind]["files"]:
            said += f"; {number(sums[kind]['rows'])} {kind.replace('_', ' ')} in {counted(sums[kind]['files'], 'file')}"
    left = facts["total"] - len(rows)
    screen.note(said + (f". {number(left)} not shown; --all shows them." if left else "."))


def _kind(file: dict[str, Any]) -> str:
    return "deletion vector" if file["format"] in ("puffin", "index") else str(file["content"])


def partition_text(partition: dict[str, Any] | None) -> str:
    """The partition as ``day=2026-01-31/region=eu``, like the names of folders."""
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in (partition or {}).items())


# ---------------------------------------------------------------- ``esker manifests``


@click.command("manifests")
@click.argument("table")
@snapshot_options
@limit_options(DEFAULT, "manifests")
@shared_options
def manifests_command(
    table: str, snapshot_id: int | None, as_of: str | None, ref: str | None, limit: int | None, every: bool
) -> None:
    """List the manifests of a snapshot: files in each, and the partitions they cover."""
    from esker.cli.answer import answer
    from esker.cli.open_table import chosen_snapshot, open_named

    opened = open_named(table)
    snapshot = chosen_snapshot(opened, snapshot_id, as_of, ref)
    at = None if snapshot is None else snapshot.snapshot_id
    facts = manifests_facts(opened, at, chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show_manifests(screen, facts))


def manifests_facts(table: Table, snapshot_id: int | None, limit: int | None) -> dict[str, Any]:
    """The first ``limit`` manifests, with the bounds of their partition fields by name."""
    from esker.cli.open_table import common_tables

    listed = common_tables(table).manifests(snapshot_id)
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


def _show_manifests(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, number, size
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Column

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
