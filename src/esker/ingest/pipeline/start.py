"""``esker.otlp.pipeline``: loads telemetry into tables as a Structured Streaming query."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec

from esker.errors import InvalidInput, Unsupported
from esker.ingest.account import Account
from esker.ingest.defaults import default_checkpoint, default_spool
from esker.ingest.files.planner import MOST_FILES
from esker.ingest.follow import Pace, Patience
from esker.ingest.otlp.ingest_otlp import KIND, Asked, begun
from esker.ingest.otlp.kafka_topics import KIND as KAFKA
from esker.ingest.otlp.kafka_topics import place_of
from esker.ingest.pipeline.batches import Batches, Hand
from esker.ingest.pipeline.rollups import Rollup, chosen_rollups
from esker.ingest.pipeline.transform_hook import Hook, Transform
from esker.ingest.pipeline.update_rollups import Rollups
from esker.ingest.pipeline.watched_inputs import Watch
from esker.ingest.run_batches import SPARK_BATCH_BYTES
from esker.ingest.spark.pipeline_data_source import NAME, ORDER, knows_limits, make_pipeline_source
from esker.ingest.spark.telemetry_job import SparkOtlpJob
from esker.ingest.spark.topics_job import SparkTopicsJob
from esker.kafka.address import is_address, source_of
from esker.kafka.client import check_installed
from esker.kafka.subscription import Source
from esker.lake import Lake
from esker.spark.session.spark_session import is_connect
from esker.spark.source.data_source import importer
from esker.spark.workers.ship import use_this_python
from esker.version import VERSION, installed_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from esker.ingest.checkpoint import Checkpoint
    from esker.ingest.job import Job
    from esker.ingest.otlp.telemetry_tables import TelemetryTables
    from esker.ingest.spark.pipeline_query import PipelineListener, PipelineQuery
    from esker.otlp.decoding.decode import Options

_SOURCE = "esker.ingest.pipeline.stream_source"
_EVERY = "10 seconds"
_PACE = Pace()
_knowing: WeakSet[SparkSession] = WeakSet()  # sessions in which the source is registered
_LOOK_S = 10.0  # for a look at a broker: a missing broker must not delay the end of a query
_LIMITS = ("max_files_per_trigger", "max_bytes_per_trigger", "max_rows_per_trigger", "max_offsets_per_trigger")
_SPARKS_NAMES = {
    "availableNow": "available_now",
    "processingTime": "processing_time",
    "maxFilesPerTrigger": "max_files_per_trigger",
    "maxBytesPerTrigger": "max_bytes_per_trigger",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of a pipeline."""

    checkpoint: str | Path | None = None
    spark_checkpoint: str | None = None
    name: str | None = None
    available_now: bool = False
    processing_time: str | None = None
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_rows_per_trigger: int | None = None
    max_offsets_per_trigger: int | None = None
    listener: PipelineListener | None = None
    pattern: str = "*"
    settle_s: float = _PACE.settle_s
    profile: str | None = None
    promote: Mapping[str, str] = field(default_factory=dict)
    partition_by: str = "day"
    dedup: str | None = None
    strict: bool = False
    most_dead: float | None = None
    keep_segments: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    transform: Hook | None = None
    rollups: bool | Rollup | Sequence[Rollup] = False
    retry: bool = True
    told: Callable[[Account], None] = lambda account: None
    told_trouble: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The source of telemetry: directories, or topics."""

    paths: tuple[Path, ...] = ()
    topics: Source | None = None

    @property
    def kind(self) -> str:
        """The kind of its checkpoint."""
        return KIND if self.topics is None else KAFKA

    @property
    def place(self) -> str:
        """The default folder of its checkpoint."""
        return KIND if self.topics is None else place_of(self.topics)


def pipeline(
    spark: SparkSession, source: str | Path | Source | Sequence[str | Path] | None, lake: Lake, **wishes: Any
) -> PipelineQuery:
    """Start a query that loads the telemetry of directories or topics into the tables of a lake, each record once.

    - ``source`` is one directory, several, or ``kafka://host:9092/topic``; None: the spool of ``esker receive``.
      Workers of ``spark`` decode and read topics from the broker; the driver commits.
    - ``available_now=True`` loads what exists, and ends. Otherwise a batch begins every ``processing_time`` (10
      seconds) if there is something new.
    - ``max_files_per_trigger`` and ``max_bytes_per_trigger`` limit a batch. ``max_rows_per_trigger`` limits it roughly,
      by the size of earlier records. For topics, bytes are estimated too, and ``max_offsets_per_trigger`` is exact.
    - ``checkpoint`` is that of ``esker ingest otlp``. Spark's own is in its folder ``spark``, or ``spark_checkpoint``.
    - ``name`` is the query's name, ``listener`` a ``PipelineListener``. With ``retry=False`` a failed commit ends the
      query.
    - ``pattern``, ``profile``, ``promote``, ``partition_by``, ``dedup``, ``strict``, ``most_dead``, ``keep_segments``
      and ``properties`` are the options of an ingest.
    - ``transform`` is a function of a table's name and a DataFrame of the rows that were decoded for it. It returns the
      rows to write: a DataFrame, None, or DataFrames by table name. Missing tables are created.
    - ``rollups`` are tables to update after each batch: True for ``otel.service_red``, or a list of ``Rollup``.

    Returns PySpark's ``StreamingQuery`` with ``account`` and ``end()``, and with Esker's numbers in ``lastProgress``.
    Raises ``Conflict`` if another process drives the checkpoint, ``InvalidInput`` for a wrong option, and
    ``Unsupported`` on Spark Connect, or for topics if confluent-kafka is missing.

        query = esker.otlp.pipeline(spark, "captures", lake, available_now=True)
        query.awaitTermination()
        assert query.account.holds
    """
    _check_session(spark)
    asked = _wishes(wishes)
    taken = _taken(source, lake, asked)
    checkpoint = Path(asked.checkpoint or default_checkpoint(lake, taken.place)).absolute()
    hand = Hand()
    tasks = 4 * spark.sparkContext.defaultParallelism
    transform = None if asked.transform is None else Transform(lake, asked.transform, lambda: hand.session)
    with ExitStack() as stack:

        def make_job(tables: TelemetryTables, options: Options) -> Job:
            job = SparkOtlpJob(
                tables,
                lake.catalog.storage(),
                lambda: hand.session,
                options=options,
                dedup=asked.dedup,
                release=not asked.keep_segments,
                tasks=hand.tasks,
                transform=transform,
            )
            return job if taken.topics is None else SparkTopicsJob(taken.topics, job, hand.tasks, most_shares=tasks)

        ingest = _ingest_of(asked, taken.paths, checkpoint)
        run, _ = stack.enter_context(begun(lake, ingest, asked.told, kind=taken.kind, make_job=make_job))
        rollups = Rollups(lake, chosen_rollups(asked.rollups))
        rollups(spark)  # left by an earlier run: if nothing new arrives, no batch would update them
        patience = Patience(first_wait_s=_PACE.first_wait_s, told=asked.told_trouble) if asked.retry else None
        batches = Batches(run, hand, patience, follow_up=rollups)
        stack.callback(batches.close)
        if asked.listener is not None:
            asked.listener.attach(spark, batches.tally)
        java_query = _started(spark, _watch(asked, taken, run.checkpoint, tasks), batches, asked, checkpoint)
        from esker.ingest.spark.pipeline_query import PipelineQuery

        return PipelineQuery(java_query, batches, stack.pop_all().close)


def _register(spark: SparkSession) -> None:
    """Register the source in a session, once: Spark warns if a source replaces another."""
    if spark in _knowing:
        return
    use_this_python(spark)
    spark.dataSource.register(make_pipeline_source(importer(installed_in(), VERSION), _SOURCE))
    _knowing.add(spark)


def _started(spark: SparkSession, watch: Watch, batches: Batches, asked: Wishes, checkpoint: Path) -> Any:
    _register(spark)
    frame = spark.readStream.format(NAME).option(ORDER, msgspec.json.encode(watch).decode()).load()
    writer = frame.writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", asked.spark_checkpoint or (checkpoint / "spark").as_uri())
    if asked.name is not None:
        writer = writer.queryName(asked.name)
    if asked.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=asked.processing_time or _EVERY)
    return writer.start()._jsq


def _watch(asked: Wishes, taken: _Taken, checkpoint: Checkpoint, tasks: int) -> Watch:
    unfinished = checkpoint.unfinished()
    return Watch(
        checkpoint=str(checkpoint.directory),
        kind=taken.kind,
        term=checkpoint.term,
        since=unfinished[0].number if unfinished else checkpoint.next_number,
        paths=tuple(str(path.absolute()) for path in taken.paths),
        topics=_for_looks(taken.topics, asked),
        pattern=asked.pattern,
        most_files=asked.max_files_per_trigger or MOST_FILES,
        most_bytes=asked.max_bytes_per_trigger or SPARK_BATCH_BYTES,
        most_rows=asked.max_rows_per_trigger,
        most_offsets=asked.max_offsets_per_trigger,
        tasks=tasks,
        settle_s=asked.settle_s,
        half_line_s=_PACE.half_line_s,
        keep_segments=asked.keep_segments,
    )


def _for_looks(topics: Source | None, asked: Wishes) -> bytes | None:
    if topics is None:
        return None
    longest = topics.timeout_s if asked.available_now else min(_LOOK_S, topics.timeout_s)
    return pickle.dumps(replace(topics, timeout_s=longest))


def _ingest_of(asked: Wishes, paths: tuple[Path, ...], checkpoint: Path) -> Asked:
    return Asked(
        paths=paths,
        checkpoint=checkpoint,
        profile=asked.profile,
        promote=asked.promote,
        partition_by=asked.partition_by,
        dedup=asked.dedup,
        strict=asked.strict,
        most_dead=asked.most_dead,
        engine="spark",
        keep_segments=asked.keep_segments,
        properties=asked.properties,
    )


def _check_session(spark: SparkSession) -> None:
    if is_connect(spark):
        raise Unsupported(
            "cannot run a pipeline on Spark Connect: batches are committed where the query is driven; use a classic "
            "session, or esker_kafka with esker.otlp.telemetry_sink",
            feature="connect",
        )
    if not knows_limits():
        raise Unsupported(
            "cannot run a pipeline: this release of Spark does not say where a batch begins; use Spark 4.2 or newer, "
            "or esker ingest otlp --follow",
            feature="streaming",
        )


def _wishes(given: Mapping[str, Any]) -> Wishes:
    known = [field.name for field in fields(Wishes)]
    named = {_SPARKS_NAMES.get(name, name): value for name, value in given.items()}
    for name in named:
        if name not in known:
            raise InvalidInput(f"cannot start a pipeline with {name!r}: it takes {', '.join(known)}", option=name)
    found = Wishes(**named)
    if found.available_now and found.processing_time is not None:
        raise InvalidInput("cannot start a pipeline with available_now and processing_time: choose one trigger")
    for limit in _LIMITS:
        value = getattr(found, limit)
        if value is not None and value < 1:
            raise InvalidInput(f"cannot start a pipeline with {limit}={value}: it must be at least 1", option=limit)
    return found


def _taken(source: str | Path | Source | Sequence[str | Path] | None, lake: Lake, asked: Wishes) -> _Taken:
    if isinstance(source, Source):
        return _of_topics(source, asked)
    sources = [source] if isinstance(source, str | Path) else list(source or ())
    addresses = [str(one) for one in sources if is_address(str(one))]
    if addresses:
        if len(sources) > 1:
            raise InvalidInput(
                "cannot run one pipeline over several sources of which one is Kafka: give one address, with topics "
                "between commas, or directories"
            )
        return _of_topics(source_of(addresses[0]), asked)
    if asked.max_offsets_per_trigger is not None:
        raise InvalidInput("cannot bound a batch of files by max_offsets_per_trigger: that is for topics of Kafka")
    return _Taken(paths=_paths(sources, lake, directories_only=not asked.available_now))


def _of_topics(source: Source, asked: Wishes) -> _Taken:
    if asked.max_files_per_trigger is not None:
        raise InvalidInput(
            "cannot bound a batch of Kafka's messages by max_files_per_trigger: use max_offsets_per_trigger"
        )
    check_installed()
    return _Taken(topics=source)


def _paths(sources: Sequence[str | Path], lake: Lake, *, directories_only: bool) -> tuple[Path, ...]:
    if not sources:
        spool = default_spool(lake)
        if spool is None:
            raise InvalidInput("cannot find the spool of this lake: give the directory")
        spool.mkdir(parents=True, exist_ok=True)  # the receiver may be started later
        return (spool,)
    paths = tuple(map(Path, sources))
    for path in paths:
        if not path.is_dir() and (directories_only or not path.exists()):
            raise InvalidInput(f"cannot follow {path}: there is no such directory", path=str(path))
    return paths
