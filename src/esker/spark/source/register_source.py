"""``esker.spark.register``: adds the formats ``esker`` and ``esker_kafka`` to a session."""

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
    """Let ``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream`` use the format ``esker``.

    The formats find the tables of one lake. A session has one registered lake: registering another one replaces it. The
    option ``catalog`` of a read or write has precedence. The session's setting for filters that are pushed down is
    switched on. The format ``esker_kafka``, which reads topics of Kafka, is registered too. It needs no lake.

    Args:
        spark: the session, classic or Spark Connect
        lake: the lake to register
        **how: without ``lake``, the arguments of ``esker.connect``, which opens the lake to register

    Raises ``InvalidInput`` if both ``lake`` and other arguments are given, or if other processes cannot open the lake.

        esker.spark.register(spark, lake)
        spark.read.format("esker").load("sales.orders")
    """
    if lake is not None and how:
        raise InvalidInput(
            f"cannot register a lake with {next(iter(how))} too: the lake is open already; remove {next(iter(how))}"
        )
    opened = open_lake(**how) if lake is None else lake
    if opened.address is None:
        raise InvalidInput(
            "cannot register this lake: it exists only in this process, and Spark plans and reads in other "
            "processes; use a SQLite or directory catalog"
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
    """Switch on filters that are pushed down.

    A declarative pipeline allows no settings. There, its specification has to set it. Without it, filters exclude no
    files.
    """
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(PUSH_DOWN, "true")
    except PySparkException as error:
        if not str(error.getCondition()).startswith("SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"):
            raise
