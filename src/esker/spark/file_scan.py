"""What a scan of files is, apart from how Spark is told of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.spark.placed_files import PlacedFile

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
