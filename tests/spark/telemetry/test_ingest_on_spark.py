"""Telemetry decoded by Spark's workers: the same tables as without a JVM, and exactly once."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from otlp_files import after_lengths, lines, of_the_exporter
from rotated_logs import RotatedLog
from telemetry_samples import bad_span, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.ingest.account import Account
from esker.ingest.files.source_files import examine, find_files
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.spark.telemetry_job import slices_of
from esker.lake import Lake
from esker.otlp.protocol.wire import sized


def ingest(lake: Lake, folder: Path, engine: str) -> Account:
    asked = Asked(
        paths=[folder / "in"], checkpoint=folder / f"checkpoint-{engine}", engine=engine, promote={"http.code": "int"}
    )
    return ingest_otlp(lake, asked)


def held(lake: Lake, table: str) -> list[dict[str, Any]]:
    rows: pa.Table = lake.table(table).scan().to_arrow()
    kept = rows.drop_columns(
        [name for name in ("_batch_id", "_ingested_at", "batch", "at") if name in rows.column_names]
    )
    return sorted(kept.to_pylist(), key=str)


def test_spark_decodes_what_arrow_does(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_of, "__kwdefaults__", {"size": 4000})
    made = [spans(range(at, at + 10), day=at % 3, **{"http.code": str(at)}) for at in range(0, 100, 10)]
    write(tmp_path / "in", "a.jsonl", *made[:8], b"{broken\n", bad_span(7))
    write(tmp_path / "in", "b.jsonl.gz", gzip.compress(b"".join(made[8:])))
    write(tmp_path / "in", "c.jsonl", logs(range(5)))
    on_spark = esker.connect(f"sqlite:///{tmp_path}/spark/catalog.db", spark=spark)
    account = ingest(on_spark, tmp_path, "spark")
    assert (account.received, account.dead_letters, account.holds) == (107, 2, True)
    assert span_names(on_spark) == Counter(f"span {number}" for number in range(100))
    assert (log_bodies(on_spark).total(), letters(on_spark).total()) == (5, 2)
    here = esker.connect(f"sqlite:///{tmp_path}/arrow/catalog.db")
    ingest(here, tmp_path, "arrow")
    for table in ("otel.spans", "otel.logs", "otel.dead_letter"):
        assert held(on_spark, table) == held(here, table)
    again = ingest(on_spark, tmp_path, "spark")
    assert (again.received, again.known_files) == (0, 3)
    assert lake_rows(spark, on_spark) == 100


@pytest.mark.parametrize("profile", ["map", "flat", "variant"])
def test_spark_leaves_out_what_arrow_does(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    monkeypatch.setattr(slices_of, "__kwdefaults__", {"size": 2000})
    lakes = {
        "spark": esker.connect(f"sqlite:///{tmp_path}/spark/catalog.db", spark=spark),
        "arrow": esker.connect(f"sqlite:///{tmp_path}/arrow/catalog.db"),
    }
    for batch, numbers in enumerate((range(1, 31), range(21, 51))):
        again = [spans([number], day=number % 2) for number in numbers] * 2
        write(tmp_path / "in", f"{batch}.jsonl", *again, logs(numbers), logs(numbers))
        accounts = {}
        for engine, lake in lakes.items():
            asked = Asked(
                paths=[tmp_path / "in"],
                checkpoint=tmp_path / f"checkpoint-{engine}",
                engine=engine,
                profile=profile,
                dedup="span_id",
            )
            accounts[engine] = ingest_otlp(lake, asked)
        left_out = {engine: (one.received, one.deduplicated, one.holds) for engine, one in accounts.items()}
        assert left_out["spark"] == left_out["arrow"] == (120, 60 if batch == 0 else 80, True)
    for table in ("otel.spans", "otel.logs"):
        assert held(lakes["spark"], table) == held(lakes["arrow"], table)
    assert span_names(lakes["spark"]) == Counter(f"span {number}" for number in range(1, 51))


def lake_rows(spark: Any, lake: Lake) -> int:
    return int(lake.sql("SELECT count(DISTINCT SpanId) FROM otel.spans").collect()[0][0])


def test_slices_of_a_file_share_its_requests_and_none_is_in_two(tmp_path: Path) -> None:
    from esker.ingest.spark.otlp_files_worker import _requests

    path = write(tmp_path / "in", "a.jsonl", *(spans([number]) for number in range(50)))
    (source,) = filter(None, map(examine, find_files([path])))
    cut = [one for _, one in slices_of([source], size=1000)]
    assert len(cut) > 10
    found = [request.offset for one in cut for request in _requests([one])]
    assert found == sorted(set(found))
    assert len(found) == 50


@pytest.mark.parametrize("frame", [lines, after_lengths, of_the_exporter], ids=lambda one: one.__name__)
def test_a_slice_does_not_read_what_is_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: Callable[[list[bytes]], bytes]
) -> None:
    from esker.ingest.spark.otlp_files_worker import _requests

    request = b'{"unknown": "' + b"x" * 5000 + b'"}' if frame is lines else sized(1, sized(9, b"x" * 5000))
    path = write(tmp_path / "in", "a.otlp", frame([request] * 2000))
    (source,) = filter(None, map(examine, find_files([path])))
    cut = [one for _, one in slices_of([source], size=500_000)]
    reads: list[int] = []

    class Counted(io.FileIO):
        def readinto(self, buffer: Any, /) -> int:
            reads.append(super().readinto(buffer) or 0)
            return reads[-1]

        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(-1 if size is None else size) or b""
            reads.append(len(found))
            return found

    monkeypatch.setattr(Path, "open", lambda path, mode: io.BufferedReader(Counted(path)))
    found = [request.offset for one in cut for request in _requests([one])]
    assert (len(found), found) == (2000, sorted(set(found)))
    assert sum(reads) < source.size + len(cut) * 600_000


def test_the_first_slice_of_a_file_that_has_grown_has_what_was_cut_before(tmp_path: Path) -> None:
    from esker.ingest.spark.otlp_files_worker import _requests

    path = write(tmp_path / "in", "a.jsonl", *(spans([number]) for number in range(9)))
    (source,) = filter(None, map(examine, find_files([path])))
    cut = len(spans([0])) + 20
    grown = [one for _, one in slices_of([replace(source, start=cut)], size=1000)]
    assert len(grown) > 2
    assert [request.line for one in grown for request in _requests([one])] == list(range(2, 10))


def test_spark_goes_on_in_logs_that_were_rotated(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/spark/catalog.db", spark=spark)
    log = RotatedLog(tmp_path / "in")
    log.append(3)
    assert ingest(lake, tmp_path, "spark").received == 3
    log.append(2)
    log.compress_at_once()
    log.append(1)
    account = ingest(lake, tmp_path, "spark")
    assert (account.received, account.holds, account.refused) == (3, True, [])
    assert log_bodies(lake) == Counter(f"log {number}" for number in range(6))
