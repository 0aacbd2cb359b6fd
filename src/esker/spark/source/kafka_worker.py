"""What a task does when it reads Kafka: a range to batches. Runs in executors that have confluent-kafka and pyarrow."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pyarrow as pa

from esker.kafka.client import Client
from esker.kafka.read_range import RangeReader, batches_of
from esker.kafka.subscription import OffsetRange
from esker.spark.source.kafka_options import KafkaOptions

log = logging.getLogger("esker.kafka")


def run(order: bytes, part: bytes | None) -> Iterator[pa.RecordBatch]:
    """The rows of a range; a plan of nothing has one part of nothing."""
    if part is None:
        return
    options: KafkaOptions = pickle.loads(order)
    wanted: OffsetRange = pickle.loads(part)
    with Client(options.source) as client:
        reader = RangeReader(client, wanted)
        yield from batches_of(reader, headers=options.headers)
        if reader.skipped:
            log.warning("%d offsets of %s were gone and are passed over", reader.skipped, wanted.place)
