"""A lake written by real executor processes, in which Esker cannot be imported. Run as a program: folder, master.

Prints one JSON document of what it saw. The driver finds Esker by ``ESKER_SOURCE``, which executors do not have.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, os.environ.pop("ESKER_SOURCE"))
warnings.simplefilter("ignore")


def main(folder: Path, master: str) -> None:
    """Write a partitioned table and say what came of it."""
    from pyspark.sql import SparkSession

    import esker

    for package in ("esker", "mmh3", "msgspec", "fastavro", "pyroaring", "sqlglot", "lz4", "click", "rich"):
        (folder / "void" / package).mkdir(parents=True)
        (folder / "void" / package / "__init__.py").write_text("raise ImportError('not in executors')")
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", str(folder / "void"))
        .config("spark.executor.memory", "600m")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.speculation", "true")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.minTaskRuntime", "1s")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("a")
    columns = "id bigint not null, name string, ts timestamp"
    table = lake.create_table("a.t", columns, partition_by=["bucket(3, name)"], sort_by=["ts desc"])
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id % 10) name", "timestamp_micros(id) ts")
    before = dict(spark.conf.getAll)
    table.append(rows)
    after = dict(spark.conf.getAll)
    refusal = ""
    try:
        table.append(rows.selectExpr("nullif(id, 500) id"))
    except esker.EskerError as error:
        refusal = f"{type(error).__name__}: {error}"
    files = table.inspect.files()
    print(
        json.dumps(
            {
                "rows": table.scan().count(),
                "partitions": sorted(part["name_bucket"] for part in files["partition"].to_pylist()),
                "sum": sum(table.scan().to_arrow()["id"].to_pylist()),
                "refusal": refusal,
                "restored": before == after,
                "faults": lake_under_faults(lake, spark) if "cluster" in master else None,
                "processes": rows.mapInArrow(places(), "place string").distinct().count(),
                "installed": rows.mapInArrow(imports(), "found string").distinct().collect()[0][0],
            }
        )
    )
    spark.stop()


def lake_under_faults(lake, spark):  # type: ignore[no-untyped-def]
    """Append rows while a task is killed, and while one is so slow that a twin overtakes it."""
    counts = []
    for fault in (killed, overtaken):
        table = lake.create_table(f"a.{fault.__name__}", "id bigint")
        table.append(spark.range(0, 40_000, 1, 4).mapInArrow(fault(), "id bigint"))
        ids = table.scan().to_arrow()["id"].to_pylist()
        counts.append([len(ids), len(set(ids))])
    return counts


def killed():  # type: ignore[no-untyped-def]
    """The first attempt at a task kills the workers around it in mid-file, and its own at last."""

    def run(batches):  # type: ignore[no-untyped-def]
        import os
        import signal
        import time
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        for batch in batches:
            yield batch
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                time.sleep(2)
                for folder in Path("/proc").iterdir():
                    if folder.name.isdigit():
                        try:
                            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                        except OSError:
                            continue
                        if parent == os.getppid() and int(folder.name) != os.getpid():
                            os.kill(int(folder.name), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

    return run


def overtaken():  # type: ignore[no-untyped-def]
    """The first attempt at the last task dawdles after its rows; its twin does not."""

    def run(batches):  # type: ignore[no-untyped-def]
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 3 and context.attemptNumber() == 0:
            time.sleep(12)

    return run


def places():  # type: ignore[no-untyped-def]
    """Names the process that runs a worker's daemon, once per task."""

    def run(batches):  # type: ignore[no-untyped-def]
        from pathlib import Path

        import pyarrow

        for _ in batches:
            pass
        yield pyarrow.record_batch([pyarrow.array([str(Path.cwd())])], names=["place"])

    return run


def imports():  # type: ignore[no-untyped-def]
    """Says what importing Esker from the worker's own path comes to."""

    def run(batches):  # type: ignore[no-untyped-def]
        import importlib.machinery
        import os

        import pyarrow

        for _ in batches:
            pass
        path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        spec = importlib.machinery.PathFinder.find_spec("esker", path)
        yield pyarrow.record_batch([pyarrow.array([str(spec and spec.origin)])], names=["found"])

    return run


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
