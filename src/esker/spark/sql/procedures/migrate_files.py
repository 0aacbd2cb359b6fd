"""Executes CALL system.add_files, snapshot and migrate: adds existing files to a table without copying them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esker.arrow.input.folder_schema import folder_schema
from esker.errors import AlreadyExists, EskerError, InvalidInput, OutcomeUnknown, Unsupported
from esker.model.table_names import TableName
from esker.spark.sql.definitions.define_tables import FORMAT_VERSION
from esker.spark.sql.grammar.words import Named, Words
from esker.spark.sql.procedures.call_arguments import Caller, Given, mapping_of, text_of
from esker.spark.sql.procedures.spark_tables import (
    SparkTable,
    backticked,
    columns_of,
    facts_of,
    files_of,
    find_spark_table,
    rename_spark_table,
    sql_name,
)
from esker.spark.sql.queries.query_frames import Answer
from esker.storage.location import Location
from esker.write.existing_files import (
    OTHER_FORMATS,
    ExistingFile,
    ExistingFiles,
    files_below,
    not_taken,
    whole_location,
)

if TYPE_CHECKING:
    from esker.model.types import Field
    from esker.table import Table

_BACKUP = "_BACKUP_"
_NOT_COPIED = (  # properties of a Spark table that are about its own location
    "path",
    "transient_lastDdlTime",
    "serialization.format",
    "location",
    "write.metadata.path",
    "write.data.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where files come from, and the table that is created for them."""

    location: str
    files: tuple[ExistingFile, ...]
    columns: tuple[Field, ...]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]


def add_files(given: Given, caller: Caller) -> Answer:
    """Add the files of a folder or of a Spark table to a table."""
    table = caller.table(given.need("table"))
    source = _name("source_table", given.need("source_table"))
    chosen = _filter(given.get("partition_filter"))
    given.flag("check_duplicate_files")  # Esker always checks: a file that a table lists twice would be read twice
    parallelism = _parallelism(given)
    if (folder := _folder(source)) is not None:
        files: list[Any] = [f"{folder.rstrip('/')}/"]
        if caller.names.lake.catalog.storage().exists(folder):
            files = [folder]
    else:
        spark = caller.get_spark()
        files = list(files_of(spark, find_spark_table(spark, source)))
    added = table.add_files(files, partition_filter=chosen, ignore_extra_columns=True, parallelism=parallelism)
    counts = [int(added.summary.get(key, "0")) for key in ("added-data-files", "changed-partition-count")]
    return Answer("added_files_count bigint, changed_partition_count bigint", [tuple(counts)])


def snapshot(given: Given, caller: Caller) -> Answer:
    """Create a table over the files of another table, which keeps them.

    The new table never deletes one of these files.
    """
    source_name = _name("source_table", given.need("source_table"))
    name = caller.names.full(_name("table", given.need("table")))
    location = given.get("location")
    parallelism = _parallelism(given)
    _check_missing(given)
    source = _source(source_name, caller, parallelism)
    home = caller.names.lake.catalog.location_for(TableName.parse(name)) if location is None else str(location)
    _check_apart(home, source)
    properties = {**source.properties, **mapping_of("properties", given.get("properties"))}
    made = _made(caller, name, source, home, {**properties, "gc.enabled": "false", "snapshot": "true"}, parallelism)
    return Answer("imported_files_count bigint", [(_file_count(made),)])


def migrate(given: Given, caller: Caller) -> Answer:
    """Give the name of a Spark table to a table of the lake.

    The lake also owns its files, if Spark does not manage them.
    """
    name = _name("table", given.need("table"))
    parallelism = _parallelism(given)
    _check_missing(given)
    if _folder(name) is not None:
        raise given.refused("replaces a Spark table, and a folder is not one; call snapshot", "table")
    spark = caller.get_spark()
    old = find_spark_table(spark, name)
    drops = given.flag("drop_backup")
    if drops and old.is_managed:
        raise given.refused(
            f"cannot drop the backup: {old.database}.{old.name} is managed by Spark, which would delete the files "
            "with it",
            "drop_backup",
        )
    full = f"{old.database}.{old.name}"
    if caller.names.find((old.database, old.name)) is not None:
        raise AlreadyExists(f"cannot migrate {full}: the lake has a table of that name already", table=full)
    backup = given.get("backup_table_name")
    backup = f"{old.name}{_BACKUP}" if backup is None else text_of("backup_table_name", backup)
    if spark.catalog.tableExists(sql_name(old.database, backup)):
        raise AlreadyExists(f"cannot migrate {full}: there is a table {backup} already, the name of its backup")
    source = _of_spark(caller, old)
    properties = {**source.properties, **mapping_of("properties", given.get("properties")), "migrated": "true"}
    made = _taken_over(caller, old, backup, source, properties, parallelism)
    if drops:
        spark.sql(f"DROP TABLE {sql_name(old.database, backup)}")
    return Answer("migrated_files_count bigint", [(_file_count(made),)])


def _taken_over(
    caller: Caller, old: SparkTable, backup: str, source: _Source, properties: dict[str, str], parallelism: int
) -> Table:
    """Create the lake's table and rename Spark's table to the backup name.

    If this fails, undo it and raise the error.
    """
    spark, full = caller.get_spark(), f"{old.database}.{old.name}"
    is_new = old.database not in caller.names.lake.namespaces()
    if is_new:
        caller.names.lake.create_namespace(old.database)
    there = sql_name(old.database, backup)
    rename_spark_table(spark, old.database, old.name, backup)
    try:
        if not old.is_managed:
            return _made(caller, full, source, old.location, properties, parallelism)
        # Spark moved the files with the name, and deletes them with the table. So Spark still owns them.
        moved = _moved(source, str(facts_of(spark, there)["location"]))
        home = caller.names.lake.catalog.location_for(TableName.parse(full))
        _check_apart(home, moved)
        return _made(caller, full, moved, home, {**properties, "gc.enabled": "false"}, parallelism)
    except OutcomeUnknown as error:  # the lake's table may exist, over the files at their new location
        error.add_note(f"Spark's table is called {old.database}.{backup} now")
        raise
    except BaseException as error:
        if is_new:  # it would hide Spark's database of that name
            with suppress(EskerError):
                caller.names.lake.drop_namespace(old.database)
        try:
            rename_spark_table(spark, old.database, backup, old.name)
        except Exception as second:
            error.add_note(f"Spark's table is called {old.database}.{backup} now: {second}")
        raise


def _made(
    caller: Caller, name: str, source: _Source, location: str, properties: Mapping[str, str], parallelism: int
) -> Table:
    kept = dict(properties)
    version = kept.pop(FORMAT_VERSION, "2")
    if version not in ("1", "2", "3"):
        raise InvalidInput(f"cannot use {FORMAT_VERSION} = {version!r}: it is 1, 2 or 3", property=FORMAT_VERSION)
    return caller.names.lake.create_table_as(
        name,
        source.columns,
        ExistingFiles(files=source.files, parallelism=parallelism),
        partition_by=[backticked(column) for column in source.partition_by],
        properties=kept,
        format_version=int(version),
        location=location,
    )


def _source(name: Named, caller: Caller, parallelism: int) -> _Source:
    folder = _folder(name)
    if folder is None:
        return _of_spark(caller, find_spark_table(caller.get_spark(), name))
    storage = caller.names.lake.catalog.storage()
    files = files_below(storage, folder)
    schema = folder_schema(storage, files, parallelism=parallelism)
    by_name = {field.name.casefold(): field.name for field in schema.fields}
    return _Source(
        location=whole_location(storage, folder),
        files=tuple(files),
        columns=schema.fields,
        partition_by=tuple(by_name[name.casefold()] for name in files[0].values or ()),
        properties={},
    )


def _of_spark(caller: Caller, table: SparkTable) -> _Source:
    spark = caller.get_spark()
    return _Source(
        location=table.location,
        files=files_of(spark, table),
        columns=columns_of(spark, table),
        partition_by=table.partition_by,
        properties={key: value for key, value in table.properties.items() if key not in _NOT_COPIED},
    )


def _moved(source: _Source, location: str) -> _Source:
    """Return the source after its folder was moved. Files outside the folder were not moved."""
    old = Location.parse(source.location)
    ways = [(file, Location.parse(file.location).below(old)) for file in source.files]
    files = [file if way is None else replace(file, location=f"{location.rstrip('/')}/{way}") for file, way in ways]
    return replace(source, location=location, files=tuple(files))


def _folder(name: Named) -> str | None:
    """Return the folder that ``parquet.`/path` `` names. Raises ``Unsupported`` for other formats that Spark knows."""
    if len(name.parts) != 2 or name.parts[0].lower() not in ("parquet", *OTHER_FORMATS):
        return None
    if name.parts[0].lower() != "parquet":
        raise not_taken(name.parts[0].lower(), f"{name} (at {name.place})")
    return name.parts[1]


def _check_apart(home: str, source: _Source) -> None:
    one, other = Location.parse(home), Location.parse(source.location)
    if one.is_within(other) or other.is_within(one):
        raise InvalidInput(
            f"cannot create a table at {home} over the files of {source.location}: one is inside the other, so "
            "that files of both would mix; give another location",
            location=home,
        )


def _name(argument: str, value: object) -> Named:
    words = Words(text_of(argument, value))
    name = words.name("the name of a table")
    words.expect_end()
    return name


def _filter(value: object) -> dict[str, str | None]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"cannot use {value!r} for partition_filter: it must be a map; write map('column', 'value', …)"
        )
    return {str(key): None if one is None else str(one) for key, one in value.items()}


def _parallelism(given: Given) -> int:
    number = given.number("parallelism")
    if number is not None and number < 1:
        raise given.refused(f"takes a number from 1 on for parallelism, not {number}", "parallelism")
    return number or 1


def _check_missing(given: Given) -> None:
    if given.flag("ignore_missing_files"):
        raise Unsupported(
            "cannot leave out missing files: a table that lost files is not taken in as if it were whole",
            feature="ignore_missing_files",
        )


def _file_count(table: Table) -> int:
    found = table.current_snapshot
    return 0 if found is None else int(found.summary.get("total-data-files", "0"))
