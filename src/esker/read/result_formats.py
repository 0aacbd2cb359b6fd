"""The forms in which a user gets the rows of a scan: Arrow, pandas, Polars, DuckDB, Spark, plain Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from esker.errors import Unsupported
from esker.read.resolve_snapshot import AsOf

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from esker.read.scan import Scan, Where


class ScanOptions(TypedDict, total=False):
    """The arguments of ``scan`` besides the condition."""

    columns: Sequence[str] | None
    snapshot_id: int | None
    as_of: AsOf | None
    ref: str | None
    limit: int | None


class RowVerbs(ABC):
    """Rows that can be returned in several forms. Nothing is read until one of the methods is called."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @abstractmethod
    def _batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches. Memory is bounded by a few row groups.

        for batch in orders.scan("amount > 100").to_batches():
            print(batch.num_rows)
        """
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow table.

        orders.scan("amount > 100").to_arrow()
        """
        import pyarrow as pa

        return pa.Table.from_batches(self._batches(), schema=self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas DataFrame. ``options`` are passed to pyarrow's ``to_pandas``.

        Raises ``Unsupported`` if pandas is not installed.
        """
        _need("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars DataFrame. Raises ``Unsupported`` if Polars is not installed."""
        polars = _need("polars")
        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation, for queries in SQL. Raises ``Unsupported`` if DuckDB is not installed.

        rows = orders.scan().to_duckdb()
        rows.aggregate("sum(amount)").fetchall()
        """
        duckdb = _need("duckdb")
        return (connection or duckdb.connect()).from_arrow(self.to_arrow())


class ScanShortcuts(ABC):
    """``table.to_arrow(…)`` for ``table.scan(…).to_arrow()``, and so on. Each has the arguments of ``scan``."""

    @abstractmethod
    def scan(self, where: Where = None, **options: Unpack[ScanOptions]) -> Scan:
        """The rows of the table."""

    def to_arrow(self, where: Where = None, **options: Unpack[ScanOptions]) -> pa.Table:
        """The rows as a pyarrow table: ``scan(…).to_arrow()``, with the arguments of ``scan``.

        orders.to_arrow("amount > 100", columns=["id", "amount"])
        """
        return self.scan(where, **options).to_arrow()

    def to_pandas(self, where: Where = None, **options: Unpack[ScanOptions]) -> pandas.DataFrame:
        """The rows as a pandas DataFrame: ``scan(…).to_pandas()``. Raises ``Unsupported`` if pandas is not
        installed."""
        return self.scan(where, **options).to_pandas()

    def to_polars(self, where: Where = None, **options: Unpack[ScanOptions]) -> polars.DataFrame:
        """The rows as a Polars DataFrame: ``scan(…).to_polars()``. Raises ``Unsupported`` if Polars is not
        installed."""
        return self.scan(where, **options).to_polars()

    def to_duckdb(
        self,
        where: Where = None,
        *,
        connection: duckdb.DuckDBPyConnection | None = None,
        **options: Unpack[ScanOptions],
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation: ``scan(…).to_duckdb(connection)``.

        Raises ``Unsupported`` if DuckDB is not installed.
        """
        return self.scan(where, **options).to_duckdb(connection)

    def to_spark(
        self, where: Where = None, *, session: SparkSession | None = None, **options: Unpack[ScanOptions]
    ) -> DataFrame:
        """The rows as a Spark DataFrame: ``scan(…).to_spark(session)``. Uses the lake's session if none is given."""
        return self.scan(where, **options).to_spark(session)


def _need(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(
            f"cannot return rows for {module}: it is not installed; run pip install 'esker[{module}]'", feature=module
        ) from error
