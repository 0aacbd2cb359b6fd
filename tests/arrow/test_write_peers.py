"""Files written here as others see them: PyIceberg finds every id and type, DuckDB every row."""

from __future__ import annotations

import datetime as dt
import io
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from write_tables import Written, table_of, write

from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, BucketTransform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
)
from esker.storage.local import LocalStorage

pytestmark = pytest.mark.interop

INNER = StructType((Field(id=30, name="x", type=INT, required=True), Field(id=31, name="u", type=UUID)))
IN_MAP = StructType((Field(id=40, name="x", type=INT, required=True), Field(id=41, name="u", type=UUID)))
FIELDS = (
    Field(id=1, name="id", type=LONG, required=True),
    Field(id=2, name="flag", type=BOOLEAN),
    Field(id=3, name="n", type=INT),
    Field(id=4, name="f", type=FLOAT),
    Field(id=5, name="d", type=DOUBLE),
    Field(id=6, name="day", type=DATE),
    Field(id=7, name="clock", type=TIME),
    Field(id=8, name="ts", type=TIMESTAMP),
    Field(id=9, name="tz", type=TIMESTAMPTZ),
    Field(id=10, name="name", type=STRING),
    Field(id=11, name="u", type=UUID),
    Field(id=12, name="raw", type=BINARY),
    Field(id=13, name="fix", type=FixedType(3)),
    Field(id=14, name="dec9", type=DecimalType(9, 2)),
    Field(id=15, name="dec18", type=DecimalType(18, 4)),
    Field(id=16, name="dec38", type=DecimalType(38, 10)),
    Field(id=17, name="l", type=ListType(element_id=18, element=UUID)),
    Field(id=19, name="m", type=MapType(key_id=20, key=STRING, value_id=21, value=IN_MAP)),
    Field(id=22, name="s", type=INNER),
    Field(id=23, name="ll", type=ListType(element_id=24, element=ListType(element_id=25, element=INT))),
)
U = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def row(at: int) -> dict[str, Any]:
    if at % 5 == 4:
        return {"id": at}
    return {
        "id": at,
        "flag": at % 2 == 0,
        "n": -at,
        "f": at / 2,
        "d": at / 3,
        "day": dt.date(1969, 12, 28) + dt.timedelta(days=at),
        "clock": dt.time(at % 24, 1, 2, 3),
        "ts": dt.datetime(1969, 12, 31) + dt.timedelta(hours=7 * at, microseconds=at),
        "tz": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=7 * at),
        "name": f"n{at % 3}é",
        "u": uuid.UUID(int=U.int + at),
        "raw": bytes([at]) * at,
        "fix": b"abc",
        "dec9": Decimal(at) / 4,
        "dec18": Decimal(-at) / 8,
        "dec38": Decimal(10) ** 20 + at,
        "l": [U, None][: at % 3],
        "m": {"k": {"x": at, "u": U}, "z": None},
        "s": {"x": at, "u": None},
        "ll": [[at], [], None],
    }


ROWS = [row(at) for at in range(25)]


def written(tmp_path: Path, partition: Any = ()) -> Written:
    metadata = table_of(*FIELDS, partition=partition, location=str(tmp_path / "t"))
    return write(metadata, ROWS, storage=LocalStorage())


def test_pyiceberg_finds_every_id_and_type(tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    arrow = pq.read_schema(written(tmp_path).files[0].path)
    found = pyarrow_to_schema(arrow)
    ours = Schema(fields=FIELDS)
    assert set(found._lazy_id_to_name) == set(ours.by_id)
    assert {id_: found.find_column_name(id_) for id_ in ours.by_id} == dict(ours.name_by_id)
    for field, type_ in ours.primitives():
        theirs = found.find_field(field.id)
        assert str(theirs.field_type) == str(type_), field.name
        assert theirs.required == field.required, field.name


def test_pyiceberg_s_statistics_of_the_file_are_ours(tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        pyarrow_to_schema,
    )

    (file,) = written(tmp_path).files
    schema = pyarrow_to_schema(pq.read_schema(file.path))
    theirs = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pq.read_metadata(file.path),
        stats_columns=compute_statistics_plan(schema, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    ours = file.metrics
    assert ours is not None
    counted = set(ours.value_counts)
    assert {id_: n for id_, n in theirs.value_counts.items() if id_ in counted} == ours.value_counts
    assert {id_: n for id_, n in theirs.null_value_counts.items() if id_ in counted} == ours.null_counts
    assert theirs.column_sizes == ours.column_sizes
    assert list(file.split_offsets) == theirs.split_offsets
    # We widen a bound of zero to the outer of the two zeros; PyIceberg has no bounds inside structs.
    alike = {field.id for field in FIELDS if field.name not in ("f", "d")} & counted
    facts = theirs.to_serialized_dict()
    for mine, other in ((ours.lower_bounds, facts["lower_bounds"]), (ours.upper_bounds, facts["upper_bounds"])):
        assert {i: b for i, b in mine.items() if i in alike} == {i: b for i, b in other.items() if i in alike}


@pytest.mark.parametrize(
    "partition",
    [(), [(9, DAY)], [(11, BucketTransform(3))], [(8, IDENTITY)], [(30, IDENTITY), (10, BucketTransform(2))]],
    ids=["none", "day", "uuid bucket", "timestamp", "nested and two"],
)
def test_duckdb_reads_every_row(tmp_path: Path, partition: Any) -> None:
    import duckdb

    of = written(tmp_path, partition)
    paths = [file.path for file in of.files]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [
            "id",
            "flag",
            "n",
            "f",
            "d",
            "day",
            "clock",
            "ts",
            "name",
            "u",
            "raw",
            "dec9",
            "dec18",
            "dec38",
            "l",
            "ll",
        ]
        text = ", ".join(names)
        files = "read_parquet($paths, hive_partitioning=false)"
        query = f"SELECT {text}, m['k'].x, s.x, epoch_us(tz) FROM {files} ORDER BY id"
        found = connection.execute(query, {"paths": paths}).fetchall()
    assert len(found) == len(ROWS)
    for got, put in zip(found, ROWS, strict=True):
        expected = [put.get(name) for name in names]
        assert list(got[: len(names)]) == expected
        inner = put["m"]["k"]["x"] if "m" in put else None
        assert got[len(names)] == inner
        assert got[len(names) + 1] == (put["s"]["x"] if "s" in put else None)
        micros = None if "tz" not in put else int(put["tz"].timestamp()) * 1_000_000
        assert got[len(names) + 2] == micros


def test_pyarrow_reads_every_row_of_every_partition(tmp_path: Path) -> None:
    of = written(tmp_path, [(10, IDENTITY), (9, DAY)])
    rows = [row for file in of.files for row in pq.read_table(io.BytesIO(Path(file.path).read_bytes())).to_pylist()]
    assert sorted(r["id"] for r in rows) == list(range(25))
    by_id = {r["id"]: r for r in rows}
    assert by_id[2]["l"] == [U, None]
    assert dict(by_id[3]["m"]) == {"k": {"x": 3, "u": U}, "z": None}
