"""``esker scan``: rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import chosen_limit, current_settings, limit_options, shared_options, snapshot_options

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.cli.screen import Screen
    from esker.read.scan import Scan

DEFAULT = 20
BLOCK = 1_000  # rows laid out together: columns are aligned within a block, and no more is held


@click.command("scan")
@click.argument("table")
@click.option("--where", metavar="PREDICATE", help="Only rows that match, in Spark's SQL: \"day > '2026-01-01'\".")
@click.option("--columns", metavar="A,B,…", help="Only these columns, in this order.")
@snapshot_options
@limit_options(DEFAULT, "rows")
@shared_options
def command(
    table: str,
    where: str | None,
    columns: str | None,
    snapshot_id: int | None,
    as_of: str | None,
    ref: str | None,
    limit: int | None,
    every: bool,
) -> None:
    """Print rows of a table."""
    from esker.cli.opening import open_named

    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    shown = chosen_limit(limit, every, DEFAULT)
    scan = open_named(table).scan(
        where,
        columns=wanted,
        snapshot_id=snapshot_id,
        as_of=as_of,
        ref=ref,
        # one more than is shown tells whether there are more
        limit=None if shown is None else shown + 1,
    )
    if current_settings().as_json:
        _print_json(scan, shown)
    else:
        _print_blocks(scan, shown)


def _rows(scan: Scan) -> Iterator[dict[str, Any]]:
    for batch in scan.to_batches():
        names = batch.schema.names
        for values in zip(*map(_values, batch.columns), strict=True) if names else [()] * batch.num_rows:
            yield dict(zip(names, values, strict=True))


def _values(column: pa.Array) -> list[Any]:
    """A column's values in Python; as Arrow spells them where Python has none: nanoseconds, the year 12000."""
    import pyarrow as pa

    if not (pa.types.is_timestamp(column.type) and column.type.unit == "ns"):
        try:
            return list(column.to_pylist())
        except (ValueError, OverflowError):
            pass
    try:
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException:
        return [str(value) for value in column]


def _print_json(scan: Scan, shown: int | None) -> None:
    from esker.cli.answer import print_json_rows

    rows = _rows(scan)
    schema = scan.schema
    facts = {
        "snapshot_id": None if scan.resolved.snapshot is None else scan.resolved.snapshot.snapshot_id,
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "limit": shown,
    }
    print_json_rows(facts, rows if shown is None else islice(rows, shown))


def _print_blocks(scan: Scan, shown: int | None) -> None:
    from esker.cli.screen import Column, Screen
    from esker.cli.wording import counted

    schema = scan.schema
    columns = [Column(field.name, right=_is_number(field.type), wraps=True) for field in schema]
    rows = _rows(scan)
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
