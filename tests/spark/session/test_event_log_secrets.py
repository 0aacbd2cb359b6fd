"""S20 on Spark: the secrets of a REST lake are in no event log, plan or output of a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from faulty_rest import faulty_rest
from s3_server import S3Server

from esker.catalogs.rest.operations import Operation

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]

TOKEN = "tok-of-the-event-log-5521"
PROGRAM = """
import sys
from pyspark.sql import SparkSession
import esker

uri, token, events = sys.argv[1:4]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.dir", "file://" + events)
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
lake = esker.connect(uri, token=token, spark=spark)
table = lake.create_table("a.t", "id bigint")
table.append(spark.range(100))
found = lake.sql("SELECT count(*) AS n FROM a.t WHERE id > 9")
found.explain(True)
print(found.collect(), lake, table, table.scan("id > 9").explain())
lake.sql("DELETE FROM a.t WHERE id < 50").show()
esker.spark.register(spark, lake)
source = spark.read.format("esker").load("a.t")
source.explain(True)
assert source.count() == 50
spark.stop()
"""


@pytest.mark.parametrize("how", ["vended", "signed"])
def test_s20_no_event_log_and_no_plan_has_a_secret(checking_s3: S3Server, tmp_path: Path, how: str) -> None:
    bucket = checking_s3.make_bucket(f"events-{uuid4().hex[:12]}")
    id_, secret = checking_s3.make_key(f"{bucket}/wh")
    place = {"s3.endpoint": checking_s3.endpoint, "client.region": "us-east-1"}
    keys = {"s3.access-key-id": id_, "s3.secret-access-key": secret}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    events = tmp_path / "events"
    events.mkdir()
    with faulty_rest(f"{bucket}/wh") as server:
        server.config["endpoints"] = [one.value for one in Operation]
        server.namespaces["a"] = {}
        server.token = TOKEN
        if how == "vended":
            server.extra = {"storage-credentials": [{"prefix": bucket, "config": {**place, **keys}}]}
        else:
            server.signs_with = id_, secret
            server.extra = {"config": {**place, "s3.remote-signing-enabled": "true"}}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, server.uri, TOKEN, str(events)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    logs = [file.read_text(errors="replace") for file in events.rglob("*") if file.is_file()]
    assert any("SparkListenerSQLExecutionStart" in text for text in logs)
    for text in (*logs, done.stdout, done.stderr):
        for hidden in (TOKEN, secret, "Signature="):
            assert hidden not in text
