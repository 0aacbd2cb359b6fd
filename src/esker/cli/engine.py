"""``--engine`` of the commands that decode and write, and the word on a terminal that Spark starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from esker.lake import Lake

F = TypeVar("F", bound=Callable[..., Any])
_WIPE = "\r\x1b[K"


def engine_option(function: F) -> F:
    """Add ``--engine``."""
    return click.option(
        "--engine",
        type=click.Choice(["spark", "arrow"]),
        envvar="ESKER_ENGINE",
        help="Who decodes and writes: Spark's workers, or this process, without a JVM [default: spark].",
    )(function)


def engine_for(lake: Lake, named: str | None, *, streams: bool = False) -> str:
    """The engine that was named, otherwise Spark; where it is not installed, a line says so and the engine is arrow."""
    from esker.ingest.engine import chosen_engine

    return chosen_engine(named, lake, told=lambda text: click.echo(f"esker: {text}", err=True), streams=streams)


@contextmanager
def saying_that_spark_starts() -> Iterator[None]:
    """Say so on a terminal when a session starts in the block, and keep PySpark's asides away from standard error."""
    import warnings

    logging.getLogger("SQLQueryContextLogger").disabled = True  # what it says is said by the error
    starts = logging.getLogger("esker.spark.session")
    handler, level = _OnTerminal(), starts.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pyspark")  # about versions of pandas, which moves no row here
        if sys.stderr.isatty():
            starts.addHandler(handler)
            starts.setLevel(logging.INFO)
        try:
            yield
        finally:
            starts.removeHandler(handler)
            starts.setLevel(level)
            handler.wipe()


class _OnTerminal(logging.Handler):
    """A line that says what is waited for, and is gone when the wait is over."""

    _is_shown = False

    def emit(self, record: logging.LogRecord) -> None:
        self.wipe()
        if record.getMessage().endswith("…"):
            self._is_shown = True
            click.echo(record.getMessage(), nl=False, err=True)

    def wipe(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._is_shown = False
            click.echo(_WIPE, nl=False, err=True)
