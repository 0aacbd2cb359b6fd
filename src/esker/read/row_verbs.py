"""The verbs that turn a stream of batches into what a user wants to hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from esker.errors import Unsupported

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa


class RowVerbs(ABC):
    """Rows that can be asked for in any form; nothing is read before."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @abstractmethod
    def _batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_batches(self) -> pa.RecordBatchReader:
        """A stream of record batches, in memory bounded by a few row groups."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self._batches(), schema=self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas frame; ``options`` go to pyarrow's ``to_pandas``."""
        _need("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars frame."""
        polars = _need("polars")
        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation, to be queried in SQL under a name of your choice."""
        duckdb = _need("duckdb")
        return (connection or duckdb.connect()).from_arrow(self.to_arrow())


def _need(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(
            f"cannot give rows to {module}: it is not installed; pip install 'esker[{module}]'", feature=module
        ) from error
