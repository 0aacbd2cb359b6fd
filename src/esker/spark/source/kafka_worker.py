"""Reads a range of Kafka's offsets as batches, inside a Spark task. Executors need confluent-kafka and pyarrow."""

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
    """Yield the rows of a range. An empty plan has one part, which is None."""
    if part is None:
        return
    options: KafkaOptions = pickle.loads(order)
    wanted: OffsetRange = pickle.loads(part)
    with Client(options.source) as client:
        reader = RangeReader(client, wanted)
        yield from batches_of(reader, headers=options.headers)
        if reader.skipped:
            log.warning("%d offsets of %s were gone and are skipped", reader.skipped, wanted.place)
