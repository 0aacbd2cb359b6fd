"""The classes of the data source ``esker`` that Spark receives.

They are sent by value to the process that plans, which has Esker, and to executors, which may not have it. So they are
made inside a function and refer to nothing of Esker outside it. Modules of Esker plan and commit. Functions made by
``ship`` read and write rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Address = Mapping[str, Any]


def importer(home: str, version: str) -> Callable[[str], Any]:
    """Return a function that imports an Esker module where Spark plans, from the Esker that registered the source."""

    def load(name: str) -> Any:
        import importlib
        import sys
        from pathlib import Path

        def is_ours() -> bool:
            try:
                found = importlib.import_module("esker.version")
            except ImportError:
                return False
            same = Path(str(found.__file__)).parent.parent == Path(home)
            return same if Path(home, "esker").is_dir() else version == found.VERSION

        if not is_ours():
            for known in [known for known in sys.modules if known.partition(".")[0] == "esker"]:
                del sys.modules[known]
            sys.path.insert(0, home)
            importlib.invalidate_caches()
            if not is_ours():
                raise ImportError(
                    f"cannot use the data source esker: Esker {version} is not installed where Spark plans queries; "
                    "install it there"
                )
        return importlib.import_module(name)

    return load


def make_source(load: Callable[[str], Any], address: Address | None) -> type:
    """Return the class of the data source ``esker``, over a registered lake."""
    from pyspark.sql.datasource import DataSource

    reader, pushing_reader = make_readers(load)
    writer, stream_writer = make_writers(load)
    stream_reader = make_stream_reader(load)

    class EskerSource(DataSource):  # type: ignore[misc]  # PySpark is not followed
        """Tables of a lake, by name, or any table by its path."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self.options = dict(options)
            self.plan: bytes | None = None

        @classmethod
        def name(cls) -> str:
            return "esker"

        def schema(self) -> Any:
            return load("esker.spark.source.batch_read").schema_of(self._pinned())

        def _pinned(self) -> bytes:
            if self.plan is None:
                self.plan = load("esker.spark.source.batch_read").pin(self.options, address)
            return self.plan

        def reader(self, schema: Any) -> Any:
            import sys

            load("esker.spark.source.source_options").check_options(self.options, "READ")
            # Spark refuses a reader with pushFilters if its setting is off. If it is on, Spark has loaded this module.
            asks = "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
            plan = self._pinned()
            task = load("esker.spark.source.batch_read").read_task(plan, schema)
            return (pushing_reader if asks else reader)(plan, schema, task)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802  # Spark's name
            module = load("esker.spark.source.stream_read")
            plan = module.plan_stream(self.options, address, self._pinned())
            return stream_reader(plan, schema, load("esker.spark.source.batch_read").read_task(self._pinned(), schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            plan, task = load("esker.spark.source.batch_write").plan_write(self.options, address, schema, overwrite)
            return writer(plan, task)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  # Spark's name
            plan, task = load("esker.spark.source.stream_write").plan_write(self.options, address, schema, overwrite)
            return stream_writer(plan, task)

    return EskerSource


def make_readers(load: Callable[[str], Any]) -> tuple[type, type]:
    """Return the readers without and with filters that are pushed down."""
    from pyspark.sql.datasource import DataSourceReader

    class EskerReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not followed
        """Reads a pinned snapshot."""

        def __init__(self, plan: bytes, schema: Any, task: Callable[[Any], Any]) -> None:
            self.plan = plan
            self.asked = schema
            self.task = task
            self.filters: list[Any] = []

        def partitions(self) -> list[Any]:
            from pyspark.sql.datasource import InputPartition

            found = load("esker.spark.source.batch_read").parts(self.plan, self.asked, self.filters)
            return [InputPartition(part) for part in found]

        def read(self, partition: Any) -> Iterator[Any]:
            return iter(self.task(partition.value))

    class PushingReader(EskerReader):
        """Reads a pinned snapshot, without the files that the filters exclude."""

        def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802  # Spark's name
            self.filters = list(filters)
            return self.filters  # Spark evaluates them again: here they exclude only whole files

    return EskerReader, PushingReader


def make_writers(load: Callable[[str], Any]) -> tuple[type, type]:
    """Return the writers of a batch and of a stream."""
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

    def message(report: Any) -> Any:
        from pyspark.sql.datasource import WriterCommitMessage

        made = WriterCommitMessage()
        made.report = report
        return made

    def reports(messages: list[Any]) -> list[Any]:
        return [None if one is None else one.report for one in messages]

    class EskerWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark is not followed
        """Workers write files. When all are written, one commit names them."""

        def __init__(self, plan: bytes, task: Callable[[Any], Any]) -> None:
            self.plan = plan
            self.task = task

        def write(self, iterator: Iterator[Any]) -> Any:
            return message(self.task(iterator))

        def commit(self, messages: list[Any]) -> None:
            load("esker.spark.source.batch_write").commit(self.plan, reports(messages))

        def abort(self, messages: list[Any]) -> None:
            load("esker.spark.source.batch_write").abort(self.plan, reports(messages))

    class EskerStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # PySpark is not followed
        """Writes each batch of a stream exactly once."""

        def __init__(self, plan: bytes, task: Callable[[Any], Any]) -> None:
            self.plan = plan
            self.task = task

        def write(self, iterator: Iterator[Any]) -> Any:
            return message(self.task(iterator))

        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
            load("esker.spark.source.stream_write").commit(self.plan, reports(messages), batchId)

        def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
            load("esker.spark.source.batch_write").abort(self.plan, reports(messages))

    return EskerWriter, EskerStreamWriter


def make_stream_reader(load: Callable[[str], Any]) -> type:
    """Return the reader of a stream. Releases of Spark before 4.2 have no limits for a batch."""
    from pyspark.sql.datasource import DataSourceStreamReader

    bases: tuple[Any, ...] = (DataSourceStreamReader,)
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        pass
    else:
        bases = (DataSourceStreamReader, SupportsTriggerAvailableNow)

    def begin(self: Any, plan: bytes, schema: Any, task: Callable[[Any], Any]) -> None:
        self.plan = plan
        self.asked = schema
        self.task = task
        self.live = None

    def feed(self: Any) -> Any:
        """Return the feed of the table. It is made when first needed, and never sent to workers."""
        if self.live is None:
            self.live = load("esker.spark.source.stream_read").open_feed(self.plan)
        return self.live

    def initial_offset(self: Any) -> dict[str, Any]:
        return feed(self).initial()

    def latest_offset(self: Any, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        return feed(self).latest(start, is_limited=hasattr(limit, "max_files") or hasattr(limit, "max_rows"))

    def default_limit(self: Any) -> Any:
        return load("esker.spark.source.stream_read").read_limit(self.plan)

    def report_latest(self: Any) -> dict[str, Any] | None:
        return feed(self).newest()

    def partitions(self: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        from pyspark.sql.datasource import InputPartition

        return [InputPartition(part) for part in feed(self).parts(start, end, self.asked)]

    def read(self: Any, partition: Any) -> Iterator[Any]:
        return iter(self.task(partition.value))

    def prepare(self: Any) -> None:
        feed(self).stop_at_now()

    members = {
        "__init__": begin,
        "initialOffset": initial_offset,
        "latestOffset": latest_offset,
        "getDefaultReadLimit": default_limit,
        "reportLatestOffset": report_latest,
        "partitions": partitions,
        "read": read,
        "prepareForTriggerAvailableNow": prepare,
    }
    return type("EskerStreamReader", bases, members)
