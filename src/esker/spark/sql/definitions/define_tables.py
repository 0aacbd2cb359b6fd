"""Executes statements that define namespaces, tables, columns, branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchSnapshot
from esker.model.evolution.nested_fields import locate, parts_of
from esker.spark.expressions.ddl_text import partition_terms, sort_terms
from esker.spark.sql.grammar.alter_statements import (
    AddColumn,
    AddPartition,
    AlterTable,
    Change,
    ChangeColumn,
    DropColumn,
    DropPartition,
    DropRef,
    IdentifierFields,
    RenameColumn,
    SetLocation,
    SetProperties,
    SetRef,
    UnsetProperties,
    WriteOrder,
)
from esker.spark.sql.grammar.statements import (
    AlterNamespace,
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    RenameTable,
)
from esker.spark.sql.grammar.words import Named
from esker.spark.sql.lake_names import LakeNames
from esker.table import Table
from esker.tree.snapshot import RefKind

if TYPE_CHECKING:
    from esker.write.definition.alter import Alteration

FORMAT_VERSION = "format-version"
DISTRIBUTION = "write.distribution-mode"
_NOT_ITS_OWN = (  # properties about one table's files and history, which CREATE TABLE LIKE does not copy
    "comment",
    "esker.",
    "schema.name-mapping.",
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def create_namespace(names: LakeNames, statement: CreateNamespace) -> None:
    """CREATE NAMESPACE."""
    try:
        names.lake.create_namespace(".".join(names.own(statement.name.parts)), statement.properties)
    except AlreadyExists:
        if not statement.unless_there:
            raise


def drop_namespace(names: LakeNames, statement: DropNamespace) -> None:
    """DROP NAMESPACE."""
    try:
        names.lake.drop_namespace(names.namespace_named(statement.name))
    except NoSuchNamespace:
        if not statement.if_there:
            raise


def alter_namespace(names: LakeNames, statement: AlterNamespace) -> None:
    """ALTER NAMESPACE, and COMMENT ON NAMESPACE."""
    names.lake.set_namespace_properties(names.namespace_named(statement.name), statement.updates, statement.removals)


def create_table(names: LakeNames, statement: CreateTable) -> None:
    """CREATE TABLE with columns, or LIKE another table."""
    if statement.like is not None:
        _create_like(names, statement, statement.like)
    elif (name := replaced_name(names, statement)) is not None:
        properties, version = split_version(statement)
        names.lake.replace_table(
            name,
            statement.columns,
            partition_by=statement.partition_by,
            properties=properties,
            format_version=version,
        )
    elif not is_there(names, statement):
        properties, version = split_version(statement)
        names.lake.create_table(
            names.full(statement.name),
            statement.columns,
            partition_by=statement.partition_by,
            properties=properties,
            format_version=version,
            location=statement.location,
        )


def _create_like(names: LakeNames, statement: CreateTable, like: Named) -> None:
    """Create an empty table with another table's columns, partitioning, sort order, identifier fields and
    properties."""
    if statement.replaces:
        raise InvalidInput(
            f"cannot replace {statement.name} by a table LIKE {like} (at {like.place}): LIKE works only for a new "
            "table; write REPLACE TABLE … AS SELECT …",
            place=like.place,
        )
    if is_there(names, statement):
        return
    given, version = split_version(statement) if FORMAT_VERSION in statement.properties else (statement.properties, 0)
    to, place = names.full(statement.name), statement.location
    if names.find(like.parts) is None and (view := names.find_view(like.parts)) is not None:
        names.lake.create_table(to, view.schema, properties=given, format_version=version or 2, location=place)
        return
    source = _whole_table(names, like)
    held = {key: value for key, value in source.properties.items() if not key.startswith(_NOT_ITS_OWN)}
    names.lake.create_table(
        to,
        source.schema,
        partition_by=partition_terms(source),
        sort_by=sort_terms(source),
        properties={**held, **given},
        format_version=version or source.format_version,
        location=place,
        identifier_fields=[source.schema.name_by_id[id_] for id_ in source.schema.identifier_field_ids],
    )


def replaced_name(names: LakeNames, statement: CreateTable) -> str | None:
    """Return the table that CREATE OR REPLACE or REPLACE TABLE replaces. Returns None if no table is to be replaced.

    Raises ``NoSuchTable`` if REPLACE TABLE finds no table.
    """
    if not statement.replaces:
        return None
    if statement.unless_there:
        raise InvalidInput(
            f"cannot create table {statement.name}: OR REPLACE and IF NOT EXISTS exclude each other; use one of them"
        )
    found = names.must_find(statement.name) if statement.must_be_there else names.find(statement.name.parts)
    if found is None or found.metadata_table is not None:
        return None
    if statement.location is not None and statement.location.rstrip("/") != found.table.location.rstrip("/"):
        raise InvalidInput(
            f"cannot move {found.table.name} to {statement.location}: a table keeps its location; leave out LOCATION"
        )
    return found.table.name


def is_there(names: LakeNames, statement: CreateTable) -> bool:
    """Return whether the table exists. Raises ``AlreadyExists`` if it does and IF NOT EXISTS is not given."""
    found = names.find(statement.name.parts)
    if found is None or found.metadata_table is not None:
        return False
    if statement.unless_there:
        return True
    raise AlreadyExists(f"cannot create table {found.table.name}: it exists already", table=found.table.name)


def split_version(statement: CreateTable) -> tuple[dict[str, str], int]:
    """Return the properties without the format version, and the version."""
    properties = dict(statement.properties)
    text = properties.pop(FORMAT_VERSION, "2").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4):
        raise InvalidInput(f"cannot use {FORMAT_VERSION} = {text!r}: it is 1, 2 or 3", property=FORMAT_VERSION)
    return properties, int(text)


def drop_table(names: LakeNames, statement: DropTable) -> None:
    """DROP TABLE."""
    if statement.if_there and not names.holds(statement.name.parts):
        return
    names.lake.drop_table(_whole_table(names, statement.name).name, purge=statement.purge)


def rename_table(names: LakeNames, statement: RenameTable) -> None:
    """ALTER TABLE … RENAME TO. A new name of one part stays in the namespace."""
    old = _whole_table(names, statement.name).name
    to = statement.to
    new = names.full(to) if len(to.parts) > 1 else ".".join((old.rpartition(".")[0], to.parts[0]))
    names.lake.rename_table(old, new)


def alter_table(names: LakeNames, statement: AlterTable) -> None:
    """ALTER TABLE. Either all changes are applied, or none."""
    table = _whole_table(names, statement.name)
    with table.alter() as alteration:
        for change in statement.changes:
            _apply(alteration, table, change)


def _apply(alteration: Alteration, table: Table, change: Change) -> None:
    match change:
        case AddColumn():
            _add_column(alteration, table, change)
        case DropColumn(name, if_there):
            if not (if_there and not _has_column(table, name)):
                alteration.drop_column(name)
        case RenameColumn(name, to):
            alteration.rename_column(name, to)
        case ChangeColumn():
            _change_column(alteration, change)
        case AddPartition(term, label):
            alteration.add_partition(term, label)
        case DropPartition(term):
            alteration.drop_partition(term)
        case WriteOrder(terms=terms, distribution=distribution):
            if terms is not None:
                alteration.set_sort_order(*terms)
            if distribution is not None:
                alteration.set_properties({DISTRIBUTION: distribution})
        case SetProperties(properties):
            _set_properties(alteration, dict(properties))
        case SetLocation(location):
            alteration.set_location(location)
        case UnsetProperties(keys):
            alteration.remove_properties(*keys)
        case IdentifierFields(named, drop):
            alteration.set_identifier_fields(*(_remaining_identifiers(table, named) if drop else named))


def _add_column(alteration: Alteration, table: Table, change: AddColumn) -> None:
    if change.unless_there and _has_column(table, change.name):
        return
    alteration.add_column(
        change.name,
        change.type,
        required=change.required,
        doc=change.doc,
        default=change.default,
        first=change.first,
        after=change.after,
    )


def _change_column(alteration: Alteration, change: ChangeColumn) -> None:
    if change.type is not None:
        alteration.widen_column(change.name, change.type)
    if change.doc is not None:
        alteration.set_doc(change.name, change.doc)
    if change.without_doc:
        alteration.set_doc(change.name, None)
    if change.optional:
        alteration.make_optional(change.name)
    if change.required:
        alteration.make_required(change.name)
    if change.first or change.after is not None:
        alteration.move_column(change.name, first=change.first, after=change.after)
    if change.default is not None:
        alteration.set_default(change.name, change.default)


def _set_properties(alteration: Alteration, properties: dict[str, str]) -> None:
    version = properties.pop(FORMAT_VERSION, None)
    if version is not None:
        if not (version.isascii() and version.isdecimal()):
            raise InvalidInput(f"cannot use {FORMAT_VERSION} = {version!r}: it is 1, 2 or 3", property=FORMAT_VERSION)
        alteration.upgrade_format(int(version))
    if properties:
        alteration.set_properties(properties)


def _has_column(table: Table, name: str) -> bool:
    try:
        return bool(locate(table.schema, parts_of(name)))
    except InvalidInput:
        return False


def _remaining_identifiers(table: Table, gone: tuple[str, ...]) -> list[str]:
    ids = {locate(table.schema, parts_of(name))[-1].id: name for name in gone}
    for field_id, name in ids.items():
        if field_id not in table.schema.identifier_field_ids:
            raise InvalidInput(f"cannot drop identifier field {name!r}: it is not an identifier field", column=name)
    return [table.schema.name_by_id[field_id] for field_id in table.schema.identifier_field_ids if field_id not in ids]


def set_ref(names: LakeNames, statement: SetRef) -> None:
    """CREATE or REPLACE BRANCH or TAG."""
    table = _whole_table(names, statement.table)
    there = statement.ref in table.refs
    if there and statement.unless_there:
        return
    if not there and not statement.creates:
        raise NoSuchSnapshot(
            f"cannot replace {statement.kind.value} {statement.ref!r}: there is none", ref=statement.ref
        )
    replaces = there and statement.replaces
    if statement.kind is RefKind.TAG:
        table.tag(statement.ref, statement.snapshot_id, max_ref_age_ms=statement.max_ref_age_ms, replace=replaces)
        return
    table.branch(
        statement.ref,
        statement.snapshot_id,
        min_snapshots_to_keep=statement.min_snapshots_to_keep,
        max_snapshot_age_ms=statement.max_snapshot_age_ms,
        max_ref_age_ms=statement.max_ref_age_ms,
        replace=replaces,
    )


def drop_ref(names: LakeNames, statement: DropRef) -> None:
    """DROP BRANCH or TAG."""
    table = _whole_table(names, statement.table)
    found = table.refs.get(statement.ref)
    if found is None and statement.if_there:
        return
    if found is not None and found.kind is not statement.kind:
        raise InvalidInput(
            f"cannot drop {statement.kind.value} {statement.ref!r}: it is a {found.kind.value}", ref=statement.ref
        )
    table.drop_ref(statement.ref)


def _whole_table(names: LakeNames, name: Named) -> Table:
    """Return the table itself. Raises ``InvalidInput`` for a metadata table, branch or tag, which cannot be changed."""
    found = names.must_find(name)
    if (found.metadata_table, found.ref, found.snapshot_id, found.as_of_ms) != (None, None, None, None):
        raise InvalidInput(
            f"cannot change {name} (at {name.place}): it is not a table, but a part or version of {found.table.name}"
        )
    return found.table
