"""The subcommands of ``esker``: a module for each command, or for a few commands that belong together.

``esker.cli.main`` knows which module holds which command, and loads it when the command is asked for."""
