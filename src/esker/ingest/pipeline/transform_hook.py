"""A hook between decoding and commits: a user's function changes the rows of each table, as a DataFrame.

The decoded rows are in data files that no receipt names yet. The hook gets a frame over these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from esker.errors import (
    AlreadyExists,
    EskerError,
    InvalidInput,
    NoSuchNamespace,
    NoSuchTable,
    SparkFailed,
    StorageFailed,
)
from esker.ingest.job import DataFiles
from esker.ingest.otlp.telemetry_tables import full_name
from esker.ingest.receipts import DEAD_LETTER_TABLE, BatchCounts
from esker.lake import Lake
from esker.model.predicates.predicate import TRUE
from esker.model.table_names import TableName
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.session.jobs import named_jobs, settings
from esker.spark.write.frame_schema import is_spark_frame
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from esker.table import Table

Hook: TypeAlias = Callable[[str, Any], Any]
"""Given a table's name and a DataFrame; returns a DataFrame, None, or DataFrames by the names of tables."""

_LONGEST = 500  # characters of an error
_SETTINGS = {"spark.sql.adaptive.enabled": "true"}  # off in a stream, where each write would have hundreds of tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a hook did to a batch: files for other tables than those of telemetry, and how the number of rows
    changed."""

    others: Mapping[str, DataFiles] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)  # by the table that they were decoded for
    added: Mapping[str, int] = field(default_factory=dict)

    def in_counts(self, counts: BatchCounts) -> BatchCounts:
        """The counts of the batch, with the changes by the hook."""
        routed = {name: files.rows for name, files in self.others.items()}
        return replace(counts, rows={**counts.rows, **routed}, dropped=self.dropped, added=self.added)


class Transform:
    """Applies a hook to the tables of a batch, one after the other."""

    def __init__(self, lake: Lake, hook: Hook, get_session: Callable[[], Any]) -> None:
        if not callable(hook):
            raise InvalidInput(f"cannot transform with {hook!r}: give a function of a table's name and a DataFrame")
        self._lake = lake
        self._hook = hook
        self._get_session = get_session

    def apply(self, writing: Mapping[str, DataFiles], batch_id: str) -> Changed:
        """Replace the files of tables by the rows that the hook returns. Dead letters are not changed.

        Raises ``EskerError``, with the table's name, for an error in the hook, and ``InvalidInput`` for an answer
        that does not fit. Then the files of other tables are deleted; those in ``writing`` are left to the caller.
        """
        staged = {name: files.files for name, files in writing.items() if full_name(name) != DEAD_LETTER_TABLE}
        targets = {full_name(name): files for name, files in writing.items()}
        known = set(targets)
        rows: dict[str, tuple[int, int]] = {}  # as they were decoded, and as they were written
        replaced: list[str] = []
        session = self._get_session()
        try:
            with settings(session, _SETTINGS), named_jobs(session, f"transform batch {batch_id.rpartition('/')[2]}"):
                for name in (name for name, files in staged.items() if files):
                    table = full_name(name)
                    frame = _frame_of(targets[table], staged[name], session)
                    answer = self._answer(table, frame)
                    kept = sum(file.record_count for file in staged[name])
                    written = 0
                    for target, part in answer.items():
                        if target == table and part is frame:  # unchanged: nothing is written again
                            written += kept
                        else:
                            written += self._write(table, target, part, targets)
                    if answer.get(table) is not frame:
                        replaced.append(name)
                    rows[table] = kept, written
        except BaseException:
            for target in targets.keys() - known:
                targets[target].discard()
            raise
        for name in replaced:
            writing[name].drop(staged[name])
        return Changed(
            others={name: files for name, files in targets.items() if name not in known and files.rows},
            dropped={table: kept - written for table, (kept, written) in rows.items() if written < kept},
            added={table: written - kept for table, (kept, written) in rows.items() if written > kept},
        )

    def _answer(self, table: str, frame: DataFrame) -> dict[str, DataFrame]:
        """The hook's answer, as frames by table."""
        try:
            found = self._hook(table, frame)
        except Exception as error:
            raise EskerError(
                f"cannot transform {table}: the transform raised {_said(error)}; nothing of the batch is committed",
                table=table,
            ) from error
        if found is None:
            return {}
        parts = found if isinstance(found, Mapping) else {table: found}
        made: dict[str, DataFrame] = {}
        for name, part in parts.items():
            if part is None:
                continue
            if not isinstance(name, str) or not is_spark_frame(part):
                raise InvalidInput(
                    f"cannot transform {table}: the transform returned {type(part).__name__}; it returns a DataFrame, "
                    "None, or DataFrames by the names of tables",
                    table=table,
                )
            target = str(TableName.parse(name))
            if target == DEAD_LETTER_TABLE:
                raise InvalidInput(
                    f"cannot route rows of {table} to {target}: it holds what cannot be decoded; name another table",
                    table=table,
                )
            made[target] = part
        return made

    def _write(self, table: str, target: str, part: DataFrame, targets: dict[str, DataFiles]) -> int:
        """Write a frame. Returns the number of its rows."""
        try:
            if target not in targets:
                targets[target] = DataFiles(self._table(target, part))
            before = targets[target].rows
            targets[target].add(part, spread=False)  # a share of the files is a task's, as where they are decoded
            return targets[target].rows - before
        except StorageFailed:  # it may pass, and its message is complete
            raise
        except Exception as error:
            to = "" if target == table else f" to {target}"
            kind = type(error) if isinstance(error, InvalidInput | SparkFailed) else EskerError
            facts = error.facts if isinstance(error, EskerError) else {}
            raise kind(
                f"cannot write what the transform made of {table}{to}: {_said(error)}; nothing of the batch is "
                "committed",
                **{**facts, "table": table},
            ) from error

    def _table(self, name: str, part: DataFrame) -> Table:
        """A table that rows are routed to. A missing table is created with the frame's columns."""
        try:
            return self._lake.table(name)
        except (NoSuchTable, NoSuchNamespace):
            namespace = TableName.parse(name).namespace
            with suppress(AlreadyExists):
                self._lake.create_namespace(".".join(namespace))
            with suppress(AlreadyExists):  # another ingest created it first
                self._lake.create_table(name, part.schema)
            return self._lake.table(name)


def _frame_of(files: DataFiles, staged: Iterable[DataFile], session: Any) -> DataFrame:
    """Rows that no snapshot has yet, as a scan of the table would return them."""
    frames = files.table.scan().frames
    assert frames is not None  # a lake always has Spark's
    schema = files.metadata.schema
    tasks = [ScanTask(data_file=file, residual=TRUE) for file in staged]
    request = ReadRequest(metadata=files.metadata, tasks=tasks, row_schema=schema, projection=schema)
    return frames.frame(request, TRUE, session)


def _said(error: Exception) -> str:
    """An error in one line. For an error in a worker, Spark has a traceback, and its last line is used."""
    if isinstance(error, EskerError):
        return error.message
    lines = [line for line in str(error).partition("\nJVM stacktrace")[0].splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if any(line.startswith("Traceback") for line in lines):
        last = next((line for line in reversed(lines) if line[:1].strip()), lines[-1])
        return last[:_LONGEST]
    return f"{type(error).__name__}: {lines[0][:_LONGEST]}"
