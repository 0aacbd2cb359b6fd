"""A program of its own: SQL over a lake on a Spark Connect session, and what it answered, as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

STATEMENTS = (
    "CREATE NAMESPACE sales",
    "CREATE TABLE sales.orders (id bigint NOT NULL, region string, ts timestamp) PARTITIONED BY (region)",
    "INSERT INTO sales.orders SELECT id, if(id % 2 = 0, 'eu', 'us'), timestamp '2026-01-01 00:00:00' FROM range(6)",
    "CREATE TABLE sales.copy AS SELECT * FROM sales.orders WHERE region = 'eu'",
    "INSERT OVERWRITE sales.orders PARTITION (region = 'us') SELECT 100, ts FROM sales.copy LIMIT 1",
    "DELETE FROM sales.orders WHERE id = 0",
    "CREATE TEMP VIEW mine AS SELECT id AS key FROM sales.orders",
)
QUERIES = (
    "SELECT o.id, c.id, m.key FROM sales.orders o LEFT JOIN sales.copy c USING (id) JOIN mine m ON m.key = o.id "
    "WHERE o.ts >= '2026-01-01' ORDER BY o.id",
    "SELECT count(*) FROM sales.orders.files f JOIN sales.orders.snapshots s ON true",
    "SHOW TABLES IN sales",
    "TABLE sales.copy ORDER BY id",
)


def main(folder: str) -> None:
    """Run the statements on a local Connect server, and print what the queries gave."""
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    import esker

    builder: Any = SparkSession.builder.remote("local[2]")
    spark = builder.config("spark.sql.session.timeZone", "Europe/Berlin").getOrCreate()
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse", spark=spark)
    for statement in STATEMENTS:
        lake.sql(statement)
    frames = [lake.sql(query) for query in QUERIES]  # Connect looks at them again when they are used
    found = [[list(map(str, row)) for row in frame.collect()] for frame in frames]
    print(json.dumps({"session": type(spark).__module__, "found": found}), flush=True)
    spark.stop()
    os._exit(0)  # PySpark's own farewell asks the server that has just been stopped, again and again


if __name__ == "__main__":
    main(sys.argv[1])
