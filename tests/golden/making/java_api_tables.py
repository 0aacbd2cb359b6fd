"""The golden tables that Iceberg Java writes through its own API, for what Spark SQL has no statement for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from golden_answers import Nanos, Question, answered
from pyspark.sql import SparkSession

PLACE = "s3://golden"
Answers = Callable[[str, tuple[Question, ...]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Api:
    """Iceberg's classes and the catalog of a session."""

    jvm: Any
    catalog: Any
    properties: Mapping[str, str]

    def create(self, name: str, version: int, fields: list[tuple[str, str]], spec: list[dict[str, Any]]) -> Any:
        """A table of optional columns, its location below the neutral place."""
        iceberg = self.jvm.org.apache.iceberg
        columns = [
            {"id": at, "name": column, "type": type_, "required": False} for at, (column, type_) in enumerate(fields, 1)
        ]
        schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": columns}))
        partitions = iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": spec}))
        settings = {"format-version": str(version), **self.properties}
        return self.catalog.createTable(self._name(name), schema, partitions, f"{PLACE}/{name}", settings)

    def load(self, name: str) -> Any:
        """The table as it is now."""
        return self.catalog.loadTable(self._name(name))

    def write_rows(self, table: Any, rows: list[dict[str, Any]], partition: Any = None) -> None:
        """Append one data file."""
        writer = self._writer(table).build().newDataWriter(self._file(table, partition), table.spec(), partition)
        self._fill(writer, table.schema(), rows)
        table.newFastAppend().appendFile(writer.toDataFile()).commit()

    def delete_equal(self, table: Any, columns: list[str], rows: list[dict[str, Any]], partition: Any = None) -> None:
        """Commit one equality delete file over these columns."""
        schema = table.schema().select(columns)
        ids = self.jvm.org.apache.iceberg.relocated.com.google.common.primitives.Ints.toArray(
            [schema.findField(column).fieldId() for column in columns]
        )
        factory = self._writer(table).equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
        writer = factory.newEqualityDeleteWriter(self._file(table, partition), table.spec(), partition)
        self._fill(writer, schema, rows)
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

    def expire(self, table: Any) -> None:
        """Keep the last snapshot alone, which makes the table small."""
        far = self.jvm.java.lang.System.currentTimeMillis() + 86_400_000_000
        table.expireSnapshots().expireOlderThan(far).retainLast(1).commit()

    def partition(self, table: Any, path: str) -> Any:
        """A partition by its path, such as ``region=eu``."""
        return self.jvm.org.apache.iceberg.DataFiles.data(table.spec(), path)

    def _name(self, table: str) -> Any:
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"n.{table}")

    def _writer(self, table: Any) -> Any:
        parquet = self.jvm.org.apache.iceberg.FileFormat.PARQUET
        builder = self.jvm.org.apache.iceberg.data.GenericFileWriterFactory.Builder(table)
        return builder.dataFileFormat(parquet).deleteFileFormat(parquet)

    def _file(self, table: Any, partition: Any) -> Any:
        files = self.jvm.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1).build()
        return files.newOutputFile() if partition is None else files.newOutputFile(table.spec(), partition)

    def _fill(self, writer: Any, schema: Any, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            record = self.jvm.org.apache.iceberg.data.GenericRecord.create(schema)
            for name, value in row.items():
                record.setField(name, value)
            writer.write(record)
        writer.close()


def api_tables(
    spark: SparkSession, engine: str, properties: Mapping[str, str], answers: Answers
) -> Iterator[dict[str, Any]]:
    """Write each table, and say what it is with Java's answers about it."""
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("golden").icebergCatalog()
    api = Api(spark._jvm, catalog, properties)
    for make in (_equality_deletes, _equality_deletes_in_partitions, _defaults, _types):
        made = make(api, answers)
        print(made["name"], flush=True)
        yield {"writer": f"{engine}, by its Java API", **made}


def _equality_deletes(api: Api, answers: Answers) -> dict[str, Any]:
    table = api.create("java_equality_deletes", 2, [("k", "int"), ("s", "string"), ("n", "int")], [])
    api.write_rows(table, [{"k": n % 4, "s": None if n == 5 else f"s{n % 3}", "n": n} for n in range(8)])
    api.delete_equal(table, ["k"], [{"k": 3}])
    api.write_rows(table, [{"k": 3, "s": "after", "n": 10}, {"k": None, "s": None, "n": 11}])
    api.delete_equal(table, ["s"], [{"s": None}, {"s": "s0"}])
    api.write_rows(table, [{"k": 9, "s": None, "n": 12}])
    api.delete_equal(table, ["k", "n"], [{"k": 1, "n": 1}, {"k": 9, "n": 99}])
    api.expire(table)
    return {
        "name": "java_equality_deletes",
        "exercises": ("v2", "equality-deletes"),
        "about": "equality deletes over three sets of columns, with null keys, between appends",
        "answers": answers("java_equality_deletes", (Question(where="k = 3"), Question(where="s IS NULL"))),
    }


def _equality_deletes_in_partitions(api: Api, answers: Answers) -> dict[str, Any]:
    name = "java_equality_deletes_in_partitions"
    region = {"name": "region", "transform": "identity", "source-id": 2, "field-id": 1000}
    table = api.create(name, 2, [("id", "int"), ("region", "string"), ("note", "string")], [region])
    eu, us = api.partition(table, "region=eu"), api.partition(table, "region=us")
    api.write_rows(table, [{"id": n, "region": "eu", "note": f"e{n}"} for n in range(4)], eu)
    api.write_rows(table, [{"id": n, "region": "us", "note": f"u{n}"} for n in range(4)], us)
    api.delete_equal(table, ["id"], [{"id": 1}, {"id": 2}], eu)
    table.updateSchema().renameColumn("id", "key").commit()
    api.delete_equal(table, ["key"], [{"key": 0}], us)
    api.expire(table)
    return {
        "name": name,
        "exercises": ("v2", "equality-deletes", "evolved-schema"),
        "about": "equality deletes that apply to one partition each, over a column that is renamed later",
        "answers": answers(name, (Question(where="key = 1"), Question(where="region = 'eu'"))),
    }


def _defaults(api: Api, answers: Answers) -> dict[str, Any]:
    lit, types = api.jvm.org.apache.iceberg.expressions.Expressions.lit, api.jvm.org.apache.iceberg.types.Types
    table = api.create("java_defaults", 3, [("id", "int")], [])
    api.write_rows(table, [{"id": 1}, {"id": 2}])
    change = table.updateSchema().addColumn("kind", types.StringType.get(), None, lit("none"))
    change = change.addColumn("size", types.IntegerType.get(), None, lit(-1))
    change.addColumn("rate", types.DoubleType.get(), None, lit(0.5)).commit()
    api.write_rows(table, [{"id": 3, "kind": "given", "size": None, "rate": 2.0}])
    table.updateSchema().updateColumnDefault("kind", lit("later")).commit()
    api.write_rows(table, [{"id": 4, "kind": "later", "size": 4, "rate": None}])
    return {
        "name": "java_defaults",
        "exercises": ("v3", "defaults"),
        "about": "columns added with initial defaults, which files written before do not hold",
        "answers": answers("java_defaults", (Question(where="kind = 'none'"), Question(where="size = -1"))),
    }


_TYPES = [
    ("id", "int"),
    ("u", "uuid"),
    ("clock", "time"),
    ("fix", "fixed[4]"),
    ("ns", "timestamp_ns"),
    ("tz_ns", "timestamptz_ns"),
    ("day", "date"),
    ("ntz", "timestamp"),
    ("tz", "timestamptz"),
]


def _types(api: Api, answers: Answers) -> dict[str, Any]:
    name, times = "java_types_beyond_spark", api.jvm.java.time
    table = api.create(name, 3, _TYPES, [{"name": "b", "transform": "bucket[4]", "source-id": 2, "field-id": 1000}])
    ns = "2026-11-15T12:00:00.123456789"
    row = {
        "id": 1,
        "u": api.jvm.java.util.UUID.fromString("f24f9b64-81fa-49d1-b74e-8c09a6e31c56"),
        "clock": times.LocalTime.parse("01:02:03.000004"),
        "fix": b"\x00\x01\xfe\xff",
        "ns": times.LocalDateTime.parse(ns),
        "tz_ns": times.OffsetDateTime.parse(f"{ns}Z"),
        "day": times.LocalDate.parse("1969-12-31"),
        "ntz": times.LocalDateTime.parse("1969-12-31T23:59:59.999999"),
        "tz": times.OffsetDateTime.parse("2026-11-15T12:00:00.000001Z"),
    }
    key = api.jvm.org.apache.iceberg.PartitionKey(table.spec(), table.schema())
    for each in (row, {"id": 2}):
        record = api.jvm.org.apache.iceberg.data.GenericRecord.create(table.schema())
        for column, value in each.items():
            record.setField(column, value)
        wrapper = api.jvm.org.apache.iceberg.data.InternalRecordWrapper(table.schema().asStruct())
        key.partition(wrapper.wrap(record))
        api.write_rows(table, [each], key.copy())
    rows = [
        {column: _plain(type_, record.getField(column)) for column, type_ in _TYPES}
        for record in _each(api.jvm.org.apache.iceberg.data.IcebergGenerics.read(api.load(name)).build())
    ]
    return {
        "name": name,
        "exercises": ("v3", "uuid", "timestamps", "nanoseconds", "binary", "transforms"),
        "about": "types that Spark has none for: uuid (and a bucket of it), time, fixed, timestamps in nanoseconds",
        "answers": [answered(Question(), [column for column, _ in _TYPES], rows)],
    }


def _each(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _plain(type_: str, value: Any) -> Any:
    """A value of the generic reader, which gives java.time's types, in the form of the answers."""
    if value is None or isinstance(value, int | bytes):
        return value
    text = value.toString()
    match type_:
        case "time":
            return time.fromisoformat(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp" | "timestamptz":
            return (
                datetime.fromisoformat(text).astimezone(UTC) if type_ == "timestamptz" else datetime.fromisoformat(text)
            )
        case "timestamp_ns" | "timestamptz_ns":
            whole, _, parts = text.removesuffix("Z").partition(".")
            seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
            return Nanos(seconds * 1_000_000_000 + int(parts.ljust(9, "0") or 0))
        case _:
            return text
