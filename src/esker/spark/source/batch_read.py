"""Plans a read of the data source. The snapshot is chosen when the frame is made, the files when the frame is used."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.read.merge_rows import grouped_tasks
from esker.errors import InvalidInput, Unsupported
from esker.iceberg.metadata.schema import PROPERTY, decode_name_mapping
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import Bound, all_of
from esker.model.predicates.unbound_predicate import Unbound
from esker.model.schema import Schema
from esker.ports.engine import ReadRequest, ScanTask
from esker.read.resolve_snapshot import AsOf
from esker.read.scan import Scan, merge_rule_of
from esker.spark.expressions.types import shown_schema
from esker.spark.source.pushed_filters import unbound_filters
from esker.spark.source.read_worker import Order, Part, packed, wanted
from esker.spark.source.source_options import Address, Options, Use, open_table, read_options
from esker.spark.workers.ship import shipped
from esker.table import Table
from esker.tree.table_metadata import without_history

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

_WORKER = "esker.spark.source.read_worker"
_PART_BYTES = 128 << 20
_FILE_COST = 4 << 20  # opening a file takes as long as reading this many bytes


def pin(given: dict[str, str], registered: Address | None) -> bytes:
    """Return the scan that the options describe, of the current snapshot.

    Raises ``InvalidInput`` for a wrong option.
    """
    options = read_options(given, Use.READ, Use.STREAM_READ)
    return pinned(open_table(options, registered), options)


def pinned(table: Table, options: Options) -> bytes:
    """Return a scan, pickled, that other processes can continue with."""
    scan = table.scan(
        options.get("where"),
        columns=options.names("columns") or None,
        snapshot_id=options.number("snapshot-id"),
        as_of=_as_of(options),
        ref=_ref(options),
    )
    shown_schema(scan.projection)  # raises if Spark has no type for a column
    return pickle.dumps(replace(scan, metadata=without_history(scan.metadata), frames=None))


def schema_of(plan: bytes) -> StructType:
    """The columns of the frame."""
    return shown_schema(scan_of(plan).projection)


def scan_of(plan: bytes) -> Scan:
    """Return the pinned scan."""
    return pickle.loads(plan)


def read_task(plan: bytes, schema: StructType) -> Callable[[Any], Any]:
    """Return the function that workers run for each part of the plan."""
    scan = projected(plan, schema)
    assert isinstance(scan.engine, ArrowEngine)  # tables are always opened with this engine
    return shipped(_WORKER, pickle.dumps(Order(storage=scan.engine.storage, fields=scan.projection.fields)))


def parts(plan: bytes, schema: StructType, filters: Sequence[Filter]) -> list[bytes]:
    """Return the files that the filters leave, in parts of about equal size."""
    scan = projected(plan, schema)
    kept = [bound for unbound in unbound_filters(filters, scan.resolved.schema) if (bound := _bound(scan, unbound))]
    narrowed = replace(scan, filter=all_of((scan.filter, *kept)))
    return packed_parts(narrowed, narrowed.plan().tasks)


def packed_parts(scan: Scan, tasks: Iterable[ScanTask]) -> list[bytes]:
    """Return the tasks in parts, packed for workers."""
    request = ReadRequest(
        metadata=scan.metadata,
        tasks=(),
        row_schema=scan.resolved.schema,
        projection=wanted(scan.projection.fields),
        filter=scan.filter,
        merge=merge_rule_of(scan),
    )
    text = scan.metadata.properties.get(PROPERTY)
    mapping = None if text is None else decode_name_mapping(f"table property {PROPERTY}", text)
    return [packed(Part(request=replace(request, tasks=group), name_mapping=mapping)) for group in _grouped(tasks)]


def projected(plan: bytes, schema: StructType) -> Scan:
    """Return the scan with the columns that Spark asks for. They are fewer if the user gave the reader a schema.

    Raises ``InvalidInput`` if a column does not exist or has another type.
    """
    scan = scan_of(plan)
    known = {field.name: field for field in scan.projection}
    missing = [name for name in schema.fieldNames() if name not in known]
    if missing:
        raise InvalidInput(f"cannot read column {missing[0]!r}: the table has {', '.join(known)}", column=missing[0])
    chosen = Schema(fields=tuple(known[name] for name in schema.fieldNames()))
    for asked, there in zip(schema.fields, shown_schema(chosen), strict=True):
        if asked.dataType.simpleString() != there.dataType.simpleString():
            raise InvalidInput(
                f"cannot read column {asked.name!r} as {asked.dataType.simpleString()}: it is "
                f"{there.dataType.simpleString()}; cast it after reading",
                column=asked.name,
            )
    return replace(scan, projection=chosen)


def _grouped(tasks: Iterable[ScanTask]) -> Iterator[list[ScanTask]]:
    """Yield neighbouring tasks in groups that are large enough for a part. Files that are merged stay together."""
    group: list[ScanTask] = []
    size = 0
    for together in grouped_tasks(tasks):
        cost = sum(max(task.data_file.file_size, _FILE_COST) for task in together)
        if group and size + cost > _PART_BYTES:
            yield group
            group, size = [], 0
        group += together
        size += cost
    if group:
        yield group


def _bound(scan: Scan, unbound: Unbound) -> Bound | None:
    """Return the bound filter. Returns None if Esker cannot evaluate it; Spark then evaluates it alone."""
    try:
        return bind(unbound, scan.resolved.schema)
    except (InvalidInput, Unsupported):
        return None


def _as_of(options: Options) -> AsOf | None:
    name = options.one_of("as-of", "as-of-timestamp")
    return None if name is None else options.get(name)


def _ref(options: Options) -> str | None:
    name = options.one_of("branch", "tag", "ref")
    return None if name is None else options.get(name)
