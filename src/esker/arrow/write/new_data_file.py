"""One new data file: row groups are written, then a description is returned. The file is not visible before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.parquet_footer import HeldFooter
from esker.arrow.write.choose_dictionaries import columns_without_dictionary
from esker.arrow.write.metrics import MetricsCollector, MetricsMode, split_offsets
from esker.arrow.write.parquet_columns import column_for_file, parquet_paths, parquet_schema
from esker.arrow.write.write_properties import WriteOptions
from esker.model.partition_and_sort import SortOrder
from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    DateType,
    Field,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    VariantType,
)
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

_VARIANT_PARTS = (("metadata",), ("value",))


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """What all data files of one write have in common."""

    schema: Schema  # the table's columns, and lineage columns if rows have them
    columns: tuple[Field, ...]  # the columns that a file has
    options: WriteOptions
    modes: Mapping[int, MetricsMode]
    spec_id: int
    order: SortOrder

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema for Parquet's writer."""
        return parquet_schema(self.columns)

    @cached_property
    def variants(self) -> dict[int, tuple[str, ...]]:
        """The Parquet path of every variant, by field id."""
        paths = parquet_paths(self.columns).items()
        return {id_: path for id_, path in paths if isinstance(self.schema.by_id[id_].type, VariantType)}

    @cached_property
    def leaves(self) -> tuple[tuple[int, str], ...]:
        """Parquet's leaves in order: their field ids and paths. A variant has two leaves."""
        return tuple(
            (id_, ".".join((*path, *part)))
            for id_, path in parquet_paths(self.columns).items()
            for part in (_VARIANT_PARTS if id_ in self.variants else ((),))
        )

    def parquet_arguments(self, rows: int | None, first: Sequence[pa.RecordBatch] = ()) -> dict[str, Any]:
        """The keyword arguments for Parquet's writer. ``rows`` is given if the whole file is known, and ``first`` are
        rows that it begins with."""
        plain = columns_without_dictionary(self.schema, first)
        arguments = {
            **self.options.parquet,
            "version": "2.6",
            "store_schema": False,
            "store_decimal_as_integer": True,
            "use_deprecated_int96_timestamps": False,
            "write_page_index": True,
            "use_dictionary": self._all_but(self.options.without_dictionary | plain),
            # The order of a variant's bytes does not depend on its values.
            "write_statistics": self._all_but(self.options.without_statistics | self.variants.keys()),
        }
        filters = {
            path: self.options.bloom_filters[id_].options(rows)
            for id_, path in self.leaves
            if id_ in self.options.bloom_filters
        }
        return {**arguments, **self._encodings(), **({"bloom_filter_options": filters} if filters else {})}

    def _encodings(self) -> dict[str, Any]:
        """Columns without a dictionary are delta-encoded, as in version 2 of Java's writer.

        This does not need pages of version 2, which leave the levels of lists and maps uncompressed.
        """
        off = [(id_, path) for id_, path in self.leaves if id_ in self.options.without_dictionary]
        found = {path: encoding for id_, path in off if (encoding := _difference(self.schema.by_id[id_].type))}
        return {"column_encoding": found} if found else {}

    def _all_but(self, field_ids: Set[int]) -> bool | list[str]:
        return [path for id_, path in self.leaves if id_ not in field_ids] if field_ids else True

    def table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        """Batches of the table's types, as the file stores them."""
        by_id = self.schema.by_id
        made = [
            pa.record_batch(
                [column_for_file(batch.column(f.name), f, by_id[f.id]) for f in self.columns], schema=self.arrow_schema
            )
            for batch in batches
        ]
        return pa.Table.from_batches(made, schema=self.arrow_schema)


def _difference(type_: Type) -> str | None:
    match type_:
        case IntType() | LongType() | DateType() | TimeType() | TimestampType():
            return "DELTA_BINARY_PACKED"
        case StringType() | BinaryType() | VariantType():
            return "DELTA_LENGTH_BYTE_ARRAY"
        case _:
            return None


class NewDataFile:
    """An open file. End it with ``finish`` or ``abort``. If a step fails, the file is aborted."""

    def __init__(
        self,
        storage: Storage,
        location: str,
        layout: FileLayout,
        *,
        rows: int | None,
        first: Sequence[pa.RecordBatch] = (),
    ) -> None:
        self.location = location
        self._layout = layout
        self._metrics = MetricsCollector(layout.schema, layout.modes)
        self._footer: list[pq.FileMetaData] = []
        self._rows = 0
        self._open = ExitStack()
        self._sink = HeldFooter(self._open.enter_context(storage.open_new(location)))
        with self._step():
            arguments = layout.parquet_arguments(rows, first)
            schema = layout.arrow_schema
            self._writer = pq.ParquetWriter(self._sink, schema, metadata_collector=self._footer, **arguments)
            self._size = self._sink.tell()
        self._open.callback(self._forget_writer)

    @property
    def size(self) -> int:
        """The compressed bytes so far."""
        return self._size

    def write(self, batches: list[pa.RecordBatch], *, rows_per_group: int) -> None:
        """Write batches as a row group, or as several if there are more rows than one should have."""
        with self._step():
            for batch in batches:
                self._metrics.add(batch)
            table = self._layout.table(batches)
            self._writer.write_table(table, row_group_size=max(1, min(rows_per_group, table.num_rows)))
            self._rows += table.num_rows
            self._size = self._sink.tell()

    def finish(self, partition: tuple[Any, ...]) -> DataFile:
        """Publish the file and describe it."""
        with self._step():
            if self._layout.variants:
                self._sink.hold()
            self._writer.close()
            if self._layout.variants:
                self._sink.release(self._layout.variants.values())
            self._size = self._sink.tell()
        self._open.close()
        footer = self._footer[0]
        return DataFile(
            path=self.location,
            file_format="parquet",
            record_count=self._rows,
            file_size=self._size,
            spec_id=self._layout.spec_id,
            partition=partition,
            metrics=self._metrics.metrics(footer, tuple(id_ for id_, _ in self._layout.leaves)),
            split_offsets=split_offsets(footer),
            sort_order_id=self._layout.order.order_id,
        )

    def abort(self) -> None:
        """Remove the unfinished file."""
        with suppress(_Abandoned), self._open:
            raise _Abandoned

    @contextmanager
    def _step(self) -> Iterator[None]:
        """If the step fails, remove the unfinished file. The storage may raise a more exact error."""
        with self._open.pop_all() as held:
            yield
            self._open = held.pop_all()

    def _forget_writer(self) -> None:
        """Parquet's writer would write its footer when it is collected, to a file that is gone."""
        with suppress(Exception):
            self._writer.close()
        self._writer.is_open = False


class _Abandoned(Exception):
    """Raised in a draft that is not needed any more."""
