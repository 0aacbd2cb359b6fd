"""Metadata columns: columns that every table has without storing them, with ids that the spec reserves."""

from __future__ import annotations

from esker.model.partition_and_sort import PartitionField, partition_value_type
from esker.model.transform import VoidTransform
from esker.model.types import BOOLEAN, INT, LONG, STRING, Field, StructType
from esker.tree.table_metadata import TableMetadata

_COLUMNS = (
    Field(id=2147483646, name="_file", type=STRING, required=True, doc="the data file a row is in"),
    Field(id=2147483645, name="_pos", type=LONG, required=True, doc="the row's place in its file"),
    Field(id=2147483644, name="_deleted", type=BOOLEAN, required=True, doc="whether a delete removed the row"),
    Field(id=2147483643, name="_spec_id", type=INT, required=True, doc="the partition spec of the file"),
    Field(id=2147483540, name="_row_id", type=LONG, doc="the row's lasting id (v3)"),
    Field(id=2147483539, name="_last_updated_sequence_number", type=LONG, doc="the commit that last changed it (v3)"),
)
_BY_NAME = {field.name: field for field in _COLUMNS}
_PARTITION = "_partition"

METADATA_COLUMN_NAMES = frozenset((*_BY_NAME, _PARTITION))


def metadata_column(name: str, metadata: TableMetadata | None = None) -> Field | None:
    """The metadata column of that name, or None. The type of ``_partition`` depends on the table."""
    if name == _PARTITION and metadata is not None:
        members = unified_partition_fields(metadata)
        return Field(id=2147483642, name=name, type=StructType(members), doc="the partition of the file")
    return _BY_NAME.get(name)


def is_deleted_column(field: Field) -> bool:
    """Whether the column is ``_deleted``. A scan with it also reads deleted rows, like Iceberg's runtime."""
    return field.id == _BY_NAME["_deleted"].id


def unified_partition_fields(metadata: TableMetadata) -> tuple[Field, ...]:
    """The partition fields of all specs, each once, by ascending id.

    The newest spec gives the name. A field that a v1 table dropped is ``void`` in later specs, so its type is from an
    earlier spec.
    """
    named: dict[int, PartitionField] = {}
    typed: dict[int, PartitionField] = {}
    for spec in sorted(metadata.specs, key=lambda s: s.spec_id, reverse=True):
        for field in spec.fields:
            named.setdefault(field.field_id, field)
            kept = typed.setdefault(field.field_id, field)
            if isinstance(kept.transform, VoidTransform):
                typed[field.field_id] = field
    sources = metadata.any_field_by_id
    names = _distinct_names({id_: named[id_].name for id_ in sorted(named)})
    return tuple(
        Field(id=id_, name=name, type=partition_value_type(typed[id_], sources)) for id_, name in names.items()
    )


def _distinct_names(names: dict[int, str]) -> dict[int, str]:
    """Field names by id. If two specs use one name for two fields, the id is appended to the later name."""
    taken: set[str] = set()
    distinct: dict[int, str] = {}
    for id_, name in names.items():
        distinct[id_] = name if name not in taken else f"{name}_{id_}"
        taken.add(distinct[id_])
    return distinct
