"""A transform of a pipeline: rows dropped, changed, added and routed before they are committed, each batch once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import bad_span, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.errors import EskerError, InvalidInput, StorageFailed
from esker.ingest import deliver
from esker.ingest.job import DataFiles
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.ingest.pipeline.transform_hook import Transform
from esker.ingest.receipts import Receipts
from esker.lake import Lake
from esker.otlp import pipeline
from esker.otlp.decoding.decode import decode
from esker.otlp.source.read_requests import whole_request

pytestmark = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
WAIT_S = 120


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")


@pytest.fixture
def drained(spark: Any, tmp_path: Path, lake: Lake) -> Callable[..., Any]:
    """Runs a pipeline over the folder ``in`` until it ends by itself."""

    def drain(**wishes: Any) -> Any:
        query = pipeline(spark, tmp_path / "in", lake, **({"available_now": True} | wishes))
        assert query.awaitTermination(WAIT_S)
        return query

    return drain


def data_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet")}


def named_files(lake: Lake) -> set[str]:
    """The data files that a table of the lake names."""
    tables = [lake.table(name) for namespace in lake.namespaces() for name in lake.tables(namespace)]
    return {Path(task.data_file.path).name for table in tables for task in table.scan().plan().tasks}


def test_rows_are_dropped_redacted_added_and_routed_and_the_sum_comes_out(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any]
) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(5)), bad_span(9))
    write(tmp_path / "in", "b.jsonl", spans(range(5, 8), service="bank"), logs(range(3)))
    seen: list[str] = []

    def transform(name: str, frame: Any) -> Any:
        seen.append(name)
        if name == "otel.logs":
            return frame.withColumn("Body", F.lit("***")).union(frame.limit(1))
        bank = F.col("ServiceName") == "bank"
        return {
            "otel.spans": frame.where(~bank & (F.col("SpanName") != "span 3")),
            "audit.spans": frame.where(bank).select("SpanName", "Timestamp", F.lit("kept").alias("Why")),
            "audit.nothing": None,
        }

    query = drained(transform=transform, max_files_per_trigger=1)
    assert sorted(seen) == ["otel.logs", "otel.spans", "otel.spans"]  # dead letters are not transformed
    assert span_names(lake) == Counter(f"span {number}" for number in (0, 1, 2, 4))
    assert (log_bodies(lake)["***"], log_bodies(lake).total(), letters(lake).total()) == (3, 4, 1)
    routed = lake.table("audit.spans").scan().to_arrow().to_pydict()
    assert sorted(routed["SpanName"]) == ["span 5", "span 6", "span 7"]
    assert set(routed["Why"]) == {"kept"}
    assert lake.tables("audit") == ["audit.spans"]
    account = query.account
    assert account.holds
    assert (account.received, account.dropped_by_transform, account.added_by_transform) == (
        12,
        {"otel.spans": 1},
        {"otel.logs": 1},
    )
    assert account.tables == {"otel.spans": 4, "otel.logs": 4, "audit.spans": 3}
    rows = [one.observedMetrics["esker"] for one in query.recentProgress if one.numInputRows]
    assert [(row.received, row.committed, row.dead, row.dropped, row.added) for row in rows] == [
        (6, 4, 1, 1, 0),
        (6, 7, 0, 0, 1),
    ]
    assert data_files(tmp_path / "lake") == named_files(lake)  # what was decoded and replaced is deleted


def test_a_transform_that_returns_its_frame_costs_no_job_and_none_means_nothing(
    spark: Any, tmp_path: Path, lake: Lake, drained: Callable[..., Any]
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]), logs([1, 2]))
    query = drained(transform=lambda name, frame: None if name == "otel.logs" else frame)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId)
    store = spark.sparkContext._jsc.sc().statusStore()
    assert [store.job(job).description().get() for job in jobs] == ["esker: decode batch 0"]
    assert (span_names(lake), log_bodies(lake)) == (Counter(["span 1"]), Counter())
    assert (query.account.dropped_by_transform, query.account.holds) == ({"otel.logs": 2}, True)


def test_what_is_committed_is_what_the_receipt_names_however_often_a_batch_is_tried(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform by chance: a try before the receipt is void, one behind it is delivered and not made again."""
    write(tmp_path / "in", "a.jsonl", spans(range(100)))
    failing, calls = {"write": 1, "commit": 1}, [0]

    def sometimes(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def tried(*given: Any) -> Any:
            failing[name] -= 1
            if failing[name] >= 0:
                raise StorageFailed("the disk is full", retryable=True)
            return real(*given)

        monkeypatch.setattr(owner, name, tried)

    sometimes(Receipts, "write")
    sometimes(deliver, "commit")

    def sampled(name: str, frame: Any) -> Any:
        calls[0] += 1
        return frame.where(F.rand() < 0.5)

    account = drained(transform=sampled).account
    assert (calls[0], failing) == (2, {"write": -1, "commit": -1})
    left = span_names(lake)
    assert 0 < left.total() == len(left) < 100
    assert (account.dropped_by_transform, account.holds) == ({"otel.spans": 100 - left.total()}, True)


def test_an_error_of_the_transform_ends_the_query_and_nothing_is_committed(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any]
) -> None:
    write(tmp_path / "in", "a.jsonl", logs([1]), spans([1]))

    def wrong(name: str, frame: Any) -> Any:
        return frame.where("no_such_column = 1") if name == "otel.spans" else frame

    started: list[Any] = []
    with pytest.raises(StreamingQueryException, match=r"cannot transform otel\.spans: the transform raised Analysis"):
        drained(transform=wrong, told=started.append)
    assert not started
    assert (span_names(lake), log_bodies(lake), data_files(tmp_path / "lake")) == (Counter(), Counter(), set())
    assert drained().account.received == 2
    assert (span_names(lake), log_bodies(lake)) == (Counter(["span 1"]), Counter(["log 1"]))


def test_a_query_that_is_stopped_in_a_transform_has_not_failed(
    spark: Any, tmp_path: Path, lake: Lake, drained: Callable[..., Any]
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))

    def slow(batches: Any) -> Any:
        import time

        time.sleep(600)
        yield from batches

    called: list[Any] = []

    def transform(name: str, frame: Any) -> Any:
        called.append(name)
        return frame.mapInArrow(slow, frame.schema)

    query = pipeline(spark, tmp_path / "in", lake, settle_s=0.0, processing_time="50 milliseconds", transform=transform)
    try:
        while not (called and spark.sparkContext.statusTracker().getActiveJobsIds()):
            assert query.isActive
    finally:
        query.stop()
    assert (query.isActive, query.exception()) == (False, None)
    assert drained().account.received == 1
    assert span_names(lake) == Counter(["span 1"])


@pytest.fixture
def decoded(lake: Lake) -> dict[str, DataFiles]:
    """The files of a batch: a span and a log."""
    tables = TelemetryTables(lake)
    requests = [whole_request(spans([1]), source=None, offset=None), whole_request(logs([1]), source=None, offset=None)]
    writing: dict[str, DataFiles] = {}
    for part in decode(iter(requests), batch_id="one/0", ingested_at_us=0):
        for name, rows in part.tables.items():
            writing[name] = DataFiles(tables.get(name))
            writing[name].add(rows)
    return writing


def failing() -> Any:
    """A function of a worker's that travels by value: workers cannot import this module."""

    def fails(batches: Any) -> Any:
        raise RuntimeError("no such customer")
        yield from batches

    return fails


WRONG = [
    (lambda name, frame: 7, "the transform returned int; it returns a DataFrame, None, or DataFrames by the names"),
    (lambda name, frame: {"otel.dead_letter": frame}, "cannot route rows of otel.logs to otel.dead_letter"),
    (lambda name, frame: frame.drop("Timestamp"), "cannot write what the transform made of otel.logs: .*Timestamp"),
    (lambda name, frame: frame.withColumn("Body", F.lit(1)), "the transform made of otel.logs: .*Body"),
    (lambda name, frame: {"otel.spans": frame}, "the transform made of otel.logs to otel.spans: .*TimestampTime"),
    (lambda name, frame: frame.withColumn("Timestamp", F.lit(None).cast("timestamp")), "otel.logs: .*Timestamp"),
    (
        lambda name, frame: {"audit.a": frame, "otel.logs": frame.mapInArrow(failing(), frame.schema)},
        "the transform made of otel.logs: RuntimeError: no such customer; nothing of the batch is committed",
    ),
]


def test_what_a_transform_returns_must_fit(
    spark: Any, tmp_path: Path, lake: Lake, decoded: dict[str, DataFiles]
) -> None:
    decoded = {name: decoded[name] for name in ("logs", "spans")}
    before = data_files(tmp_path / "lake")
    for hook, said in WRONG:
        with pytest.raises(EskerError, match=said) as raised:
            Transform(lake, hook, lambda: spark).apply(decoded, "one/0")
        assert raised.value.table == "otel.logs"
        assert data_files(tmp_path / "lake") == before
    with pytest.raises(InvalidInput, match="cannot transform with 7"):
        Transform(lake, 7, lambda: spark)  # type: ignore[arg-type]


def test_rows_routed_to_a_table_of_telemetry_join_its_own(
    spark: Any, lake: Lake, decoded: dict[str, DataFiles]
) -> None:
    kept: list[Any] = []

    def hook(name: str, frame: Any) -> Any:
        if name == "otel.spans":
            kept.append(frame)
            return frame
        return {"otel.spans": kept[0].union(kept[0]), name: frame.limit(0)}

    spans_first = {name: decoded[name] for name in ("spans", "logs")}
    changed = Transform(lake, hook, lambda: spark).apply(spans_first, "one/0")
    assert (changed.dropped, changed.added, changed.others) == ({}, {"otel.logs": 1}, {})
    assert (decoded["spans"].rows, decoded["logs"].rows) == (3, 0)
