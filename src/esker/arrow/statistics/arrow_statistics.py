"""Statistics that are computed in this process, and the files of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.statistics.sketch_columns import sketch_columns
from esker.iceberg.statistics_file import write_statistics
from esker.iceberg.theta_sketch import ThetaSketch
from esker.model.schema import Schema
from esker.ports.engine import Engine, ReadRequest
from esker.ports.statistics import ColumnSketch
from esker.ports.storage import Storage
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import StatisticsFile

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowStatistics:
    """Implements ``ports.statistics.Statistics``."""

    def __init__(self, storage: Storage, engine: Engine) -> None:
        self._storage = storage
        self._engine = engine

    def sketches(self, request: ReadRequest, field_ids: Sequence[int]) -> Mapping[int, ColumnSketch]:
        """Read the rows once and return a sketch of each of these columns."""
        found = sketch_columns(self._engine.read(request), request.projection, field_ids)
        return {field_id: column_sketch(field_id, sketch) for field_id, sketch in found.items()}

    def write_sketches(
        self, location: str, snapshot: Snapshot, sketches: Sequence[ColumnSketch], replaced: StatisticsFile | None
    ) -> StatisticsFile:
        """Write a Puffin file with these sketches and the other blobs of the file that it replaces."""
        return write_statistics(self._storage, location, snapshot, sketches, replaced)

    def write_partitions(self, location: str, schema: Schema, rows: pa.Table) -> int:
        """Write a Parquet file of partition statistics. Returns its length."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(rows.cast(to_arrow_schema(schema)), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        self._storage.write_new(location, content)
        return len(content)


def column_sketch(field_id: int, sketch: ThetaSketch) -> ColumnSketch:
    """The sketch in the form of the port."""
    return ColumnSketch(field_id=field_id, content=sketch.encode(), distinct_values=sketch.estimate)
