"""The ``esker`` command: looking at tables from a shell."""
