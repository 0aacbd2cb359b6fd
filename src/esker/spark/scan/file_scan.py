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


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file as Spark receives it. ``number`` identifies it within one scan."""

    uri: str
    size: int
    number: int


def place(storage: Storage, file: DataFile, number: int) -> PlacedFile | None:
    """Return the file for Spark. Returns None if Spark cannot reach it, or would skip it without an error."""
    local = storage.local_path(file.path)
    if local is None:  # Spark's own reader needs jars for object stores; Arrow in the workers needs none
        return None
    # The size decides which part of a file a task reads. Manifests of other writers may have a wrong size.
    size, uri = Path(local).stat().st_size, f"file:{local}"
    return PlacedFile(uri, size, number) if size > 0 and not _is_hidden(uri) else None


def _is_hidden(uri: str) -> bool:
    """Return whether Spark skips the file because of its name or streaming log, or Hadoop fails on a colon in the
    name."""
    name = uri.rpartition("/")[2]
    if ":" in name:
        return True
    dropped = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return dropped or "/_spark_metadata" in uri


NUMBER, POSITION = "__esker_file", "__esker_pos"
"""Columns a scan adds when asked: a file's number, and a row's place in its file."""

BY_ID = {"spark.sql.parquet.fieldId.read.enabled": "true", "spark.sql.parquet.fieldId.read.ignoreMissing": "false"}
OPTIONS = {
    "recursiveFileLookup": "true",  # otherwise folder names such as a=1 would become columns
    "ignoreMissingFiles": "false",  # a session may set otherwise, and rows would be missing
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """Files of one format, read with one schema. With ``by_id``, Parquet columns are found by the ids in the schema."""

    file_format: str
    schema: StructType
    files: Sequence[PlacedFile]
    by_id: bool
    with_number: bool = False  # adds NUMBER
    with_position: bool = False  # adds POSITION, which Spark has for Parquet files only

    @property
    def digest(self) -> str:
        """A digest that identifies the list of files.

        Spark treats two scans of one path as equal, whatever they read.
        """
        facts = "\n".join(f"{file.uri}\t{file.size}\t{file.number}" for file in self.files)
        return hashlib.sha256(f"{self.file_format}\n{facts}".encode()).hexdigest()[:32]
