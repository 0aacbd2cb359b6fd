"""A stream from Kafka into the telemetry tables that may die. Run as a program: folder, broker, and at which commit.

Dies by SIGKILL right after the commit of that number, of all that it makes; 0 never. Prints its account as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")


def main(folder: Path, address: str, at: int) -> None:
    """Stream until nothing is left, or death."""
    import esker
    from esker.ingest import deliver as delivering
    from esker.otlp import telemetry_sink
    from esker.spark.session.spark_session import start_session

    real, made = delivering.commit, [0]

    def dying(*given: Any) -> Any:
        done = real(*given)
        made[0] += 1
        if made[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    delivering.commit = dying
    spark = start_session()
    lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db", spark=spark)
    esker.spark.register(spark, lake)
    topic = spark.readStream.format("esker_kafka").option("bootstrap.servers", address).option("subscribe", "t")
    frame = topic.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "10").load()
    sink = telemetry_sink(lake)
    stream = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination(200)
    print(json.dumps(sink.checked().facts()))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
