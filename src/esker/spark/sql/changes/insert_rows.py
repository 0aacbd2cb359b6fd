"""INSERT and CREATE TABLE … AS: the rows of a query, made to fit a table's columns by Spark's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.predicates.predicate_sql import quote_name
from esker.model.predicates.unbound_predicate import AllOf, Unbound
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform
from esker.model.types import Field
from esker.ports.row_changes import Wanted
from esker.spark.expressions.ddl_text import all_optional
from esker.spark.expressions.spark_predicate import Reading, predicate_of
from esker.spark.rows.resolve_outputs import with_defaults
from esker.spark.rows.store_assignment import FittingNames, assigned
from esker.spark.sql.changes.literal_values import Setting, literal_rows
from esker.spark.sql.changes.write_audit_publish import Destination
from esker.spark.sql.definitions.define_tables import is_there, replaced_name, split_version
from esker.spark.sql.grammar.statements import CreateTable, Insert, Query
from esker.spark.sql.lake_names import LakeNames
from esker.table import Table
from esker.tree.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ZONE = "spark.sql.session.timeZone"
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def insert_plain(table: Table, to: Destination, rows: pa.Table) -> Snapshot:
    """Add rows that ``plain_rows`` returned."""
    with table.transaction(ref=to.ref, summary=to.summary) as tx:
        tx.append(rows)
    assert tx.snapshot is not None  # an append makes one
    return tx.snapshot


def plain_rows(table: Table, statement: Insert, setting: Setting, get_zone: Callable[[], str]) -> pa.Table | None:
    """Return the rows of an ``INSERT INTO … VALUES`` that needs no Spark. None for every other INSERT."""
    others = statement.overwrite or statement.by_name or statement.evolves or statement.replace_where is not None
    query = statement.query
    if others or statement.partition or query.text[: query.body.start].strip():
        return None
    try:
        targets = _targets(table.schema, statement, {})
    except InvalidInput:  # reported with the query's own faults, which come first
        return None
    return literal_rows(query.text[query.body.start : query.body.end], table.schema, targets, setting, get_zone)


def insert(table: Table, to: Destination, statement: Insert, frame: DataFrame, setting: Setting) -> Snapshot:
    """Add the frame's rows, or put them in place of others; in a session with dynamic partition overwrite, of the
    partitions that they fall into. ``setting`` returns a setting of the session, which takes a call to the JVM."""
    static = _static_partition(table, statement.partition)
    by_identity = [field for field in table.spec.fields if not isinstance(field.transform, IdentityTransform)]
    all_given = not by_identity and len(static) == len(table.spec.fields)
    is_dynamic = statement.overwrite and (setting(_OVERWRITE_MODE) or "").lower() == "dynamic"
    zone = "UTC"
    if static or statement.replace_where is not None:
        zone = str(frame.sparkSession.conf.get(_ZONE))  # without a default, which Spark returns for a zone not set
    with table.transaction(ref=to.ref, summary=to.summary) as tx:
        schema = table.schema
        if statement.evolves:
            tx.evolve(_wanted(schema, statement, static, frame))
            schema = tx.schema
        rows = _laid_out(schema, statement, static, frame)
        if statement.replace_where is not None:
            tx.overwrite(rows, predicate_of(statement.replace_where, table.schema, Reading(zone=zone)))
        elif not statement.overwrite:
            tx.append(rows)
        elif is_dynamic and not table.spec.is_unpartitioned and not all_given:
            tx.overwrite_partitions(rows)
        else:
            tx.overwrite(rows, _all_equal(table, static, zone) if static else None)
    assert tx.snapshot is not None  # each of these makes one
    return tx.snapshot


def _wanted(schema: Schema, statement: Insert, static: Mapping[str, str], frame: DataFrame) -> list[Wanted]:
    """What WITH SCHEMA EVOLUTION asks for: the query's columns by name, or by place and the rest by name."""
    given = all_optional(Schema(fields=columns_from_spark(frame.schema)))
    if statement.by_name:
        return [Wanted((field.name,), field.type) for field in given]
    names = [field.name for field in _targets(schema, statement, static)]
    if statement.columns is None:
        names += [field.name for field in given[len(names) :]]
    return [Wanted((name,), field.type, by_place=True) for name, field in zip(names, given, strict=False)]


def in_partition(table: Table, partition: Mapping[str, str], zone: str) -> Unbound:
    """The rows of a partition, which PARTITION (…) gives by values of columns that divide the table as they are."""
    return _all_equal(table, _static_partition(table, partition), zone)


def _all_equal(table: Table, values: Mapping[str, str], zone: str) -> Unbound:
    reading = Reading(zone=zone)
    return AllOf(
        tuple(predicate_of(f"{quote_name(name)} <=> {value}", table.schema, reading) for name, value in values.items())
    )


def query_of(table: Table, statement: Insert) -> Query:
    """The query of an INSERT, with a value in place of each DEFAULT."""
    if statement.by_name:
        return with_defaults(statement.query, None)
    static = _static_partition(table, statement.partition)
    return with_defaults(statement.query, _targets(table.schema, statement, static))


def create_table_as(names: LakeNames, statement: CreateTable, frame: DataFrame) -> Table:
    """A table with the frame's columns and rows, there as a whole or not at all."""
    properties, version = split_version(statement)
    columns = all_optional(Schema(fields=columns_from_spark(frame.schema)))
    if (name := replaced_name(names, statement)) is not None:
        return names.lake.replace_table(
            name,
            columns,
            frame,
            partition_by=statement.partition_by,
            properties=properties,
            format_version=version,
        )
    return names.lake.create_table_as(
        names.full(statement.name),
        columns,
        frame,
        partition_by=statement.partition_by,
        properties=properties,
        format_version=version,
        location=statement.location,
    )


def _static_partition(table: Table, partition: Mapping[str, str | None]) -> dict[str, str]:
    """The columns that a PARTITION clause gives a value, by their own names; each must divide the table as it is."""
    identity = {
        table.schema.name_by_id[field.source_id].lower(): table.schema.name_by_id[field.source_id]
        for field in table.spec.fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in table.schema.name_by_id
    }
    unknown = [name for name in partition if name.lower() not in identity]
    if unknown:
        has = ", ".join(identity.values()) or "none"
        raise InvalidInput(
            f"cannot write PARTITION ({unknown[0]} …): columns that {table.name} is partitioned by as they are: {has}",
            column=unknown[0],
        )
    return {identity[name.lower()]: value for name, value in partition.items() if value is not None}


def _laid_out(schema: Schema, statement: Insert, static: Mapping[str, str], frame: DataFrame) -> DataFrame:
    """The frame with the table's names and types: by place, by the columns listed, or by name."""
    width = len(frame.columns)
    targets = _columns(schema, frame.columns) if statement.by_name else _targets(schema, statement, static)
    if len(targets) != width:
        raise InvalidInput(
            f"cannot write {width} columns into {statement.table}: "
            f"{len(targets)} are expected, {', '.join(field.name for field in targets)}"
        )
    times = Counter(field.name for field in targets)
    twice = [field.name for field in targets if times[field.name] > 1 or field.name in static]
    if twice:
        raise InvalidInput(f"cannot write column {twice[0]!r} twice", column=twice[0])
    constants = list(zip(_columns(schema, static), static.values(), strict=True))
    return assigned(frame, targets, constants, by_name=statement.by_name)


def _targets(schema: Schema, statement: Insert, static: Mapping[str, str]) -> list[Field]:
    """The columns that values go to by their place."""
    if statement.columns is not None:
        return _columns(schema, statement.columns)
    return [field for field in schema.fields if field.name not in static]


def _columns(schema: Schema, names: Iterable[str]) -> list[Field]:
    """The table's columns of these names, in their order."""
    known = FittingNames((field.name, field) for field in schema.fields)
    found = []
    for name in names:
        fits = known.fits(name.strip("`"))
        if len(fits) != 1:
            raise InvalidInput(f"the table has no column {name!r}: it has {', '.join(f.name for f in schema.fields)}")
        found += fits
    return found


__all__ = ["create_table_as", "in_partition", "insert", "insert_plain", "is_there", "plain_rows", "query_of"]
