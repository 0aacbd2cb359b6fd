"""An exact list of files for Spark to scan: where each file is located, the format, and the schema to read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# ---------------------------------------------------------------- placed files
#
# Where Spark finds a data file, and which files it must not be given.


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file as Spark is given it. ``number`` tells it apart within one scan."""

    uri: str
    size: int
    number: int


def place(storage: Storage, file: DataFile, number: int) -> PlacedFile | None:
    """The file for Spark; None where Spark cannot reach it or would pass it over without a word."""
    local = storage.local_path(file.path)
    if local is None:  # Spark's own reader needs jars for object stores; Arrow in the workers needs none
        return None
    # The size decides which part of a file a task reads, and manifests of other writers have it wrong.
    size, uri = Path(local).stat().st_size, f"file:{local}"
    return PlacedFile(uri, size, number) if size > 0 and not _is_hidden(uri) else None


def _is_hidden(uri: str) -> bool:
    """Spark's listings leave such names out, and what lies in a streaming sink's log. Hadoop trips over a colon."""
    name = uri.rpartition("/")[2]
    if ":" in name:
        return True
    dropped = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return dropped or "/_spark_metadata" in uri


# ---------------------------------------------------------------- file scan
#
# What a scan of files is, apart from how Spark is told of them.


NUMBER, POSITION = "__esker_file", "__esker_pos"
"""Columns a scan adds when asked: a file's number, and a row's place in its file."""

BY_ID = {"spark.sql.parquet.fieldId.read.enabled": "true", "spark.sql.parquet.fieldId.read.ignoreMissing": "false"}
OPTIONS = {
    "recursiveFileLookup": "true",  # or folder names like a=1 would be taken for columns
    "ignoreMissingFiles": "false",  # a session may say otherwise, and rows would be missing
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """Files of one format to be read as one schema. ``by_id``: Parquet columns by the ids that the schema carries."""

    file_format: str
    schema: StructType
    files: Sequence[PlacedFile]
    by_id: bool
    with_number: bool = False  # adds NUMBER
    with_position: bool = False  # adds POSITION, which Spark knows of Parquet files only

    @property
    def digest(self) -> str:
        """What tells its files from others': Spark takes two scans of one path for the same, whatever they read."""
        facts = "\n".join(f"{file.uri}\t{file.size}\t{file.number}" for file in self.files)
        return hashlib.sha256(f"{self.file_format}\n{facts}".encode()).hexdigest()[:32]
