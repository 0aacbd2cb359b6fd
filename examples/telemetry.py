# %% [markdown]
# # Telemetry as tables
#
# OpenTelemetry data becomes Iceberg tables: one query of Spark reads the files of a collector, writes spans, logs and
# metrics, and counts every record.

# %%
import json
import shutil
from pathlib import Path

import esker

shutil.rmtree("lake", ignore_errors=True)  # so that this example can be run again
shutil.rmtree("captures", ignore_errors=True)
Path("captures").mkdir()


def span(number: int, milliseconds: int, status: int) -> dict:
    """One span as OTLP writes it in JSON."""
    start = 1_794_700_800_000_000_000 + number * 1_000_000_000
    return {
        "name": "GET /pay",
        "kind": 2,
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + milliseconds * 1_000_000),
        "status": {"code": status},
    }


resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
spans = [span(number, 10 + number * 5, 2 if number % 4 == 0 else 1) for number in range(12)]
request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
lines = [json.dumps(request), "this line is no request"]
Path("captures/spans.jsonl").write_text("\n".join(lines) + "\n")
print(len(spans), "spans, and one line that is no request")

# %% [markdown]
# `pipeline` starts a Structured Streaming query. Spark's workers decode and write; the driver commits each batch once.
# With `processing_time="10 seconds"` instead of `available_now` it continues with new files.

# %%
lake = esker.connect("sqlite:///lake/catalog.db")
spark = lake.spark  # the running session, or a local one
query = esker.otlp.pipeline(spark, "captures", lake, available_now=True, rollups=True)
query.awaitTermination()
lake.sql("SELECT SpanName, StatusCode, Duration / 1e6 AS Ms FROM otel.spans ORDER BY Timestamp LIMIT 3").show()

# %% [markdown]
# The account compares what was received with what the tables have. A record that cannot be decoded is a dead letter.

# %%
print("holds:", query.account.holds)
lake.sql("SELECT error_class, CAST(raw AS string) AS raw FROM otel.dead_letter").show()

# %% [markdown]
# A rollup has the requests, errors and durations of each service by the minute.

# %%
p95 = esker.otlp.quantile("DurationBuckets", 0.95)
lake.sql(f"SELECT ServiceName, Requests, Errors, round({p95} / 1e6) AS P95Ms FROM otel.service_red").show()
