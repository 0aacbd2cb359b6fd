"""Turns an error into a line on stderr, a JSON document and an exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from esker.cli.answer import to_json
from esker.errors import Conflict, Corrupt, EskerError, OutcomeUnknown, StorageFailed

DONE, FINDING, USAGE, CONFLICT, UNKNOWN, CORRUPT, STORAGE = range(7)
INTERNAL = 70  # a fault of Esker itself, different from every status that a user can cause
INTERRUPTED = 130
PIPE_CLOSED = 141


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, described for a person and for a program."""

    status: int
    kind: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)
    quiet: bool = False  # the user knows it: an interrupt, a closed pipe
    hint: str | None = None
    help: str | None = None  # shown instead of the message


def wants(flag: str, arguments: Sequence[str]) -> bool:
    """Whether a flag was given. Also works if the other arguments are wrong."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return flag in before


def describe(error: BaseException) -> Failure:
    """Return the failure that describes an exception."""
    match error:
        case _ if _follows_an_interrupt(error):
            return Failure(INTERRUPTED, "Interrupted", "interrupted", quiet=True)
        case click.exceptions.NoArgsIsHelpError():
            return Failure(USAGE, "Usage", "Missing command.", help=error.format_message())
        case click.UsageError():
            return Failure(USAGE, "Usage", error.format_message(), hint=_usage_hint(error))
        case click.ClickException():
            return Failure(USAGE, "Usage", error.format_message())
        case EskerError():
            return Failure(_status(error), type(error).__name__, error.message, dict(error.facts))
        case OSError() if error.errno == errno.EPIPE:
            return Failure(PIPE_CLOSED, "PipeClosed", "the reader closed the pipe", quiet=True)
        case OSError():
            from esker.storage.failures import failure_of

            return describe(failure_of(error, "reach", error.filename or "a file or a host"))
        case SystemExit(code=int(code)):
            return Failure(PIPE_CLOSED if code else DONE, "Exit", "ended", quiet=True)
        case MemoryError():
            return Failure(INTERNAL, "OutOfMemory", "out of memory")
        case _:
            said = f"{type(error).__name__}: {_text(error)}".splitlines()[0]
            return Failure(INTERNAL, "Internal", f"a fault inside esker: {said}", hint="--debug shows the traceback")


def _text(error: BaseException) -> str:
    """The text of an error. An error of Py4J asks the JVM for it, and the JVM may have ended."""
    try:
        return str(error)
    except Exception as failure:
        return f"its message cannot be read: {type(failure).__name__}: {failure}"


def _follows_an_interrupt(error: BaseException | None) -> bool:
    """Whether the user interrupted the command. Errors that follow from this, for example of a Spark job, are not
    reported. But the unknown outcome of a commit is."""
    if isinstance(error, OutcomeUnknown):
        return False
    while error is not None and not isinstance(error, click.Abort | KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _status(error: EskerError) -> int:
    match error:
        case Conflict():
            return CONFLICT
        case OutcomeUnknown():
            return UNKNOWN
        case Corrupt():
            return CORRUPT
        case StorageFailed():
            return STORAGE
        case _:
            return USAGE


def _usage_hint(error: click.UsageError) -> str | None:
    return None if error.ctx is None else f"try '{error.ctx.command_path} --help'"


def report(failure: Failure, error: BaseException, *, as_json: bool, debug: bool) -> None:
    """Print the failure: one JSON document on stdout, or a line or two on stderr."""
    if debug and not failure.quiet:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if failure.status == PIPE_CLOSED:
        _drop_stdout()
        return
    if as_json:
        click.echo(to_json({"error": {"kind": failure.kind, "message": failure.message, **failure.facts}}))
    elif failure.help is not None:
        click.echo(failure.help)
    elif not failure.quiet:
        click.secho(f"esker: {failure.message}", err=True, fg="red" if _coloured() else None)
        if failure.hint:
            click.echo(f"       {failure.hint}", err=True)


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _drop_stdout() -> None:
    """Send the interpreter's last flush nowhere, because stdout has no reader and the flush would fail."""
    with contextlib.suppress(OSError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # stays open until the end
