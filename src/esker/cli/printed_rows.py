"""Rows of Arrow data on a screen or in a JSON document, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.cli.screen import Screen

from esker.cli.shown_variants import shown_variants, type_text

BLOCK = 1_000  # rows laid out together: columns are aligned within a block, and no more is held


class Batches(Protocol):
    """A scan, or a table of Arrow's."""

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
    """A column's values in Python; as Arrow spells them where Python has none: nanoseconds, the year 12000."""
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
    """One document: facts, the columns, and the rows, at most so many."""
    from esker.cli.answer import print_json_rows

    rows = _rows(found)
    columns = [{"name": field.name, "type": type_text(field.type)} for field in found.schema]
    print_json_rows({**facts, "columns": columns, "limit": shown}, rows if shown is None else islice(rows, shown))


def print_rows(found: Batches, shown: int | None) -> None:
    """Rows under headings, block by block, and how many there were."""
    from esker.cli.screen import Column, Screen
    from esker.cli.wording import counted

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
    """Rows one below the other, a line for each column: how a wide table fits a narrow terminal."""
    for at, row in enumerate(cells, before + 1):
        screen.title(f"row {at:,}")
        screen.card((name, cell or '""') for name, cell in zip(names, row, strict=True))


def _is_number(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _cell(value: Any) -> str:
    import json

    from esker.cli.plain_values import plain

    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(plain(value))
