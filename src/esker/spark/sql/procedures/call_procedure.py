"""Executes CALL of Iceberg's procedures, with Iceberg's names, arguments and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from esker.errors import InvalidInput, NoSuchSnapshot, Unsupported
from esker.model.display_text import show_ms
from esker.spark.sql.grammar.statements import Call
from esker.spark.sql.grammar.words import Words
from esker.spark.sql.procedures.call_arguments import Caller, Given, Procedure, mapping_of, text_of
from esker.spark.sql.procedures.cleaning import expire_snapshots, remove_orphan_files
from esker.spark.sql.procedures.migrate_files import add_files, migrate, snapshot
from esker.spark.sql.procedures.rewriting import (
    rewrite_data_files,
    rewrite_manifests,
    rewrite_position_delete_files,
)
from esker.spark.sql.queries.query_frames import Answer, changelog_frame, changelog_range
from esker.table import Table
from esker.tree.snapshot import Snapshot

_LATER = frozenset(("rewrite_table_path",))
_MOVED = "previous_snapshot_id bigint, current_snapshot_id bigint"
_PICKED = "source_snapshot_id bigint, current_snapshot_id bigint"


def call(statement: Call, caller: Caller) -> Answer:
    """Run the procedure and return its answer.

    Raises ``Unsupported`` for an unknown procedure, and ``InvalidInput`` for arguments that do not fit.
    """
    found = PROCEDURES.get(statement.name)
    if found is None:
        known = ", ".join(sorted(PROCEDURES))
        why = "it comes with a later version" if statement.name in _LATER else f"there are {known}"
        raise Unsupported(
            f"cannot call system.{statement.name} (at {statement.place}): {why}",
            feature=f"CALL {statement.name}",
            place=statement.place,
        )
    parameters, run = found
    return run(Given(statement, parameters, caller), caller)


def _rollback_to_snapshot(given: Given, caller: Caller) -> Answer:
    given.need("snapshot_id")
    return _moved(caller.table(given.need("table")), lambda table: table.rollback(given.number("snapshot_id")))


def _rollback_to_timestamp(given: Given, caller: Caller) -> Answer:
    given.need("timestamp")
    table, moment = caller.table(given.need("table")), given.moment("timestamp") or 0
    older = [one for one in _ancestors(table, _current(table)) if one.timestamp_ms < moment]
    if not older:
        raise NoSuchSnapshot(
            f"cannot roll back {table.name} to {show_ms(moment)}: no snapshot in the history of main is older",
            table=table.name,
        )
    target = max(older, key=lambda one: one.timestamp_ms).snapshot_id
    return _moved(table, lambda table: table.rollback(target))


def _set_current_snapshot(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    snapshot_id, ref = given.number("snapshot_id"), given.get("ref")
    if (snapshot_id is None) == (ref is None):
        raise InvalidInput("cannot call set_current_snapshot: give one of snapshot_id and ref")
    if snapshot_id is None:
        snapshot_id = _ref(table, text_of("ref", ref))
    return _moved(table, lambda table: table.set_current_snapshot(snapshot_id))


def _moved(table: Table, move: Callable[[Table], None]) -> Answer:
    before = _current(table)
    move(table)
    return Answer(_MOVED, [(before, _current(table))])


def _cherrypick_snapshot(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    given.need("snapshot_id")
    return _picked(table, given.number("snapshot_id"))


def _publish_changes(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    wap_id = str(given.need("wap_id"))
    found = [one.snapshot_id for one in table.snapshots if one.summary.get("wap.id") == wap_id]
    if len(found) != 1:
        there = "no snapshot has" if not found else f"{len(found)} snapshots have"
        raise NoSuchSnapshot(f"cannot publish wap.id {wap_id!r} of {table.name}: {there} it", wap_id=wap_id)
    return _picked(table, found[0])


def _picked(table: Table, snapshot_id: int | None) -> Answer:
    assert snapshot_id is not None
    table.cherry_pick(snapshot_id)
    return Answer(_PICKED, [(snapshot_id, _current(table))])


def _fast_forward(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    branch, to = text_of("branch", given.need("branch")), text_of("to", given.need("to"))
    known = branch in table.refs or branch == "main"
    before = (_current(table) if branch == "main" else table.refs[branch].snapshot_id) if known else None
    if known:
        table.fast_forward(branch, to)
    else:
        table.branch(branch, _ref(table, to))
    after = _current(table) if branch == "main" else table.refs[branch].snapshot_id
    return Answer("branch_updated string, previous_ref bigint, updated_ref bigint", [(branch, before, after)])


def _ancestors_of(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    at = given.number("snapshot_id") or _current(table)
    found = list(_ancestors(table, at))
    if at is not None and not found:
        raise NoSuchSnapshot(f"cannot list the ancestors of snapshot {at}: there is none", snapshot_id=at)
    rows: list[tuple[Any, ...]] = [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in found]
    return Answer("snapshot_id bigint, timestamp bigint", rows)


def _ancestors(table: Table, at: int | None) -> Iterator[Snapshot]:
    """Yield the snapshot and its ancestors, as far as they have not expired."""
    while at is not None and (snapshot := table.metadata.snapshot(at)) is not None:
        yield snapshot
        at = snapshot.parent_snapshot_id


def _register_table(given: Given, caller: Caller) -> Answer:
    name = Words(text_of("table", given.need("table"))).name("the name of a table")
    table = caller.names.lake.register_table(
        caller.names.full(name), text_of("metadata_file", given.need("metadata_file"))
    )
    columns = "current_snapshot_id bigint, total_records_count bigint, total_data_files_count bigint"
    snapshot = table.current_snapshot
    if snapshot is None:
        return Answer(columns, [(None, None, None)])
    totals = [snapshot.summary.get(key) for key in ("total-records", "total-data-files")]
    return Answer(columns, [(snapshot.snapshot_id, *(None if text is None else int(text) for text in totals))])


def _create_changelog_view(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    options = mapping_of("options", given.get("options"))
    named = given.get("identifier_columns")
    keys = [text_of("identifier_columns", name) for name in named] if named is not None else []
    net, updates = given.flag("net_changes"), given.flag("compute_updates")
    if net and (updates or (updates is None and keys)):
        raise given.refused("computes net_changes or updates, not both", "net_changes")
    if updates and not keys:
        keys = [table.schema.name_by_id[id_] for id_ in table.schema.identifier_field_ids]
        if not keys:
            raise InvalidInput("cannot compute updates: give identifier_columns, or set the table's identifier fields")
    start, end = changelog_range(table, options)
    view = given.get("changelog_view") or f"{table.name.rpartition('.')[2]}_changes"
    changes = table.scan_changes(start, end, keys=keys if updates is not False else [], net=bool(net))
    changelog_frame(changes, caller.get_spark()).createOrReplaceTempView(text_of("changelog_view", view))
    return Answer("changelog_view string", [(view,)])


def _compute_table_stats(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    named = given.get("columns")
    if isinstance(named, str):
        raise given.refused(f"takes an array of names for columns, not {named!r}", "columns")
    columns = None if named is None else [text_of("columns", name) for name in named]
    file = table.compute_statistics(columns, given.number("snapshot_id"))
    return Answer("statistics_file string", [] if file is None else [(file.path,)])


def _compute_partition_stats(given: Given, caller: Caller) -> Answer:
    table = caller.table(given.need("table"))
    file = table.compute_partition_statistics(given.number("snapshot_id"))
    return Answer("partition_statistics_file string", [] if file is None else [(file.path,)])


def _current(table: Table) -> int | None:
    return None if table.current_snapshot is None else table.current_snapshot.snapshot_id


def _ref(table: Table, name: str) -> int:
    if name == "main" and table.current_snapshot is not None:
        return table.current_snapshot.snapshot_id
    if name not in table.refs:
        raise NoSuchSnapshot(f"there is no branch or tag {name!r} of {table.name}", ref=name)
    return table.refs[name].snapshot_id


PROCEDURES: dict[str, tuple[tuple[str, ...], Procedure]] = {
    "rollback_to_snapshot": (("table", "snapshot_id"), _rollback_to_snapshot),
    "rollback_to_timestamp": (("table", "timestamp"), _rollback_to_timestamp),
    "set_current_snapshot": (("table", "snapshot_id", "ref"), _set_current_snapshot),
    "cherrypick_snapshot": (("table", "snapshot_id"), _cherrypick_snapshot),
    "publish_changes": (("table", "wap_id"), _publish_changes),
    "fast_forward": (("table", "branch", "to"), _fast_forward),
    "ancestors_of": (("table", "snapshot_id"), _ancestors_of),
    "register_table": (("table", "metadata_file"), _register_table),
    "expire_snapshots": (
        (
            *("table", "older_than", "retain_last", "max_concurrent_deletes", "stream_results", "snapshot_ids"),
            "clean_expired_metadata",
        ),
        expire_snapshots,
    ),
    "remove_orphan_files": (
        (
            *("table", "older_than", "location", "dry_run", "max_concurrent_deletes", "file_list_view"),
            *("equal_schemes", "equal_authorities", "prefix_mismatch_mode", "prefix_listing", "stream_results"),
        ),
        remove_orphan_files,
    ),
    "rewrite_data_files": (
        ("table", "strategy", "sort_order", "options", "where", "branch"),
        rewrite_data_files,
    ),
    "rewrite_manifests": (("table", "use_caching", "spec_id", "sort_by"), rewrite_manifests),
    "rewrite_position_delete_files": (("table", "options", "where"), rewrite_position_delete_files),
    "add_files": (("table", "source_table", "partition_filter", "check_duplicate_files", "parallelism"), add_files),
    "snapshot": (
        ("source_table", "table", "location", "properties", "parallelism", "ignore_missing_files"),
        snapshot,
    ),
    "migrate": (
        ("table", "properties", "drop_backup", "backup_table_name", "parallelism", "ignore_missing_files"),
        migrate,
    ),
    "compute_table_stats": (("table", "snapshot_id", "columns"), _compute_table_stats),
    "compute_partition_stats": (("table", "snapshot_id"), _compute_partition_stats),
    "create_changelog_view": (
        ("table", "changelog_view", "options", "compute_updates", "identifier_columns", "net_changes"),
        _create_changelog_view,
    ),
}
