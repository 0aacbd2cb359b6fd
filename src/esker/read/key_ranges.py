"""What equality deletes can take, as a predicate: rows whose keys lie where the keys of the deletes do.

It is asked of statistics only, to leave files unread. So it may be too wide, and never too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

from esker.model.predicate import TRUE, Bound, Compare, IsNull, Op, all_of, any_of
from esker.model.schema import Schema
from esker.model.types import (
    DateType,
    DecimalType,
    Field,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
)
from esker.model.values import from_bytes
from esker.tree.data_file import DataFile, FileContent

MOST = 64  # deletes beyond which one predicate over all of them costs more than it saves
SHORTENED = 16  # characters to which a bound of text is commonly cut


def key_ranges(schema: Schema, deletes: Sequence[DataFile]) -> Bound:
    """TRUE where some delete is not by keys, or says nothing about them."""
    if len(deletes) > MOST or any(delete.content is not FileContent.EQUALITY_DELETES for delete in deletes):
        return TRUE
    return any_of(_range(schema, delete) for delete in deletes)


def _range(schema: Schema, delete: DataFile) -> Bound:
    fields = [schema.by_id.get(id_) for id_ in delete.equality_ids]
    return all_of(_within(field, delete) for field in fields if field is not None and not schema.in_repeated(field.id))


def _within(field: Field, delete: DataFile) -> Bound:
    if delete.metrics is None:
        return TRUE
    lower, upper = delete.metrics.lower_bounds.get(field.id), delete.metrics.upper_bounds.get(field.id)
    try:
        least = None if lower is None else from_bytes(field.type, lower)
        most = None if upper is None else from_bytes(field.type, upper)
    except ValueError:
        return TRUE
    if least is None or most is None or not _is_exact(field, most):
        return TRUE
    between = all_of((Compare(field, Op.GE, least), Compare(field, Op.LE, most)))
    has_null = delete.metrics.null_counts.get(field.id) != 0
    return any_of((between, IsNull(field))) if has_null else between


def _is_exact(field: Field, most: object) -> bool:
    """Whether the bound is a value, and not the beginning of one."""
    match field.type:
        case IntType() | LongType() | DateType() | TimeType() | TimestampType() | DecimalType():
            return True
        case StringType():
            return isinstance(most, str) and len(most) < SHORTENED
        case _:
            return False
