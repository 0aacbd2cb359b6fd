"""Creates a view, or gives an existing view another query."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from esker.errors import AlreadyExists, InvalidInput, NoSuchView
from esker.model.evolution.schema_rules import NEWEST_VERSION, check_schema
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Catalog, ViewState
from esker.tree.view_metadata import ViewMetadata
from esker.write.definition.new_table import FromArrow, read_schema
from esker.write.views.view_versions import QUERY_COLUMNS, Definition, commit_view, new_view, replaced

LONGEST_QUERY = 1 << 20
_STATED = {"provider": "iceberg", "format-version": "1", "location": None}  # as SHOW CREATE TABLE lists them


def make_view(
    catalog: Catalog,
    name: TableName,
    sql: str,
    *,
    columns: object,
    is_analysed: bool,
    namespace: Namespace,
    properties: Mapping[str, str],
    replaces: bool,
    schema_from_arrow: FromArrow | None = None,
) -> ViewState:
    """Create or replace a view and return its state. ``columns`` is a schema as for ``create_table``; if it comes from
    an analysis, it has the names that the query gives its columns. The property ``location`` is the view's location."""
    schema = read_schema(columns, schema_from_arrow)
    given = properties.get(QUERY_COLUMNS)
    names = given.split(",") if given else [field.name for field in schema.fields] if is_analysed else []
    definition = _checked(Definition(sql=sql, schema=schema, default_namespace=namespace, query_columns=tuple(names)))
    views = catalog.view_catalog()
    kept = {key: value for key, value in properties.items() if key not in _STATED}
    location = _stated_location(name, properties)

    def change(base: ViewMetadata) -> ViewMetadata:
        if location is not None and location.rstrip("/") != base.location:
            raise InvalidInput(
                f"cannot move view {name} to {location}: a view stays at its location {base.location}", view=str(name)
            )
        return replaced(base, definition, kept, called=f"view {name}")

    if replaces:
        with suppress(NoSuchView):
            return commit_view(views, name, change)
    try:
        metadata = new_view(definition, location=location or catalog.location_for(name), properties=kept)
        return views.create_view(name, metadata)
    except AlreadyExists:
        if not replaces:
            raise
        try:  # it was created in the meantime; a table of that name stays an error
            return commit_view(views, name, change)
        except NoSuchView:
            raise AlreadyExists(f"cannot create view {name}: a table of that name exists", view=str(name)) from None


def _stated_location(name: TableName, properties: Mapping[str, str]) -> str | None:
    """The location in the properties. Properties that only repeat what every view is are checked and not stored."""
    for key, value in _STATED.items():
        if value is not None and properties.get(key, value).lower() != value:
            raise InvalidInput(
                f"cannot create view {name} with {key} {properties[key]!r}: it is {value!r}",
                view=str(name),
                property=key,
            )
    return properties.get("location")


def checked_query(sql: str) -> str:
    """The query of a view without a final semicolon. Raises ``InvalidInput`` if it is empty or too long."""
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidInput("cannot create a view without a query")
    if len(sql) > LONGEST_QUERY:
        raise InvalidInput(f"cannot create a view of a query of {len(sql):,} characters: at most {LONGEST_QUERY:,}")
    return sql.strip().rstrip(";").rstrip()


def _checked(definition: Definition) -> Definition:
    if not definition.schema.fields:
        raise InvalidInput("cannot create a view without columns")
    check_schema(definition.schema, NEWEST_VERSION)
    return replace(definition, sql=checked_query(definition.sql))
