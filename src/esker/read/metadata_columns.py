"""Columns that every table has without storing them, under ids that the spec reserves."""

from __future__ import annotations

from esker.model.types import INT, LONG, STRING, Field

_COLUMNS = (
    Field(id=2147483646, name="_file", type=STRING, required=True, doc="the data file a row is in"),
    Field(id=2147483645, name="_pos", type=LONG, required=True, doc="the row's place in its file"),
    Field(id=2147483643, name="_spec_id", type=INT, required=True, doc="the partition spec of the file"),
    Field(id=2147483540, name="_row_id", type=LONG, doc="the row's lasting id (v3)"),
    Field(id=2147483539, name="_last_updated_sequence_number", type=LONG, doc="the commit that last changed it (v3)"),
)
_BY_NAME = {field.name: field for field in _COLUMNS}


def metadata_column(name: str) -> Field | None:
    """The metadata column of that name, if there is one."""
    return _BY_NAME.get(name)
