"""PyIceberg sees the same columns, partitions, order and refs in a table that Esker has changed."""

from __future__ import annotations

import pytest
from commits import NAME, CommittedTable
from pyiceberg.table.metadata import TableMetadataUtil

from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.write.refs.branches_and_tags import tag

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_evolved_table_is_the_same_table_to_pyiceberg(version: int) -> None:
    table = CommittedTable(
        "id bigint not null, region string, ts timestamp, n int, p struct<x: float>, xs array<struct<a: int>>",
        format_version=version,
        partition_by=["day(ts)", "bucket(4, id)", "truncate(2, region)"],
        sort_by=["ts desc", "bucket(4, id)"],
    )
    table.append("a")
    tag(table.catalog, NAME, table.load(), "v1", max_ref_age_ms=1000)  # type: ignore[arg-type]
    with table.alter() as change:
        change.add_column("xs.b", "double")
        change.add_column("s", "struct<a: map<string, int>>", doc="new", after="id")
        change.drop_partition("day(ts)")
        change.add_partition("region")
        change.widen_column("n", "bigint")
        change.rename_column("p.x", "east")
        change.set_sort_order("n", "region desc nulls first")
        change.set_identifier_fields("id")
        if version == 3:
            change.add_column("r", "decimal(9,2)", required=True, default="1.5")
    ours = table.metadata
    theirs = TableMetadataUtil.parse_raw(encode_table_metadata(ours).decode())
    schema = theirs.schema()
    assert {schema.find_column_name(id_): id_ for id_ in ours.schema.by_id} == dict(ours.schema.id_by_name)
    assert [str(schema.find_type(id_)) for id_, f in ours.schema.by_id.items() if f.name in ("n", "east", "r")] == [
        str(f.type) for f in ours.schema.by_id.values() if f.name in ("n", "east", "r")
    ]
    assert set(schema.identifier_field_ids) == ours.schema.identifier_field_ids
    assert [(f.field_id, f.source_id, f.name, str(f.transform)) for f in theirs.spec().fields] == [
        (f.field_id, f.source_id, f.name, str(f.transform)) for f in ours.spec.fields
    ]
    assert [(f.source_id, f.direction.value, f.null_order.value) for f in theirs.sort_order().fields] == [
        (f.source_id, "desc" if f.descending else "asc", "nulls-last" if f.nulls_last else "nulls-first")
        for f in ours.sort_order.fields
    ]
    assert (theirs.last_column_id, theirs.last_partition_id) == (ours.last_column_id, ours.last_partition_id)
    assert theirs.refs["v1"].max_ref_age_ms == 1000
