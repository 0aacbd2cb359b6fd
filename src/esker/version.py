"""Which Esker this is, and where it is installed."""

from pathlib import Path

VERSION = "0.1.0"


def installed_in() -> str:
    """The folder that this Esker is imported from, as an entry of Python's path."""
    return str(Path(__file__).resolve().parents[1])
