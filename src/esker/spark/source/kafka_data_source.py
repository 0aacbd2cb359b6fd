"""The classes of the data source ``esker_kafka`` that Spark receives.

They are sent by value, like those of ``data_source``. For the same reasons they are made inside a function and refer to
nothing of Esker outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAME = "esker_kafka"


def make_kafka_source(load: Callable[[str], Any]) -> type:
    """Return the class of the data source."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    stream_reader = make_kafka_stream_reader(load)

    class KafkaReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not followed
        """Reads the messages that the topics have when the frame is used."""

        def __init__(self, plan: bytes, task: Callable[[Any], Any]) -> None:
            self.plan = plan
            self.task = task

        def partitions(self) -> list[Any]:
            from pyspark.sql.datasource import InputPartition

            return [InputPartition(one) for one in load("esker.spark.source.kafka_read").batch_ranges(self.plan)]

        def read(self, partition: Any) -> Iterator[Any]:
            return iter(self.task(None if partition is None else partition.value))

    class KafkaSource(DataSource):  # type: ignore[misc]  # PySpark is not followed
        """Messages of topics."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self.options = dict(options)

        @classmethod
        def name(cls) -> str:
            return "esker_kafka"

        def schema(self) -> Any:
            return load("esker.spark.source.kafka_read").schema_of(self.options)

        def reader(self, schema: Any) -> Any:
            module = load("esker.spark.source.kafka_read")
            plan = module.plan(self.options, schema, stream=False)
            return KafkaReader(plan, module.read_task(plan))

        def streamReader(self, schema: Any) -> Any:  # noqa: N802  # Spark's name
            module = load("esker.spark.source.kafka_read")
            plan = module.plan(self.options, schema, stream=True)
            return stream_reader(plan, module.read_task(plan))

    return KafkaSource


def make_kafka_stream_reader(load: Callable[[str], Any]) -> type:
    """Return the reader of a stream. Releases of Spark before 4.2 have no limits for a batch."""
    from pyspark.sql.datasource import DataSourceStreamReader

    bases: tuple[Any, ...] = (DataSourceStreamReader,)
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        pass
    else:
        bases = (DataSourceStreamReader, SupportsTriggerAvailableNow)

    def begin(self: Any, plan: bytes, task: Callable[[Any], Any]) -> None:
        self.plan = plan
        self.task = task
        self.live = None

    def feed(self: Any) -> Any:
        """Return the feed of the topics. It is made when first needed, and never sent to workers."""
        if self.live is None:
            self.live = load("esker.spark.source.kafka_read").Feed(self.plan)
        return self.live

    def initial_offset(self: Any) -> dict[str, Any]:
        return feed(self).initial()

    def latest_offset(self: Any, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        return feed(self).latest(start, getattr(limit, "max_rows", None))

    def default_limit(self: Any) -> Any:
        return load("esker.spark.source.kafka_read").read_limit(self.plan)

    def report_latest(self: Any) -> dict[str, Any] | None:
        return feed(self).newest()

    def partitions(self: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        from pyspark.sql.datasource import InputPartition

        return [InputPartition(one) for one in feed(self).ranges(start, end)]

    def read(self: Any, partition: Any) -> Iterator[Any]:
        return iter(self.task(None if partition is None else partition.value))

    def prepare(self: Any) -> None:
        feed(self).stop_at_now()

    def stop(self: Any) -> None:
        feed(self).close()

    members = {
        "__init__": begin,
        "initialOffset": initial_offset,
        "latestOffset": latest_offset,
        "getDefaultReadLimit": default_limit,
        "reportLatestOffset": report_latest,
        "partitions": partitions,
        "read": read,
        "prepareForTriggerAvailableNow": prepare,
        "stop": stop,
    }
    return type("KafkaStreamReader", bases, members)
