"""What SHOW and DESCRIBE say of views, in the columns that Iceberg's own runtime gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from esker.model.column_path import locate, parts_of
from esker.spark.sql.type_text import string_text, type_text
from esker.view import View
from esker.write.view_versions import COMMENT, QUERY_COLUMNS

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")

Told = tuple[str, list[tuple[Any, ...]]]  # columns as DDL, and rows


def described(view: View, extended: bool, column: str | None, catalog: str) -> Told:
    """DESCRIBE."""
    if column is not None:
        field = locate(view.schema, parts_of(column))[-1]
        facts = [("col_name", field.name), ("data_type", type_text(field.type)), ("comment", field.doc)]
        return "info_name string, info_value string", facts
    rows: list[tuple[Any, ...]] = [(field.name, type_text(field.type), field.doc or "") for field in view.schema.fields]
    if extended:
        rows += [("", "", ""), ("# Detailed View Information", "", "")]
        rows += [(name, value, "") for name, value in _details(view, catalog)]
    return "col_name string, data_type string, comment string", rows


def properties(view: View) -> dict[str, str]:
    """SHOW TBLPROPERTIES: what was set, and what every view has."""
    own = {key: value for key, value in view.properties.items() if key != QUERY_COLUMNS}
    held = {"provider": "iceberg", "location": view.location, "format-version": str(view.metadata.format_version)}
    return dict(sorted({**own, **held}.items()))


def create_text(view: View, before: str) -> str:
    """SHOW CREATE TABLE: the statement that would make the view once more."""
    columns = ",\n".join(
        f"  {_name_text(field.name)}" + (f" COMMENT {string_text(field.doc)}" if field.doc else "")
        for field in view.schema.fields
    )
    lines = [f"CREATE VIEW {before}{'.'.join(map(_name_text, view.name.split('.')))} (\n{columns})"]
    if view.comment is not None:
        lines.append(f"COMMENT {string_text(view.comment)}")
    pairs = ",\n".join(f"  {pair}" for pair in _pairs(view))
    return "\n".join([*lines, f"TBLPROPERTIES (\n{pairs})", f"AS\n{view.sql}\n"])


def _pairs(view: View) -> list[str]:
    shown = properties(view)
    return [f"{string_text(key)} = {string_text(value)}" for key, value in shown.items() if key != COMMENT]


def _name_text(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _details(view: View, catalog: str) -> Iterable[tuple[str, str]]:
    version = view.current_version
    yield "Name", view.name
    yield "Type", "VIEW"
    yield "Comment", view.comment or ""
    yield "View Catalog and Namespace", f"{catalog}.{view.name.rpartition('.')[0]}"
    yield "View Text", view.sql
    yield "View Query Output Columns", "[" + ", ".join(view.query_columns) + "]"
    yield "Default Namespace", ".".join(version.default_namespace)
    yield "Dialects", ", ".join(view.dialects)
    yield "Version", str(version.version_id)
    yield "Location", view.location
    yield "UUID", view.uuid
    yield "View Properties", "[" + ", ".join(_pairs(view)) + "]"
