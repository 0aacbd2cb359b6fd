"""An exact list of files for Spark to scan: where each file is located, the format, and the schema to read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.spark.scan.hadoop_systems import Opening

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file as Spark receives it. ``number`` identifies it within one scan."""

    uri: str
    size: int
    number: int
    opening: Opening | None = None  # None: it is on this machine


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
    opening: Opening | None = None  # how all of them are opened
    with_number: bool = False  # adds NUMBER
    with_position: bool = False  # adds POSITION, which Spark has for Parquet files only

    @property
    def options(self) -> dict[str, str]:
        """The options that Spark's reader gets. They may contain secrets."""
        return {**OPTIONS, **dict(self.opening.options if self.opening is not None else ())}

    @property
    def digest(self) -> str:
        """A digest that identifies the list of files.

        Spark treats two scans of one path as equal, whatever they read.
        """
        facts = "\n".join(f"{file.uri}\t{file.size}\t{file.number}" for file in self.files)
        return hashlib.sha256(f"{self.file_format}\n{facts}".encode()).hexdigest()[:32]
