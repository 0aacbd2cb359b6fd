"""``esker files``: the files of one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import chosen_limit, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.table import Table

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
def command(
    table: str, snapshot_id: int | None, as_of: str | None, ref: str | None, limit: int | None, every: bool
) -> None:
    """List the data and delete files of a snapshot: rows, size, partition."""
    from esker.cli.answer import answer
    from esker.cli.opening import chosen_snapshot, open_named

    opened = open_named(table)
    snapshot = chosen_snapshot(opened, snapshot_id, as_of, ref)
    at = None if snapshot is None else snapshot.snapshot_id
    facts = files_facts(opened, at, chosen_limit(limit, every, DEFAULT))
    answer(facts, lambda screen: _show(screen, facts))


def files_facts(table: Table, snapshot_id: int | None, limit: int | None) -> dict[str, Any]:
    """The first files, and the sums over all of them."""
    import numpy as np

    files = table.inspect.files(snapshot_id, columns=_COLUMNS)
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


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.opening import relative_path
    from esker.cli.screen import Column
    from esker.cli.wording import counted, number, size

    screen.title(facts["name"], "empty" if facts["snapshot_id"] is None else f"snapshot {facts['snapshot_id']}")
    if not facts["total"]:
        screen.note("No files: this snapshot holds no rows." if facts["snapshot_id"] else "No snapshot yet, no files.")
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
    return "deletion vector" if file["format"] == "puffin" else str(file["content"])


def partition_text(partition: dict[str, Any] | None) -> str:
    """``day=2026-01-31/region=eu``, as folders are named."""
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in (partition or {}).items())
