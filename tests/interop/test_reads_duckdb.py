"""Tables that DuckDB writes, and DuckDB as a second reader of tables that others wrote.

DuckDB 1.5.5 writes Iceberg tables without a catalog only by ``COPY … TO … (FORMAT iceberg)``: unpartitioned, one
snapshot, metadata files named by a UUID. Everything else it writes goes through a REST catalog. So its ``iceberg_scan``
is compared with our scan on tables of PyIceberg and of the corpus, and its Parquet files, which carry no field ids,
are read inside tables by a name mapping.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus_root
from duckdb_iceberg import duckdb_with_iceberg
from held_rows import telling
from table_maker import TableMaker

import esker
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import INT, LONG, STRING, Field, StructType
from esker.storage.local import LocalStorage
from esker.tree.data_file import DataFile

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # DuckDB's and PyIceberg's own

EVERY_TYPE = """
    SELECT i::BIGINT AS k, (i - 500)::INTEGER AS i, (i / 8)::DOUBLE AS d, (i / 4)::FLOAT AS f,
        (i / 3)::DECIMAL(20, 4) AS dec,
        DATE '2024-01-30' + i::INTEGER AS day, TIMESTAMP '2024-01-30 22:30:00' + INTERVAL (i) HOUR AS ts,
        TIMESTAMPTZ '2024-01-30 22:30:00+00' + INTERVAL (i) MINUTE AS tz, TIME '01:02:03.000004' AS clock,
        CASE WHEN i % 5 = 0 THEN NULL ELSE 'row ' || i END AS s, i % 2 = 0 AS b, ('x' || i)::BLOB AS bin,
        ('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))::UUID AS u,
        CASE WHEN i % 7 = 0 THEN NULL ELSE {'x': i, 'y': 'é' || i} END AS st, [i, NULL] AS li, MAP {'a': i} AS ma
    FROM range(1000) r(i)
"""
FILTERS = (
    ("k BETWEEN 10 AND 20", None),
    ("i = -5 OR i = 5", None),
    ("d > 100.5", None),
    ("f <= 1", None),
    ("dec >= 333", None),
    ("day >= DATE '2024-02-01'", None),
    ("ts < TIMESTAMP_NTZ '2024-02-01 00:00:00'", "ts < TIMESTAMP '2024-02-01 00:00:00'"),
    ("tz < TIMESTAMP '2024-01-31 00:00:00+00:00'", "tz < TIMESTAMPTZ '2024-01-31 00:00:00+00'"),
    ("s IS NULL", None),
    ("s LIKE 'row 1%'", None),
    ("NOT (s LIKE 'row 1%')", None),
    ("s NOT IN ('row 1', 'row 2')", None),
    ("b AND k < 10", None),
    ("u = '00000000-0000-0000-0000-000000000007'", None),
    ("st.x > 990", None),
    ("st IS NULL", None),
    ("st.y <> 'é3'", None),
    ("bin = X'783133'", "bin = 'x13'::BLOB"),
)


@pytest.fixture
def duck() -> Iterator[Any]:
    connection: Any = duckdb_with_iceberg()
    yield connection
    connection.close()


def rows_of(rows: list[dict[str, Any]]) -> list[str]:
    """Rows whatever their order; maps as pairs, uuids as DuckDB spells them."""
    return sorted(repr(telling({name: _plain(value) for name, value in row.items()})) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return str(value)
        case dict():
            return tuple(sorted((key, _plain(part)) for key, part in value.items()))
        case list() if value and all(isinstance(part, tuple) for part in value):
            return tuple(sorted((key, _plain(part)) for key, part in value))
        case list():
            return [_plain(part) for part in value]
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


def asked(duck: Any, query: str) -> list[str]:
    return rows_of(duck.execute(query).to_arrow_table().to_pylist())


def ours(table: esker.Table, where: str | None = None) -> list[str]:
    return rows_of(table.scan(where).to_arrow().to_pylist())


# ---------------------------------------------------------------- what DuckDB writes


@pytest.fixture
def copied(duck: Any, tmp_path: Path) -> Path:
    duck.execute(f"COPY ({EVERY_TYPE}) TO '{tmp_path}/t' (FORMAT iceberg)")
    return tmp_path / "t"


def test_a_table_that_duckdb_copies_to_reads_as_it_was_written(duck: Any, copied: Path) -> None:
    table = esker.open_table(copied)
    assert ours(table) == asked(duck, EVERY_TYPE)
    assert table.scan().count() == 1000
    assert table.metadata.last_sequence_number == 0


@pytest.mark.parametrize(("where", "theirs"), FILTERS, ids=[where for where, _ in FILTERS])
def test_filters_select_what_duckdb_selects(duck: Any, copied: Path, where: str, theirs: str | None) -> None:
    expected = asked(duck, f"SELECT * FROM ({EVERY_TYPE}) WHERE {theirs or where}")
    found = ours(esker.open_table(copied), where)
    assert found == expected
    assert found  # a filter that selects nothing would prove nothing


def test_of_two_copies_to_one_place_the_last_is_the_table(duck: Any, tmp_path: Path) -> None:
    for start in (0, 100):
        duck.execute(f"COPY (SELECT i AS k FROM range({start}, {start + 3}) r(i)) TO '{tmp_path}/t' (FORMAT iceberg)")
    assert sorted(esker.open_table(tmp_path / "t").scan().to_arrow().column("k").to_pylist()) == [100, 101, 102]


def test_nothing_and_only_nulls_read_right(duck: Any, tmp_path: Path) -> None:
    duck.execute(f"COPY (SELECT 1::INTEGER AS a WHERE false) TO '{tmp_path}/none' (FORMAT iceberg)")
    assert esker.open_table(tmp_path / "none").scan().count() == 0
    nulls = "SELECT NULL::INTEGER AS a, 'NaN'::DOUBLE AS d, {'x': NULL::INTEGER} AS s FROM range(4)"
    duck.execute(f"COPY ({nulls}) TO '{tmp_path}/nulls' (FORMAT iceberg)")
    table = esker.open_table(tmp_path / "nulls")
    assert ours(table) == asked(duck, nulls)
    assert table.scan("a IS NULL").count() == table.scan("isnan(d)").count() == table.scan("d > 5").count() == 4
    assert table.scan("s.x IS NULL AND s IS NOT NULL").count() == 4


# ---------------------------------------------------------------- DuckDB's Parquet inside a table

MAPPING = """[
    {"field-id": 1, "names": ["k", "key"]},
    {"field-id": 2, "names": ["name"]},
    {"field-id": 3, "names": ["st"], "fields": [{"field-id": 4, "names": ["x"]}]}
]"""
MAPPED = Schema(
    fields=(
        Field(id=1, name="k", type=LONG),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="st", type=StructType((Field(id=4, name="x", type=INT),))),
        Field(id=5, name="region", type=STRING),
    )
)
BY_REGION = PartitionSpec(fields=(PartitionField(source_id=5, field_id=1000, name="region", transform=IDENTITY),))


def test_parquet_of_duckdb_reads_by_the_name_mapping(duck: Any, tmp_path: Path) -> None:
    """A migrated table: files without ids, columns in another order, the partition only in its folder."""
    place = tmp_path / "t"
    maker = TableMaker(
        MAPPED,
        specs=[BY_REGION],
        location=str(place),
        storage=LocalStorage(),
        properties={"schema.name-mapping.default": MAPPING},
    )
    (place / "data").mkdir(parents=True)
    files = []
    for region, first in (("eu", 0), ("us", 10)):
        file = place / "data" / f"{region}.parquet"
        columns = "{'x': i::INTEGER, 'more': i} AS st, 'n' || i AS name, i AS key"
        query = f"SELECT {columns} FROM range({first}, {first + 5}) r(i)"
        duck.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
        files.append(
            DataFile(
                path=str(file),
                file_format="parquet",
                record_count=5,
                file_size=file.stat().st_size,
                partition=(region,),
            )
        )
    maker.manifest(files)
    maker.save()
    table = esker.open_table(place)
    assert table.scan("st.x = 12").to_arrow().to_pylist() == [{"k": 12, "name": "n12", "st": {"x": 12}, "region": "us"}]
    assert table.scan("region = 'eu' AND name <> 'n1'").count() == 4
    assert sorted(table.scan(columns=["k"]).to_arrow().column(0).to_pylist()) == [*range(5), *range(10, 15)]


# ---------------------------------------------------------------- DuckDB as a second reader


def test_duckdb_reads_a_table_of_pyiceberg_as_we_do(duck: Any, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    import pyarrow as pa
    from pyiceberg.transforms import BucketTransform, DayTransform

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("ns")
    data = duck.execute("SELECT k, i, d, day, ts, s FROM (" + EVERY_TYPE + ")").to_arrow_table().combine_chunks()
    data = data.cast(pa.schema([pa.field(f.name, f.type) for f in data.schema]))
    table = catalog.create_table("ns.t", data.schema)
    with table.update_spec() as spec:
        spec.add_field("ts", DayTransform(), "ts_day")
        spec.add_field("i", BucketTransform(4), "bucket")
    table.append(data)
    table.delete("k >= 100 and k < 200")
    catalog.engine.dispose()
    place = table.metadata_location.removeprefix("file://")
    mine = esker.open_table(place)
    assert ours(mine) == asked(duck, f"SELECT * FROM iceberg_scan('{place}')")
    where = "day = DATE '2024-02-10' OR i = 7"
    assert ours(mine, where) == asked(duck, f"SELECT * FROM iceberg_scan('{place}') WHERE {where}")


CORPUS = (
    "impala/iceberg_spark_compaction_with_dangling_delete",
    "impala/iceberg_v2_delete_equality_partitioned",
    "impala/iceberg_v2_equality_delete_schema_evolution",
    "impala/iceberg_v3_row_lineage",
    "impala/test_complex_default",
    "doris/equality_delete_par_1",
    "doris/complex_user_profiles_iceberg_parquet",
    "dremio/multi_rowgroup_orders_with_deletes",
    "iceberg-cxx/bucket_partitioning",
    "iceberg-cxx/granular_deletes",
    "iceberg-cxx/types__all_spark_types",
    "iceberg-cxx/day_timestamptz_partitioning",
    "iceberg-cxx/warehouse_streams__default_value",
    "pg_lake/spark_generated_iceberg_ddl_test",
    "glaredb/tables-v1__lineitem_partitioned",
    "glaredb/tables-v2__lineitem_versioned",
    "icebird/spark__rename_column",
    "polars/iceberg-table",
)


@pytest.mark.parametrize("name", CORPUS)
def test_duckdb_reads_tables_of_other_engines_as_we_do(duck: Any, name: str) -> None:
    """Those it can read: position deletes of a moved table name files by their old place, and it passes them over."""
    place = corpus_root() / "iceberg" / name
    table = esker.open_table(place)
    version = Path(table.metadata_location).name.removesuffix(".metadata.json")
    theirs = asked(duck, f"SELECT * FROM iceberg_scan('{place}', allow_moved_paths = true, version = '{version}')")
    assert ours(table) == theirs
