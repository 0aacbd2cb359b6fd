"""CALL system.add_files, snapshot and migrate: folders of Parquet, which need no Spark, and tables of Spark's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.errors import AlreadyExists, InvalidInput, NoSuchFile, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.spark.sql.run_statement import SqlRunner


class Answers:
    """A lake whose statements are done without Spark."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._runner = SqlRunner(lake, self._no_spark)

    def _no_spark(self) -> Any:
        raise AssertionError("Spark was asked for")

    def __call__(self, text: str) -> Any:
        return self._runner.do(text)


@pytest.fixture
def do(tmp_path: Path) -> Answers:
    lake = esker.connect(
        f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), allowed_roots=[tmp_path / "given"]
    )
    lake.create_namespace("s")
    return Answers(lake)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    for day in ("2026-01-01", "2026-01-02"):
        for region in ("eu", "__HIVE_DEFAULT_PARTITION__"):
            put(tmp_path / "given" / f"day={day}" / f"region={region}", [int(day[-1])])
    return tmp_path / "given"


def put(folder: Path, ids: list[int], **columns: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), folder / "part-0.parquet")


def rows(do: Answers, name: str) -> list[tuple[Any, ...]]:
    found = do.lake.table(name).scan().to_arrow().to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


PARTITIONED = "CREATE TABLE s.t (id bigint, day date, region string) PARTITIONED BY (day, region)"


def test_files_of_chosen_partitions_are_added(do: Answers, given: Path) -> None:
    do(PARTITIONED)
    answer = do(f"CALL system.add_files('s.t', '`parquet`.`{given}`', map('day', '2026-01-01'))")
    assert answer.columns == "added_files_count bigint, changed_partition_count bigint"
    assert list(answer.rows) == [(2, 2)]
    call = (
        f"CALL lake.system.add_files(source_table => 'parquet.`file:{given}`', table => 's.t', parallelism => 2, "
        "partition_filter => map('region', null, 'day', '2026-01-02'), check_duplicate_files => true)"
    )
    assert list(do(call).rows) == [(1, 1)]
    assert rows(do, "s.t") == [("1", "2026-01-01", "None"), ("1", "2026-01-01", "eu"), ("2", "2026-01-02", "None")]
    with pytest.raises(InvalidInput, match="it is in the table already"):  # whatever is asked for
        do(call.replace("check_duplicate_files => true", "check_duplicate_files => false"))


def test_a_single_file_and_a_flat_folder_with_more_columns_are_added(do: Answers, given: Path) -> None:
    do("CREATE TABLE s.t (id bigint)")
    put(given / "flat", [7], more=["x"])
    assert list(do(f"CALL system.add_files('s.t', '`parquet`.`{given}/flat/part-0.parquet`')").rows) == [(1, 1)]
    assert rows(do, "s.t") == [("7",)]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ("'s.t', '`orc`.`{given}`'", Unsupported, r"cannot add orc\..* files of the format orc .* only Parquet"),
        ("'s.t', '`avro`.`{given}`'", Unsupported, "files of the format avro"),
        ("'s.t', '`parquet`.`{given}/nowhere`'", NoSuchFile, "it has no data file"),
        ("'s.t', '`parquet`.`{given}`', map('hour', '1')", InvalidInput, "cannot choose partitions by 'hour'"),
        (
            "'s.t', '`parquet`.`{given}`', map('day', '1999-01-01')",
            InvalidInput,
            "there is no partition with day = 1999",
        ),
        ("'s.t', '`parquet`.`{given}`', 5", InvalidInput, "cannot use 5 for partition_filter"),
        (
            "table => 's.t', source_table => 'parquet.`{given}`', parallelism => 0",
            InvalidInput,
            "from 1 on for parallelism",
        ),
        ("table => 's.t', source_table => 'parquet.`/etc`'", InvalidInput, "cannot use"),
        ("'s.flat', '`parquet`.`{given}`'", InvalidInput, "its folders partition rows by day, region"),
        ("'s.hours', '`parquet`.`{given}`'", InvalidInput, "no partition spec of the table has exactly these columns"),
    ],
)
def test_what_cannot_be_added_is_refused(
    do: Answers, given: Path, arguments: str, error: type[Exception], says: str
) -> None:
    do(PARTITIONED)
    do("CREATE TABLE s.flat (id bigint, day date, region string)")
    do("CREATE TABLE s.hours (id bigint, day date, region string) PARTITIONED BY (month(day), region)")
    with pytest.raises(error, match=says):
        do(f"CALL system.add_files({arguments.format(given=given)})")
    assert [do.lake.table(name).current_snapshot for name in do.lake.tables("s")] == [None] * 3


def test_a_snapshot_is_a_table_over_files_that_it_never_deletes(do: Answers, given: Path) -> None:
    before = sorted(given.rglob("*"))
    answer = do(
        f"CALL system.snapshot(source_table => 'parquet.`{given}`', table => 's.copy', "
        "properties => map('format-version', '3', 'owner', 'me'), parallelism => 2)"
    )
    assert (answer.columns, list(answer.rows)) == ("imported_files_count bigint", [(4,)])
    table = do.lake.table("s.copy")
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("id", "long"),
        ("day", "date"),
        ("region", "string"),
    ]
    assert [field.name for field in table.spec.fields] == ["day", "region"]
    assert table.format_version == 3
    assert {key: table.properties.get(key) for key in ("gc.enabled", "snapshot", "owner")} == {
        "gc.enabled": "false",
        "snapshot": "true",
        "owner": "me",
    }
    assert len(rows(do, "s.copy")) == 4
    table.delete("region is null")
    table.append(pa.table({"id": [9], "day": pa.array([0], pa.date32()), "region": ["us"]}))
    with pytest.raises(InvalidInput, match=r"gc\.enabled is false"):
        do("DROP TABLE s.copy PURGE")
    do("DROP TABLE s.copy")
    assert sorted(given.rglob("*")) == before


def test_a_snapshot_has_the_columns_of_every_file(do: Answers, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    folder = tmp_path / "given"
    put(folder / "n=1", [1], s=["x"])
    put(folder / "n=20", [2], ts=pa.array([moment], pa.timestamp("us", "UTC")))
    legacy = pa.table({"id": pa.array([3]), "old": pa.array([moment], pa.timestamp("us", "UTC"))})
    pq.write_table(legacy, folder / "n=20" / "part-1.parquet", use_deprecated_int96_timestamps=True)
    do(f"CALL system.snapshot('parquet.`{folder}`', 's.copy', '{tmp_path}/warehouse/elsewhere')")
    table = do.lake.table("s.copy")
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {"id": "long", "s": "string", "ts": "timestamptz", "old": "timestamptz", "n": "int"}
    assert table.location == f"{tmp_path}/warehouse/elsewhere"
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["n"], row["s"], row["ts"], row["old"]) for row in found] == [
        (1, "x", None, None),
        (20, None, moment, None),
        (20, None, None, moment),
    ]


def test_snapshots_that_cannot_be_made_leave_nothing(do: Answers, given: Path, tmp_path: Path) -> None:
    do("CREATE TABLE s.there (id bigint)")
    source = f"source_table => 'parquet.`{given}`'"
    for arguments, error, says in (
        (f"{source}, table => 's.copy', location => '{given}/inside'", InvalidInput, "one is inside the other"),
        (f"{source}, table => 's.copy', location => '{tmp_path}'", InvalidInput, "one is inside the other"),
        (f"{source}, table => 's.there'", AlreadyExists, "s.there"),
        (f"{source}, table => 's.copy', ignore_missing_files => true", Unsupported, "cannot leave out missing files"),
        (f"{source}, table => 's.copy', properties => map('format-version', '9')", InvalidInput, "it is 1, 2 or 3"),
        ("source_table => 'orc.`/x`', table => 's.copy'", Unsupported, "files of the format orc"),
    ):
        with pytest.raises(error, match=says):
            do(f"CALL system.snapshot({arguments})")
    put(given / "day=2026-01-03" / "region=eu", [1], id2=[1.5])
    pq.write_table(pa.table({"id": ["text"]}), given / "day=2026-01-03" / "region=eu" / "part-1.parquet")
    with pytest.raises(InvalidInput, match="does not fit"):
        do(f"CALL system.snapshot({source}, table => 's.copy')")
    assert do.lake.tables("s") == ["s.there"]
    with pytest.raises(InvalidInput, match="a folder is not one; call snapshot"):
        do(f"CALL system.migrate('parquet.`{given}`')")


# ---------------------------------------------------------------- tables of Spark's own


@pytest.fixture
def lake(tmp_path: Path, spark: Any) -> Iterator[Lake]:
    roots = [tmp_path / "given", spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")]
    lake = esker.connect(
        f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), allowed_roots=roots, spark=spark
    )
    lake.create_namespace("s")
    spark.sql("CREATE DATABASE taken")
    yield lake
    spark.sql("DROP DATABASE taken CASCADE")


ROWS = [
    "(1, TIMESTAMP '2026-01-01 00:00:00', CAST(1 AS TINYINT), DATE '2026-01-01', 'São Paulo/1 =%x')",
    "(2, TIMESTAMP '2026-07-01 12:30:00.5', NULL, DATE '2026-01-01', 'plain')",
    "(3, NULL, CAST(-1 AS TINYINT), NULL, 'plain')",
    "(4, NULL, NULL, DATE '2026-01-02', NULL)",
]


def spark_table(spark: Any, name: str, more: str = "") -> list[Any]:
    """A table of Spark's, partitioned, and its rows."""
    spark.sql(
        f"CREATE TABLE taken.{name} (id bigint COMMENT 'the key', ts timestamp, n tinyint, day date, city string) "
        f"USING parquet PARTITIONED BY (day, city) COMMENT 'kept' {more} TBLPROPERTIES ('team' = 'me')"
    )
    spark.sql(f"INSERT INTO taken.{name} VALUES {', '.join(ROWS)}")
    return told(spark.table(f"taken.{name}"))


def told(frame: Any) -> list[Any]:
    names = ["id", "ts", "n", "day", "city"]
    return [tuple(row) for row in frame.select(*names).orderBy("id").collect()]


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet"))


@pytest.mark.spark
def test_files_of_a_spark_table_are_added_wherever_its_partitions_are(lake: Lake, tmp_path: Path, spark: Any) -> None:
    spark_table(spark, "orders")
    elsewhere = tmp_path / "given" / "day=1999-01-01" / "city=wrong"  # the catalog decides, not the folder's name
    spark.sql(f"ALTER TABLE taken.orders ADD PARTITION (day = '2026-01-09', city = 'far') LOCATION '{elsewhere}'")
    spark.sql("INSERT INTO taken.orders PARTITION (day = '2026-01-09', city = 'far') VALUES (5, NULL, NULL)")
    before = told(spark.table("taken.orders"))
    lake.sql("CREATE TABLE s.t (id bigint, ts timestamp, n int, day date, city string) PARTITIONED BY (day, city)")
    call = "CALL system.add_files(table => 's.t', source_table => 'taken.orders'"
    answer = lake.sql(f"{call}, partition_filter => map('day', DATE '2026-01-09'))")
    assert [tuple(row) for row in answer.collect()] == [(1, 1)]
    lake.sql("DELETE FROM s.t")
    with pytest.raises(InvalidInput, match="the table has removed it"):
        lake.sql(f"{call})")
    lake.sql("DROP TABLE s.t")
    lake.sql("CREATE TABLE s.t (id bigint, ts timestamp, n int, day date, city string) PARTITIONED BY (day, city)")
    answer = lake.sql("CALL system.add_files('s.t', 'spark_catalog.taken.orders')")
    assert [tuple(row) for row in answer.collect()] == [(5, 5)]
    assert told(lake.sql("SELECT * FROM s.t")) == before
    assert told(lake.sql("SELECT * FROM s.t WHERE city = 'São Paulo/1 =%x'")) == before[:1]
    assert told(lake.sql("SELECT * FROM s.t WHERE city IS NULL OR day IS NULL")) == before[2:4]
    by_arrow = sorted(lake.table("s.t").scan(columns=["id", "n", "day", "city"]).to_arrow().to_pylist(), key=str)
    assert [tuple(row.values()) for row in by_arrow] == [(id_, n, day, city) for id_, _, n, day, city in before]
    for made, says in (
        ("CREATE TABLE taken.b (id bigint) USING parquet CLUSTERED BY (id) INTO 2 BUCKETS", "it is in buckets"),
        ("CREATE TABLE taken.c (id bigint) USING csv", "its files are of the format csv"),
        ("CREATE TABLE taken.o (id bigint) USING orc", "files of the format orc"),
        ("CREATE VIEW taken.v AS SELECT 1 AS id", "it is not a table of files"),
    ):
        spark.sql(made)
        with pytest.raises(Unsupported, match=says):
            lake.sql(f"CALL system.add_files('s.t', 'taken.{made.split('taken.')[1][0]}')")
    with pytest.raises(NoSuchTable, match=r"there is no table taken\.nowhere"):
        lake.sql("CALL system.add_files('s.t', 'taken.nowhere')")


@pytest.mark.spark
def test_a_snapshot_of_a_spark_table_leaves_the_table_and_its_files(lake: Lake, tmp_path: Path, spark: Any) -> None:
    before = spark_table(spark, "orders")
    place = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "taken.db"
    files = files_of(place)
    answer = lake.sql("CALL system.snapshot('taken.orders', 's.copy', properties => map('mine', 'yes'))")
    assert [tuple(row) for row in answer.collect()] == [(4,)]
    table = lake.table("s.copy")
    assert [(f.name, str(f.type), f.doc) for f in table.schema][:3] == [
        ("id", "long", "the key"),
        ("ts", "timestamptz", None),
        ("n", "int", None),
    ]
    assert [f.name for f in table.spec.fields] == ["day", "city"]
    kept = {key: table.properties.get(key) for key in ("comment", "team", "mine", "gc.enabled")}
    assert kept == {"comment": "kept", "team": "me", "mine": "yes", "gc.enabled": "false"}
    assert told(lake.sql("SELECT * FROM s.copy")) == before
    lake.sql("UPDATE s.copy SET n = 7 WHERE id < 3")
    assert [row[2] for row in told(lake.sql("SELECT * FROM s.copy"))] == [7, 7, -1, None]
    lake.sql("DROP TABLE s.copy")
    assert files_of(place) == files
    assert told(spark.table("taken.orders")) == before
    put(tmp_path / "given" / "wide", [1], more=["x"])
    spark.sql(f"CREATE TABLE taken.narrow (id bigint) USING parquet LOCATION '{tmp_path}/given/wide'")
    lake.sql("CALL system.snapshot('taken.narrow', 's.narrow')")
    assert [tuple(row) for row in lake.sql("SELECT * FROM s.narrow").collect()] == [(1,)]


@pytest.mark.spark
def test_migrate_makes_the_lake_the_owner_of_an_external_table(lake: Lake, tmp_path: Path, spark: Any) -> None:
    place = tmp_path / "given" / "orders"
    before = spark_table(spark, "orders", f"LOCATION '{place}'")
    files = files_of(place)
    answer = lake.sql("CALL system.migrate(table => 'taken.orders', backup_table_name => 'old')")
    assert [tuple(row) for row in answer.collect()] == [(4,)]
    assert told(lake.sql("SELECT * FROM taken.orders")) == before == told(spark.table("taken.old"))
    assert not spark.catalog.tableExists("taken.orders")
    table = lake.table("taken.orders")
    assert (table.location.removeprefix("file:"), table.properties["migrated"]) == (str(place), "true")
    spark_table(spark, "again", f"LOCATION '{place}2'")
    with pytest.raises(AlreadyExists, match="there is a table"):
        lake.sql("CALL system.migrate(table => 'taken.again', backup_table_name => 'old')")
    lake.sql("CALL system.migrate(table => 'taken.again', drop_backup => true)")
    assert not spark.catalog.tableExists("taken.again_BACKUP_")
    assert told(lake.sql("SELECT * FROM taken.again")) == before
    lake.sql("DELETE FROM taken.orders WHERE id = 1")
    assert set(files) <= set(files_of(place)), "earlier snapshots have them"
    lake.sql("DROP TABLE taken.orders PURGE")
    assert files_of(place) == []


@pytest.mark.spark
def test_migrate_of_a_managed_table_leaves_the_files_to_its_backup(lake: Lake, tmp_path: Path, spark: Any) -> None:
    before = spark_table(spark, "orders")
    with pytest.raises(InvalidInput, match=r"cannot drop the backup: taken\.orders is managed by Spark"):
        lake.sql("CALL system.migrate('taken.orders', drop_backup => true)")
    answer = lake.sql("CALL system.migrate('TAKEN.Orders')")
    assert [tuple(row) for row in answer.collect()] == [(4,)]
    table = lake.table("taken.orders")
    assert table.properties["gc.enabled"] == "false"
    assert table.location.startswith(str(tmp_path))
    assert told(lake.sql("SELECT * FROM taken.orders")) == before
    assert spark.catalog.tableExists("taken.orders_BACKUP_")
    lake.sql("INSERT INTO taken.orders VALUES (9, NULL, 1, NULL, 'new')")
    assert len(told(lake.sql("SELECT * FROM taken.orders"))) == 5


@pytest.mark.spark
def test_a_migration_that_fails_leaves_spark_its_table(lake: Lake, tmp_path: Path, spark: Any) -> None:
    place = tmp_path / "not allowed" / "orders"
    before = spark_table(spark, "orders", f"LOCATION '{place}'")
    with pytest.raises(InvalidInput, match="allowed_roots"):
        lake.sql("CALL system.migrate('taken.orders')")
    assert told(spark.table("taken.orders")) == before
    assert not spark.catalog.tableExists("taken.orders_BACKUP_")
    assert lake.namespaces() == ["s"], "a namespace would hide Spark's database"
    assert told(lake.sql("SELECT * FROM taken.orders")) == before
