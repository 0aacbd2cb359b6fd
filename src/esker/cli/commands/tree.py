"""``esker tree``: a table's files, from the metadata file down to the data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Branch, Screen
    from esker.metadata_tables.hierarchy import ManifestNode, SnapshotNode
    from esker.table import Table
    from esker.tree.data_file import DataFile

_AT_LEAST_NONE = click.IntRange(min=0)


@click.command("tree")
@click.argument("table")
@click.option("--snapshots", default=3, show_default=True, type=_AT_LEAST_NONE, help="Snapshots to show.")
@click.option(
    "--manifests", default=5, show_default=True, type=_AT_LEAST_NONE, help="Manifests to show of each snapshot."
)
@click.option("--files", default=3, show_default=True, type=_AT_LEAST_NONE, help="Files to show of each manifest.")
@shared_options
def tree_command(table: str, snapshots: int, manifests: int, files: int) -> None:
    """Draw a table's tree: metadata, snapshots, manifest lists, manifests, data files.

    Files that are missing or corrupt are shown at their place in the tree. Then the exit status is 1.
    """
    from esker.cli.answer import answer
    from esker.cli.failure import FINDING
    from esker.cli.open_table import open_named

    facts = tree_facts(open_named(table), snapshots, manifests, files)
    answer(facts, lambda screen: _show(screen, facts))
    if facts["problems"]:
        click.get_current_context().exit(FINDING)


def tree_facts(table: Table, snapshots: int, manifests: int, files: int) -> dict[str, Any]:
    """The tree as nested facts, and how many of its files are missing or corrupt."""
    from esker.cli.answer import iso
    from esker.metadata_tables.hierarchy import Bounds, hierarchy
    from esker.metadata_tables.inspected_table import Subject

    subject = Subject(
        metadata=table.metadata,
        metadata_location=table.metadata_location,
        table_format=table._workings.format,
        engine=table._workings.engine,
    )
    shown = hierarchy(subject, Bounds(snapshots=snapshots, manifests=manifests, files=files))
    nodes = [_snapshot(table, node) for node in shown]
    problems = [node["problem"] for node in nodes if node["problem"]]
    problems += [m["problem"] for node in nodes for m in node["manifests"] if m["problem"]]
    return {
        "name": table.name,
        "location": table.location,
        "metadata": {
            "location": table.metadata_location,
            "bytes": _size(table, table.metadata_location),
            "format_version": table.format_version if table._workings.make_inspect is None else None,
            "last_updated": iso(table.metadata.last_updated_ms),
            "last_updated_ms": table.metadata.last_updated_ms,
        },
        "refs": {name: ref.snapshot_id for name, ref in table.metadata.all_refs.items()},
        "snapshots_total": len(table.snapshots),
        "snapshots": nodes,
        "problems": problems,
    }


def _snapshot(table: Table, node: SnapshotNode) -> dict[str, Any]:
    from esker.cli.answer import iso

    snapshot = node.snapshot
    return {
        "snapshot_id": snapshot.snapshot_id,
        "current": snapshot.snapshot_id == table.metadata.current_snapshot_id,
        "committed_at": iso(snapshot.timestamp_ms),
        "timestamp_ms": snapshot.timestamp_ms,
        "operation": snapshot.operation,
        "manifest_list": snapshot.manifest_list,
        "manifest_list_bytes": None if snapshot.manifest_list is None else _size(table, snapshot.manifest_list),
        "manifests_total": node.manifests_total,
        "manifests": [_manifest(manifest) for manifest in node.manifests],
        "problem": node.problem,
    }


def _manifest(node: ManifestNode) -> dict[str, Any]:
    return {
        "path": node.manifest.path,
        "content": node.manifest.content.name.lower(),
        "bytes": node.manifest.length,
        "spec_id": node.manifest.spec_id,
        "files_total": node.live_files,
        "files_removed": node.manifest.deleted_files,
        "rows": node.live_rows,
        "files": [_file(file) for file in node.files],
        "problem": node.problem,
    }


def _file(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "content": file.content.name.lower(),
        "format": file.file_format,
        "rows": file.record_count,
        "bytes": file.file_size,
    }


def _size(table: Table, location: str) -> int | None:
    from esker.cli.open_table import storage_of
    from esker.errors import EskerError

    try:
        return storage_of(table).size(location)
    except (EskerError, OSError):
        return None


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.humanize import counted, size, when
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Branch

    metadata = facts["metadata"]
    version = metadata["format_version"]
    kind = "another format" if version is None else f"Iceberg v{version}"
    root = Branch(facts["name"], f"{kind} at {facts['location']}")
    file = Branch(
        relative_path(relative_path(metadata["location"], facts["location"]), facts["name"]),
        f"{size(metadata['bytes'])}, {when(metadata['last_updated_ms'])}",
    )
    root.children.append(file)
    for snapshot in facts["snapshots"]:
        file.children.append(_snapshot_branch(snapshot, facts))
    left = facts["snapshots_total"] - len(facts["snapshots"])
    if left:
        file.children.append(Branch("…", f"{counted(left, 'older snapshot')} not shown"))
    if not facts["snapshots_total"]:
        file.children.append(Branch("no snapshots", "the table is empty"))
    screen.tree(root)


def _snapshot_branch(snapshot: dict[str, Any], facts: dict[str, Any]) -> Branch:
    from esker.cli.humanize import counted, size, when
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Branch

    names = [name for name, id_ in facts["refs"].items() if id_ == snapshot["snapshot_id"]]
    branch = Branch(
        f"snapshot {snapshot['snapshot_id']}" + (f" [{', '.join(sorted(names)[:5])}]" if names else ""),
        ", ".join(filter(None, (snapshot["operation"], when(snapshot["timestamp_ms"])))),
    )
    total = snapshot["manifests_total"]
    if snapshot["problem"]:
        branch.children.append(Branch("manifest list", snapshot["problem"], bad=True))
        return branch
    listed = Branch("manifests listed in the metadata", counted(total, "manifest"))
    if snapshot["manifest_list"] is not None:
        bytes_ = snapshot["manifest_list_bytes"]
        note = counted(total, "manifest") + ("" if bytes_ is None else f", {size(bytes_)}")
        listed = Branch(relative_path(snapshot["manifest_list"], facts["location"]), note)
    branch.children.append(listed)
    for manifest in snapshot["manifests"]:
        listed.children.append(_manifest_branch(manifest, facts["location"]))
    left = (total or 0) - len(snapshot["manifests"])
    if left:
        listed.children.append(Branch("…", f"{counted(left, 'more manifest')}"))
    return branch


def _manifest_branch(manifest: dict[str, Any], location: str) -> Branch:
    from esker.cli.humanize import counted, size
    from esker.cli.open_table import relative_path
    from esker.cli.screen import Branch

    path = relative_path(manifest["path"], location)
    if manifest["problem"]:
        return Branch(path, manifest["problem"], bad=True)
    kind = "data file" if manifest["content"] == "data" else "delete file"
    said = f"{counted(manifest['files_total'], kind)}, {counted(manifest['rows'], 'row')}, {size(manifest['bytes'])}"
    if not manifest["files_total"] and manifest["files_removed"]:
        said = f"only the removal of {counted(manifest['files_removed'], kind)}, {size(manifest['bytes'])}"
    branch = Branch(path, said)
    for file in manifest["files"]:
        what = "" if file["content"] == "data" else f"{file['content'].replace('_', ' ')}, "
        note = f"{what}{counted(file['rows'], 'row')}, {size(file['bytes'])}"
        branch.children.append(Branch(relative_path(file["path"], location), note))
    left = (manifest["files_total"] or 0) - len(manifest["files"])
    if left and manifest["files"]:
        branch.children.append(Branch("…", counted(left, "more file")))
    return branch
