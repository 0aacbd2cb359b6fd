"""Whether a table can stand in for one that was described: it has the columns asked for."""

from __future__ import annotations

from esker.model.promotion import can_promote
from esker.model.schema import Schema
from esker.model.types import Type, is_nested


def misfit(asked: Schema, there: Schema, format_version: int) -> str | None:
    """The first column of ``asked`` that ``there`` does not have, or has with another type; None where all fit.

    Columns are compared by name, at every depth. A type that the one asked for can be widened to fits.
    """
    for id_, name in asked.name_by_id.items():
        found = there.id_by_name.get(name)
        if found is None:
            return f"it has no column {name!r}"
        wanted, given = asked.by_id[id_].type, there.by_id[found].type
        if not _fits(wanted, given, format_version):
            return f"its column {name!r} is {_word(given)}, not {_word(wanted)}"
    return None


def _fits(wanted: Type, given: Type, format_version: int) -> bool:
    if is_nested(wanted) or is_nested(given):  # what is inside has names of its own
        return type(wanted) is type(given)
    return wanted == given or can_promote(wanted, given, format_version)


def _word(type_: Type) -> str:
    return type(type_).__name__.removesuffix("Type").lower() if is_nested(type_) else str(type_)
