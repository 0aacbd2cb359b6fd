"""Tables of ours, read by PyIceberg 0.12 on the same SQLite catalog: the same rows, the same partitions and bounds.

PyIceberg reads format versions 1, 2 and 3 and every type that Esker writes; it writes 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from our_tables import FILTERS, NAME, ROWS, TABLES, TERMS, alike, make, some_rows

import esker
from esker.lake import Lake
from esker.table import Table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # PyIceberg's own

sql = pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Any]:
    catalog = sql.SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    yield catalog
    catalog.engine.dispose()


def assert_same(table: Table, theirs: Any) -> None:
    """Every snapshot reads the same, and so does the table."""
    peer = theirs.load_table(NAME)
    assert alike(peer.scan().to_arrow()) == alike(table.scan().to_arrow())
    assert [s.snapshot_id for s in peer.snapshots()] == [s.snapshot_id for s in table.snapshots]
    for snapshot in table.snapshots:
        names = tuple(f.name for f in table.schema)
        schema = table.metadata.schema_by_id[snapshot.schema_id or 0]
        if tuple(f.name for f in schema) == names:  # otherwise the two show old rows by different schemas
            seen = peer.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            assert alike(seen) == alike(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("written", TABLES, ids=lambda written: written.__name__)
def test_pyiceberg_reads_what_was_written(
    lake: Lake, theirs: Any, written: Callable[[Lake, int], Table], version: int
) -> None:
    assert_same(written(lake, version), theirs)


@pytest.mark.parametrize("term", TERMS)
def test_a_table_partitioned_by_any_transform_reads_and_prunes_the_same(lake: Lake, theirs: Any, term: str) -> None:
    table = make(lake, partition_by=[term])
    table.append(some_rows())
    assert_same(table, theirs)
    for where in FILTERS:
        found = theirs.load_table(NAME).scan(row_filter=where).to_arrow()
        assert alike(found) == alike(table.scan(where).to_arrow()), where


# PyIceberg cannot write these: it groups neither by uuid nor by NaN, and buckets no time and truncates no binary.
NOT_THEIRS = ("u", "d", "bucket(5, clock)", "truncate(3, bin)")


@pytest.mark.parametrize("term", [None, *(term for term in TERMS if term not in NOT_THEIRS)])
def test_partitions_and_bounds_are_those_that_pyiceberg_writes(lake: Lake, theirs: Any, term: str | None) -> None:
    """The same rows appended by each to a table of the same columns: the manifests agree, column by column."""
    columns = tuple(name for name in some_rows(1).column_names if name not in ("li", "ma", "ls"))
    make(lake, columns, partition_by=[term] if term else [])
    lake.rename_table(NAME, "sales.theirs")
    make(lake, columns, partition_by=[term] if term else [])
    rows = _without_what_breaks_it(some_rows(columns=columns))
    lake.table(NAME).append(rows)
    peer = theirs.load_table("sales.theirs")
    peer.append(rows.cast(_their_schema(peer)))
    ours_listed, theirs_listed = (_described(theirs.load_table(name)) for name in (NAME, "sales.theirs"))
    assert ours_listed == theirs_listed
    assert sum(record["count"] for record in ours_listed) == ROWS


def _without_what_breaks_it(rows: pa.Table) -> pa.Table:
    """PyIceberg fails on an upper bound before U+D7FF or without a successor (G2)."""
    at = rows.schema.get_field_index("s")
    safe = [None if text is not None and len(text) > 15 else text for text in rows.column("s").to_pylist()]
    return rows.set_column(at, "s", pa.array(safe, pa.string()))


def _their_schema(table: Any) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _described(table: Any) -> list[dict[str, Any]]:
    """Each data file by its partition, with what a planner reads of it.

    Left out is what PyIceberg does not write: NaN counts, bounds inside structs, and the sign of a zero bound.
    """
    schema = table.schema()
    plain = {f.field_id for f in schema.fields if str(f.field_type) not in ("float", "double")}
    found = []
    for task in table.scan().plan_files():
        file = task.file
        leaves = sorted(set(file.lower_bounds) & plain)
        found.append(
            {
                "partition": repr([file.partition[at] for at in range(len(file.partition))]),
                "count": file.record_count,
                "values": dict(sorted(file.value_counts.items())),
                "nulls": dict(sorted(file.null_value_counts.items())),
                "lower": {id_: file.lower_bounds[id_] for id_ in leaves},
                "upper": {id_: file.upper_bounds[id_] for id_ in leaves if id_ in file.upper_bounds},
            }
        )
    return sorted(found, key=lambda record: record["partition"])


def test_both_append_to_one_table_in_turns(lake: Lake, theirs: Any) -> None:
    columns = ("id", "s", "tz", "dec", "st", "li")
    table = make(lake, columns, partition_by=["bucket(4, id)", "s"])
    peer = theirs.load_table(NAME)
    for at in range(0, 8, 2):
        table.refresh().append(some_rows(5, first=10 * at, columns=columns))
        peer.refresh()
        peer.append(
            _without_what_breaks_it(some_rows(5, first=10 * at + 10, columns=columns)).cast(_their_schema(peer))
        )
    table.refresh()
    assert_same(table, theirs)
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == sorted(
        10 * at + n for at in range(8) for n in range(5)
    )
    parents = [snapshot.parent_snapshot_id for snapshot in table.snapshots]
    assert parents == [None, *(snapshot.snapshot_id for snapshot in table.snapshots[:-1])]
    assert [snapshot.sequence_number for snapshot in table.snapshots] == list(range(1, 9))
    assert table.snapshots[-1].summary["total-records"] == "40"
    table.delete("id in (1, 11, 21)")
    peer.refresh()
    peer.delete("id in (2, 12)")
    table.refresh()
    assert_same(table, theirs)
    assert table.scan().count() == 35


def test_we_write_to_a_table_of_theirs(lake: Lake, theirs: Any) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import BucketTransform, DayTransform
    from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

    theirs.create_namespace("sales")
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "s", StringType()),
        NestedField(3, "tz", TimestamptzType()),
    )
    spec = PartitionSpec(
        PartitionField(source_id=1, field_id=1000, transform=BucketTransform(3), name="id_bucket"),
        PartitionField(source_id=3, field_id=1001, transform=DayTransform(), name="tz_day"),
    )
    peer = theirs.create_table(NAME, schema, partition_spec=spec)
    columns = ("id", "s", "tz")
    peer.append(_without_what_breaks_it(some_rows(6, columns=columns)).cast(_their_schema(peer)))
    table = lake.table(NAME)
    table.append(some_rows(6, first=100, columns=columns))
    table.delete("id in (1, 101)")
    table.overwrite(some_rows(2, first=200, columns=columns), where="id = 2")
    with table.alter() as change:
        change.add_column("note", "string")
        change.rename_column("s", "text")
    assert_same(table, theirs)
    peer = peer.refresh()
    theirs_row = {"id": pa.array([300], pa.int64()), "tz": pa.array([0], pa.timestamp("us", "UTC")), "note": ["theirs"]}
    peer.append(pa.table(theirs_row, schema=_required_id()))
    assert_same(table.refresh(), theirs)
    assert table.scan("note = 'theirs'").count() == 1


def _required_id() -> pa.Schema:
    later = [pa.field("tz", pa.timestamp("us", "UTC")), pa.field("note", pa.string())]
    return pa.schema([pa.field("id", pa.int64(), nullable=False), *later])


def test_branches_and_tags_read_the_same(lake: Lake, theirs: Any) -> None:
    table = make(lake, ("id", "s"))
    table.append(some_rows(3, columns=("id", "s")))
    table.tag("first")
    table.branch("dev")
    table.append(some_rows(3, first=10, columns=("id", "s")), ref="dev")
    table.append(some_rows(3, first=20, columns=("id", "s")))
    peer = theirs.load_table(NAME)
    for ref in ("main", "first", "dev"):
        assert alike(peer.scan().use_ref(ref).to_arrow()) == alike(table.scan(ref=ref).to_arrow())
    assert {name: (r.snapshot_id, r.snapshot_ref_type.value) for name, r in peer.refs().items()} == {
        name: (r.snapshot_id, r.kind.value) for name, r in table.refs.items()
    }


def test_a_metadata_table_of_theirs_tells_our_files_as_ours_does(lake: Lake, theirs: Any) -> None:
    table = make(lake, ("id", "s"), partition_by=["s"])
    table.append(some_rows(6, columns=("id", "s")))
    table.delete("id = 1")
    peer = theirs.load_table(NAME)
    for name in ("file_path", "record_count", "file_size_in_bytes", "spec_id"):
        ours = sorted(map(str, table.inspect.files().column(name).to_pylist()))
        assert sorted(map(str, peer.inspect.files().column(name).to_pylist())) == ours
    assert peer.inspect.history().num_rows == len(table.history)
