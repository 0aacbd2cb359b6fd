"""Paimon tables read by Spark: the rows are merged in the JVM, and they are those that Arrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from corpus import corpus_root, of_each
from paimon_corpus import Case, as_text, cases
from paimon_tables import PaimonTable, schema, versions
from pyspark.errors import AnalysisException
from s3_server import S3Server

import esker
from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.paimon.inspect import PaimonInspect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHOSEN = (  # one for each way of merging, of finding files and of storing rows
    "py.db/append_part", "py.db/pk_agg", "py.db/pk_dedup", "py.db/pk_partial", "py.db/pk_seqfield",
    "java.db/jdv", "java.db/jfirst", "java.db/jorc", "java.db/jpartial", "java.db/jpk",
    "spark.db/s_pk", "ghost.db/g", "py20_partitions.db/pstr",
)  # fmt: skip


def text_of(frame: DataFrame) -> list[str]:
    maps = {field.name for field in frame.schema.fields if field.dataType.typeName() == "map"}
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return as_text([{name: _pairs(value) if name in maps else value for name, value in row.items()} for row in rows])


def _pairs(value: Any) -> Any:
    return None if value is None else list(value.items())


def check(case: Case, spark: SparkSession) -> None:
    scan = esker.open_table(case.path).scan(snapshot_id=case.snapshot)
    assert text_of(scan.to_spark(spark)) == case.rows()


@of_each("case", [case for case in cases() if case.table in CHOSEN and case.snapshot is None], ids=str)
def test_a_table_has_the_rows_that_its_writer_put_in(case: Case, spark: SparkSession) -> None:
    check(case, spark)


@pytest.mark.cluster
@of_each("case", [case for case in cases() if case.table not in CHOSEN or case.snapshot is not None], ids=str)
def test_every_other_table_too(case: Case, spark: SparkSession) -> None:
    check(case, spark)


def test_sql_reads_a_warehouse_and_no_python_touches_a_row(spark: SparkSession) -> None:
    lake = esker.connect(f"paimon://{corpus_root() / 'paimon'}", spark=spark)
    found = lake.sql("SELECT v FROM java.jpk WHERE id = 1 AND dt = 'a'").collect()
    assert [row.v for row in found] == ["v1c"]
    plan = lake.table("java.jpk").to_spark()._jdf.queryExecution().executedPlan().toString()
    assert "Window" in plan
    assert "Python" not in plan
    assert "MapInArrow" not in plan


@of_each("name", ["java.db/jpk", "py.db/pk_agg", "java.db/jpartial", "spark.db/s_pk"], ids=str)
def test_a_filter_on_a_value_is_above_the_merge(name: str, spark: SparkSession) -> None:
    table = esker.open_table(Path(corpus_root()) / "paimon" / name)
    whole = table.to_arrow().to_pylist()
    column = next(field.name for field in reversed(table.schema.fields) if str(field.type) in ("long", "int", "string"))
    value = whole[0][column]
    where = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
    expected = as_text([row for row in whole if row[column] == value])
    assert text_of(table.scan(where).to_spark(spark)) == expected
    assert as_text(table.scan(where).to_arrow().to_pylist()) == expected


def test_the_only_version_of_a_key_keeps_the_columns_of_a_group_without_an_order(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Java merges only keys that have several versions, also versions that it then ignores."""
    columns = {"k": "BIGINT NOT NULL", "a": "BIGINT", "b": "STRING"}
    options = {"merge_engine": "partial-update", "fields__a__sequence_group": "b", "ignore_delete": "true"}
    table = PaimonTable(tmp_path / "t", schema(columns, keys=["k"], bucket="1", **options))
    nothing = pa.nulls(3, pa.int64())
    table.append(versions([1, 2, 3], 0, a=nothing, b=["x", "y", "z"]))
    table.append(versions([2, 3], 10, [0, 3], a=nothing[:2], b=pa.nulls(2, pa.string())))
    scan = esker.open_table(table.path).scan()
    assert sorted(map(tuple, scan.to_spark(spark).collect())) == [(1, None, "x"), (2, None, None), (3, None, None)]
    assert text_of(scan.to_spark(spark)) == as_text(scan.to_arrow().to_pylist())


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_sequence_may_be_descending(engine: str, tmp_path: Path, spark: SparkSession) -> None:
    columns = {"k": "BIGINT NOT NULL", "a": "BIGINT", "b": "STRING"}
    order = {"sequence__field": "a", "sequence__field__sort_order": "descending"}
    table = PaimonTable(tmp_path / "t", schema(columns, keys=["k"], bucket="1", merge_engine=engine, **order))
    for number, (a, b) in enumerate([([3, 7], ["x", "y"]), ([5, 5], ["w", "z"]), ([None, None], ["n", "n"])]):
        table.append(versions([1, 2], 10 * number, a=pa.array(a, pa.int64()), b=b))
    scan = esker.open_table(table.path).scan()
    assert sorted(map(tuple, scan.to_spark(spark).collect())) == [(1, 3, "x"), (2, 5, "z")]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    """A table ``db.t`` with a key, two snapshots and a third that compacts."""
    made = esker.connect(f"paimon://{tmp_path}/warehouse", spark=spark)
    columns = "id bigint not null, v string, p int not null"
    keyed = made.create_table(
        "db.t", columns, partition_by=["p"], identifier_fields=["p", "id"], properties={"bucket": "1"}
    )
    keyed.append({"id": [1, 2], "v": ["a", "b"], "p": [1, 2]})
    keyed.append({"id": [1], "v": ["A"], "p": [1]})
    keyed.compact()
    return made


def test_every_metadata_table_can_be_queried_in_both_forms(lake: Lake) -> None:
    for name in sorted(PaimonInspect.tables):
        expected = getattr(lake.table("db.t").inspect, name)()
        for spelled in (f"db.t.{name}", f"db.`t${name}`", f"db.`T${name.upper()}`"):
            frame = lake.sql(f"SELECT * FROM {spelled}")
            assert frame.columns == expected.schema.names
            assert frame.count() == expected.num_rows


def test_sql_creates_tables_with_a_key_and_counts_inserted_rows(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.k (id BIGINT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    for value in ("a", "b"):
        [done] = lake.sql(f"INSERT INTO db.k VALUES (1, '{value}')").collect()
        assert done.added_records is None  # it may have replaced a row
    assert [tuple(row) for row in lake.sql("SELECT * FROM db.k").collect()] == [(1, "b")]
    lake.sql("CREATE TABLE db.log (id BIGINT)")
    [done] = lake.sql("INSERT INTO db.log VALUES (1), (1)").collect()
    assert (done.added_records, done.updated_records, done.deleted_records) == (2, 0, 0)
    with pytest.raises(Unsupported, match="give the property bucket"):
        lake.sql("CREATE TABLE db.no (id BIGINT) TBLPROPERTIES ('primary-key' = 'id')")


def test_sql_inserts_and_deletes(lake: Lake) -> None:
    lake.sql("INSERT INTO db.t SELECT id, 'new', 3 FROM range(5, 9)")
    [deleted] = lake.sql("DELETE FROM db.t WHERE id > 6").collect()
    assert (deleted.added_records, deleted.deleted_records) == (0, 2)
    assert sorted(map(tuple, lake.sql("SELECT id, v, p FROM db.t").collect())) == [
        (1, "A", 1), (2, "b", 2), (5, "new", 3), (6, "new", 3),
    ]  # fmt: skip
    for wrong in ("UPDATE db.t SET v = 'x'", "DELETE FROM db.t WHERE length(v) > 1"):
        with pytest.raises(Unsupported, match=r"cannot (update|delete from) db\.t"):
            lake.sql(wrong)
    lake.sql("INSERT OVERWRITE db.t VALUES (9, 'only', 4)")
    assert list(map(tuple, lake.sql("SELECT id, v, p FROM db.t").collect())) == [(9, "only", 4)]


def test_the_fields_of_files_are_columns_also_of_an_older_snapshot(lake: Lake) -> None:
    text = "SELECT kind, bucket, totalBuckets, minKey.id, maxKey.id AS last, level, extraFiles, embeddedIndex, "
    found = lake.sql(text + "deleteRowCount FROM db.t.files VERSION AS OF 2 ORDER BY partition.p, id").collect()
    assert [(row.kind, row.bucket, row.totalBuckets, row.id, row.level, row.deleteRowCount) for row in found] == [
        ("ADD", 0, 1, 1, 0, 0),
        ("ADD", 0, 1, 1, 0, 0),
        ("ADD", 0, 1, 2, 0, 0),
    ]
    assert [row.level for row in lake.sql("SELECT f.level FROM db.`t$files` AS f WHERE f.level > 0").collect()] == [
        5,
        5,
    ]
    for missing in ("db.t.history", "db.`t$history`", "db.`nothing$files`"):
        with pytest.raises((NoSuchTable, AnalysisException), match=r"history|nothing"):
            lake.sql(f"SELECT * FROM {missing}")
    with pytest.raises(InvalidInput, match="it describes all versions"):
        lake.sql("SELECT * FROM db.t.tags VERSION AS OF 2")


@pytest.mark.slow
def test_a_warehouse_in_an_object_store_gives_the_same_rows(s3: S3Server, bucket: str, spark: SparkSession) -> None:
    lake = esker.connect(f"paimon:{bucket}/warehouse", properties=s3.properties, spark=spark)
    table = lake.create_table(
        "db.t", "id bigint not null, v string", identifier_fields=["id"], properties={"bucket": "2"}
    )
    table.append({"id": list(range(20)), "v": ["old"] * 20})
    table.upsert(spark.sql("SELECT id, 'new' AS v FROM range(5, 25)"))
    table.delete("id = 7")
    expected = {id_: "old" if id_ < 5 else "new" for id_ in range(25) if id_ != 7}
    assert {row.id: row.v for row in lake.sql("SELECT id, v FROM db.t").collect()} == expected
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
    assert [row.v for row in table.scan("id = 3").to_spark().collect()] == ["old"]
    table.compact()
    assert {row.id: row.v for row in lake.sql("SELECT id, v FROM db.t").collect()} == expected
