"""Where Spark finds a data file, and which files it must not be given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

_REMOTE = frozenset(("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs", "oss", "cos", "obs"))


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file as Spark is given it. ``number`` tells it apart within one scan."""

    uri: str
    size: int
    number: int


def place(storage: Storage, file: DataFile, number: int) -> PlacedFile | None:
    """The file for Spark; None where Spark cannot reach it or would pass it over without a word."""
    local = storage.local_path(file.path)
    if local is not None:
        # The size decides which part of a file a task reads, and manifests of other writers have it wrong.
        size, uri = Path(local).stat().st_size, f"file:{local}"
    else:
        size, uri = file.file_size, file.path
        if urlsplit(uri).scheme not in _REMOTE:
            return None
    return PlacedFile(uri, size, number) if size > 0 and not _is_hidden(uri) else None


def _is_hidden(uri: str) -> bool:
    """Spark's listings leave such names out, and what lies in a streaming sink's log. Hadoop trips over a colon."""
    name = uri.rpartition("/")[2]
    if ":" in name:
        return True
    dropped = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return dropped or "/_spark_metadata" in uri
