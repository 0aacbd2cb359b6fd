"""Prints any number of rows of Arrow data, on a screen or as a JSON document.

Variants are printed as their values, not as the bytes that store them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.cli.screen import Screen


# ---------------------------------------------------------------- variants


_PARTS = ("metadata: binary not null", "value: binary not null")
_VARIANTS = tuple(f"struct<{one}, {other}>" for one, other in (_PARTS, _PARTS[::-1]))  # in Esker's order and in Spark's


def type_text(type_: pa.DataType) -> str:
    """The name of an Arrow type; variants by their own name."""
    text = str(type_)
    for written in _VARIANTS:
        text = text.replace(written, "variant")
    return text


def shown_variants(type_: pa.DataType, values: list[Any]) -> list[Any]:
    """Return the values of a column with variants decoded at every depth."""
    return [_shown(type_, value) for value in values] if any(written in str(type_) for written in _VARIANTS) else values


def _shown(type_: pa.DataType, value: Any) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if str(type_) in _VARIANTS:
        return _read(value)
    if pa.types.is_struct(type_):
        return {field.name: _shown(field.type, value[field.name]) for field in type_}
    if pa.types.is_map(type_):
        return [(key, _shown(type_.item_type, item)) for key, item in value]
    if pa.types.is_list(type_):
        return [_shown(type_.value_type, item) for item in value]
    return value


def _read(value: dict[str, bytes]) -> Any:
    from esker.errors import InvalidInput
    from esker.model.variant import decode

    try:
        return _worded(decode(value["metadata"], value["value"]))
    except InvalidInput:  # then only its bytes can be shown
        return value


def _worded(value: Any) -> Any:
    """Values with times as text if Python has no type for them."""
    from esker.model.variant import Moment
    from esker.model.variant_text import moment_text

    match value:
        case Moment():
            return moment_text(value)
        case list():
            return [_worded(item) for item in value]
        case dict():
            return {key: _worded(item) for key, item in value.items()}
        case _:
            return value


# ---------------------------------------------------------------- rows


BLOCK = 1_000  # rows that are laid out together: columns are aligned within a block, and only one block is in memory


class Batches(Protocol):
    """A scan, or a pyarrow table."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    def to_batches(self) -> Iterable[pa.RecordBatch]:
        """The rows, batch by batch."""
        ...


def _rows(found: Batches) -> Iterator[dict[str, Any]]:
    for batch in found.to_batches():
        names = batch.schema.names
        for values in zip(*map(_values, batch.columns), strict=True) if names else [()] * batch.num_rows:
            yield dict(zip(names, values, strict=True))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column in Python; as Arrow's text if Python has no such value: nanoseconds, the year 12000."""
    import pyarrow as pa

    if not (pa.types.is_timestamp(column.type) and column.type.unit == "ns"):
        try:
            return shown_variants(column.type, column.to_pylist())
        except (ValueError, OverflowError):
            pass
    try:
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException:
        return [str(value) for value in column]


def print_rows_json(found: Batches, shown: int | None, facts: Mapping[str, Any]) -> None:
    """Print one document: the facts, the columns, and at most ``shown`` rows."""
    from esker.cli.answer import print_json_rows

    rows = _rows(found)
    columns = [{"name": field.name, "type": type_text(field.type)} for field in found.schema]
    print_json_rows({**facts, "columns": columns, "limit": shown}, rows if shown is None else islice(rows, shown))


def print_rows(found: Batches, shown: int | None) -> None:
    """Print rows under headings, block by block, and how many there were."""
    from esker.cli.humanize import counted
    from esker.cli.screen import Column, Screen

    schema = found.schema
    columns = [Column(field.name, right=_is_number(field.type), wraps=True) for field in schema]
    rows = _rows(found)
    left, printed = shown, 0
    while block := list(islice(rows, BLOCK if left is None else min(BLOCK, left))):
        screen = Screen()
        cells = [[_cell(row[field.name]) for field in schema] for row in block]
        if screen.fits(columns, cells):
            screen.table(columns, cells, keep_empty=True)
        else:
            _stand(screen, schema.names, cells, printed)
        screen.show()
        printed += len(block)
        left = None if left is None else left - len(block)
        if left == 0:
            break
    screen = Screen()
    more = next(rows, None) is not None
    said = "No rows." if not printed and not more else counted(printed, "row")
    screen.note(said + (" shown of more; --limit N or --all shows them." if more else ""))
    screen.show()


def _stand(screen: Screen, names: list[str], cells: list[list[str]], before: int) -> None:
    """Print each row as lines of one column each, for a table that is wider than the terminal."""
    for at, row in enumerate(cells, before + 1):
        screen.title(f"row {at:,}")
        screen.card((name, cell or '""') for name, cell in zip(names, row, strict=True))


def _is_number(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _cell(value: Any) -> str:
    import json

    from esker.cli.answer import plain

    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(plain(value))
