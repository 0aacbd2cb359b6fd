"""What SHOW and DESCRIBE say of views, in the columns that Iceberg's own runtime gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from esker.model.column_path import locate, parts_of
from esker.spark.sql.type_text import string_text, type_text
from esker.view import View
from esker.write.view_versions import COMMENT

Told = tuple[str, list[tuple[Any, ...]]]  # columns as DDL, and rows


def described(view: View, extended: bool, column: str | None) -> Told:
    """DESCRIBE."""
    if column is not None:
        field = locate(view.schema, parts_of(column))[-1]
        facts = [("col_name", field.name), ("data_type", type_text(field.type)), ("comment", field.doc)]
        return "info_name string, info_value string", facts
    rows: list[tuple[Any, ...]] = [(field.name, type_text(field.type), field.doc) for field in view.schema.fields]
    if extended:
        rows += [("", "", ""), ("# Detailed View Information", "", "")]
        rows += [(name, value, "") for name, value in _details(view)]
    return "col_name string, data_type string, comment string", rows


def create_text(view: View) -> str:
    """SHOW CREATE TABLE: the statement that would make the view once more."""
    columns = ",\n".join(
        f"  {name}" + (f" COMMENT {string_text(field.doc)}" if field.doc else "")
        for field in view.schema.fields
        for name in [f"`{field.name.replace('`', '``')}`"]
    )
    lines = [f"CREATE VIEW {view.name} (\n{columns})"]
    if view.comment is not None:
        lines.append(f"COMMENT {string_text(view.comment)}")
    rest = {key: value for key, value in sorted(view.properties.items()) if key != COMMENT}
    if rest:
        pairs = ",\n".join(f"  {string_text(key)} = {string_text(value)}" for key, value in rest.items())
        lines.append(f"TBLPROPERTIES (\n{pairs})")
    return "\n".join([*lines, f"AS\n{view.sql}"])


def _details(view: View) -> Iterable[tuple[str, str]]:
    version = view.current_version
    yield "Name", view.name
    yield "Type", "VIEW"
    yield "Comment", view.comment or ""
    yield "View Text", view.sql
    yield "View Query Output Columns", "[" + ", ".join(view.query_columns) + "]"
    yield "Default Namespace", ".".join(version.default_namespace)
    yield "Dialects", ", ".join(view.dialects)
    yield "Version", str(version.version_id)
    yield "Location", view.location
    yield "UUID", view.uuid
    yield "View Properties", "[" + ",".join(f"{key}={value}" for key, value in sorted(view.properties.items())) + "]"
