"""Each way into Esker on Spark as the first thing that a new session is asked for.

As a program: with a folder, on a classic session that a user's script made. Prints what went wrong, by entry point.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

ROWS = [1, 2, 3]


def _ids(rows: Any) -> list[int]:
    return sorted(row[0] for row in rows)


def query(spark: Any, lake: Any, name: str) -> None:
    """``lake.sql`` of a query."""
    assert _ids(lake.sql(f"SELECT id FROM {name}").collect()) == ROWS


def scan(spark: Any, lake: Any, name: str) -> None:
    """``scan().to_spark``."""
    assert _ids(lake.table(name).scan("id > 1").to_spark(spark).collect()) == ROWS[1:]


def scan_of_changed_rows(spark: Any, lake: Any, name: str) -> None:
    """The same where workers read, because of deletes by key."""
    with lake.table(name).transaction() as tx:
        tx.delete_by_key(pa.table({"id": [1]}), on=["id"])
    assert _ids(lake.table(name).scan().to_spark(spark).collect()) == ROWS[1:]


def append(spark: Any, lake: Any, name: str) -> None:
    """A DataFrame appended."""
    lake.table(name).append(spark.range(4, 6).toDF("id"))
    assert lake.table(name).scan().count() == 5


def insert(spark: Any, lake: Any, name: str) -> None:
    """INSERT."""
    lake.sql(f"INSERT INTO {name} VALUES (4)")
    assert lake.table(name).scan().count() == 4


def update(spark: Any, lake: Any, name: str) -> None:
    """UPDATE by an expression that only Spark knows."""
    lake.sql(f"UPDATE {name} SET id = pmod(id, 2) WHERE length(cast(id AS string)) = 1")
    assert sorted(lake.table(name).scan().to_arrow()["id"].to_pylist()) == [0, 1, 1]


def merge(spark: Any, lake: Any, name: str) -> None:
    """MERGE."""
    lake.sql(
        f"MERGE INTO {name} t USING (SELECT 3 AS id UNION ALL SELECT 4) s ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert sorted(lake.table(name).scan().to_arrow()["id"].to_pylist()) == [1, 2, 4]


def upsert(spark: Any, lake: Any, name: str) -> None:
    """An upsert of a DataFrame."""
    lake.table(name).upsert(spark.range(3, 6).toDF("id"), on=["id"])
    assert lake.table(name).scan().count() == 5


def changes(spark: Any, lake: Any, name: str) -> None:
    """The change feed."""
    table = lake.table(name)
    first = table.current_snapshot.snapshot_id
    table.append(pa.table({"id": [9]}))
    assert table.scan_changes(first).to_spark(spark).count() == 1


def data_source(spark: Any, lake: Any, name: str) -> None:
    """The data source, reading and writing."""
    import esker

    esker.spark.register(spark, lake)
    spark.range(4, 5).toDF("id").write.format("esker").mode("append").save(name)
    assert _ids(spark.read.format("esker").load(name).collect()) == [*ROWS, 4]


def create_as(spark: Any, lake: Any, name: str) -> None:
    """CREATE TABLE … AS."""
    lake.sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
    assert lake.table(f"{name}_copy").scan().count() == 3


ENTRY_POINTS: tuple[Callable[[Any, Any, str], None], ...] = (
    query,
    scan,
    scan_of_changed_rows,
    append,
    insert,
    update,
    merge,
    upsert,
    changes,
    data_source,
    create_as,
)


def tried(new_session: Callable[[], Any], folder: str) -> dict[str, str]:
    """What went wrong, by entry point; each gets a session and a table of its own."""
    import esker

    wrong: dict[str, str] = {}
    for entry in ENTRY_POINTS:
        name = f"first.{entry.__name__}"
        esker_lake = esker.connect(f"sqlite:///{folder}/first.db", warehouse=f"{folder}/first")
        if "first" not in esker_lake.namespaces():
            esker_lake.create_namespace("first")
        esker_lake.create_table(name, "id bigint").append(pa.table({"id": ROWS}))
        spark = new_session()
        lake = esker.connect(f"sqlite:///{folder}/first.db", warehouse=f"{folder}/first", spark=spark)
        try:
            entry(spark, lake, name)
        except Exception as error:
            wrong[entry.__name__] = "".join(traceback.format_exception_only(error))[:600]
    return wrong


def main(folder: str) -> None:
    """A user's script: a session of its own, nothing else chosen."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()

    def new_session() -> Any:
        made = spark.newSession()  # Spark looks for data sources in the session that is active
        made._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(made._jsparkSession)
        return made

    print(json.dumps(tried(new_session, folder)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
