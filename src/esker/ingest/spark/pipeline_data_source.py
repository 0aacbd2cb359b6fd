"""The classes of a pipeline's data source that Spark receives.

They travel by value, like those of ``esker.spark.source.data_source``. For the same reasons they are made inside a
function and name nothing of Esker outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAME = "esker_otlp"
ORDER = "secret_order"  # Spark redacts options of such names: it may hold a password


def knows_limits() -> bool:
    """Whether this release of Spark says where a batch begins and bounds it: 4.2 and later."""
    from pyspark.sql.datasource import DataSourceStreamReader

    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")


def make_pipeline_source(load: Callable[[str], Any], entry: str) -> type:
    """The class of the data source: its rows are tasks, and what these read is not known to Spark. ``Feed`` of the
    module ``entry`` plans the batches."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    class PipelineReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # as below
        """Says which batch is next."""

        def __init__(self, order: str) -> None:
            self.order = order
            self.live: Any = None

        def feed(self) -> Any:
            """What plans; made where it is needed, and never sent to workers."""
            if self.live is None:
                self.live = load(entry).Feed(self.order)
            return self.live

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name, as are those that follow
            return self.feed().initial()

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
            return self.feed().latest(start)

        def getDefaultReadLimit(self) -> Any:  # noqa: N802
            from pyspark.sql.streaming.datasource import ReadAllAvailable

            return ReadAllAvailable()  # the limits are in the order: a plan heeds both

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return self.feed().newest()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self.feed().stop_at_now()

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
            from pyspark.sql.datasource import InputPartition

            return [InputPartition(task) for task in self.feed().tasks()]

        def read(self, partition: Any) -> Iterator[Any]:
            yield partition.value

        def stop(self) -> None:
            if self.live is not None:
                self.live.close()
                self.live = None

    class PipelineSource(DataSource):  # type: ignore[misc]  # PySpark is not followed
        """Batches of an ingest."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self.order = options["secret_order"]

        @classmethod
        def name(cls) -> str:
            return "esker_otlp"

        def schema(self) -> str:
            return "task int, tasks int"

        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            return PipelineReader(self.order)

    return PipelineSource
