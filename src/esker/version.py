"""The version of Esker, and the folder it is installed in."""

from pathlib import Path

VERSION = "0.1.0"


def installed_in() -> str:
    """Return the folder from which Esker is imported, as an entry of ``sys.path``."""
    return str(Path(__file__).resolve().parents[1])
