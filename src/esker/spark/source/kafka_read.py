"""Plans reads from Kafka for Spark: the offsets of a stream as a checkpoint keeps them, and ranges for workers."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, Unsupported
from esker.kafka.client import Client
from esker.kafka.progress import Step, at_bound, first_positions, next_step
from esker.kafka.subscription import Bounds, OffsetRange, Partition, Positions, as_json, positions_of
from esker.spark.source.kafka_options import KafkaOptions, read_kafka_options
from esker.spark.workers.ship import shipped
from esker.write.properties import switch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The position up to which each partition is read.

    ``begins`` has the start of this batch for partitions where the previous offset does not have it, or has it wrong:
    in the first batch of a stream, for new partitions, and after lost messages. So a batch that Spark sends again is
    the same batch, even if the topic has changed meanwhile.
    """

    ends: Positions = field(default_factory=dict)
    begins: Positions = field(default_factory=dict)
    skipped: int = 0  # lost offsets since the stream began
    is_begun: bool = True

    def ranges_from(self, start: StreamOffset) -> list[OffsetRange]:
        """Return the ranges between an earlier offset and this one."""
        found = []
        for place, end in sorted(self.ends.items()):
            begin = self.begins.get(place, start.ends.get(place, end))
            if begin < end:
                found.append(OffsetRange(topic=place.topic, partition=place.number, start=begin, end=end))
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it."""
        return {
            "ends": as_json(self.ends),
            "begins": as_json(self.begins),
            "skipped": self.skipped,
            "begun": self.is_begun,
        }

    @classmethod
    def of(cls, given: Any) -> StreamOffset:
        """Return the offset that Spark stored. Raises ``InvalidInput`` if it is not one of Esker's."""
        match given:
            case {"ends": dict(ends), "begins": dict(begins), "skipped": int(skipped), "begun": bool(is_begun)}:
                what = "the checkpoint's offsets"
                return cls(
                    ends=positions_of(ends, what),
                    begins=positions_of(begins, what),
                    skipped=skipped,
                    is_begun=is_begun,
                )
            case _:
                raise InvalidInput(
                    f"cannot continue from the checkpoint: {given!r} is not an offset of a stream from Kafka; use a "
                    "new checkpoint"
                )


UNBEGUN = StreamOffset(is_begun=False)


_WORKER = "esker.spark.source.kafka_worker"
log = logging.getLogger("esker.kafka")


def schema_of(given: Mapping[str, str]) -> StructType:
    """Return the columns of a message. They are those of Spark's own Kafka source."""
    from pyspark.sql import types as spark

    columns = {
        "key": spark.BinaryType(),
        "value": spark.BinaryType(),
        "topic": spark.StringType(),
        "partition": spark.IntegerType(),
        "offset": spark.LongType(),
        "timestamp": spark.TimestampType(),
        "timestampType": spark.IntegerType(),
    }
    asked = {key.lower(): value for key, value in given.items()}
    if switch(asked, "includeheaders", default=False):
        pair = [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
        columns["headers"] = spark.ArrayType(spark.StructType(pair))
    return spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])


def plan(given: Mapping[str, str], schema: StructType, *, stream: bool) -> bytes:
    """Check the options, and return them pickled.

    No broker is asked yet. Raises ``InvalidInput`` for a wrong option or schema.
    """
    options = read_kafka_options(given, stream=stream)
    if schema.simpleString() != schema_of(given).simpleString():
        raise InvalidInput(
            "cannot read messages of Kafka with other columns: their columns are fixed; select after reading"
        )
    return pickle.dumps(options)


def read_task(data: bytes) -> Callable[[Any], Any]:
    """Return the function that workers run for each range."""
    return shipped(_WORKER, data)


def batch_ranges(data: bytes) -> list[bytes]:
    """Return the ranges of a batch, from the offsets that the topics have now."""
    options = _options(data)
    with Client(options.source) as client:
        bounds = client.bounds()
    if options.ending != "latest":
        missing = next((place for place in bounds if place not in options.ending), None)
        if missing is not None:
            raise InvalidInput(f"cannot end {missing}: it has no ending offset; name every partition in endingOffsets")
        bounds = {place: _cut(found, at_bound(options.ending[place], found), place) for place, found in bounds.items()}
    starts = first_positions(options.source.starting, bounds)
    return packed(_warned(next_step(starts, bounds, fail_on_loss=options.source.fail_on_loss)).ranges)


def packed(ranges: list[OffsetRange]) -> list[bytes]:
    """Return the ranges, packed for workers. Each is one task."""
    return [pickle.dumps(one) for one in ranges]


def read_limit(data: bytes) -> Any:
    """Return the limit for a batch that the options set, in Spark's form."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    most = _options(data).most
    return ReadAllAvailable() if most is None else ReadMaxRows(most)


class Feed:
    """Follows topics for one query."""

    def __init__(self, data: bytes) -> None:
        self._options = _options(data)
        self._client: Client | None = None
        # the last offsets to read, for a query that ends with what exists now
        self._last: dict[Partition, int] | None = None

    def initial(self) -> dict[str, Any]:
        """Return the offset before the start of a stream. The first batch decides where the stream starts."""
        return UNBEGUN.as_json()

    def latest(self, given: dict[str, Any] | None, most: int | None) -> dict[str, Any]:
        """Return the offset at which the next batch ends. Raises ``Unsupported`` before Spark 4.2."""
        if given is None:
            raise Unsupported(
                "cannot stream from Kafka: this release of Spark does not report where a batch begins; use Spark "
                "4.2 or newer, or esker ingest otlp kafka://…",
                feature="kafka",
            )
        return self._next(StreamOffset.of(given), most).as_json()

    def newest(self) -> dict[str, Any] | None:
        """Return the offset of the newest messages."""
        return StreamOffset(ends={place: found.high for place, found in self._bounds({}).items()}).as_json()

    def stop_at_now(self) -> None:
        """Read only messages that exist now."""
        self._last = {place: found.high for place, found in self._bounds({}).items()}

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        """Return the ranges of a batch, packed for workers."""
        return packed(StreamOffset.of(end).ranges_from(StreamOffset.of(start)))

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _next(self, start: StreamOffset, most: int | None) -> StreamOffset:
        source = self._options.source
        bounds = self._bounds(start.ends)
        if self._last is not None:
            bounds = {place: found for place, found in bounds.items() if place in self._last or place in start.ends}
            known = self._last
            bounds = {
                place: Bounds(found.low, max(found.low, min(found.high, known.get(place, found.high))))
                for place, found in bounds.items()
            }
        positions = start.ends if start.is_begun else first_positions(source.starting, bounds)
        step = _warned(next_step(positions, bounds, most=most, fail_on_loss=source.fail_on_loss))
        if start.is_begun and step.ends == start.ends and not step.losses:
            return start
        begins = {place: at for place, at in step.starts.items() if start.ends.get(place) != at}
        return StreamOffset(ends=step.ends, begins=begins, skipped=start.skipped + step.skipped)

    def _bounds(self, read: Positions) -> dict[Partition, Bounds]:
        if self._client is None:
            self._client = Client(self._options.source)
        return self._client.bounds(read)


def _warned(step: Step) -> Step:
    for loss in step.losses:
        log.warning("%s from offset %d: %s; continuing without them", loss.place, loss.offset, loss.reason)
    return step


def _cut(found: Bounds, end: int, place: Partition) -> Bounds:
    if end > found.high:
        raise InvalidInput(f"cannot end {place} at offset {end}: the broker has only {found.high} offsets so far")
    return Bounds(min(found.low, end), end)


def _options(data: bytes) -> KafkaOptions:
    found: KafkaOptions = pickle.loads(data)
    return found
