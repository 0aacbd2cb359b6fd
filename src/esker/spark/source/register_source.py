"""``esker.spark.register``: afterwards a session knows the formats ``esker`` and ``esker_kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.lake import open_lake
from esker.spark.source.data_source import importer, make_source
from esker.spark.source.kafka_data_source import make_kafka_source
from esker.spark.workers.ship import use_this_python
from esker.version import VERSION, installed_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from esker.lake import Lake

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, lake: Lake | None = None, **how: Any) -> None:
    """Let ``spark.read.format("esker")`` and its three siblings find the tables of a lake.

    The lake is the one given, or what ``esker.connect(**how)`` opens; without either, what ``connect()`` opens. A
    session keeps one: registering again takes its place, and the option ``catalog`` of a read or write goes before it.
    Filters on such frames are pushed down from now on: the session's setting for that is switched on.
    ``esker_kafka`` reads topics of Kafka, and needs no lake.
    """
    if lake is not None and how:
        raise InvalidInput(f"cannot take a lake and {next(iter(how))} too: the lake is open already")
    opened = open_lake(**how) if lake is None else lake
    if opened.address is None:
        raise InvalidInput(
            "cannot register this lake: other processes plan and read for Spark, and it lives in this one; "
            "use a SQLite or directory catalog"
        )
    use_this_python(spark)
    load = importer(installed_in(), VERSION)
    spark.dataSource.register(make_source(load, _plain(opened.address)))
    spark.dataSource.register(make_kafka_source(load))
    _switch_on(spark)


def _plain(address: Mapping[str, Any]) -> dict[str, Any]:
    """An address of plain values, which a worker can read before it has loaded Esker."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in address.items()}


def _switch_on(spark: SparkSession) -> None:
    """A declarative pipeline lets nobody set anything: there it is for its specification to do, and without it filters
    are asked of rows alone."""
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(PUSH_DOWN, "true")
    except PySparkException as error:
        if not str(error.getCondition()).startswith("SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"):
            raise
