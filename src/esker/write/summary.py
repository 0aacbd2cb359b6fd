"""A snapshot's summary: what a commit changed, in numbers, with totals continued from its parent.

Every value is text. A total is left out if the parent does not have it, because a guess would be continued for ever. A
user's entries never replace counted values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from esker.errors import InvalidInput
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.snapshot import ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, Snapshot
from esker.write.steps import Outcome

TOTALS = (
    # total                     grows by                   shrinks by
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def build_summary(
    operation: str,
    *,
    parent: Snapshot | None,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    manifests: Mapping[str, int],
    extra: Mapping[str, str],
) -> dict[str, str]:
    """The summary of a snapshot: what was added and removed, the new totals, the user's entries."""
    counts: Counter[str] = Counter()
    partitions = set()
    for file in added:
        counts.update(_additions(file))
        partitions.add(partition_key(file))
    for file in removed:
        counts.update(_removals(file))
        partitions.add(partition_key(file))
    counts["changed-partition-count"] = len(partitions)
    summary = {key: str(value) for key, value in extra.items()}
    summary.update({key: str(value) for key, value in counts.items() if value or key == "changed-partition-count"})
    summary.update({key: str(value) for key, value in manifests.items()})
    summary.update(_totals(parent, counts))
    return {"operation": operation, **{key: value for key, value in summary.items() if key != "operation"}}


def row_counts(outcome: Outcome) -> dict[str, str]:
    """How many rows changed: in Esker's own fields, and for merges also in those of Iceberg's Spark runtime."""
    rows, merged = outcome.rows, outcome.merged
    found: dict[str, str] = {}
    if rows is not None:
        found |= {
            ROWS_DELETED: str(rows.deleted),
            ROWS_UPDATED: str(rows.updated),
            ROWS_INSERTED: str(rows.inserted + outcome.appended),
        }
    if merged is not None:
        targets = {
            "copied": outcome.copied,
            "deleted": merged.deleted,
            "updated": merged.updated,
            "inserted": merged.inserted,
            "matched-updated": merged.updated - merged.updated_by_source,
            "matched-deleted": merged.deleted - merged.deleted_by_source,
            "not-matched-by-source-updated": merged.updated_by_source,
            "not-matched-by-source-deleted": merged.deleted_by_source,
        }
        found |= {f"spark.merge-into.num-target-rows-{key}": str(value) for key, value in targets.items() if value}
    return found


def checked_extra(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The user's entries. Raises ``InvalidInput`` if they are not text. Counted values are never replaced."""
    given = dict(extra or {})
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInput(f"cannot put {key!r}: {value!r} into a snapshot summary: keys and values must be text")
    return given


def _additions(file: DataFile) -> dict[str, int]:
    common = {"added-files-size": _size(file)}
    match file.content:
        case FileContent.DATA:
            return {**common, "added-data-files": 1, "added-records": file.record_count}
        case FileContent.EQUALITY_DELETES:
            return {
                **common,
                "added-delete-files": 1,
                "added-equality-delete-files": 1,
                "added-equality-deletes": file.record_count,
            }
        case FileContent.POSITION_DELETES:
            kind = "added-dvs" if file.is_deletion_vector else "added-position-delete-files"
            return {**common, "added-delete-files": 1, kind: 1, "added-position-deletes": file.record_count}


def _removals(file: DataFile) -> dict[str, int]:
    common = {"removed-files-size": _size(file)}
    match file.content:
        case FileContent.DATA:
            return {**common, "deleted-data-files": 1, "deleted-records": file.record_count}
        case FileContent.EQUALITY_DELETES:
            return {
                **common,
                "removed-delete-files": 1,
                "removed-equality-delete-files": 1,
                "removed-equality-deletes": file.record_count,
            }
        case FileContent.POSITION_DELETES:
            kind = "removed-dvs" if file.is_deletion_vector else "removed-position-delete-files"
            return {**common, "removed-delete-files": 1, kind: 1, "removed-position-deletes": file.record_count}


def _size(file: DataFile) -> int:
    """The size of a file; for a deletion vector its own bytes, not those of the Puffin file that it shares."""
    return file.content_size if file.is_deletion_vector and file.content_size is not None else file.file_size


def _totals(parent: Snapshot | None, counts: Counter[str]) -> dict[str, str]:
    found = {}
    for total, grows, shrinks in TOTALS:
        before = 0 if parent is None else _whole(parent.summary.get(total))
        if before is None:
            continue
        after = before + counts[grows] - counts[shrinks]
        if after >= 0:
            found[total] = str(after)
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
