"""The ``esker`` command: create, inspect, change and fill tables from a shell."""
