"""The options that commands share: where to look and how to answer, which snapshot, how many rows, which engine.

Also the line on a terminal that says that Spark starts.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from esker.lake import Lake


# ---------------------------------------------------------------- settings
#
# The options that every command takes, before its name or after it.


F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "esker.cli."
DEFAULT_CATALOG = "sqlite:///lake/catalog.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was said about where to look and how to answer."""

    catalog: str | None = None  # None: $ESKER_CATALOG, else ./lake
    warehouse: str | None = None
    allowed_roots: tuple[str, ...] = ()
    as_json: bool = False

    @property
    def catalog_uri(self) -> str:
        """The catalog, whether it was named or not."""
        return self.catalog or DEFAULT_CATALOG


def shared_options(function: F) -> F:
    """Add ``--catalog``, ``--warehouse``, ``--allow-root``, ``--json`` and ``--debug``."""
    options = [
        click.option(
            "--catalog", metavar="URI", expose_value=False, callback=_remember, help="The catalog; else $ESKER_CATALOG."
        ),
        click.option(
            "--warehouse", metavar="LOCATION", expose_value=False, callback=_remember, help="Where its tables lie."
        ),
        click.option(
            "--allow-root",
            multiple=True,
            metavar="PLACE",
            expose_value=False,
            callback=_remember_all,
            help="A place outside whose files tables may use; repeatable; also $ESKER_ALLOWED_ROOTS.",
        ),
        click.option("--json", is_flag=True, expose_value=False, callback=_remember, help="Print one JSON document."),
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show where an error came from."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        ctx.meta[_PREFIX + str(param.name)] = value


def _remember_all(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    key = _PREFIX + str(param.name)
    ctx.meta[key] = (*ctx.meta.get(key, ()), *value)  # before the command's name and after it


def current_settings() -> Settings:
    """What was said, wherever on the command line it was said."""
    meta = click.get_current_context().meta
    return Settings(
        catalog=meta.get(_PREFIX + "catalog") or os.environ.get("ESKER_CATALOG") or None,
        warehouse=meta.get(_PREFIX + "warehouse") or None,
        allowed_roots=(*meta.get(_PREFIX + "allow_root", ()), *_roots_of_environment()),
        as_json=bool(meta.get(_PREFIX + "json")),
    )


def _roots_of_environment() -> list[str]:
    return [place for place in os.environ.get("ESKER_ALLOWED_ROOTS", "").split(os.pathsep) if place]


def snapshot_options(function: F) -> F:
    """Add ``--snapshot-id``, ``--as-of`` and ``--ref``, of which one may be given."""
    options = [
        click.option("--snapshot-id", type=int, metavar="ID", help="The snapshot of that id."),
        click.option("--as-of", metavar="TIME", help="The snapshot current at that time (ISO 8601 or epoch ms)."),
        click.option("--ref", metavar="NAME", help="The snapshot of that branch or tag."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def yes_option(function: F) -> F:
    """Add ``--yes``: a command that takes something away shows what it would do, and does it only when told to."""
    return click.option("--yes", is_flag=True, help="Do it; without this the plan is shown and nothing done.")(function)


def limit_options(default: int, what: str) -> Callable[[F], F]:
    """Add ``--limit`` and ``--all``. People get ``default`` lines, programs everything unless they say otherwise."""

    def decorate(function: F) -> F:
        shown = click.option(
            "--limit", type=click.IntRange(min=0), metavar="N", help=f"Show at most N {what} [default: {default}]."
        )
        every = click.option("--all", "every", is_flag=True, help=f"Show all {what}.")
        return shown(every(function))

    return decorate


def chosen_limit(limit: int | None, every: bool, default: int) -> int | None:
    """How many to show; None for all."""
    if limit is not None and every:
        raise click.UsageError("--limit and --all exclude each other")
    if limit is not None:
        return limit
    return None if every or current_settings().as_json else default


# ---------------------------------------------------------------- engine
#
# ``--engine`` of the commands that decode and write, and the word on a terminal that Spark starts.


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
    from esker.ingest.defaults import chosen_engine

    return chosen_engine(named, lake, told=lambda text: click.echo(f"esker: {text}", err=True), streams=streams)


@contextmanager
def saying_that_spark_starts() -> Iterator[None]:
    """Say so on a terminal when a session starts in the block, and keep PySpark's asides away from standard error."""
    import warnings

    logging.getLogger("SQLQueryContextLogger").disabled = True  # what it says is said by the error
    starts = logging.getLogger("esker.spark.session.spark_session")
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
