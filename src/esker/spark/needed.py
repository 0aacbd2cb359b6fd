"""The columns a scan must read from files: those wanted, those compared, and the ways to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.arrow.field_paths import branch, path_of
from esker.arrow.metadata_columns import LINEAGE, METADATA_COLUMNS
from esker.model.predicate import Bound, terms
from esker.model.types import Field, UnknownType

if TYPE_CHECKING:
    from esker.model.schema import Schema
    from esker.ports.engine import ReadRequest

Path = tuple[Field, ...]


def filter_paths(predicate: Bound, schema: Schema) -> tuple[Path, ...]:
    """The way to each column that the filter asks about."""
    fields = {term.field.id: term.field for term in terms(predicate)}
    return tuple(path_of(id_, schema) or (field,) for id_, field in fields.items())


def stored_fields(request: ReadRequest, paths: Iterable[Path]) -> tuple[Field, ...]:
    """Top-level columns to read, once each: as narrow as one use wants them, whole where uses differ."""
    wanted: dict[int, Field] = {}
    for field in (*request.projection, *(branch(path) for path in paths)):
        if isinstance(field.type, UnknownType) or (field.id in METADATA_COLUMNS and field.id not in LINEAGE):
            continue
        known = wanted.setdefault(field.id, field)
        if known.type != field.type:
            wanted[field.id] = _whole(request, field)
    return tuple(wanted.values())


def _whole(request: ReadRequest, field: Field) -> Field:
    path = path_of(field.id, request.row_schema, request.metadata)
    return field if path is None else replace(path[-1], required=field.required)
