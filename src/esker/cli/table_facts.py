"""Facts about a table that several commands show: totals, partitioning, the last commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from esker.cli.answer import iso
from esker.model.transform import BucketTransform, IdentityTransform, Transform, TruncateTransform

if TYPE_CHECKING:
    from esker.table import Table
    from esker.tree.snapshot import Snapshot

_DELETES = ("total-delete-files", "total-position-deletes", "total-equality-deletes")
_TOTALS = ("total-records", "total-data-files", "total-files-size", *_DELETES)
_ENGINES = (
    # key of a summary       which engine writes it
    ("spark.app.id", "spark"),
    ("trino_query_id", "trino"),
    ("presto_query_id", "presto"),
    ("flink.job-id", "flink"),
    ("dremio-job-id", "dremio"),
    ("pyiceberg-version", "pyiceberg"),
)


def totals(table: Table, *, open_manifests: bool = True) -> dict[str, Any]:
    """Files, rows and bytes of the current snapshot, from its summary; if the summary has none, counted in the
    manifests.

    ``rows`` is the number of rows that a scan returns. If the snapshot has deletes, only a scan can count them: a
    position may be deleted twice, or in a file that is gone. Then ``rows`` is None, and ``rows_at_most`` is the rows of
    data files.
    """
    snapshot = table.current_snapshot
    if snapshot is None:
        return _shaped(dict.fromkeys(_TOTALS, 0), "nothing: the table is empty")
    found = {name: summary_number(snapshot.summary, name) for name in _TOTALS}
    if table.format_version == 1:
        found |= dict.fromkeys(_DELETES, 0)  # v1 has no deletes, so its writers do not count them
    if found["total-delete-files"] == 0:
        found |= {"total-position-deletes": 0, "total-equality-deletes": 0}
    counted = all(found[name] is not None for name in ("total-records", "total-data-files", "total-delete-files"))
    return _counted(table) if open_manifests and not counted else _shaped(found, "snapshot summary")


def _counted(table: Table) -> dict[str, Any]:
    """Totals from the manifests, if the summary has none."""
    import numpy as np

    from esker.cli.open_table import common_tables, merges_rows

    files = common_tables(table).files(columns=("content", "record_count", "file_size_in_bytes"))
    content, rows, size = (files[name].to_numpy() for name in files.column_names)
    found = {
        "total-records": int(rows[content == 0].sum()),
        "total-data-files": int(np.count_nonzero(content == 0)),
        "total-delete-files": int(np.count_nonzero(content != 0)),
        "total-files-size": int(size.sum()),
        "total-position-deletes": int(rows[content == 1].sum()),
        "total-equality-deletes": int(rows[content == 2].sum()),
    }
    shaped = _shaped(found, "manifests")
    return {**shaped, "rows": None} if merges_rows(table) else shaped


def _shaped(found: Mapping[str, int | None], source: str) -> dict[str, Any]:
    held = found["total-records"]
    return {
        "rows": held if found["total-delete-files"] == 0 else None,
        "rows_at_most": held,
        "data_files": found["total-data-files"],
        "delete_files": found["total-delete-files"],
        "position_deletes": found["total-position-deletes"],
        "equality_deletes": found["total-equality-deletes"],
        "total_bytes": found["total-files-size"],
        "counted_from": source,
    }


def summary_number(summary: Mapping[str, str], name: str) -> int | None:
    """A count in a snapshot's summary; None if it is missing or not a number."""
    text = summary.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def commit_facts(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """Which engine made a snapshot, when, how, and what it changed."""
    if snapshot is None:
        return None
    summary = snapshot.summary
    engine = summary.get("engine-name") or next((name for key, name in _ENGINES if key in summary), None)
    return {
        "snapshot_id": snapshot.snapshot_id,
        "parent_id": snapshot.parent_snapshot_id,
        "committed_at": iso(snapshot.timestamp_ms),
        "timestamp_ms": snapshot.timestamp_ms,
        "operation": snapshot.operation,
        "engine": engine,
        "engine_version": summary.get("engine-version"),
        "application": summary.get("spark.app.id") or summary.get("trino_query_id") or summary.get("flink.job-id"),
        "user": summary.get("trino_user") or summary.get("user"),
        "schema_id": snapshot.schema_id,
        "manifest_list": snapshot.manifest_list,
        "summary": dict(summary),
    }


def term(transform: Transform, source: str) -> str:
    """A transform as it is written in DDL: ``bucket(16, id)``, ``day(ts)``, ``region``."""
    match transform:
        case IdentityTransform():
            return source
        case BucketTransform(parameter) | TruncateTransform(parameter):
            return f"{transform.__class__.__name__.removesuffix('Transform').lower()}({parameter}, {source})"
        case _:
            return f"{transform}({source})"


def column_name(table: Table, field_id: int) -> str:
    """A column's full name, from the newest schema that has it."""
    for schema in (table.schema, *sorted(table.metadata.schemas, key=lambda s: -s.schema_id)):
        if field_id in schema.name_by_id:
            return schema.name_by_id[field_id]
    return f"#{field_id}"


def partitioning(table: Table) -> list[str]:
    """The current partition spec in DDL terms, without dropped fields."""
    live = (field for field in table.spec.fields if str(field.transform) != "void")
    return [term(field.transform, column_name(table, field.source_id)) for field in live]


def sort_terms(table: Table) -> list[str]:
    """The current sort order in DDL terms."""
    return [
        f"{term(key.transform, column_name(table, key.source_id))} "
        f"{'desc' if key.descending else 'asc'} nulls {'last' if key.nulls_last else 'first'}"
        for key in table.sort_order.fields
    ]


def ref_names(table: Table) -> dict[int, list[str]]:
    """The branches and tags of each snapshot."""
    found: dict[int, list[str]] = {}
    for name, ref in table.metadata.all_refs.items():
        found.setdefault(ref.snapshot_id, []).append(name)
    return found
