"""Write, audit, publish: what the session's ``spark.wap.id`` and ``spark.wap.branch`` mean for a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from esker.errors import InvalidInput
from esker.spark.sql.grammar.words import Named
from esker.spark.sql.lake_names import Found, SparkNames
from esker.table import Table
from esker.write.properties import switch

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the rows of a statement go: a branch, and what the snapshot's summary says besides."""

    ref: str = MAIN
    summary: Mapping[str, str] = field(default_factory=dict)


def destination(found: Found, name: Named, spark: SparkNames) -> Destination:
    """Where a statement writes to. A branch that the statement names comes before ``spark.wap.branch``. A branch of
    ``spark.wap.branch`` that is not there yet is made, from ``main``.

    Raises ``InvalidInput`` for a version that cannot be written to, and where ``spark.wap.id`` is set too.
    """
    table = found.table
    if found.metadata_table is not None or found.snapshot_id is not None or found.as_of_ms is not None:
        raise InvalidInput(f"cannot write to {name} (at {name.place}): it is a view of {table.name}")
    staged, branch = _session_says(table, spark)
    if staged is not None and branch is not None:
        raise InvalidInput(
            "cannot write: spark.wap.id and spark.wap.branch are both set in the session; unset one of them"
        )
    if staged is not None:
        return Destination(found.ref or MAIN, {"wap.id": staged})
    if found.ref is not None:
        return Destination(found.ref)
    if branch is not None and branch != MAIN and branch not in table.refs:
        table.branch(branch)
    return Destination(branch or MAIN)


def as_read(found: Found, spark: SparkNames) -> Found:
    """What a query reads: the branch of ``spark.wap.branch`` where the table has it, so that an audit sees it."""
    if (found.metadata_table, found.snapshot_id, found.as_of_ms, found.ref) != (None, None, None, None):
        return found
    _, branch = _session_says(found.table, spark)
    return replace(found, ref=branch) if branch is not None and branch in found.table.refs else found


def _session_says(table: Table, spark: SparkNames) -> tuple[str | None, str | None]:
    """The id and the branch; neither where the table is not for it."""
    if not switch(table.properties, "write.wap.enabled", default=False):
        return None, None
    return spark.setting("spark.wap.id"), spark.setting("spark.wap.branch")
