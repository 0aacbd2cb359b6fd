"""Deletes and metadata columns in Spark, and both ways of handing it a list of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spark_tables import agrees, on_disk
from table_maker import TableMaker

from esker.model.schema import Schema
from esker.model.types import (
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    StructType,
)

PLAIN = Schema(
    fields=(
        Field(id=1, name="id", type=LONG, required=True),
        Field(id=2, name="name", type=STRING),
    )
)
LINEAGE = ["id", "_file", "_pos", "_spec_id", "_row_id", "_last_updated_sequence_number"]


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": at, "name": f"n{at % 7}" if at % 5 else None} for at in range(start, start + count)]


def plan_of(frame: Any) -> str:
    return frame._jdf.queryExecution().toString()


def test_position_deletes_take_rows_out(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    files = [
        maker.data_file(rows(9000), row_group_size=1000),
        maker.data_file(rows(50, 9000)),
        maker.data_file(rows(9)),
    ]
    maker.manifest(files)
    maker.snapshot()
    gone = [*((files[0].path, at) for at in (0, 63, 64, 4095, 4096, 8999)), (files[1].path, 7), (files[1].path, 7)]
    maker.manifest([maker.position_deletes(gone)])
    maker.snapshot()
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 9059 - 7
    assert agrees(table.scan("id > 4090 AND name IS NOT NULL", columns=["name"]), spark) > 0
    plan = plan_of(table.scan("id > 10").to_spark(spark))
    assert "MapInArrow" not in plan
    assert "GreaterThan(id,10)" in plan


def test_h5_a_delete_that_spells_the_path_otherwise_applies(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN, location="file:///t")
    data = maker.data_file(rows(10))
    maker.manifest([data])
    maker.snapshot()
    maker.manifest([maker.position_deletes([(data.path.replace("file:///", "file:/"), 3)])])
    maker.snapshot()
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 9


def test_deletion_vectors_take_rows_out_of_their_file_alone(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN, format_version=3)
    files = [maker.data_file(rows(5000)), maker.data_file(rows(5000, 5000))]
    maker.manifest(files)
    maker.snapshot()
    maker.manifest([maker.vector(range(100, 4900), files[0])])
    maker.snapshot()
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) == 5200
    assert agrees(table.scan(columns=LINEAGE), spark) == 5200


def test_i8_lineage_reads_as_arrow_reads_it(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN, format_version=3)
    held = Schema(
        fields=(
            *PLAIN.fields,
            Field(id=2147483540, name="_row_id", type=LONG),
            Field(id=2147483539, name="_last_updated_sequence_number", type=LONG),
        )
    )
    own = [{"id": 100, "_row_id": 77, "_last_updated_sequence_number": None}, {"id": 101, "_row_id": None}]
    maker.manifest([maker.data_file(rows(5)), maker.data_file(own, schema=held)])
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(columns=LINEAGE), spark) == 7
    assert agrees(table.scan(columns=["_row_id", "id", "_last_updated_sequence_number"]), spark) == 7


def test_h3_a_null_key_deletes_nulls_and_only_older_rows_go(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(40))])
    maker.snapshot()
    keys = Schema(fields=(PLAIN.fields[1],))
    both = Schema(fields=(PLAIN.fields[1], PLAIN.fields[0]))
    maker.manifest(
        [
            maker.equality_deletes(keys, [{"name": None}, {"name": "n3"}]),
            maker.equality_deletes(both, [{"name": "n1", "id": 1}, {"name": "n1", "id": 2}]),
        ]
    )
    maker.snapshot()
    maker.manifest([maker.data_file(rows(40))])
    maker.snapshot()
    table = on_disk(maker, tmp_path)
    assert 40 < agrees(table.scan(), spark) < 80
    assert agrees(table.scan("id < 10", columns=["id"]), spark) > 0
    assert "MapInArrow" not in plan_of(table.scan().to_spark(spark))


def test_h4_a_key_column_dropped_since_still_decides(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(20))])
    maker.snapshot()
    maker.manifest([maker.equality_deletes(Schema(fields=(PLAIN.fields[1],)), [{"name": "n2"}, {"name": None}])])
    maker.snapshot()
    maker.evolve(Schema(fields=(PLAIN.fields[0],)))
    table = on_disk(maker, tmp_path)
    assert agrees(table.scan(), spark) < 20


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (TIMESTAMP, [0, 1_700_000_000_000_001, -1, None]),
        (TIMESTAMPTZ, [0, 1_700_000_000_000_001, -1, None]),
        (DATE, [0, 19_000, -700_000, None]),
        (UUID, [bytes(16), bytes(range(16)), None]),
        (STRING, ["", "é", "E", None]),
        (DOUBLE, [0.0, -0.0, float("nan"), None]),
        (DecimalType(30, 4), [None]),
    ],
    ids=str,
)
def test_keys_of_every_type_match_in_any_zone(type_: Any, values: list[Any], tmp_path: Path, spark: Any) -> None:
    schema = Schema(fields=(Field(id=1, name="k", type=type_), Field(id=2, name="n", type=LONG)))
    maker = TableMaker(schema)
    maker.manifest([maker.data_file([{"k": value, "n": at} for at, value in enumerate(values)])])
    maker.snapshot()
    maker.manifest([maker.equality_deletes(Schema(fields=(schema.fields[0],)), [{"k": values[0]}, {"k": values[-1]}])])
    maker.snapshot()
    agrees(on_disk(maker, tmp_path).scan(), spark)


def test_a_key_that_spark_has_no_type_for_decides_where_it_is_not_shown(tmp_path: Path, spark: Any) -> None:
    schema = Schema(fields=(Field(id=1, name="k", type=TIMESTAMP_NS), Field(id=2, name="n", type=LONG)))
    maker = TableMaker(schema)
    maker.manifest([maker.data_file([{"k": at, "n": at} for at in range(4)])])
    maker.snapshot()
    maker.manifest([maker.equality_deletes(Schema(fields=(schema.fields[0],)), [{"k": 1}])])
    maker.snapshot()
    later = Schema(fields=(schema.fields[1],))
    maker.manifest([maker.data_file([{"n": 10}], schema=later)])  # which Spark can read, and no delete is about
    maker.snapshot()
    assert agrees(on_disk(maker, tmp_path).scan(columns=["n"]), spark) == 4


def test_a_key_inside_a_struct_matches(tmp_path: Path, spark: Any) -> None:
    inner = StructType((Field(id=2, name="a", type=LONG), Field(id=3, name="b", type=LONG)))
    schema = Schema(fields=(Field(id=1, name="s", type=inner),))
    maker = TableMaker(schema)
    maker.manifest(
        [maker.data_file([{"s": {"a": 1, "b": 2}}, {"s": {"a": None, "b": 3}}, {"s": None}, {"s": {"a": 4}}])]
    )
    maker.snapshot()
    key = Schema(fields=(Field(id=1, name="s", type=StructType((inner.fields[0],))),))
    maker.manifest([maker.equality_deletes(key, [{"s": {"a": 1}}, {"s": None}], equality_ids=(2,))])
    maker.snapshot()
    assert agrees(on_disk(maker, tmp_path).scan(), spark) == 1


def test_both_routes_read_just_the_files_given(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(10, 10 * at)) for at in range(40)])
    table = on_disk(maker, tmp_path)
    (tmp_path / "data" / "stray.parquet").write_bytes((tmp_path / "data" / "00001.parquet").read_bytes())
    assert agrees(table.scan(), spark) == 400
    frame = table.scan("id >= 395").to_spark(spark)
    assert len(frame.inputFiles()) == len(table.scan("id >= 395").plan().tasks)
    assert frame.count() == 5
    assert spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "false"


def test_two_scans_of_one_table_are_never_taken_for_one(route: str, tmp_path: Path, spark: Any) -> None:
    """Spark takes file indexes of one root for equal, and would reuse the answer of the other scan."""
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(10))])
    first = maker.snapshot()
    maker.manifest([maker.data_file(rows(10, 10))])
    maker.snapshot()
    table = on_disk(maker, tmp_path)
    old, new = table.scan(snapshot_id=first.snapshot_id).to_spark(spark), table.scan().to_spark(spark)
    assert old.cache().count() == 10
    assert new.count() == 20
    assert old.groupBy("name").count().join(new.groupBy("name").count(), "name").count() == 6
    assert sorted(row["n"] for row in old.selectExpr("count(*) n").union(new.selectExpr("count(*) n")).collect()) == [
        10,
        20,
    ]
    old.unpersist()


def test_a_table_in_memory_is_read_by_the_workers_too(spark: Any) -> None:
    maker = TableMaker(PLAIN)
    maker.manifest([maker.data_file(rows(10))])
    assert agrees(maker.table().scan("id > 3"), spark) == 6


def test_a_frame_has_none_of_what_it_was_read_with(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(
        Schema(fields=(Field(id=1, name="id", type=LONG, doc="the key", initial_default=5),)), format_version=3
    )
    maker.manifest([maker.data_file([{"id": 1}])])
    [field] = on_disk(maker, tmp_path).scan().to_spark(spark).schema.fields
    assert field.metadata == {"comment": "the key"}
