"""The options that several commands have: catalog, output, snapshot, number of rows, engine.

Also the lines on a terminal that say that Spark is starting, and how far long work is.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from esker.lake import Lake


# ---------------------------------------------------------------- options of every command, before its name or after it


F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "esker.cli."
DEFAULT_CATALOG = "sqlite:///lake/catalog.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of the shared options."""

    catalog: str | None = None  # None: $ESKER_CATALOG, else ./lake
    warehouse: str | None = None
    allowed_roots: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be secrets among them
    as_json: bool = False

    @property
    def catalog_uri(self) -> str:
        """The catalog, given or default."""
        return self.catalog or DEFAULT_CATALOG

    @property
    def shown_catalog(self) -> str | None:
        """The catalog that was named, without its password; None where none was."""
        from esker.catalogs.postgres_address import without_secrets

        return None if self.catalog is None else without_secrets(self.catalog)


def shared_options(function: F) -> F:
    """Add ``--catalog``, ``--warehouse``, ``--allow-root``, ``--catalog-property``, ``--json`` and ``--debug``."""
    options = [
        click.option(
            "--catalog",
            metavar="URI",
            expose_value=False,
            callback=_remember,
            help="The catalog [default: $ESKER_CATALOG, else ./lake].",
        ),
        click.option(
            "--warehouse", metavar="LOCATION", expose_value=False, callback=_remember, help="The folder of its tables."
        ),
        click.option(
            "--allow-root",
            multiple=True,
            metavar="PLACE",
            expose_value=False,
            callback=_remember_all,
            help="A further place whose files tables may use; may be repeated; also $ESKER_ALLOWED_ROOTS.",
        ),
        click.option(
            "--catalog-property",
            multiple=True,
            metavar="NAME=VALUE",
            expose_value=False,
            callback=_remember_all,
            help="How a store is reached, as s3.endpoint=URL; repeatable. Keys belong in the environment.",
        ),
        click.option("--json", is_flag=True, expose_value=False, callback=_remember, help="Print one JSON document."),
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show the traceback of an error."
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
    ctx.meta[key] = (*ctx.meta.get(key, ()), *value)  # given before the command's name and after it


def current_settings() -> Settings:
    """The values of the shared options, wherever they are on the command line."""
    meta = click.get_current_context().meta
    return Settings(
        catalog=meta.get(_PREFIX + "catalog") or os.environ.get("ESKER_CATALOG") or None,
        warehouse=meta.get(_PREFIX + "warehouse") or None,
        allowed_roots=(*meta.get(_PREFIX + "allow_root", ()), *_roots_of_environment()),
        properties=dict(_property(text) for text in meta.get(_PREFIX + "catalog_property", ())),
        as_json=bool(meta.get(_PREFIX + "json")),
    )


def _property(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError("a property is written NAME=VALUE, as in --catalog-property s3.region=eu-west-1")
    return name, value


def _roots_of_environment() -> list[str]:
    return [place for place in os.environ.get("ESKER_ALLOWED_ROOTS", "").split(os.pathsep) if place]


def snapshot_options(function: F) -> F:
    """Add ``--snapshot-id``, ``--as-of`` and ``--ref``, of which one may be given."""
    options = [
        click.option("--snapshot-id", type=int, metavar="ID", help="The snapshot with this id."),
        click.option(
            "--as-of", metavar="TIME", help="The snapshot that was current at this time (ISO 8601 or epoch ms)."
        ),
        click.option("--ref", metavar="NAME", help="The snapshot of this branch or tag."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def yes_option(function: F) -> F:
    """Add ``--yes``: without it, a command that removes something only shows what it would do."""
    return click.option("--yes", is_flag=True, help="Do it; without --yes, only show what would be done.")(function)


def limit_options(default: int, what: str) -> Callable[[F], F]:
    """Add ``--limit`` and ``--all``. The screen has ``default`` lines unless these say otherwise; JSON has
    everything."""

    def decorate(function: F) -> F:
        shown = click.option(
            "--limit", type=click.IntRange(min=0), metavar="N", help=f"Show at most N {what} [default: {default}]."
        )
        every = click.option("--all", "every", is_flag=True, help=f"Show all {what}.")
        return shown(every(function))

    return decorate


def chosen_limit(limit: int | None, every: bool, default: int) -> int | None:
    """How many to show; None for all. Reports a usage error if both options are given."""
    if limit is not None and every:
        raise click.UsageError("--limit and --all exclude each other")
    if limit is not None:
        return limit
    return None if every or current_settings().as_json else default


# ---------------------------------------------------------------- ``--engine``, and the line that Spark is starting


_WIPE = "\r\x1b[K"


def engine_option(function: F) -> F:
    """Add ``--engine``."""
    return click.option(
        "--engine",
        type=click.Choice(["spark", "arrow"]),
        envvar="ESKER_ENGINE",
        help="What decodes and writes: Spark's workers, or this process without a JVM [default: spark].",
    )(function)


def engine_for(lake: Lake, named: str | None, *, streams: bool = False) -> str:
    """The engine that was named, otherwise Spark. If Spark is not installed, a line on stderr says so and the engine is
    arrow."""
    from esker.ingest.defaults import chosen_engine

    return chosen_engine(named, lake, told=lambda text: click.echo(f"esker: {text}", err=True), streams=streams)


@contextmanager
def saying_that_spark_starts() -> Iterator[None]:
    """Show a line on a terminal while a session starts in the block, and keep PySpark's warnings off standard error."""
    import warnings

    logging.getLogger("SQLQueryContextLogger").disabled = True  # the error has the same text
    starts = logging.getLogger("esker.spark.session.spark_session")
    handler, level = _OnTerminal(), starts.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pyspark")  # warnings about pandas, which is not used here
        if sys.stderr.isatty():
            starts.addHandler(handler)
            starts.setLevel(logging.INFO)
        try:
            yield
        finally:
            starts.removeHandler(handler)
            starts.setLevel(level)
            handler.wipe()


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show the progress of long work in the block as one line on standard error, if that is a terminal."""
    works = logging.getLogger("esker.maintain")
    handler, level = _OnTerminal(), works.level
    if sys.stderr.isatty():
        works.addHandler(handler)
        works.setLevel(logging.INFO)
    try:
        yield
    finally:
        works.removeHandler(handler)
        works.setLevel(level)
        handler.wipe()


class _OnTerminal(logging.Handler):
    """A line on the terminal while the command waits."""

    _is_shown = False

    def emit(self, record: logging.LogRecord) -> None:
        self.wipe()
        if record.getMessage().endswith("…"):
            self._is_shown = True
            click.echo(record.getMessage(), nl=False, err=True)

    def wipe(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._is_shown = False
            click.echo(_WIPE, nl=False, err=True)
