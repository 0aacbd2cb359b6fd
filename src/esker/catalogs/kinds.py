"""What a name of a catalog may stand for."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """A table or a view; the values are those of ``iceberg_type`` in a catalog of SQL."""

    TABLE = "TABLE"
    VIEW = "VIEW"

    @property
    def word(self) -> str:
        """The kind in a sentence."""
        return self.value.lower()
