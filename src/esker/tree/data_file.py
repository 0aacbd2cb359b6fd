"""A data file or delete file, as a manifest describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class FileContent(IntEnum):
    """What the rows of a file are. The numbers are from the spec."""

    DATA = 0
    POSITION_DELETES = 1  # also deletion vectors
    EQUALITY_DELETES = 2


VECTOR_FORMATS = frozenset(("puffin", "index"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The statistics of one file's columns, by field id. A missing key means unknown, never zero."""

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file or delete file, with what a plan needs to know about it."""

    path: str
    file_format: str  # lower case: parquet, orc, avro, puffin
    record_count: int
    file_size: int
    content: FileContent = FileContent.DATA
    spec_id: int = 0
    partition: tuple[Any, ...] = ()  # one value per field of the spec, in the held form
    sequence_number: int = 0  # the data sequence number, which decides what deletes apply
    file_sequence_number: int | None = None
    snapshot_id: int | None = None  # the snapshot that added the file
    metrics: Metrics | None = None  # None: not read
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    schema_id: int | None = None  # the schema whose names the columns have; None: columns have ids
    merge_group: int | None = None  # rows of files with the same number are merged by key; None: rows as they are

    @property
    def is_deletion_vector(self) -> bool:
        """Whether the deletes are a bitmap, in a Puffin file or in an index file."""
        return self.content is FileContent.POSITION_DELETES and self.file_format in VECTOR_FORMATS
