"""Rollups: whatever happens to the source and to the process, a rollup is what the source comes to."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import spans, write

import esker
from esker.errors import InvalidInput, StorageFailed
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.ingest.pipeline import update_rollups as rolling
from esker.lake import Lake
from esker.otlp import SERVICE_RED, Rollup, pipeline, quantile, roll_up
from esker.table import Table

needs_pipeline = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
START = datetime(2026, 11, 1, 23, 58, tzinfo=UTC)
WAIT_S = 120


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)


@pytest.fixture
def source(lake: Lake) -> Table:
    """An empty table of spans."""
    return TelemetryTables(lake).get("spans")


def some_spans(chance: random.Random, count: int, *, minutes: int = 4) -> pa.Table:
    """Spans of a few minutes, services and kinds; none of the durations is where two buckets meet."""
    return pa.table(
        {
            "Timestamp": pa.array(
                [START + timedelta(seconds=chance.randrange(60 * minutes)) for _ in range(count)],
                pa.timestamp("us", "UTC"),
            ),
            "ServiceName": pa.array([chance.choice(["shop", "bank", None]) for _ in range(count)], pa.string()),
            "SpanKind": [chance.choice(["SPAN_KIND_SERVER", "SPAN_KIND_CLIENT"]) for _ in range(count)],
            "StatusCode": pa.array([chance.choice(["STATUS_CODE_ERROR", None]) for _ in range(count)], pa.string()),
            "Duration": pa.array(
                [chance.choice([None, 0, 2 * chance.randrange(10**6) + 3]) for _ in range(count)], pa.int64()
            ),
        }
    )


def expected(lake: Lake) -> dict[Any, Any]:
    """What the spans of a lake come to, computed by hand."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    columns = ["Timestamp", "ServiceName", "SpanKind", "StatusCode", "Duration"]
    for row in lake.table("otel.spans").scan(columns=columns).to_arrow().to_pylist():
        minute = row["Timestamp"].replace(second=0, microsecond=0)
        groups[minute, row["ServiceName"], row["SpanKind"]].append(row)
    return {key: measured(rows) for key, rows in groups.items()}


def measured(rows: list[Any]) -> tuple[Any, ...]:
    took = [row["Duration"] for row in rows if row["Duration"] is not None]
    buckets: dict[int, int] = defaultdict(int)
    for one in took:
        buckets[math.ceil(math.log2(one) * 8) - 1 if one > 0 else -(1 << 31)] += 1
    errors = sum(row["StatusCode"] == "STATUS_CODE_ERROR" for row in rows)
    return len(rows), errors, sum(took) if took else None, max(took) if took else None, dict(buckets)


def rolled_up(lake: Lake) -> dict[Any, Any]:
    rows = lake.table("otel.service_red").scan().to_arrow().to_pylist()
    found = {
        (row["Minute"], row["ServiceName"], row["SpanKind"]): (
            *(row[name] for name in ("Requests", "Errors", "DurationSum", "DurationMax")),
            dict(row["DurationBuckets"]),
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def test_a_rollup_is_what_its_source_comes_to_whatever_happens(
    lake: Lake, source: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans arrive, late ones too, and are deleted; rollups are made after one change or several, die before their
    commit or behind it, and race each other."""
    chance = random.Random(7)
    real = rolling._take_in

    def dies_before(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    def is_outrun(*given: Any) -> None:
        monkeypatch.setattr(rolling, "_take_in", real)
        source.refresh().append(some_spans(chance, 3, minutes=1))
        roll_up(lake)  # by another process, with the mark that this one has read
        real(*given)

    lake.table("otel.spans").append(some_spans(chance, 30))
    for happens in ("", "more", "by Spark", "dies", "races", "deletes"):
        lake.table("otel.spans").append(some_spans(chance, 20))
        monkeypatch.setattr(rolling, "_FEW", 0 if happens == "by Spark" else 20_000)
        if happens == "more":
            lake.table("otel.spans").append(some_spans(chance, 5, minutes=200))
        if happens == "deletes":
            lake.table("otel.spans").delete("Duration > 1000000 OR ServiceName = 'bank'")
        if happens == "dies":
            monkeypatch.setattr(rolling, "_take_in", dies_before)
            with pytest.raises(KeyboardInterrupt):
                roll_up(lake)
            monkeypatch.setattr(rolling, "_take_in", real)
        if happens == "races":
            monkeypatch.setattr(rolling, "_take_in", is_outrun)
        roll_up(lake)
        if happens == "races":
            roll_up(lake)
        assert rolled_up(lake) == expected(lake), happens
    assert roll_up(lake) is None  # nothing is new
    lake.table("otel.spans").rollback(lake.table("otel.spans").snapshots[1].snapshot_id)
    lake.table("otel.spans").append(some_spans(chance, 2))
    roll_up(lake)  # as a whole: what was rolled up is in the past no more
    assert rolled_up(lake) == expected(lake)


@needs_pipeline
def test_a_pipeline_keeps_its_rollups_and_makes_up_for_one_that_was_missed(
    spark: Any, tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drain(**wishes: Any) -> Any:
        query = pipeline(spark, tmp_path / "in", lake, available_now=True, rollups=True, **wishes)
        assert query.awaitTermination(WAIT_S)
        return query

    write(tmp_path / "in", "a.jsonl", spans([1, 2]))
    write(tmp_path / "in", "b.jsonl", spans([3]))
    real, failing = rolling.Rollups.__call__, [0, 1, 0]  # at the start, after the first batch, when it is tried again

    def sometimes(self: Any, session: Any) -> None:
        if failing and failing.pop(0):
            raise StorageFailed("the disk is full", retryable=True)
        real(self, session)

    monkeypatch.setattr(rolling.Rollups, "__call__", sometimes)
    assert drain(max_files_per_trigger=1).account.holds
    assert not failing
    assert rolled_up(lake) == expected(lake) != {}
    write(tmp_path / "in", "c.jsonl", spans([4]))
    failing[:] = [0]

    def dies(self: Any, session: Any) -> None:
        raise RuntimeError("killed")

    starts = [real, dies]
    monkeypatch.setattr(rolling.Rollups, "__call__", lambda self, session: starts.pop(0)(self, session))
    with pytest.raises(StreamingQueryException, match="killed"):
        drain()
    monkeypatch.setattr(rolling.Rollups, "__call__", real)
    assert rolled_up(lake) != expected(lake)
    assert drain().account.received == 0
    assert rolled_up(lake) == expected(lake)


def test_a_rollup_of_ones_own_and_quantiles(lake: Lake, source: Table) -> None:
    chance = random.Random(3)
    took = [int(math.exp(chance.gauss(13, 1))) for _ in range(400)]
    at = pa.array([START + timedelta(minutes=number % 7) for number in range(400)], pa.timestamp("us", "UTC"))
    kinds = ["SPAN_KIND_SERVER"] * 400
    source.append(pa.table({"Timestamp": at, "ServiceName": ["shop"] * 400, "SpanKind": kinds, "Duration": took}))
    hourly = Rollup(
        name="ops.hourly",
        source="otel.spans",
        every="hour",
        keys={"Name": "upper(ServiceName)"},
        sums={"Spans": "1"},
        minima={"Least": "Duration"},
        histogram=("Took", "Duration"),
    )
    roll_up(lake, hourly)
    roll_up(lake, SERVICE_RED)
    late = pa.table({"Timestamp": at[:1], "ServiceName": ["shop"], "SpanKind": kinds[:1], "Duration": [3]})
    lake.table("otel.spans").append(late)
    assert roll_up(lake, hourly) is not None
    wanted = ", ".join(f"{quantile('Took', share)} AS q{round(100 * share)}" for share in (0.5, 0.95))
    rows = lake.sql(f"SELECT Hour, Name, Spans, Least, {wanted} FROM ops.hourly ORDER BY Hour").toArrow().to_pylist()
    assert [(row["Hour"].hour, row["Name"], row["Spans"]) for row in rows] == [(23, "SHOP", 116), (0, "SHOP", 285)]
    assert [row["Least"] for row in rows] == [3, min(took[i] for i in range(400) if i % 7 >= 2)]
    for row, minutes in zip(rows, ((0, 1), (2, 3, 4, 5, 6)), strict=True):
        true = sorted([*(took[i] for i in range(400) if i % 7 in minutes), *([3] if 0 in minutes else [])])
        for share, found in ((0.5, row["q50"]), (0.95, row["q95"])):
            assert found == pytest.approx(true[math.ceil(share * len(true)) - 1], rel=0.05)


def test_what_cannot_be_a_rollup_is_refused(lake: Lake, source: Table) -> None:
    lake.create_table("otel.other", "id bigint")
    source.append(some_spans(random.Random(1), 1))
    with pytest.raises(InvalidInput, match=r"into otel\.other: the table is not a rollup; choose another name"):
        roll_up(lake, Rollup(name="otel.other", source="otel.spans", sums={"Spans": "1"}))
    assert roll_up(lake, Rollup(name="otel.a", source="otel.logs", sums={"Lines": "1"})) is None  # no such table yet
    roll_up(lake, Rollup(name="otel.a", source="otel.spans", sums={"Spans": "1"}))
    with pytest.raises(InvalidInput, match="is a rollup with another definition"):
        roll_up(lake, Rollup(name="otel.a", source="otel.spans", sums={"Spans": "2"}))
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: Rollup(name="a.b", source="c.d"), "it needs a measure"),
        (lambda: Rollup(name="a.b", source="c.d", keys={"x": "1"}, sums={"X": "1"}), "a name of its own"),
        (lambda: Rollup(name="a.b", source="c.d", every="week", sums={"X": "1"}), "cannot roll up by 'week'"),
        (lambda: Rollup(name="a.b", source="a.b", sums={"X": "1"}), "into itself"),
        (lambda: quantile("x", 95), "between 0 and 1"),
    ]
    for make, said in wrong:
        with pytest.raises(InvalidInput, match=said):
            make()
