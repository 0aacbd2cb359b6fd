"""The ``esker`` command: which subcommands exist, and how a failure becomes a message and an exit status.

Nothing large is imported here. The module of a subcommand is imported when the subcommand is used; pyarrow, rich and
others when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from esker.cli.failure import describe, report, wants
from esker.cli.shared_options import shared_options

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Start": ("init", "demo", "serve", "token", "doctor"),
    "Look": (
        "ls",
        "info",
        "schema",
        "snapshots",
        "refs",
        "files",
        "manifests",
        "tree",
        "diff",
        "scan",
        "explain",
        "health",
        "verify",
        "sql",
    ),
    "Change": ("create", "drop", "undrop", "rename", "register", "convert", "tag", "branch", "rollback"),
    "Keep": ("compact", "rewrite-manifests", "maintain", "expire", "orphans", "stats"),
    "Feed": ("ingest", "receive", "replay"),
}

# Modules of ``esker.cli.commands`` with several commands. Every other command has a module of its own name.
_HOMES: Mapping[str, str] = {
    "init": "create",
    "register": "create",
    "convert": "create",
    "rename": "drop",
    "undrop": "drop",
    "token": "serve",
    "tag": "refs",
    "branch": "refs",
    "rollback": "snapshots",
    "schema": "info",
    "manifests": "files",
    "explain": "scan",
    "rewrite-manifests": "compact",
    "expire": "keep",
    "orphans": "keep",
    "maintain": "keep",
    "health": "verify",
    "replay": "ingest",
}


class Esker(click.Group):
    """A group that imports a command's module when the command is used, and reports a failure in a line or two."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of their sections."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, imported now; None if there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        home = import_module(f"esker.cli.commands.{_HOMES.get(cmd_name, cmd_name)}")
        found = getattr(home, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section."""
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, found.get_short_help_str(100)) for name, found in commands if found])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command. Every kind of end has its own exit status."""
        given = list(sys.argv[1:] if args is None else args)
        status = self._status(given, prog_name or "esker", complete_var, extra)
        if standalone_mode:
            sys.exit(status)
        return status

    def _status(self, given: list[str], prog_name: str, complete_var: str | None, extra: dict[str, Any]) -> int:
        _forgive_odd_characters()
        try:
            result = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
            return result if isinstance(result, int) else 0
        except click.exceptions.Exit as end:
            return end.exit_code
        except BaseException as error:
            failure = describe(error)
            report(failure, error, as_json=wants("--json", given), debug=wants("--debug", given))
            return failure.status


def _forgive_odd_characters() -> None:
    """Show characters escaped that the terminal's encoding does not have, instead of failing: paths may contain any
    bytes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


@click.group("esker", cls=Esker, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@shared_options
@click.version_option(package_name="esker", message="%(prog)s %(version)s")
def cli() -> None:
    """Inspect Apache Iceberg tables, by path or by their name in a catalog, and change the tables of a catalog.

    TABLE is a path if it exists on disk, contains a slash or ends in .json. Otherwise it is a table of the catalog:
    --catalog, else $ESKER_CATALOG, else ./lake.
    """


def main() -> None:
    """The console script."""
    cli.main()


if __name__ == "__main__":
    main()
