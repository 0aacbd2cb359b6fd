"""``esker sql``: runs one statement of Spark SQL on the lake's tables."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from esker.cli.shared_options import (
    chosen_limit,
    current_settings,
    limit_options,
    saying_that_spark_starts,
    shared_options,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from esker.lake import Lake
    from esker.spark.sql.queries.query_frames import Answer

DEFAULT = 100
# statements that only read, and create no lake
_LOOKS = re.compile(r"\s*(SELECT|WITH|SHOW|DESC|DESCRIBE|EXPLAIN|FROM|TABLE)\b", re.IGNORECASE)


@click.command("sql")
@click.argument("text")
@limit_options(DEFAULT, "rows")
@click.option(
    "--trust-view",
    "trusted",
    multiple=True,
    metavar="NAME",
    help="A Spark function or table that views may use; 'all' allows every view of the lake everything.",
)
@shared_options
def sql_command(text: str, limit: int | None, every: bool, trusted: tuple[str, ...]) -> None:
    """Run one statement of Spark SQL. TEXT is the statement, or - to read it from standard input.

    Queries and inserts start a local Spark session, which takes some seconds. Statements that the catalog can answer
    start none. docs/sql.md lists the statements.
    """
    from esker.cli.open_table import open_lake

    statement = sys.stdin.read() if text == "-" else text
    shown = chosen_limit(limit, every, DEFAULT)
    lake = open_lake(
        current_settings(), trusted_views="all" in trusted or trusted, may_make=_LOOKS.match(statement) is None
    )
    _answer(lake, statement, shown)


def _answer(lake: Lake, statement: str, shown: int | None) -> None:
    from esker.errors import InvalidInput
    from esker.spark.sql.queries.query_frames import Answer
    from esker.spark.sql.run_statement import SqlRunner

    try:
        with saying_that_spark_starts():
            found = SqlRunner(lake, lambda: lake.spark).do(statement)
            _show(_of_answer(found) if isinstance(found, Answer) else _of_frame(found, shown), shown)
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        raise InvalidInput(f"Spark cannot run this statement: {_first_line(error)}") from error


def _of_answer(answer: Answer) -> pa.Table:
    import pyarrow as pa

    from esker.arrow.arrow_types import to_arrow
    from esker.model.parsing.column_definitions import parse_columns

    fields = parse_columns(answer.columns)
    columns = [pa.array([row[at] for row in answer.rows], to_arrow(field.type)) for at, field in enumerate(fields)]
    return pa.table(columns, names=[field.name for field in fields])


def _of_frame(frame: DataFrame, shown: int | None) -> pa.Table:
    import pyarrow as pa

    if not frame.columns:
        return pa.table({})
    # One row more than is shown, to find out if there are more.
    rows = frame if shown is None else frame.limit(shown + 1)
    if "variant" not in frame.schema.simpleString():
        from esker.spark.workers.worker_failures import naming_worker_failures

        with naming_worker_failures():
            return rows.toArrow()
    from esker.spark.expressions.arrow_frames import gathered

    return gathered(rows)  # toArrow fails on a variant that is null


def _show(rows: pa.Table, shown: int | None) -> None:
    from esker.cli.print_rows import print_rows, print_rows_json

    if current_settings().as_json:
        print_rows_json(rows, shown, {})
    elif rows.num_columns:
        print_rows(rows, shown)
    else:
        click.echo("Done.")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
