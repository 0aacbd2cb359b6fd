"""Promoted attributes: typed columns of their own.

The values also stay in the map. A value that cannot be cast stays only there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import InvalidInput, Unsupported


class Kind(Enum):
    """The types of promoted columns, and which texts are values of each."""

    STRING = ("string", pa.string(), "")
    LONG = ("long", pa.int64(), r"^-?\d{1,19}$")
    DOUBLE = ("double", pa.float64(), r"^(-?\d+(\.\d+)?([eE][-+]?\d+)?|NaN|-?Infinity)$")
    BOOLEAN = ("boolean", pa.bool_(), r"^(true|false)$")

    def __init__(self, word: str, arrow: pa.DataType, texts: str) -> None:
        self.word = word
        self.arrow = arrow
        self.texts = texts


_WORDS = {
    "string": Kind.STRING,
    "int": Kind.LONG,
    "long": Kind.LONG,
    "bigint": Kind.LONG,
    "double": Kind.DOUBLE,
    "boolean": Kind.BOOLEAN,
    "bool": Kind.BOOLEAN,
}
_RESOURCE = "resource:"


@dataclass(frozen=True, slots=True)
class Promotion:
    """An attribute that becomes a column: of the resource if ``of_resource``, else of the record."""

    key: str
    kind: Kind
    of_resource: bool = False

    @property
    def column(self) -> str:
        """The name of the column, which is the key."""
        return self.key

    @property
    def field(self) -> pa.Field:
        """The column to add to a table before the first file that has it."""
        return pa.field(self.column, self.kind.arrow)


def promotions(asked: Mapping[str, str], *, schema: pa.Schema | None = None) -> tuple[Promotion, ...]:
    """Return the promotions for names and types, such as ``{"http.response.status_code": "int", "resource:host.name":
    "string"}``. Raises ``InvalidInput`` for an unknown type or a name that is in use."""
    found = []
    for name, type_ in asked.items():
        kind = _WORDS.get(type_.lower())
        if kind is None:
            known = ", ".join(_WORDS)
            raise Unsupported(f"Cannot promote {name} as {type_}: use one of {known}", feature=f"promotion to {type_}")
        key = name.removeprefix(_RESOURCE)
        if not key or (schema is not None and key in schema.names):
            raise InvalidInput(f"Cannot promote {name!r}: the table has a column of that name, or it is empty")
        found.append(Promotion(key, kind, name.startswith(_RESOURCE)))
    if len({one.column for one in found}) < len(found):
        raise InvalidInput("Cannot promote an attribute of the resource and one of the record under the same name")
    return tuple(found)


def promoted_texts(columns: Mapping[str, pa.Array], attributes: str, asked: Sequence[Promotion]) -> dict[str, pa.Array]:
    """The texts of promoted attributes, taken from the maps among the columns."""
    places = [(one, "ResourceAttributes" if one.of_resource else attributes) for one in asked]
    return {
        one.column: pc.map_lookup(columns[place], pa.scalar(one.key), "first")
        for one, place in places
        if place in columns
    }


def typed(table: pa.Table, asked: Sequence[Promotion]) -> tuple[pa.Table, Counter[str]]:
    """Cast the texts of promotions to their types. Returns the table, and how many values of each could not be cast."""
    failed: Counter[str] = Counter()
    for one in asked:
        texts = table.column(one.column)
        column = _cast(texts, one.kind)
        failed[one.column] += column.null_count - texts.null_count
        table = table.set_column(table.schema.get_field_index(one.column), one.field, column)
    return table, +failed


def _cast(texts: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    if kind is Kind.STRING:
        return texts
    fit = pc.match_substring_regex(texts, kind.texts)
    wanted = pc.if_else(fit, texts, pa.scalar(None, pa.string()))
    if kind is Kind.DOUBLE:
        wanted = pc.replace_substring(wanted, "Infinity", "inf")
    try:
        return wanted.cast(kind.arrow)
    except pa.ArrowInvalid:  # nineteen digits may be too large for an int64
        values = (None if text is None else int(text) for text in wanted.to_pylist())
        inside = [value if value is not None and -(1 << 63) <= value < 1 << 63 else None for value in values]
        return pa.chunked_array([pa.array(inside, kind.arrow)])
