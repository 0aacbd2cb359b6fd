"""Filters and files of scan planning, as the protocol writes them: filters are read, files and residuals written."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

import msgspec

from esker.catalogs.rest.scans.filter_documents import joined
from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.single_values import decode_single_value, encode_single_value
from esker.model.partition_and_sort import partition_value_type
from esker.model.predicates.predicate import (
    FALSE,
    TRUE,
    Always,
    Bound,
    Compare,
    IsNaN,
    IsNull,
    OneOf,
    Op,
    StartsWith,
    all_of,
    any_of,
    conjuncts,
)
from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    DateType,
    Field,
    FixedType,
    FloatType,
    IntType,
    StringType,
    TimestampType,
    TimeType,
    UuidType,
    is_floating,
    is_nested,
)
from esker.ports.engine import ScanTask
from esker.serve.call import REQUEST
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

_OPS = {"eq": Op.EQ, "not-eq": Op.NE, "lt": Op.LT, "lt-eq": Op.LE, "gt": Op.GT, "gt-eq": Op.GE}
_PAIRS = (
    *(("eq", "not-eq"), ("lt", "gt-eq"), ("gt", "lt-eq"), ("is-null", "not-null"), ("is-nan", "not-nan")),
    *(("in", "not-in"), ("starts-with", "not-starts-with")),
)
_OPPOSITE = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}}
_MAY_SELECT_NULL = ("not-eq", "not-in", "not-starts-with", "not-nan")
_CONTENTS = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}
_DEEPEST = 200
_MOST_RESIDUAL_BYTES = 8 << 20

_ZONE = re.compile(r"([+-])(\d\d):(\d\d)$", re.ASCII)

Find = Callable[[str], Field]


def read_filter(value: Any, schema: Schema, *, is_case_sensitive: bool = True) -> Bound:
    """The filter of a request, with Iceberg's own meaning: a negated test also selects null.

    A term that is a transform of a column selects everything, so more files may be planned than needed, never fewer.
    Raises ``InvalidInput`` for an unknown column or operation, and ``Corrupt`` for another document.
    """
    return _read(value, _finder(schema, is_case_sensitive=is_case_sensitive), 0, negated=False)


def _finder(schema: Schema, *, is_case_sensitive: bool) -> Find:
    names = schema.id_by_name
    if not is_case_sensitive:
        names = {name.lower(): id_ for name, id_ in names.items()}

    def find(name: str) -> Field:
        id_ = names.get(name if is_case_sensitive else name.lower())
        if id_ is None:
            raise InvalidInput(f"cannot filter by {name[:100]!r}: the table has no such column")
        return schema.by_id[id_]

    return find


def _read(value: Any, find: Find, depth: int, *, negated: bool) -> Bound:
    if depth > _DEEPEST:
        raise InvalidInput(f"cannot read the filter: it is nested over {_DEEPEST} levels deep")
    if isinstance(value, bool):
        return Always(value is not negated)
    document = JsonObject(REQUEST, "the filter", value)
    kind = document.string("type").lower().replace("_", "-")
    match kind:
        case "true" | "false":
            return TRUE if (kind == "true") is not negated else FALSE
        case "not":
            return _read(document.required("child"), find, depth + 1, negated=not negated)
        case "and" | "or":
            sides = [_read(document.required(side), find, depth + 1, negated=negated) for side in ("left", "right")]
            return all_of(sides) if (kind == "and") is not negated else any_of(sides)
    if kind not in _OPPOSITE:
        raise InvalidInput(f"cannot read the filter: the operation {kind[:40]!r} is not known")
    name = _column(document.required("term"))
    return TRUE if name is None else _test(_OPPOSITE[kind] if negated else kind, find(name), document)


def _column(term: Any) -> str | None:
    """The name of the column that a term is; None for a transform of one."""
    if isinstance(term, str):
        return term
    document = JsonObject(REQUEST, "a term of the filter", term)
    return document.string("term") if document.string("type") == "reference" else None


def _test(kind: str, column: Field, document: JsonObject) -> Bound:
    if is_nested(column.type) and kind not in ("is-null", "not-null"):
        raise InvalidInput(f"cannot filter by {column.name!r}: it has no single value")
    match kind:
        case "is-null" | "not-null":
            return IsNull(column, kind == "not-null")
        case "is-nan" | "not-nan":
            if not is_floating(column.type):
                return TRUE if kind == "not-nan" else FALSE
            return any_of((IsNaN(column, kind == "not-nan"), IsNull(column))) if kind == "not-nan" else IsNaN(column)
        case "in" | "not-in":
            held = [_held(column, one) for one in document.items("values")]
            values = frozenset(one for one in held if not isinstance(one, _Beyond))
            return OneOf(column, values) if kind == "in" else any_of((OneOf(column, values, True), IsNull(column)))
        case "starts-with" | "not-starts-with":
            if not isinstance(column.type, StringType):
                raise InvalidInput(f"cannot filter by {kind} of {column.name!r}: it is no text")
            prefix = document.string("value")
            if kind == "starts-with":
                return StartsWith(column, prefix)
            return any_of((StartsWith(column, prefix, True), IsNull(column)))
        case _:
            held = _held(column, document.required("value"))
            if isinstance(held, _Beyond) and isinstance(column.type, FloatType) and kind in _EDGES[held]:
                return Compare(column, _OPS[_EDGES[held][kind]], held.value * _LARGEST_FLOAT)
            if isinstance(held, _Beyond):  # clients differ in whether it selects null, so this may plan too many files
                return Always(kind in _TRUE_BEYOND[held])
            compared = Compare(column, _OPS[kind], held)
            return any_of((compared, IsNull(column))) if kind == "not-eq" else compared


class _Beyond(Enum):
    """A number that is above or below all finite ones that the type of a column can hold."""

    ABOVE = 1
    BELOW = -1


_TRUE_BEYOND = {_Beyond.ABOVE: ("lt", "lt-eq", "not-eq"), _Beyond.BELOW: ("gt", "gt-eq", "not-eq")}
# Infinity and NaN are beyond, too. So a float is compared with the largest one that is finite.
_LARGEST_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_EDGES = {
    _Beyond.ABOVE: {"lt": "lt-eq", "lt-eq": "lt-eq", "gt": "gt", "gt-eq": "gt"},
    _Beyond.BELOW: {"lt": "lt", "lt-eq": "lt", "gt": "gt-eq", "gt-eq": "gt-eq"},
}
_TICKS = (DateType, TimeType, TimestampType)


def _held(column: Field, value: Any) -> Any:
    """A literal of a filter as the planner holds it.

    Clients send the literals of their users without regard to the column's type. A whole number is a count of days, or
    of microseconds, for dates and times. It may not fit the type. A timestamp may have any zone. One without a zone is
    in UTC.
    """
    type_ = column.type
    try:
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(type_, (IntType, *_TICKS)):
            bits = 32 if isinstance(type_, IntType | DateType) else 64
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                return _Beyond.ABOVE if value > 0 else _Beyond.BELOW
            return value * 1000 if isinstance(type_, TimestampType) and type_.nanos else value
        if isinstance(value, int | float) and isinstance(type_, FloatType) and _LARGEST_FLOAT < abs(value) < inf:
            return _Beyond.ABOVE if value > 0 else _Beyond.BELOW
        if isinstance(value, str) and isinstance(type_, TimestampType) and type_.zoned:
            return _instant(type_, value)
        if value is not None:
            return decode_single_value(type_, value)
    except (ValueError, TypeError):
        pass
    raise InvalidInput(f"cannot filter by {column.name!r}: {str(value)[:60]!r} is no {type_}")


def _instant(type_: TimestampType, text: str) -> int:
    """A point in time from a text with any zone, or with none. Raises ``ValueError``."""
    zone = _ZONE.search(text)
    if zone is None:
        ticks: int = decode_single_value(type_, text if text.endswith("Z") else f"{text}+00:00")
        return ticks
    seconds = (int(zone[2]) * 60 + int(zone[3])) * 60
    here: int = decode_single_value(type_, f"{text[: zone.start()]}+00:00")
    return here - (-seconds if zone[1] == "-" else seconds) * (10**9 if type_.nanos else 10**6)


# ---------------------------------------------------------------- residuals


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the parts of a filter that must all be true: as the client wrote it, and as the planner knows it."""

    document: Any
    known_as: frozenset[Bound]
    is_decided_by_clients: bool  # it stays in every residual


class Residuals:
    """What is left of a filter for the rows of a file, in the words of the client.

    A part is left out where the planner proved it for every row. What remains is the client's own text, so the client
    evaluates it as it evaluates its filter. Some parts always stay. Clients order NaN, zeros and bytes in different
    ways, so parts about floats, UUIDs and bytes stay. They differ in whether ``!=`` and the like select null, so these
    stay. Parts with transforms stay, because the planner does not evaluate them.
    """

    def __init__(self, value: Any, schema: Schema, *, is_case_sensitive: bool = True) -> None:
        """Of a filter. Raises as ``read_filter`` does."""
        find = _finder(schema, is_case_sensitive=is_case_sensitive)
        _read(value, find, 0, negated=False)
        self._whole = value
        self._parts = tuple(
            _Part(one, frozenset(conjuncts(_read(one, find, 0, negated=False))), _is_for_clients(one, find))
            for one in _parts(value, negated=False)
        )
        self._known = frozenset(known for part in self._parts for known in part.known_as)
        self._bytes = len(msgspec.json.encode(value))

    def fit(self, tasks: int) -> bool:
        """Whether an answer with so many tasks has room for them."""
        return self._bytes * tasks <= _MOST_RESIDUAL_BYTES

    def document(self, residual: Bound) -> Any:
        """A residual of the planner in JSON: true, or the parts of the filter that are left."""
        left = frozenset(conjuncts(residual))
        if not left <= self._known:
            return self._whole
        return joined(
            "and", [part.document for part in self._parts if part.is_decided_by_clients or part.known_as & left]
        )


def _parts(value: Any, *, negated: bool) -> Iterator[Any]:
    """The documents that must all be true. The filter was read before, so it is known to be well formed."""
    kind = value if isinstance(value, bool) else str(value["type"]).lower()
    if kind == "not":
        yield from _parts(value["child"], negated=not negated)
    elif kind == ("or" if negated else "and"):
        yield from _parts(value["left"], negated=negated)
        yield from _parts(value["right"], negated=negated)
    else:
        yield {"type": "not", "child": value} if negated else value


def _is_for_clients(value: Any, find: Find, *, negated: bool = False) -> bool:
    """Whether a client may judge a row in another way than the planner."""
    if isinstance(value, bool):
        return False
    kind = str(value["type"]).lower().replace("_", "-")
    if kind == "not":
        return _is_for_clients(value["child"], find, negated=not negated)
    if kind in ("and", "or"):
        return any(_is_for_clients(value[side], find, negated=negated) for side in ("left", "right"))
    if kind in ("true", "false"):
        return False
    name = _column(value["term"])
    if name is None or (_OPPOSITE[kind] if negated else kind) in _MAY_SELECT_NULL:
        return True
    type_ = find(name).type
    if "value" in value and isinstance(_held(find(name), value["value"]), _Beyond):
        return True
    return is_floating(type_) or isinstance(type_, UuidType | BinaryType | FixedType)


# ---------------------------------------------------------------- files


def task_documents(
    tasks: Sequence[ScanTask], metadata: TableMetadata, residuals: Residuals | None = None
) -> dict[str, Any]:
    """Tasks of a plan as one answer: the deletes once, and each task with their numbers and its residual.

    A residual is left out if there is no room for all. The client then applies the whole filter.
    """
    written: dict[Bound, Any] = {}
    fits = residuals is not None and residuals.fit(len(tasks))
    numbers: dict[tuple[str, int | None], int] = {}
    deletes: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for task in tasks:
        references: list[int] = []
        for one in task.deletes:
            key = (one.path, one.content_offset)
            if key not in numbers:
                numbers[key] = len(deletes)
                deletes.append(_file(one, metadata))
            references.append(numbers[key])
        entry: dict[str, Any] = {"data-file": _file(task.data_file, metadata)}
        if references:
            entry["delete-file-references"] = references
        if residuals is not None:
            if task.residual not in written:
                written[task.residual] = residuals.document(task.residual)
            if fits or written[task.residual] is True:
                entry["residual-filter"] = written[task.residual]
        found.append(entry)
    return {"file-scan-tasks": found, "delete-files": deletes}


def _file(file: DataFile, metadata: TableMetadata) -> dict[str, Any]:
    spec = metadata.spec_by_id[file.spec_id]
    types = [partition_value_type(part, metadata.any_field_by_id) for part in spec.fields]
    found: dict[str, Any] = {
        "content": _CONTENTS[file.content],
        "file-path": file.path,
        "file-format": file.file_format,
        "spec-id": file.spec_id,
        "file-size-in-bytes": file.file_size,
        "record-count": file.record_count,
        "key-metadata": None if file.key_metadata is None else file.key_metadata.hex(),
        "split-offsets": list(file.split_offsets),
        "equality-ids": list(file.equality_ids),
        "sort-order-id": file.sort_order_id,
        "first-row-id": file.first_row_id,
        "referenced-data-file": file.referenced_data_file,
        "content-offset": file.content_offset,
        "content-size-in-bytes": file.content_size,
    }
    kept = {name: value for name, value in found.items() if value is not None and value != []}
    values = [encode_single_value(type_, value) for type_, value in zip(types, file.partition, strict=True)]
    return {**kept, "partition": values}
