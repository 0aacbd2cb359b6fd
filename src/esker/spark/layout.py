"""How a frame's rows are spread over tasks and ordered within each, before workers write them.

``write.distribution-mode`` is none, hash (by partition) or range (by partition and sort order); not set, it is range
for a sorted table, hash for a partitioned one, else none. Within a task rows come partition by partition, so that few
files are open, unless ``write.spark.fanout.enabled`` lets them come as they are: then the writer's own bounds hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.model.schema import Schema
from esker.spark.keys import keys_of
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import switch, whole_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PREFIX = "__esker_key_"
_ADVICE = "write.spark.advisory-partition-size-bytes"


@dataclass(frozen=True, slots=True)
class Key:
    """A column to spread or to sort by."""

    column: Column
    descending: bool = False
    nulls_last: bool = False


def distribution_mode(metadata: TableMetadata) -> str:
    """none, hash or range."""
    chosen = metadata.properties.get("write.distribution-mode")
    if chosen is not None:
        return chosen.strip().lower()
    if not metadata.sort_order.is_unsorted:
        return "range"
    return "none" if metadata.spec.is_unpartitioned else "hash"


def laid_out(frame: DataFrame, metadata: TableMetadata, schema: Schema) -> DataFrame:
    """The frame's rows, spread and ordered as the table asks."""
    partition = [
        Key(column)
        for field in metadata.spec.fields
        if field.source_id in schema.by_id
        for column in keys_of(schema, frame.schema, field.source_id, field.transform)
    ]
    order = [
        Key(column, field.descending, field.nulls_last)
        for field in metadata.sort_order.fields
        for column in keys_of(schema, frame.schema, field.source_id, field.transform)
    ]
    if not partition and not order:
        return frame
    keys = [*partition, *order]
    names = [f"{_PREFIX}{at}" for at in range(len(keys))]
    wide = frame.withColumns({name: key.column for name, key in zip(names, keys, strict=True)})
    spread = _spread(wide, distribution_mode(metadata), names, keys, len(partition))
    fans_out = switch(metadata.properties, "write.spark.fanout.enabled", default=False)
    first = len(partition) if fans_out else 0
    if keys[first:]:
        spread = spread.sortWithinPartitions(*_ordering(names[first:], keys[first:]))
    return spread.drop(*names)


def spread_settings(metadata: TableMetadata) -> dict[str, str]:
    """Session settings that the table's properties ask for."""
    if _ADVICE not in metadata.properties:
        return {}
    size = whole_number(metadata.properties, _ADVICE, 1, at_least=1)
    return {"spark.sql.adaptive.advisoryPartitionSizeInBytes": str(size)}


def _spread(frame: DataFrame, mode: str, names: list[str], keys: list[Key], partition: int) -> DataFrame:
    if mode == "range":
        return frame.repartitionByRange(*_ordering(names, keys))
    if mode == "hash" and partition:
        if frame.sparkSession.conf.get("spark.sql.adaptive.enabled") == "true":
            return frame.hint("rebalance", *names[:partition])  # splits large partitions, and joins small ones
        return frame.repartition(*names[:partition])
    return frame


def _ordering(names: list[str], keys: list[Key]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812  # as everyone knows it

    made = []
    for name, key in zip(names, keys, strict=True):
        column = F.col(name)
        if key.descending:
            made.append(column.desc_nulls_last() if key.nulls_last else column.desc_nulls_first())
        else:
            made.append(column.asc_nulls_last() if key.nulls_last else column.asc_nulls_first())
    return made
