"""From what a user wrote to what can be asked of rows: names become fields, literals held values, NOT sinks."""

from __future__ import annotations

from esker.model.predicate import Bound
from esker.model.schema import Schema
from esker.model.unbound import Unbound


def bind(unbound: Unbound, schema: Schema, *, case_sensitive: bool = False) -> Bound:
    """The predicate tied to a schema; ``InvalidInput`` names a column or literal that does not fit."""
    raise NotImplementedError


def to_sql(bound: Bound, names: dict[int, str] | None = None) -> str:
    """The predicate as Spark would be given it; ``names`` are dotted names by field id (``Schema.name_by_id``)."""
    raise NotImplementedError
