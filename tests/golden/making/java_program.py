"""Iceberg Java at work: ``java_program.py FOLDER JARS``, run in the environment of the reference.

It writes its golden tables below FOLDER, answers about them, and answers about the tables that FOLDER's
``for_java.json`` names, which Esker wrote. What it has to say is then in FOLDER's ``from_java.json``.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

from golden_answers import Pairs, Question, answered
from java_api_tables import api_tables
from java_tables import JAVA_TABLES, JavaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType
from spark_peer import SETTINGS

PLACE = "s3://golden"
# One old metadata file is kept, for a table must have a log; the others would only be weight.
EVERY_TABLE = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def session(folder: Path, jars: str) -> SparkSession:
    """A session whose catalog ``golden`` keeps its files at s3://golden, which is the folder."""
    over = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
    local = "org.apache.hadoop.fs.LocalFileSystem"
    settings = {
        **SETTINGS,
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.hadoop.fs.s3.impl": over,
        "spark.hadoop.fs.viewfs.overload.scheme.target.s3.impl": local,
        "spark.hadoop.fs.viewfs.overload.scheme.target.file.impl": local,
        "spark.hadoop.fs.viewfs.mounttable.golden.linkFallback": folder.as_uri(),
        "spark.sql.catalog.golden": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.golden.cache-enabled": "false",
        "spark.sql.catalog.golden.type": "jdbc",
        "spark.sql.catalog.golden.uri": f"jdbc:sqlite:{folder}/java.db",
        "spark.sql.catalog.golden.warehouse": PLACE,
        "spark.sql.warehouse.dir": str(folder / "spark"),
    }
    builder = SparkSession.builder.appName("golden")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def made(spark: SparkSession, table: JavaTable) -> None:
    """Write the table, statement by statement."""
    place, name = f"{PLACE}/{table.name}", f"golden.n.{table.name}"
    properties = {"format-version": str(table.version), **EVERY_TABLE, **table.properties}
    settings = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    partitions = f"PARTITIONED BY ({table.partitioned_by})" if table.partitioned_by else ""
    spark.sql(
        f"CREATE TABLE {name} ({table.columns}) USING iceberg {partitions} "
        f"LOCATION '{place}' TBLPROPERTIES ({settings})"
    )
    for statement in table.then:
        spark.sql(statement.format(t=name, place=place))
    if table.expired:
        spark.sql(
            f"CALL golden.system.expire_snapshots(table => 'n.{table.name}', retain_last => 1, "
            "older_than => TIMESTAMP '2100-01-01 00:00:00')"
        )


def answers(spark: SparkSession, table: str, questions: tuple[Question, ...]) -> list[dict[str, Any]]:
    """Spark's answers through Iceberg Java: all rows, each snapshot's, and what else is asked."""
    name = f"golden.n.{table}"
    snapshots = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()]
    asked = (Question(), *(Question(snapshot_id=id_) for id_ in snapshots), *questions)
    return [_answer(spark, name, question) for question in asked]


def _answer(spark: SparkSession, name: str, question: Question) -> dict[str, Any]:
    version = question.snapshot_id or (question.ref and f"'{question.ref}'")
    text = f"SELECT {', '.join(question.columns or ('*',))} FROM {name}"
    text += f" VERSION AS OF {version}" if version else ""
    text += f" WHERE {question.where}" if question.where else ""
    found = spark.sql(text)
    rows = [
        {field.name: plain(field.dataType, value) for field, value in zip(found.schema.fields, row, strict=True)}
        for row in found.collect()
    ]
    return answered(question, found.columns, rows)


def plain(type_: DataType, value: Any) -> Any:
    """A value of Spark's in the form of the answers; the session and this process are in UTC."""
    if value is None:
        return None
    match type_:
        case TimestampType():
            return value.replace(tzinfo=UTC)
        case StructType():
            assert isinstance(value, Row)
            return {part.name: plain(part.dataType, value[part.name]) for part in type_.fields}
        case ArrayType():
            return [plain(type_.elementType, part) for part in value]
        case MapType():
            pairs = ((plain(type_.keyType, key), plain(type_.valueType, part)) for key, part in value.items())
            return Pairs(tuple(pairs))
        case VariantType():
            return value.toPython()
        case _:
            return value


def main(folder: Path, jars: str) -> None:
    """Make all tables, and record what Java says of them and of Esker's."""
    spark = session(folder, jars)
    spark.sql("CREATE NAMESPACE golden.n")
    build = spark._jvm.org.apache.iceberg.IcebergBuild
    engine = f"Iceberg Java {build.version()} on Spark {spark.version}"
    tables = []
    for table in JAVA_TABLES:
        print(table.name, flush=True)
        made(spark, table)
        facts = {"name": table.name, "exercises": table.exercises, "about": table.about, "writer": engine}
        tables.append({**facts, "answers": answers(spark, table.name, table.questions)})
    tables += api_tables(spark, engine, EVERY_TABLE, lambda *asked: answers(spark, *asked))
    for table in json.loads((folder / "for_java.json").read_text()):
        print(table["name"], flush=True)
        spark.sql(f"CALL golden.system.register_table('n.{table['name']}', '{table['metadata_location']}')")
        questions = tuple(_question(asked) for asked in table["questions"])
        tables.append({"name": table["name"], "answers": answers(spark, table["name"], questions)})
    (folder / "from_java.json").write_text(json.dumps({"engine": engine, "tables": tables}))
    spark.stop()


def _question(asked: dict[str, Any]) -> Question:
    return Question(**{key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
