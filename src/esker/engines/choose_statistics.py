"""Chooses where statistics are computed: in this process, or on Spark for large tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.statistics.arrow_statistics import ArrowStatistics, column_sketch
from esker.ports.engine import Engine, ReadRequest
from esker.ports.statistics import ColumnSketch
from esker.ports.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 1 << 30  # bytes of data files; below this, starting Spark's tasks takes longer than the work


class AnyStatistics(ArrowStatistics):
    """Implements ``ports.statistics.Statistics``. Spark is loaded only if it computes something."""

    def __init__(self, storage: Storage, engine: Engine, get_session: Callable[[], SparkSession]) -> None:
        super().__init__(storage, engine)
        self._is_shared = storage.is_shared
        self._own = engine
        self._get_session = get_session

    def sketches(self, request: ReadRequest, field_ids: Sequence[int]) -> Mapping[int, ColumnSketch]:
        """A sketch of each column: by Spark's workers if there is much to read and they can read it."""
        tasks = list(request.tasks)
        size = sum(task.data_file.file_size for task in tasks)
        if size < LARGE or not self._is_shared or find_spec("pyspark") is None:
            return super().sketches(replace(request, tasks=tasks), field_ids)
        from esker.spark.scan.sketch_scan import sketch_on_spark

        assert isinstance(self._own, ArrowEngine)  # the engine of a lake
        found = sketch_on_spark(self._get_session(), self._own, request, field_ids)
        return {field_id: column_sketch(field_id, sketch) for field_id, sketch in found.items()}
