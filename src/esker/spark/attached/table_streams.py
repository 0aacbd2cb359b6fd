"""Streams of an attached session: ``spark.readStream.table`` and ``df.writeStream.toTable`` for tables of the lake.

Both use the data source ``esker`` under a name of their own, so a data source that a user registered stays unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.spark.source.data_source import importer, make_source
from esker.spark.sql.grammar.words import Words
from esker.spark.workers.ship import use_this_python
from esker.version import VERSION, installed_in

if TYPE_CHECKING:
    from esker.lake import Lake
    from esker.spark.attached.attach import Attachment

FORMAT = "esker_attached"


@dataclass(frozen=True, slots=True)
class StreamTable:
    """A table of the lake, with the options that the data source needs."""

    name: str
    options: dict[str, str]


def stream_table(attachment: Attachment, session: Any, name: str, *, partition_by: Sequence[str] | None) -> StreamTable:
    """Return the table for a stream, and register the data source in the session.

    ``partition_by`` is None for a stream that reads. For a stream that writes, a missing table is created, as Spark
    does. Raises ``InvalidInput`` if the name is not a table or branch, or if other processes cannot open the lake.
    """
    with attachment.at_work():
        names = attachment.runner.names()
        named = Words(name).name("the name of a table")
        found = names.find(named.parts)
        _register(attachment, session)
        if found is None and partition_by is not None and names.find_view(named.parts) is None:
            terms = {"partition-by": ", ".join(partition_by)} if partition_by else {}
            return StreamTable(names.full(named), {"create": "true", **terms})
        found = found or names.must_find(named)
    if found.metadata_table is not None or found.snapshot_id is not None or found.as_of_ms is not None:
        raise InvalidInput(
            f"cannot stream {name}: only a table or a branch can be streamed, not a snapshot or a metadata table"
        )
    return StreamTable(found.table.name, {} if found.ref is None else {"branch": found.ref})


def _register(attachment: Attachment, session: Any) -> None:
    if attachment.streams:
        return
    address = _address(attachment.lake)
    use_this_python(session)
    load = importer(installed_in(), VERSION)
    source: Any = make_source(load, address)
    session.dataSource.register(type("AttachedSource", (source,), {"name": classmethod(lambda cls: "esker_attached")}))
    attachment.streams = True


def _address(lake: Lake) -> dict[str, Any]:
    if lake.address is None:
        raise InvalidInput(
            "cannot stream tables of this lake: it exists only in this process, and Spark plans and reads in "
            "other processes; use a SQLite or directory catalog"
        )
    return dict(lake.address)


@cache
def streaming_reader(base: Any) -> Any:
    """Return the class of stream readers that know the lake."""

    class AttachedStreamReader(base):  # type: ignore[misc]
        def table(self, tableName: str) -> Any:  # noqa: N803  # PySpark's name
            from esker.spark.attached.attach import attachment_of

            session = self._spark if hasattr(self, "_spark") else self._client
            found = attachment_of(session)
            if found is None or not found.writes.owns(tableName):
                return super().table(tableName)
            table = stream_table(found, session, tableName, partition_by=None)
            return self.format(FORMAT).options(**table.options).load(table.name)

    return AttachedStreamReader


@cache
def streaming_writer(base: Any) -> Any:
    """Return the class of stream writers, of a classic session, that know the lake."""

    class AttachedStreamWriter(base):  # type: ignore[misc]
        def partitionBy(self, *cols: Any) -> Any:  # noqa: N802
            given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
            self.__dict__["_esker_partition_by"] = tuple(given)
            return super().partitionBy(*cols)

        def toTable(  # noqa: N802
            self,
            tableName: str,  # noqa: N803
            format: str | None = None,
            outputMode: str | None = None,  # noqa: N803
            partitionBy: Any = None,  # noqa: N803
            queryName: str | None = None,  # noqa: N803
            **options: Any,
        ) -> Any:
            from esker.spark.attached.attach import attachment_of

            found = attachment_of(self._spark)
            if found is None or not found.writes.owns(tableName):
                return super().toTable(tableName, format, outputMode, partitionBy, queryName, **options)
            _check_format(tableName, format)
            given = [partitionBy] if isinstance(partitionBy, str) else list(partitionBy or ())
            terms = given or list(self.__dict__.get("_esker_partition_by", ()))
            table = stream_table(found, self._spark, tableName, partition_by=terms)
            how = {**options, **table.options}
            return self.start(table.name, format=FORMAT, outputMode=outputMode, queryName=queryName, **how)

    return AttachedStreamWriter


def redirected(write: Any, attachment: Attachment, session: Any) -> None:
    """Change the Spark Connect command that starts a stream into a table, so that it uses the data source."""
    name = str(write.table_name)
    _check_format(name, write.format or None)
    table = stream_table(attachment, session, name, partition_by=list(write.partitioning_column_names))
    write.format, write.path = FORMAT, table.name
    del write.partitioning_column_names[:]
    write.options.update(table.options)


def _check_format(name: str, format: str | None) -> None:
    if format is not None and format.lower() not in ("iceberg", "esker", FORMAT):
        raise InvalidInput(
            f"cannot write {name} in the format {format!r}: tables of a lake are Iceberg tables; use the format iceberg"
        )
