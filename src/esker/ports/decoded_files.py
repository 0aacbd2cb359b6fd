"""The port of a place that keeps decoded files across processes. It is only a cache: every method may do nothing."""

from __future__ import annotations

from typing import Protocol


class DecodedFiles(Protocol):
    """Entries by folder and name. Each has a short head and a long body, and is complete or absent."""

    def heads(self, folder: str) -> dict[str, bytes]:
        """The heads of all entries of a folder by their names, including those that other processes added."""
        ...

    def read(self, folder: str, name: str) -> tuple[bytes, memoryview] | None:
        """The head and the body of an entry. None if it is gone, or not as it was written."""
        ...

    def write(self, folder: str, head: bytes, body: bytes) -> None:
        """Add an entry, and remove the oldest ones if there are too many bytes."""
        ...

    def discard(self, folder: str, name: str) -> None:
        """Remove an entry that makes no sense."""
        ...
