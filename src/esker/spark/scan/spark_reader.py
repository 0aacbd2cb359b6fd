"""Reads planned files as a Spark DataFrame, each file in the cheapest way that is exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import TYPE_CHECKING

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.deletes.delete_store import DeleteStore
from esker.model.predicates.predicate import Bound, field_ids
from esker.ports.engine import ReadRequest, ScanTask
from esker.ports.storage import Storage
from esker.spark.expressions.types import shown_schema
from esker.spark.scan.apply_deletes import deletes_in_one_line
from esker.spark.scan.arrow_scan import frame_through_arrow
from esker.spark.scan.file_layouts import Survey
from esker.spark.scan.file_scan import PlacedFile
from esker.spark.scan.group_files import Sorter, can_be_native, placed_tasks
from esker.spark.scan.hadoop_systems import HadoopSystems, choice_of
from esker.spark.scan.merge_scan import merged_frame
from esker.spark.scan.native_scan import NativeScans
from esker.spark.scan.place_files import Places, in_one_line
from esker.spark.scan.routes import Routes
from esker.spark.scan.stored_columns import filter_paths, stored_fields
from esker.spark.session.jobs import without_call_sites
from esker.spark.session.jvm import empty_frame
from esker.spark.session.spark_session import check_times, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReader:
    """Makes frames of plans. One reader serves any number of scans over a storage."""

    storage: Storage
    engine: ArrowEngine
    routes: Routes
    survey: Survey
    systems: HadoopSystems
    chosen: str | None = None  # who reads the files, if the lake says so

    def frame(self, session: SparkSession, request: ReadRequest, predicate: Bound) -> DataFrame:
        """Return a frame of the rows that pass filter and deletes. Nothing is read yet; later commits do not change it.

        Raises ``Unsupported`` if Spark has no type for a column.
        """
        with without_call_sites():
            return self._frame(session, request, predicate)

    def _frame(self, session: SparkSession, request: ReadRequest, predicate: Bound) -> DataFrame:
        schema = shown_schema(request.projection)  # raises before a file is opened
        check_times(session, request.projection)
        if request.merge is not None:
            return merged_frame(self, session, request, predicate, request.merge)
        tasks = list(request.tasks) if request.limit != 0 else []
        get_mapping = cache(partial(self.engine.name_mapping, request))
        deletes = DeleteStore(self.storage, request.metadata, request.row_schema, get_mapping)
        joined = [task.deletes for task in tasks if task.deletes and can_be_native(task, request)]
        compared = {path[-1].id: path for keys in joined for path in deletes.equality_paths(keys)}
        fields = stored_fields(request, (*filter_paths(predicate, request.row_schema), *compared.values()))
        scans = NativeScans(
            session=session,
            routes=self.routes,
            request=request,
            predicate=predicate,
            fields=fields,
            deletes=deletes,
        )
        sorter = Sorter(
            places=self._places(session, request),
            survey=self.survey,
            request=request,
            fields=fields,
            get_mapping=get_mapping,
            asked=field_ids(predicate),
        )
        grouped = sorter.sort(tasks)
        frames = [scans.frame(kind, placed) for kind, placed in grouped.native.items()]
        if grouped.through_arrow:
            frames.append(frame_through_arrow(session, self.engine, request, grouped.through_arrow))
        if not frames:
            return empty_frame(session, schema)
        whole = reduce(lambda one, other: one.union(other), frames)
        return whole if request.limit is None else whole.limit(request.limit)

    def explained(self, session: SparkSession, request: ReadRequest) -> str:
        """Return in one line who would read the files, and why, and how deleted rows are found. One file of each store
        represents the others.

        Raises ``NoSuchFile`` if that file is missing on this machine.
        """
        examples: dict[tuple[bool, str, str], ScanTask] = {}
        counts: Counter[tuple[bool, str, str]] = Counter()
        keyed: list[tuple[tuple[bool, str, str], ScanTask]] = []
        for task in request.tasks:
            scheme, _, rest = task.data_file.path.partition("://")
            key = (can_be_native(task, request), scheme if rest else "", rest.partition("/")[0])
            examples.setdefault(key, task)
            counts[key] += 1
            keyed.append((key, task))
        placed = placed_tasks(self._places(session, request), request, examples.values())
        readers = {key: file for key, (_, file) in zip(counts, placed, strict=True)}
        found: Counter[PlacedFile | str] = Counter()
        for key, file in readers.items():
            found[file] += counts[key]
        # Arrow applies the deletes of the files that it reads.
        native = [(at, task) for at, (key, task) in enumerate(keyed) if not isinstance(readers[key], str)]
        return "; ".join((in_one_line(found), *deletes_in_one_line(session, native)))

    def _places(self, session: SparkSession, request: ReadRequest) -> Places:
        return Places(
            storage=self.storage,
            session=session,
            jvm=None if is_connect(session) else self.routes.jvm(session),
            systems=self.systems,
            choice=choice_of(self.chosen, request.metadata.properties),
        )
