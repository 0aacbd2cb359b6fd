"""Reads planned files as a Spark DataFrame, each file in the cheapest way that is exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import TYPE_CHECKING

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.deletes.delete_store import DeleteStore
from esker.model.predicates.predicate import Bound, field_ids
from esker.ports.engine import ReadRequest
from esker.ports.storage import Storage
from esker.spark.expressions.types import shown_schema
from esker.spark.scan.arrow_scan import frame_through_arrow
from esker.spark.scan.file_layouts import Survey
from esker.spark.scan.group_files import Sorter, can_be_native
from esker.spark.scan.native_scan import NativeScans
from esker.spark.scan.routes import Routes
from esker.spark.scan.stored_columns import filter_paths, stored_fields
from esker.spark.session.spark_session import check_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReader:
    """Makes frames of plans. One reader serves any number of scans over a storage."""

    storage: Storage
    engine: ArrowEngine
    routes: Routes
    survey: Survey

    def frame(self, session: SparkSession, request: ReadRequest, predicate: Bound) -> DataFrame:
        """Return a frame of the rows that pass filter and deletes. Nothing is read yet; later commits do not change it.

        Raises ``Unsupported`` if Spark has no type for a column.
        """
        schema = shown_schema(request.projection)  # raises before a file is opened
        check_times(session, request.projection)
        tasks = list(request.tasks) if request.limit != 0 else []
        get_mapping = cache(partial(self.engine.name_mapping, request))
        deletes = DeleteStore(self.storage, request.metadata, request.row_schema, get_mapping)
        joined = [task.deletes for task in tasks if task.deletes and can_be_native(task, request)]
        compared = {path[-1].id: path for keys in joined for path in deletes.equality_paths(keys)}
        fields = stored_fields(request, (*filter_paths(predicate, request.row_schema), *compared.values()))
        sorter = Sorter(
            storage=self.storage,
            survey=self.survey,
            request=request,
            fields=fields,
            get_mapping=get_mapping,
            asked=field_ids(predicate),
        )
        scans = NativeScans(
            session=session,
            routes=self.routes,
            request=request,
            predicate=predicate,
            fields=fields,
            deletes=deletes,
        )
        grouped = sorter.sort(tasks)
        frames = [scans.frame(kind, placed) for kind, placed in grouped.native.items()]
        if grouped.through_arrow:
            frames.append(frame_through_arrow(session, self.engine, request, grouped.through_arrow))
        if not frames:
            return session.createDataFrame([], schema)
        whole = reduce(lambda one, other: one.union(other), frames)
        return whole if request.limit is None else whole.limit(request.limit)
