"""An exact list of files for Spark to scan: where each file is located, the format, the schema to read, and what is
known of the rows of each file.

``FileFrames.java`` makes a frame of such a list by one call. A call to the JVM takes up to a millisecond, so the list
goes there as bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from esker.model.pruning.orderable import Orderable, orderable_literal
from esker.spark.scan.hadoop_systems import Opening

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

    from esker.model.pruning.evidence import Span
    from esker.model.types import Type


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


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """A column of which each file has one value, which its partition records. It is not read from the files."""

    field: StructField
    type: Type  # one that ``has_span``
    values: Sequence[Any]  # one per file, in the held form


@dataclass(frozen=True, kw_only=True)
class FileScan:
    """Files of one format, read with one schema. With ``by_id``, Parquet columns are found by the ids in the schema."""

    file_format: str
    schema: StructType
    files: Sequence[PlacedFile]
    by_id: bool
    opening: Opening | None = None  # how all of them are opened
    with_number: bool = False  # adds NUMBER
    with_position: bool = False  # adds POSITION, which Spark has for Parquet files only
    fixed: Sequence[FixedColumn] = ()  # adds these; the index needs them, and only it can add them
    spans: Mapping[str, Span] = field(default_factory=dict)  # of columns of the schema, one row per file

    @property
    def options(self) -> dict[str, str]:
        """The options that Spark's reader gets. They may contain secrets."""
        return {**OPTIONS, **dict(self.opening.options if self.opening is not None else ())}

    @cached_property
    def packed(self) -> bytes:
        """The files, and what is known of them, as ``FileFrames.java`` reads them."""
        return b"".join((packed_files(self.files), *map(_packed_column, self.fixed), _packed_spans(self.spans)))

    @cached_property
    def digest(self) -> str:
        """A digest that identifies the list of files.

        Spark treats two scans of one path as equal, whatever they read.
        """
        fixed = ",".join(column.field.name for column in self.fixed)
        return hashlib.sha256(f"{self.file_format}\n{fixed}\n".encode() + self.packed).hexdigest()[:32]


# ---------------------------------------------------------------- the bytes for the JVM
#
# Numbers are big-endian. A text has its length before it. Values of columns are whole numbers of 64 bits or texts.


def packed_texts(count: int, texts: Iterable[str]) -> bytes:
    """Return a number and texts."""
    return struct.pack(">i", count) + b"".join(_text(text.encode()) for text in texts)


def packed_files(files: Sequence[PlacedFile]) -> bytes:
    """Return the number of files, then the size, the number and the location of each."""
    parts = (struct.pack(">qq", file.size, file.number) + _text(file.uri.encode()) for file in files)
    return struct.pack(">i", len(files)) + b"".join(parts)


def _packed_column(column: FixedColumn) -> bytes:
    """Return whether each value is there, then the values."""
    there = bytes(value is not None for value in column.values)
    found = [None if value is None else orderable_literal(column.type, value) for value in column.values]
    if any(isinstance(value, bytes) for value in found):
        return b"t" + there + b"".join(_text(value or b"") for value in found)
    return b"n" + there + struct.pack(f">{len(found)}q", *(value or 0 for value in found))


def _packed_spans(spans: Mapping[str, Span]) -> bytes:
    parts = [struct.pack(">i", len(spans))]
    for name, span in spans.items():
        flags = span.may_null * 1 + span.may_value * 2 + span.lower.known * 4 + span.upper.known * 8
        kind = b"t" if span.lower.values.dtype.kind == "O" else b"n"
        parts += [_text(name.encode()), kind, flags.astype("u1").tobytes()]
        # an upper bound of text may be cut: nothing that starts with it is above it
        parts += [_packed_bound(span.lower, b""), _packed_bound(span.upper, _AFTER)]
    return b"".join(parts)


_AFTER = b"\xff"  # after every character of a text


def _packed_bound(bound: Orderable, suffix: bytes) -> bytes:
    if bound.values.dtype.kind == "O":
        return b"".join(_text(value + suffix) for value in bound.values)
    return bound.values.astype(">i8").tobytes()


def _text(encoded: bytes) -> bytes:
    return struct.pack(">i", len(encoded)) + encoded
