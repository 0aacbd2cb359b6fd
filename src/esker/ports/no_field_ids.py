"""What a writer answers when asked to describe a file that nothing ties to the table's columns."""

from __future__ import annotations

from esker.errors import InvalidInput


class NoFieldIds(InvalidInput):
    """A file's columns carry no field ids, and the table has no name mapping to find them by."""
