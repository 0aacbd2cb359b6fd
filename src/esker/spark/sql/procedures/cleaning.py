"""The procedures that remove what a table no longer needs, with Iceberg's names, arguments and answers."""

from __future__ import annotations

from collections.abc import Sequence

from esker.errors import Unsupported
from esker.maintain.expire_snapshots import deleted_counts
from esker.maintain.remove_orphans import Mismatch
from esker.spark.sql.procedures.call_arguments import Caller, Given, text_of
from esker.spark.sql.queries.query_frames import Answer

_EXPIRED = (
    "deleted_data_files_count bigint, deleted_position_delete_files_count bigint, "
    "deleted_equality_delete_files_count bigint, deleted_manifest_files_count bigint, "
    "deleted_manifest_lists_count bigint, deleted_statistics_files_count bigint"
)


def expire_snapshots(given: Given, caller: Caller) -> Answer:
    """Expire snapshots, and return how many files of each kind were deleted."""
    table = caller.table(given.need("table"))
    _check_unused(given, "stream_results")
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


def remove_orphan_files(given: Given, caller: Caller) -> Answer:
    """Remove orphans, and return their locations."""
    table = caller.table(given.need("table"))
    _check_unused(given, "prefix_listing", "stream_results")
    for name in ("file_list_view", "equal_schemes", "equal_authorities"):
        if given.get(name) is not None:
            raise Unsupported(
                f"cannot call remove_orphan_files with {name}: Esker lists the files itself, and compares locations by "
                "its own rules; leave the argument out",
                feature=f"remove_orphan_files({name})",
            )
    location = given.get("location")
    report = table.remove_orphans(
        older_than=given.moment("older_than"),
        location=None if location is None else text_of("location", location),
        mismatch=_mismatch(given),
        dry_run=bool(given.flag("dry_run")),
    )
    return Answer("orphan_file_location string", [(file,) for file in report.files])


def _check_unused(given: Given, *flags: str) -> None:
    """Check the values of arguments that have no effect, as Iceberg does."""
    for name in flags:
        given.flag(name)
    at_once = given.number("max_concurrent_deletes")
    if at_once is not None and at_once < 1:
        raise given.refused(
            f"takes a number from 1 on for max_concurrent_deletes, not {at_once}", "max_concurrent_deletes"
        )


def _mismatch(given: Given) -> Mismatch:
    """What happens to files that the table records in another store. They are never deleted."""
    mode = str(given.get("prefix_mismatch_mode") or "error").lower()
    if mode == "delete":
        raise Unsupported(
            "cannot call remove_orphan_files with prefix_mismatch_mode 'DELETE': files that the table may use are "
            "never deleted; write 'ERROR' or 'IGNORE'",
            feature="prefix_mismatch_mode DELETE",
        )
    if mode not in ("error", "ignore"):
        raise given.refused(f"takes ERROR or IGNORE for prefix_mismatch_mode, not {mode!r}", "prefix_mismatch_mode")
    return "ignore" if mode == "ignore" else "error"
