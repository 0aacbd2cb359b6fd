"""A table in any storage that has everything at once: three kinds of deletes, an evolved schema, partition values that
its files lack, names that a URI must escape. Every way to read it must give the same rows."""

from __future__ import annotations

from typing import Any

from table_maker import TableMaker

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import DATE, DOUBLE, INT, LONG, STRING, Field, ListType, StructType
from esker.ports.storage import Storage
from esker.read.scan import Scan
from esker.table import Table

OLD = Schema(
    fields=(
        Field(id=1, name="id", type=INT, required=True),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="region", type=STRING),
        Field(id=4, name="at", type=StructType((Field(id=5, name="x", type=DOUBLE), Field(id=6, name="y", type=LONG)))),
        Field(id=7, name="tags", type=ListType(element_id=8, element=STRING)),
    )
)
NEW = Schema(
    fields=(
        Field(id=3, name="region", type=STRING),
        Field(id=1, name="id", type=LONG, required=True),  # wider
        Field(id=2, name="called", type=STRING),  # renamed
        Field(
            id=4, name="at", type=StructType((Field(id=6, name="why", type=LONG), Field(id=5, name="x", type=DOUBLE)))
        ),
        Field(id=7, name="tags", type=ListType(element_id=8, element=STRING)),
        Field(id=9, name="day", type=DATE),  # new
    )
)
BY_REGION = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_id=3, field_id=1000, name="region", transform=IDENTITY),)
)
NAMES = ("plain", "with space", "per%20cent", "100%", "a+b", "ümläut-日本", "a#b?c", "a&b=c'd", "x(1)~!@,;")
METADATA = ["id", "_file", "_pos", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number", "_deleted"]


def rows(start: int, count: int = 40) -> list[dict[str, Any]]:
    """Rows of the older schema."""
    return [
        {
            "id": at,
            "name": f"n{at % 7}" if at % 5 else None,
            "region": "north" if at % 2 else "south",
            "at": {"x": at / 4, "y": at * 10} if at % 3 else None,
            "tags": [f"t{at % 3}", None][: at % 3],
        }
        for at in range(start, start + count)
    ]


def mixed_table(storage: Storage, location: str, *, all_formats: bool = True) -> TableMaker:
    """The table. ``location`` may have folders with odd names too. Without ``all_formats``, it has Parquet alone."""
    maker = TableMaker(OLD, specs=(PartitionSpec(), BY_REGION), format_version=3, storage=storage, location=location)
    files = [
        maker.data_file(rows(100 * at), row_group_size=16, path=f"{location}/data/{name}.parquet")
        for at, name in enumerate(NAMES)
    ]
    maker.manifest(files)
    # The column of the partition is in no file, as of a table that was migrated from Hive.
    bare = Schema(fields=tuple(f for f in OLD if f.name != "region"))
    moved = [
        maker.data_file(
            rows(5000 + at), schema=bare, spec_id=1, partition=(region,), path=f"{location}/data/region={at}/m.parquet"
        )
        for at, region in enumerate(("east", None))
    ]
    maker.manifest(moved, spec=BY_REGION)
    if all_formats:
        maker.manifest([maker.data_file(rows(6000), file_format=other) for other in ("avro", "orc")])
    maker.snapshot()
    maker.evolve(NEW)
    later = [
        {"id": at, "called": "new", "region": "west", "at": None, "tags": [], "day": at} for at in range(7000, 7040)
    ]
    maker.manifest([maker.data_file(later, path=f"{location}/data/later.parquet")])
    pairs = [(files[at].path, position) for at in (1, 2, 5) for position in (0, 15, 16, 39)]
    maker.manifest([maker.position_deletes(pairs)])
    maker.manifest([maker.vector(range(0, 40, 3), files[3]), maker.vector([7, 38], files[6])])
    maker.manifest(
        [maker.equality_deletes(Schema(fields=(NEW.find("id"),)), [{"id": at} for at in (3, 101, 410, 5003)])]
    )
    gone = Schema(fields=(NEW.find("called"), NEW.find("region")))
    maker.manifest([maker.equality_deletes(gone, [{"called": None, "region": "south"}])])
    maker.snapshot()
    return maker


def scans(table: Table) -> dict[str, Scan]:
    """What to read of it, each by a name."""
    return {
        "all columns": table.scan(),
        "two columns": table.scan(columns=["called", "id"]),
        "no column that files have": table.scan(columns=["day", "region"]),
        "a filter": table.scan("id > 230 AND called IS NOT NULL"),
        "a filter on a struct": table.scan("at.x >= 25.5 OR at IS NULL", columns=["id", "at"]),
        "a filter on a partition": table.scan("region = 'east' OR region IS NULL", columns=["id", "region"]),
        "metadata columns": table.scan(columns=METADATA),
        "metadata columns with a filter": table.scan("called = 'n3'", columns=METADATA),
        "an older snapshot": table.scan(snapshot_id=table.snapshots[0].snapshot_id),
    }
