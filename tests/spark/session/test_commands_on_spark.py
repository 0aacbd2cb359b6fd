"""Commands on their default engine, Spark, beside the same without a JVM: the same account and the same rows."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_json
from telemetry_samples import bad_span, by_name, letters, logs, span_names, spans, write

import esker
from esker.errors import StorageFailed
from esker.ingest import deliver
from esker.ingest.spark import write_row_files
from esker.ingest.spark.rows_worker import Piece
from esker.lake import Lake

STAMPS = ("_batch_id", "_ingested_at", "batch", "at")


@pytest.fixture(autouse=True)
def elsewhere(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lake_of(engine: str) -> Lake:
    return esker.connect(f"sqlite:///{engine}/catalog.db")


def on_both(*arguments: str, status: int = 0) -> dict[str, Any]:
    """The account of a command on its default engine, which is that of the same without Spark in a lake of its own."""
    accounts = {}
    for engine, more in (("spark", ()), ("arrow", ("--engine", "arrow"))):
        account = run_json("--catalog", f"sqlite:///{engine}/catalog.db", *arguments, *more, status=status)
        assert account.pop("engine") == engine
        del account["seconds"]
        accounts[engine] = account
    assert accounts["spark"] == accounts["arrow"]
    return accounts["spark"]


def rows_of_both(table: str) -> list[dict[str, Any]]:
    """The rows of a table, which are the same in both lakes."""
    found = []
    for engine in ("spark", "arrow"):
        rows: pa.Table = lake_of(engine).table(table).scan().to_arrow()
        kept = rows.drop_columns([one for one in STAMPS if one in rows.column_names])
        found.append(sorted(kept.to_pylist(), key=str))
    assert found[0] == found[1]
    return found[0]


def test_a_signal_to_the_group_of_the_command_does_not_reach_the_jvm() -> None:
    from pyspark import SparkContext

    assert os.getpgid(SparkContext._gateway.proc.pid) != os.getpgid(0)


def test_telemetry_and_its_dead_letters(tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(7)), b"{broken\n", logs(range(3)), by_name(21), bad_span(22))
    write(tmp_path / "in", "b.jsonl.gz", gzip.compress(spans(range(7, 9)) + by_name(23)))
    account = on_both("ingest", "otlp", "in", "--strict")
    assert (account["received"], account["dead_letters"], account["holds"]) == (16, 4, True)
    assert len(rows_of_both("otel.spans")) == 9
    again = on_both("ingest", "otlp", "in", "--strict")
    assert (again["received"], again["known_files"]) == (0, 2)
    replayed = on_both("replay", "--dead-letters")
    assert (replayed["received"], replayed["tables"]) == (4, {"otel.spans": 2})
    assert (replayed["dead_letters"], replayed["holds"]) == (2, True)
    assert span_names(lake_of("spark")) == Counter(f"span {number}" for number in (*range(9), 21, 23))
    assert letters(lake_of("spark")).total() == 2
    rows_of_both("otel.spans")
    rows_of_both("otel.dead_letter")
    assert on_both("replay", "--dead-letters")["batches"] == 1  # what stays unreadable is left alone
    assert letters(lake_of("spark")).total() == 2


def test_letters_whose_commit_fails_are_committed_from_their_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path("in"), "a.jsonl", spans([1]), by_name(2), bad_span(3))
    run_json("ingest", "otlp", "in", "--strict", "--engine", "arrow")

    def fail(*_: Any) -> Any:
        raise StorageFailed("the catalog is away", retryable=True)

    with monkeypatch.context() as broken:
        broken.setattr(deliver, "commit", fail)
        account = run_json("replay", "--dead-letters", status=6)
    assert (account["pending"], account["holds"]) == (2, True)
    assert run_json("replay")["already_committed"] == 0
    lake = esker.connect()
    assert (span_names(lake), letters(lake).total()) == (Counter(["span 1", "span 2"]), 1)


def test_files_of_rows_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name,day\n1,a,2024-01-01\n2,,2024-01-02\n")
    (folder / "b.tsv").write_text("id\tname\n3\tb\n")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(json.dumps({"id": 4, "day": "2024-01-02"}).encode() + b"\n"))
    pq.write_table(pa.table({"id": range(5, 105), "name": ["x"] * 100}), folder / "d.parquet", row_group_size=10)
    (folder / "bad.csv").write_text("id\nx\n")
    (folder / "e.parquet").write_bytes(b"PAR1 and nothing more")
    (folder / "odd.csv").write_text("id,more\n1,2\n")
    for engine in ("spark", "arrow"):
        lake_of(engine).create_namespace("shop")
        lake_of(engine).create_table("shop.sales", "id bigint, name string, day date", partition_by=["day"])
    monkeypatch.setattr(write_row_files, "_PIECE", 300)
    jobs = counted_jobs(monkeypatch)
    account = on_both("ingest", "files", "in", "--table", "shop.sales", status=1)
    assert (account["received"], account["holds"], account["files"]) == (104, True, 4)
    assert [Path(one["file"]).name for one in account["refused"]] == ["bad.csv", "e.parquet", "odd.csv"]
    assert len(rows_of_both("shop.sales")) == 104
    shares = [piece for share in jobs[0] for piece in share if piece.path.endswith("d.parquet")]
    assert len(shares) > 2  # tasks share a file of many row groups
    assert len(jobs) == 2  # one finds all that do not fit, one writes the others
    held = {Path(file).name for file in lake_of("spark").table("shop.sales").inspect.files()["file_path"].to_pylist()}
    written = {path.name for path in tmp_path.glob("spark/**/data/**/*.parquet")}
    assert written == held  # nothing is left of the first job


def counted_jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Piece, ...], ...]]:
    real, jobs = write_row_files._run, []

    def run(session: Any, order: Any) -> Any:
        jobs.append(order.shares)
        return real(session, order)

    monkeypatch.setattr(write_row_files, "_run", run)
    return jobs


def test_a_table_is_made_and_widened_for_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    on_both("ingest", "files", "a.parquet", "--table", "shop.sales", "--create", "--partition-by", "bucket(4, id)")
    pq.write_table(pa.table({"id": [1 << 40], "a.b": ["x"]}), tmp_path / "b.parquet")
    on_both("ingest", "files", "b.parquet", "--table", "shop.sales", "--evolve")
    assert rows_of_both("shop.sales") == [{"id": 1, "a.b": None}, {"id": 1 << 40, "a.b": "x"}]
