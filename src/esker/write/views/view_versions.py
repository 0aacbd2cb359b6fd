"""A view's first metadata, new versions and properties, by Iceberg's view spec, and their commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from esker.errors import Conflict, EskerError, InvalidInput, OutcomeUnknown, Unsupported
from esker.model.schema import Schema
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered, ViewAccepted, ViewCatalog, ViewState
from esker.tree.view_metadata import SPARK, SqlRepresentation, VersionLogEntry, ViewMetadata, ViewVersion
from esker.version import VERSION
from esker.write.commit import RetryPolicy
from esker.write.properties import switch, whole_number

# ---------------------------------------------------------------- metadata


HISTORY = "version.history.num-entries"
DROP_DIALECT = "replace.drop-dialect.allowed"
COMMENT = "comment"
# Iceberg's own key: the names of the query's columns, before the view renames them
QUERY_COLUMNS = "spark.query-column-names"
_KEPT = 10
_FIRST_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A view as a user defines it: a query, its columns, and the namespace of names with one part."""

    sql: str
    schema: Schema
    default_namespace: Namespace
    query_columns: tuple[str, ...] = ()  # empty: unknown, so the query's columns are used by position


def new_view(definition: Definition, *, location: str, properties: Mapping[str, str] | None = None) -> ViewMetadata:
    """The first metadata of a view."""
    version = _version(definition, _FIRST_VERSION, schema_id=0)
    return ViewMetadata(
        uuid=str(uuid4()),
        location=location.rstrip("/") or location,
        schemas=(replace(definition.schema, schema_id=0),),
        current_version_id=version.version_id,
        versions=(version,),
        version_log=(VersionLogEntry(timestamp_ms=version.timestamp_ms, version_id=version.version_id),),
        properties=_with_columns(checked_view_properties(properties), definition),
    )


def replaced(
    base: ViewMetadata,
    definition: Definition,
    properties: Mapping[str, str] | None = None,
    *,
    called: str = "the view",
) -> ViewMetadata:
    """The view with another definition. If it had the same definition before, that version becomes current again."""
    schemas, schema_id = _with_schema(base.schemas, definition.schema)
    number = max(version.version_id for version in base.versions) + 1
    wanted = _version(definition, number, schema_id)
    again = next((version for version in base.versions if version.says_the_same(wanted)), None)
    current = again or wanted
    changed = {**base.properties, **checked_view_properties(properties)}
    _check_dialects(base, current, changed, called)
    log = base.version_log
    if current.version_id != base.current_version_id:
        log = (*log, VersionLogEntry(timestamp_ms=wanted.timestamp_ms, version_id=current.version_id))
    return with_kept_versions(
        replace(
            base,
            schemas=schemas,
            versions=base.versions if again else (*base.versions, wanted),
            current_version_id=current.version_id,
            version_log=log,
            properties=_with_columns(changed, definition),
        )
    )


def with_properties(base: ViewMetadata, changes: Mapping[str, str], removed: tuple[str, ...] = ()) -> ViewMetadata:
    """The view with properties set and removed."""
    kept = {key: value for key, value in base.properties.items() if key not in removed}
    return with_kept_versions(replace(base, properties={**kept, **checked_view_properties(changes)}))


def checked_view_properties(given: Mapping[str, str] | None) -> dict[str, str]:
    """The properties, checked. Raises ``InvalidInput`` with the first that cannot be set."""
    found = dict(given or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key.strip():
            raise InvalidInput(
                f"cannot set the property {key!r} to {value!r}: keys and values must be text", property=key
            )
    whole_number(found, HISTORY, _KEPT, at_least=1)
    switch(found, DROP_DIALECT, default=False)
    return found


def _version(definition: Definition, number: int, schema_id: int) -> ViewVersion:
    return ViewVersion(
        version_id=number,
        schema_id=schema_id,
        timestamp_ms=time.time_ns() // 1_000_000,
        representations=(SqlRepresentation(sql=definition.sql, dialect=SPARK),),
        default_namespace=definition.default_namespace,
        summary={"engine-name": "esker", "engine-version": VERSION},
    )


def _with_schema(schemas: tuple[Schema, ...], wanted: Schema) -> tuple[tuple[Schema, ...], int]:
    """The schemas with this one among them, and its id. An equal schema is used again."""
    for schema in schemas:
        if replace(wanted, schema_id=schema.schema_id) == schema:
            return schemas, schema.schema_id
    new_id = max(schema.schema_id for schema in schemas) + 1
    return (*schemas, replace(wanted, schema_id=new_id)), new_id


def _with_columns(properties: dict[str, str], definition: Definition) -> dict[str, str]:
    """Record the names of the query's columns; if they are unknown, remove an older record of them."""
    rest = {key: value for key, value in properties.items() if key != QUERY_COLUMNS}
    return {**rest, QUERY_COLUMNS: ",".join(definition.query_columns)} if definition.query_columns else rest


def _check_dialects(base: ViewMetadata, new: ViewVersion, properties: Mapping[str, str], called: str) -> None:
    """Raise ``Unsupported`` if the view has dialects of other engines, which the new query would remove."""
    lost = sorted(set(base.current_version.dialects) - set(new.dialects))
    if lost and not switch(properties, DROP_DIALECT, default=False):
        raise Unsupported(
            f"cannot replace {called}: it is also stored in {', '.join(lost)}, and only a query in {SPARK} was given; "
            f"set the property {DROP_DIALECT} = true to remove the others",
            feature="dialects other than spark",
        )


def with_kept_versions(metadata: ViewMetadata) -> ViewMetadata:
    """The newest versions and always the current one. The log begins after the last removed version."""
    keep = whole_number(metadata.properties, HISTORY, _KEPT, at_least=1)
    if len(metadata.versions) <= keep:
        return metadata
    others = [one for one in metadata.versions if one.version_id != metadata.current_version_id]
    newest = sorted(others, key=lambda one: one.version_id)[len(others) - (keep - 1) :]
    ids = {metadata.current_version_id, *(one.version_id for one in newest)}
    log = metadata.version_log
    gone = [at for at, entry in enumerate(log) if entry.version_id not in ids]
    kept = tuple(one for one in metadata.versions if one.version_id in ids)
    used = {one.schema_id for one in kept}
    return replace(
        metadata,
        versions=kept,
        version_log=log[gone[-1] + 1 :] if gone else log,
        schemas=tuple(schema for schema in metadata.schemas if schema.schema_id in used),
    )


# ---------------------------------------------------------------- commit


Change = Callable[[ViewMetadata], ViewMetadata]


def commit_view(catalog: ViewCatalog, name: TableName, change: Change) -> ViewState:
    """Commit a change of a view by compare-and-swap, repeated on the versions of other writers. Returns the view.

    A change that changes nothing writes nothing. Raises ``Conflict`` or ``OutcomeUnknown``.
    """
    attempts, why = 0, ""
    for attempts in RetryPolicy().attempts():  # noqa: B007  # reported if none succeeds
        base = catalog.load_view(name)
        new = change(base.metadata)
        if new == base.metadata:
            return base
        match answer := catalog.swap_view(name, base, new):
            case ViewAccepted(state):
                return state
            case Rejected():
                why = answer.why
            case Unanswered():
                return _reconciled(catalog, name, base, answer)
    raise Conflict(
        f"cannot change view {name}: other writers committed first {attempts} times in a row ({why}); "
        "nothing was changed; try again",
        view=str(name),
        attempts=attempts,
    )


def _reconciled(catalog: ViewCatalog, name: TableName, base: ViewState, unanswered: Unanswered) -> ViewState:
    """The catalog did not answer, so the view itself is read, once, to find out."""
    cause: EskerError | None = None
    try:
        now = catalog.load_view(name)
        if now.metadata_location == unanswered.metadata_location:
            return now
    except EskerError as error:  # whatever it is: the change may have been made
        cause = error
    raise OutcomeUnknown(
        f"cannot find out whether the change of view {name} succeeded: {unanswered.why}; every file was kept; "
        "check the view before you try again",
        view=str(name),
        metadata_location=unanswered.metadata_location,
    ) from cause
