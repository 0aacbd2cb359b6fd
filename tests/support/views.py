"""Small views made by hand, for tests of metadata and of catalogs."""

from __future__ import annotations

import json
from typing import Any

from esker.model.schema import Schema
from esker.model.types import Field, LongType, StringType
from esker.tree.view_metadata import ViewMetadata
from esker.write.views.view_versions import Definition, new_view

COLUMNS = Schema(fields=(Field(id=1, name="id", type=LongType()), Field(id=2, name="name", type=StringType())))


def definition(sql: str = "SELECT id, name FROM orders", schema: Schema = COLUMNS) -> Definition:
    """A view of two columns."""
    return Definition(sql=sql, schema=schema, default_namespace=("sales",))


def simple_view(location: str = "memory://warehouse/v", **properties: str) -> ViewMetadata:
    """The first metadata of one."""
    return new_view(definition(), location=location, properties=properties)


def view_document(**changes: Any) -> dict[str, Any]:
    """View metadata as another engine writes it, with fields of a later spec at every level."""
    return {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "memory://warehouse/default.db/event_agg",
        "current-version-id": 2,
        "properties": {"comment": "Daily event counts"},
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": 1573518431292,
                "schema-id": 1,
                "default-catalog": "prod",
                "default-namespace": ["default"],
                "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
                "representations": [{"type": "sql", "sql": "SELECT 1 AS a", "dialect": "spark"}],
            },
            {
                "version-id": 2,
                "timestamp-ms": 1573518981593,
                "schema-id": 1,
                "default-namespace": ["default", "nested"],
                "summary": {},
                "storage-table": {"namespace": ["default"], "name": "kept"},
                "representations": [
                    {"type": "sql", "sql": "SELECT 2 AS a", "dialect": "Spark", "later": [1]},
                    {"type": "sql", "sql": "select 2 a", "dialect": "trino"},
                    {"type": "plan", "bytes": "c3Vic3RyYWl0"},
                ],
            },
        ],
        "schemas": [
            {
                "schema-id": 1,
                "type": "struct",
                "fields": [{"id": 1, "name": "a", "required": False, "type": "int", "later": True}],
            }
        ],
        "version-log": [
            {"timestamp-ms": 1573518431292, "version-id": 1},
            {"timestamp-ms": 1573518981593, "version-id": 2},
        ],
        "later": {"any": "thing"},
        **changes,
    }


def view_bytes(**changes: Any) -> bytes:
    """The same as a file holds it."""
    return json.dumps(view_document(**changes)).encode()
