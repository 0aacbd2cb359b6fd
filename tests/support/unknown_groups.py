"""Files whose groups are annotated as unknown, as Hive leaves them and pyarrow will not write them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from parquet_footer import CHILDREN, LOGICAL, NAME, STRUCT, edited, elements

ROWS = [{"id": at, "place": {"city": f"c{at}", "zip": at}, "tags": {"a": at}} for at in range(1, 40)]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("place", pa.struct({"city": pa.string(), "zip": pa.int32()})),
        pa.field("tags", pa.map_(pa.string(), pa.int64())),
    ]
)
_UNKNOWN = (STRUCT, {11: (STRUCT, {})})


def annotated(*names: str) -> bytes:
    """The rows as a file whose groups of these names are annotated as unknown."""
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS, schema=SCHEMA), out, row_group_size=10)

    def edit(footer: dict[int, Any]) -> None:
        for element in elements(footer):
            if element[NAME][1].decode() in names:
                assert element.get(CHILDREN), "a group"
                element[LOGICAL] = _UNKNOWN

    return edited(out.getvalue(), edit)
