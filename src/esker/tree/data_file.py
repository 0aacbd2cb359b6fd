"""A data file or delete file, as a manifest describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class FileContent(IntEnum):
    """What a file's rows are; the numbers are the spec's."""

    DATA = 0
    POSITION_DELETES = 1  # deletion vectors too
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What is known of one file's columns, by field id. A missing key is unknown, never zero."""

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of rows, or of deletes, with what a plan needs to know of it."""

    path: str
    file_format: str  # lower case: parquet, orc, avro, puffin
    record_count: int
    file_size: int
    content: FileContent = FileContent.DATA
    spec_id: int = 0
    partition: tuple[Any, ...] = ()  # held values, one per field of the spec
    sequence_number: int = 0  # the data sequence number: what deletes are matched by
    file_sequence_number: int | None = None
    snapshot_id: int | None = None  # the one that added it
    metrics: Metrics | None = None  # None: not asked for
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """Whether the deletes are a bitmap inside a Puffin file."""
        return self.content is FileContent.POSITION_DELETES and self.file_format == "puffin"
