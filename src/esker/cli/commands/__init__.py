"""The subcommands of ``esker``: a module for each command, or for a few commands that belong together.

``esker.cli.main`` records which module has which command, and imports the module when the command is used.
"""
