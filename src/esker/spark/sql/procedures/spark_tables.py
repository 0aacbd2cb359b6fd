"""Tables of Spark's own catalog, described by SQL statements, so that it works on Spark Connect too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.schema import Schema
from esker.model.types import Field
from esker.spark.expressions.ddl_text import all_optional
from esker.spark.sql.grammar.words import Named
from esker.write.existing_files import OTHER_FORMATS, ExistingFile, not_taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table of Parquet files in Spark's catalog."""

    database: str
    name: str
    location: str
    is_managed: bool  # Spark deletes its files with the table, and moves them when it is renamed
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return sql_name(self.database, self.name)


def backticked(name: str) -> str:
    """Return a name in backticks, for SQL."""
    return "`" + name.replace("`", "``") + "`"


def sql_name(database: str, table: str) -> str:
    """Return a name in Spark's catalog, for SQL."""
    return ".".join(backticked(part) for part in (CATALOG, database, table))


def find_spark_table(spark: SparkSession, name: Named) -> SparkTable:
    """Return the table. Raises ``NoSuchTable`` if it does not exist.

    Raises ``Unsupported`` for a view, a bucketed table, and formats other than Parquet.
    """
    database, table = _database_and_table(spark, name)
    whole = sql_name(database, table)
    if not spark.catalog.tableExists(whole):
        raise NoSuchTable(f"there is no table {database}.{table} (at {name.place}) in Spark's catalog", table=str(name))
    facts = facts_of(spark, whole)
    kind, provider = str(facts.get("type", "")).upper(), str(facts.get("provider", "")).lower()
    if kind not in ("MANAGED", "EXTERNAL") or not facts.get("location"):
        raise _refused(name, "it is not a table of files", kind.lower())
    if "parquet" not in f"{provider} {facts.get('serde_library', '')}".lower():
        raise (
            not_taken(provider, f"{name} (at {name.place})")
            if provider in OTHER_FORMATS
            else _refused(name, f"its files are of the format {provider}, and only Parquet can be taken in", provider)
        )
    if facts.get("num_buckets"):
        raise _refused(name, "it is in buckets of Spark, which Iceberg does not have", "buckets")
    comment = {"comment": facts["comment"]} if facts.get("comment") else {}
    return SparkTable(
        database=database,
        name=table,
        location=str(facts["location"]),
        is_managed=kind == "MANAGED",
        partition_by=tuple(facts.get("partition_columns") or ()),
        properties={**comment, **(facts.get("table_properties") or {})},
    )


def facts_of(spark: SparkSession, name: str) -> dict[str, Any]:
    """Return what Spark reports about a table, with the keys of DESCRIBE … AS JSON."""
    row = spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").head()
    found: dict[str, Any] = json.loads(row[0]) if row is not None else {}
    return found


def columns_of(spark: SparkSession, table: SparkTable) -> tuple[Field, ...]:
    """Return its columns with their comments, all nullable."""
    return all_optional(Schema(fields=columns_from_spark(spark.table(table.sql).schema)))


def files_of(spark: SparkSession, table: SparkTable) -> tuple[ExistingFile, ...]:
    """Return the files that have rows, in all partitions, with the partition values as text."""
    values = ", ".join(f"CAST({backticked(name)} AS STRING)" for name in table.partition_by)
    rows = spark.sql(f"SELECT DISTINCT _metadata.file_path{', ' if values else ''}{values} FROM {table.sql}").collect()
    found = [
        ExistingFile(location=unquote(row[0]), values=dict(zip(table.partition_by, row[1:], strict=True)))
        for row in rows
    ]
    return tuple(sorted(found, key=lambda file: file.location))


def rename_spark_table(spark: SparkSession, database: str, old: str, new: str) -> None:
    """Rename a table in its database."""
    to = f"{backticked(database)}.{backticked(new)}"  # Spark accepts no catalog here
    spark.sql(f"ALTER TABLE {sql_name(database, old)} RENAME TO {to}")


def _database_and_table(spark: SparkSession, name: Named) -> tuple[str, str]:
    """Return the names as Spark stores them: in lower case, unless the session is case-sensitive."""
    parts = name.parts[1:] if name.parts[0].lower() == CATALOG else name.parts
    if str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() != "true":
        parts = tuple(part.lower() for part in parts)
    if len(parts) == 1:
        return str(spark.catalog.currentDatabase()), parts[0]
    if len(parts) != 2:
        raise InvalidInput(
            f"cannot use {name} (at {name.place}): tables of Spark's own catalog are named database.table",
            place=name.place,
        )
    return parts[0], parts[1]


def _refused(name: Named, why: str, feature: str) -> Unsupported:
    return Unsupported(f"cannot take in {name} (at {name.place}): {why}", feature=feature, place=name.place)
