"""Writes a batch for the data source. Planning, commit and abort each run in a process of their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.arrow.input.fit_columns import Leniency, members
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.file_layout import file_layout
from esker.arrow.write.file_locations import data_locations
from esker.errors import Conflict, InvalidInput, Unsupported
from esker.lake import Lake
from esker.ports.storage import Storage
from esker.spark.source.source_options import (
    Address,
    Options,
    Use,
    branch_of,
    open_lake,
    open_or_create,
    read_options,
    table_name,
)
from esker.spark.source.write_worker import from_bytes
from esker.spark.workers.arrow_write_worker import Order
from esker.spark.workers.ship import shipped
from esker.spark.write.frame_schema import arrow_schema_of
from esker.spark.write.written_files import delete, files_of, partition_types, sweep
from esker.table import Table
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import head_of
from esker.write.existing_files import Written

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from esker.write.verbs import Transaction

Report = tuple[str, str | None, bytes]  # a task's operation, the query that it belongs to, and the files that it wrote
_WORKER = "esker.spark.source.write_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What the commit must know about the start of the write."""

    given: Mapping[str, str]
    use: Use
    registered: Address | None
    overwrite: bool
    ref: str
    began_at: int | None = None
    operation_id: str | None = None  # None: nothing to write


def plan_write(
    given: Mapping[str, str],
    registered: Address | None,
    schema: StructType,
    overwrite: bool,
    use: Use = Use.WRITE,
) -> tuple[bytes, Callable[[Any], Any]]:
    """Check everything that can be checked before a row is written. Return the plan, and the function that workers run.

    Raises ``InvalidInput`` if an option, the table or the columns do not fit.
    """
    options = read_options(given, use)
    _check_overwrite(options, overwrite)
    lake = open_lake(options, registered)
    table = open_or_create(lake, options, schema)
    plan = WritePlan(given=dict(given), use=use, registered=registered, overwrite=overwrite, ref=branch_of(options))
    if table is None:
        return pickle.dumps(plan), shipped(_WORKER, None)
    order = _order(lake.catalog.storage(), table, schema)
    head = head_of(table.metadata, plan.ref)
    began_at = None if head is None else head.snapshot_id
    plan = replace(plan, began_at=began_at, operation_id=order.operation_id)
    return pickle.dumps(plan), shipped(_WORKER, pickle.dumps(order))


def commit(data: bytes, reports: Sequence[Report | None]) -> None:
    """Commit the files that the tasks wrote, in one snapshot."""
    plan: WritePlan = pickle.loads(data)
    if plan.operation_id is None:
        return
    options = read_options(plan.given, plan.use)
    lake = open_lake(options, plan.registered)
    table = lake.table(table_name(options))
    written = collected(plan, lake, table, reports)
    with table.transaction(ref=plan.ref, summary=dict(options.summary)) as tx:
        _apply(tx, plan, options, table, written)


def collected(plan: WritePlan, lake: Lake, table: Table, reports: Sequence[Report | None]) -> Written:
    """Return the files of all tasks. If a task refused its rows, delete the files and raise the refusal."""
    files: list[DataFile] = []
    refusal = None
    for report in reports:
        if report is None:
            raise InvalidInput("cannot commit: a task did not report what it wrote")
        found, refused = _files(table.metadata, from_bytes(report[2]))
        files += found
        refusal = refusal or refused
    if refusal is not None:
        delete(lake.catalog.storage(), (file.path for file in files))
        raise refusal
    spec_id = files[0].spec_id if files else table.spec.spec_id
    return Written(files=tuple(files), spec_id=spec_id, began_at=plan.began_at)


def abort(data: bytes, reports: Sequence[Report | None]) -> None:
    """Delete the files of the tasks, if no commit can have named them.

    A commit starts only when all tasks have reported. A commit that fails decides itself whether its files can be
    deleted.
    """
    plan: WritePlan = pickle.loads(data)
    if plan.operation_id is None or (reports and all(report is not None for report in reports)):
        return
    options = read_options(plan.given, plan.use)
    lake = open_lake(options, plan.registered)
    base = data_locations(lake.table(table_name(options)).metadata).base
    for operation_id in {plan.operation_id, *(report[0] for report in reports if report is not None)}:
        sweep(lake.catalog.storage(), base, operation_id)


def _files(metadata: TableMetadata, report: Any) -> tuple[list[DataFile], InvalidInput | None]:
    """Return a task's files. Their partition values belong to the spec that was current when they were written."""
    spec_ids = [spec_id for spec_id in report["spec_id"].to_pylist() if spec_id is not None]
    if spec_ids and spec_ids[0] not in metadata.spec_by_id:
        raise Conflict(
            f"cannot commit files of partition spec {spec_ids[0]}: the table no longer has this spec; write again"
        )
    written_by = replace(metadata, default_spec_id=spec_ids[0]) if spec_ids else metadata
    return files_of(report, partition_types(written_by))


def _apply(tx: Transaction, plan: WritePlan, options: Options, table: Table, written: Written) -> None:
    where = options.get("replace-where")
    if not plan.overwrite:
        tx.append(written)
    elif options.choice("overwrite-mode", "static", "dynamic") == "static":
        tx.overwrite(written, where)
    elif table.spec.spec_id != written.spec_id:
        tx.append(written)  # so that the rollback deletes the files
        raise Conflict(
            f"cannot overwrite partitions of {table.name}: its partitioning was changed meanwhile; write again"
        )
    else:
        tx.overwrite_partitions(written)


def _check_overwrite(options: Options, overwrite: bool) -> None:
    named = options.one_of("overwrite-mode", "replace-where")
    if named is not None and not overwrite:
        raise InvalidInput(f"cannot take the option {named}: it is for mode('overwrite')", option=named)
    options.choice("overwrite-mode", "static", "dynamic")


def _order(storage: Storage, table: Table, schema: StructType) -> Order:
    metadata = table.metadata
    layout = file_layout(metadata, table.schema)
    members(table.schema.fields, list(arrow_schema_of(schema)), (), Leniency(whole_structs=True))
    if not storage.is_shared:
        raise Unsupported(f"cannot write to {table.name}: workers can reach only local files", feature="storage")
    return Order(
        names=tuple(schema.fieldNames()),
        storage=storage,
        layout=layout,
        spec=metadata.spec,
        partition_types=partition_types(metadata),
        locations=data_locations(metadata),
        operation_id=str(uuid4()),
        limits=Limits(),
        rows_are_sorted=False,  # they have the order of the frame
    )
