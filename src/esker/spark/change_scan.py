"""A change feed as a Spark DataFrame: files that came, went or lost rows are read like those of any scan.

What a commit did is a fact about each file, so one scan tells many commits. A file that several commits touched is in
several scans, since Spark knows a file by its path.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.delete_store import DeleteStore
from esker.arrow.takers import takers_of
from esker.errors import Unsupported
from esker.model.predicate import Bound
from esker.model.schema import Schema
from esker.ports.changes import CHANGE_COLUMNS, ChangeGroup, ChangeRequest
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.arrow_scan import frame_through_arrow
from esker.spark.arrow_worker import output_name, shown_batch
from esker.spark.moved_rows import chosen, net_rows, with_updates, without_moved
from esker.spark.reader import SparkReader
from esker.spark.types import shown_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_SCANS = 4  # of one file; what touched it more often is read through Arrow


def change_frame(reader: SparkReader, session: SparkSession, request: ChangeRequest, predicate: Bound) -> DataFrame:
    """The changed rows, without those that a commit only moved."""
    if request.net:
        return _net_frame(reader, session, request, predicate)
    commits = [replace(c, groups=tuple(_needed(reader, request, group) for group in c.groups)) for c in request.commits]
    groups = [group for commit in commits for group in commit.groups]
    plain = [task for group in groups if not group.is_mixed for task in group.tasks]
    mixed = [task for group in groups if group.is_mixed for task in group.tasks]
    frames = list(_frames(reader, session, _read(request, plain, request.projection), predicate))
    if mixed and not _is_shown(request.row_schema):
        both = [replace(c, groups=tuple(group for group in c.groups if group.is_mixed)) for c in commits]
        frames.append(_compared_here(reader, session, replace(request, commits=both)))
    elif mixed:
        rows = _union(_frames(reader, session, _read(request, mixed, request.row_schema), predicate))
        changed = without_moved(rows, request.row_schema)
        if request.keys:
            changed = with_updates(changed, request.row_schema, request.keys)
        frames.append(chosen(changed, request.row_schema, request.projection))
    if not frames:
        return session.createDataFrame([], shown_schema((*request.projection, *CHANGE_COLUMNS)))
    return _union(frames)


def _net_frame(reader: SparkReader, session: SparkSession, request: ChangeRequest, predicate: Bound) -> DataFrame:
    if not _is_shown(request.row_schema):
        return _compared_here(reader, session, request)
    whole = replace(request, projection=request.row_schema, net=False)
    rows = net_rows(change_frame(reader, session, whole, predicate), request.row_schema)
    return chosen(rows, request.row_schema, request.projection)


def _is_shown(schema: Schema) -> bool:
    """Whether Spark has a type for every column: rows are compared by all of them, wanted or not."""
    try:
        shown_schema(schema)
    except Unsupported:
        return False
    return True


def _compared_here(reader: SparkReader, session: SparkSession, request: ChangeRequest) -> DataFrame:
    """The changed rows, compared in this process."""
    fields = (*request.projection, *CHANGE_COLUMNS)
    batches = [shown_batch(batch, fields) for batch in reader.engine.read_changes(request)]
    numbered = shown_schema([replace(f, name=output_name(at)) for at, f in enumerate(fields)])
    if not batches:
        return session.createDataFrame([], shown_schema(fields))
    rows = session.createDataFrame(pa.Table.from_batches(batches), numbered)
    return rows.select(*(F.col(output_name(at)).alias(f.name) for at, f in enumerate(fields)))


def _read(request: ChangeRequest, tasks: Sequence[ScanTask], projection: Schema) -> ReadRequest:
    return ReadRequest(
        metadata=request.metadata,
        tasks=tasks,
        row_schema=request.row_schema,
        projection=Schema(fields=(*projection, *CHANGE_COLUMNS)),
    )


def _needed(reader: SparkReader, request: ChangeRequest, group: ChangeGroup) -> ChangeGroup:
    """Without tasks that turn out to mean no row: a vector that replaces another gives none back."""
    told = _read(request, (), request.row_schema)
    store = DeleteStore(
        reader.storage, request.metadata, request.row_schema, cache(partial(reader.engine.name_mapping, told))
    )

    def means_some(task: ScanTask) -> bool:
        takers = takers_of(task, store)
        return takers is None or not takers.are_none

    return ChangeGroup(
        deleted=tuple(filter(means_some, group.deleted)), inserted=tuple(filter(means_some, group.inserted))
    )


def _frames(reader: SparkReader, session: SparkSession, request: ReadRequest, predicate: Bound) -> Iterable[DataFrame]:
    layers: dict[int, list[ScanTask]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for task in request.tasks:
        layers[min(seen[task.data_file.path], MOST_SCANS)].append(task)
        seen[task.data_file.path] += 1
    for layer, tasks in layers.items():
        if layer < MOST_SCANS:
            yield reader.frame(session, replace(request, tasks=tasks), predicate)
        else:
            yield frame_through_arrow(session, reader.engine, request, tasks)


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)
