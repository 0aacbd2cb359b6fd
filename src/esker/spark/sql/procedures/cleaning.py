"""The procedures that remove what a table no longer needs, with Iceberg's names, arguments and answers."""

from __future__ import annotations

from collections.abc import Sequence

from esker.maintain.expire_snapshots import deleted_counts
from esker.spark.sql.procedures.call_arguments import Caller, Given
from esker.spark.sql.queries.query_frames import Answer

_EXPIRED = (
    "deleted_data_files_count bigint, deleted_position_delete_files_count bigint, "
    "deleted_equality_delete_files_count bigint, deleted_manifest_files_count bigint, "
    "deleted_manifest_lists_count bigint, deleted_statistics_files_count bigint"
)


def expire_snapshots(given: Given, caller: Caller) -> Answer:
    """Expire snapshots, and return how many files of each kind were deleted."""
    table = caller.table(given.need("table"))
    ids = given.get("snapshot_ids")
    if ids is not None and (isinstance(ids, str) or not isinstance(ids, Sequence)):
        raise given.refused(f"takes an array of ids for snapshot_ids, not {ids!r}", "snapshot_ids")
    report = table.expire_snapshots(
        older_than=given.moment("older_than"),
        retain_last=given.number("retain_last"),
        snapshot_ids=[int(id_) for id_ in ids or ()],
        clean_expired_metadata=bool(given.flag("clean_expired_metadata")),
    )
    return Answer(_EXPIRED, [deleted_counts(report)])
