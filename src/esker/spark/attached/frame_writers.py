"""``df.write``, ``df.writeTo`` and ``df.writeStream`` of a classic session that has an attached lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.readwriter import DataFrameWriter

from esker.errors import InvalidInput
from esker.spark.attached.table_streams import streaming_writer
from esker.spark.expressions.sql_text import column_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from esker.spark.attached.lake_writes import LakeWrites


class AttachedFrame(ClassicFrame):  # type: ignore[misc]
    """A DataFrame whose writers know the lake of its session."""

    @property
    def write(self) -> DataFrameWriter:
        """PySpark's ``write``, which also accepts tables of the lake."""
        writes = writes_of(self.sparkSession)
        return super().write if writes is None else AttachedWriter(self, writes)

    @property
    def writeStream(self) -> Any:  # noqa: N802  # PySpark's name
        """PySpark's ``writeStream``, which also accepts tables of the lake."""
        writer = super().writeStream
        if writes_of(self.sparkSession) is not None:
            kind: Any = type(writer)
            writer.__class__ = streaming_writer(kind)
        return writer

    def writeTo(self, table: str) -> Any:  # noqa: N802  # PySpark's name
        """PySpark's ``writeTo``, which also accepts tables of the lake."""
        writes = writes_of(self.sparkSession)
        return LakeWriter(self, table, writes) if writes is not None and writes.owns(table) else super().writeTo(table)


def writes_of(session: Any) -> LakeWrites | None:
    """Return the object that writes into the lake of a session. Returns None if the session has no lake."""
    attachment = session.__dict__.get("_esker_attachment")
    return None if attachment is None else attachment.writes


class AttachedWriter(DataFrameWriter):  # type: ignore[misc]
    """PySpark's writer. It also keeps its settings, which are needed if the table is one of the lake's."""

    def __init__(self, frame: DataFrame, writes: LakeWrites) -> None:
        super().__init__(frame)
        self._frame, self._writes = frame, writes
        self._mode, self._partition_by = "error", ()
        self._options: dict[str, Any] = {}

    def mode(self, saveMode: str | None) -> Self:  # noqa: N803
        """Set the mode, and keep it."""
        self._mode = saveMode or self._mode
        super().mode(saveMode)
        return self

    def option(self, key: str, value: Any) -> Self:
        """Set an option, and keep it."""
        self._options[key] = value
        super().option(key, value)
        return self

    def options(self, **options: Any) -> Self:
        """Set options, and keep them."""
        self._options |= options
        super().options(**options)
        return self

    def partitionBy(self, *cols: Any) -> Self:  # noqa: N802
        """Set the partition columns, and keep them."""
        self._partition_by = tuple(cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols)
        super().partitionBy(*cols)
        return self

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        """Insert the rows. Columns are matched by position, as in PySpark."""
        if not self._writes.owns(tableName):
            super().insertInto(tableName, overwrite)
            return
        replaces = self._mode == "overwrite" if overwrite is None else overwrite
        self._writes.append(self._frame, tableName, by_name=False, overwrite=replaces)

    def saveAsTable(  # noqa: N802
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        """Save the rows as a table, as the mode says. Raises ``InvalidInput`` if the format is not Iceberg."""
        if not self._writes.owns(name):
            super().saveAsTable(name, format, mode, partitionBy, **options)
            return
        if format is not None and format.lower() not in ("iceberg", "esker"):
            raise InvalidInput(
                f"cannot save {name} in the format {format!r}: tables of a lake are Iceberg tables; use the format "
                "iceberg"
            )
        given = [partitionBy] if isinstance(partitionBy, str) else list(partitionBy or self._partition_by)
        self._writes.save(
            self._frame,
            name,
            mode or self._mode,
            partition_by=given,
            properties={key: str(value) for key, value in {**self._options, **options}.items()},
        )


class LakeWriter:
    """The writer that ``df.writeTo`` returns for a table of the lake."""

    def __init__(self, frame: DataFrame, table: str, writes: LakeWrites) -> None:
        self._frame, self._table, self._writes = frame, table, writes
        self._partition_by: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def using(self, provider: str) -> Self:
        """Accept the format ``iceberg``. Raises ``InvalidInput`` for another format."""
        if provider.lower() not in ("iceberg", "esker"):
            raise InvalidInput(
                f"cannot create {self._table} using {provider}: tables of a lake are Iceberg tables; use iceberg"
            )
        return self

    def option(self, key: str, value: Any) -> Self:
        """Raise ``InvalidInput``: a write into the lake has no options, and an ignored option would be misleading."""
        raise InvalidInput(
            f"cannot use the option {key!r}: writes to a lake have no options; set a property of the table or of the "
            "session"
        )

    def options(self, **options: Any) -> Self:
        """Raise ``InvalidInput`` for the first option."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> Self:  # noqa: N802
        """Set a property of the table to create."""
        self._properties[property] = str(value)
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> Self:  # noqa: N802
        """Set the partition terms of the table to create."""
        self._partition_by = tuple(map(column_text, (col, *cols)))
        return self

    def create(self) -> None:
        """Create the table. Raises ``AlreadyExists`` if it exists."""
        self._create()

    def replace(self) -> None:
        """Replace the columns and rows of the table. Raises ``NoSuchTable`` if it does not exist."""
        self._create(replaces=True, must_be_there=True)

    def createOrReplace(self) -> None:  # noqa: N802
        """Create the table, or replace its columns and rows."""
        self._create(replaces=True)

    def append(self) -> None:
        """Add the rows. Columns are matched by name."""
        self._writes.append(self._frame, self._table)

    def overwrite(self, condition: Any) -> None:
        """Replace the rows that match a condition."""
        self._writes.overwrite(self._frame, self._table, column_text(condition))

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replace the partitions that the rows belong to."""
        self._writes.overwrite_partitions(self._frame, self._table)

    def _create(self, **how: bool) -> None:
        make: Callable[..., None] = self._writes.create
        make(self._frame, self._table, partition_by=self._partition_by, properties=self._properties, **how)
