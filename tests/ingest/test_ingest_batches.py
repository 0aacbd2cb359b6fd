"""Files of OTLP into tables: everything is there once, and the account says so."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from telemetry_samples import START_NS, bad_span, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.errors import Conflict, InvalidInput, Unsupported
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.source_files import examine, find_files
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")


def driving(folder: Path) -> AbstractContextManager[Checkpoint]:
    return closing(Checkpoint(folder, kind="otlp"))


def ingest(lake: Lake, folder: Path, *paths: Path, checkpoint: str = "checkpoint", **more: object) -> Account:
    asked = Asked(paths=paths or (folder / "in",), checkpoint=folder / checkpoint, **more)  # type: ignore[arg-type]
    return ingest_otlp(lake, asked)


def test_what_came_in_is_in_the_tables_or_among_the_dead_letters(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(5)), b"{broken\n", logs(range(3)), bad_span(99))
    write(tmp_path / "in", "b.jsonl.gz", gzip.compress(spans(range(5, 7))))
    account = ingest(lake, tmp_path)
    assert account.facts() | {"seconds": 0, "bytes": 0, "oddities": {}} == {
        "received": 12,
        "tables": {"otel.logs": 3, "otel.spans": 7},
        "dead_letters": 2,
        "pending": 0,
        "deduplicated": 0,
        "dropped_by_transform": {},
        "added_by_transform": {},
        "unproved": 0,
        "lost": 0,
        "duplicated": 0,
        "holds": True,
        "batches": 1,
        "requests": 5,
        "files": 2,
        "bytes": 0,
        "known_files": 0,
        "already_committed": 0,
        "conflicts": 0,
        "folded": 0,
        "refused": [],
        "read_twice": [],
        "failures": [],
        "stopped": None,
        "oddities": {},
        "seconds": 0,
        "engine": "arrow",
    }
    assert span_names(lake) == Counter(f"span {number}" for number in range(7))
    assert log_bodies(lake) == Counter(f"log {number}" for number in range(3))
    assert letters(lake).total() == 2


def test_the_same_command_again_adds_nothing(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(5)))
    ingest(lake, tmp_path)
    before = lake.table("otel.spans").metadata_location
    account = ingest(lake, tmp_path)
    assert (account.received, account.known_files, account.holds) == (0, 1, True)
    assert lake.table("otel.spans").metadata_location == before


def test_a_file_that_was_touched_is_still_the_same_file(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans(range(5)))
    ingest(lake, tmp_path)
    path.touch()
    assert ingest(lake, tmp_path).known_files == 1
    assert span_names(lake).total() == 5


def test_new_files_are_told_from_those_that_were_ingested(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans(range(5)))
    ingest(lake, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans(range(5, 8)))
    account = ingest(lake, tmp_path)
    assert (account.received, account.known_files) == (3, 1)
    assert span_names(lake) == Counter(f"span {number}" for number in range(8))


def test_a_request_that_is_sent_again_in_another_file_is_received_again(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    write(tmp_path / "in", "b.jsonl", spans([1]))
    account = ingest(lake, tmp_path)
    assert (account.received, account.tables["otel.spans"], account.duplicated) == (2, 2, 0)
    write(tmp_path / "in", "c.jsonl", spans([1]))
    assert ingest(lake, tmp_path).received == 1


def test_each_batch_is_one_snapshot_of_each_table(lake: Lake, tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]), logs([number]))
    account = ingest(lake, tmp_path, batch_bytes=1)
    assert account.batches == 4
    assert len(lake.table("otel.spans").snapshots) == len(lake.table("otel.logs").snapshots) == 4


def test_a_batch_has_about_as_many_rows_as_were_asked_for(lake: Lake, tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / "in", f"{number:02d}.jsonl", spans(range(10 * number, 10 * number + 10), note="x" * 500))
    account = ingest(lake, tmp_path, batch_rows=50)
    assert (account.received, account.holds) == (400, True)
    added = [int(one.summary["added-records"]) for one in lake.table("otel.spans").snapshots]
    assert sum(added) == 400
    assert len(added) >= 8
    assert set(added[1:-1]) <= {40, 50}


def test_commits_that_fold_manifests_are_told(lake: Lake, tmp_path: Path) -> None:
    for number in range(7):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]))
    folding = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}
    account = ingest(lake, tmp_path, batch_bytes=1, properties=folding)
    summaries = [snapshot.summary["manifests-replaced"] for snapshot in lake.table("otel.spans").snapshots]
    assert account.folded == sum(number != "0" for number in summaries) > 0
    assert account.holds


def test_tables_are_partitioned_by_day_and_late_rows_land_in_their_own(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1, 2], day=9))
    ingest(lake, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans([3], day=9), spans([4], day=0))
    account = ingest(lake, tmp_path)
    assert account.holds
    table = lake.table("otel.spans")
    assert [field.name for field in table.spec.fields] == ["Timestamp_day"]
    assert len(table.sort_order.fields) == 2
    rows = table.inspect.partitions().to_pylist()
    assert sorted(row["record_count"] for row in rows) == [1, 3]


def test_rows_of_a_file_are_sorted_by_service_and_time(lake: Lake, tmp_path: Path) -> None:
    metrics = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
            "scopeMetrics": [
                {"metrics": [{"name": name, "gauge": {"dataPoints": [{"timeUnixNano": str(START_NS + at * 1000)}]}}]}
            ],
        }
        for service in "ba"
        for at in (2, 1)
        for name in "nm"
    ]
    shuffled = [spans([number], service=service) for number, service in ((5000, "b"), (1000, "b"), (9000, "a"))]
    write(tmp_path / "in", "a.jsonl", *shuffled, json.dumps({"resourceMetrics": metrics}).encode() + b"\n")
    assert ingest(lake, tmp_path).holds
    for name, columns in (
        ("otel.spans", ["ServiceName", "Timestamp"]),
        ("otel.metrics_gauge", ["ServiceName", "MetricName", "Timestamp"]),
    ):
        rows = lake.table(name).scan(columns=columns).to_arrow().to_pylist()  # of one file
        assert len(lake.table(name).inspect.files()) == 1
        assert rows == sorted(rows, key=lambda row: [row[column] for column in columns])


def test_promoted_attributes_have_columns_before_the_first_file_that_has_them(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1], **{"http.status": "200"}))
    ingest(lake, tmp_path)
    write(tmp_path / "in", "b.jsonl", spans([2], **{"http.status": "404"}), spans([3], **{"http.status": "no"}))
    account = ingest(lake, tmp_path, promote={"http.status": "int"})
    rows = lake.table("otel.spans").scan(columns=["SpanName", "http.status"]).to_arrow().to_pylist()
    assert {row["SpanName"]: row["http.status"] for row in rows} == {"span 1": None, "span 2": 404, "span 3": None}
    assert account.oddities["not_castable"] == 1


def test_a_promotion_that_clashes_is_refused_before_anything_is_read(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1], **{"http.status": "200"}))
    with pytest.raises(Unsupported, match=r"Cannot promote http\.status as date"):
        ingest(lake, tmp_path, promote={"http.status": "date"})
    ingest(lake, tmp_path, promote={"http.status": "int"})
    write(tmp_path / "in", "b.jsonl", logs([2]), spans([2], **{"http.status": "200"}))
    before = sorted((tmp_path / "lake").rglob("*.parquet"))
    with pytest.raises(InvalidInput, match=r"cannot promote http.status as string: otel.spans has a column"):
        ingest(lake, tmp_path, promote={"http.status": "string"})
    assert "otel.logs" not in lake.tables("otel")
    assert sorted((tmp_path / "lake").rglob("*.parquet")) == before
    assert ingest(lake, tmp_path, promote={"http.status": "int"}).received == 2
    assert span_names(lake) == Counter(["span 1", "span 2"])


def test_other_content_under_the_name_of_an_ingested_file_is_another_file(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    ingest(lake, tmp_path)
    path.write_bytes(spans([2]) + spans([3]))
    assert ingest(lake, tmp_path).received == 2


def test_a_planned_file_that_changes_is_not_taken_for_the_old_one(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    with driving(tmp_path / "checkpoint") as checkpoint:
        (source,) = filter(None, map(examine, find_files([path])))
        checkpoint.plan([source], at_us=1)
    path.write_bytes(spans([2]) + spans([3]))
    account = ingest(lake, tmp_path)
    assert account.refused == [(str(path), "it was changed after its batch was planned")]
    assert (account.received, account.holds) == (2, True)
    assert span_names(lake) == Counter(["span 2", "span 3"])


def test_a_planned_file_that_is_gone_does_not_stop_the_others(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    with driving(tmp_path / "checkpoint") as checkpoint:
        (source,) = filter(None, map(examine, find_files([path])))
        checkpoint.plan([source], at_us=1)
    data = path.read_bytes()
    path.unlink()
    write(tmp_path / "in", "b.jsonl", spans([2]))
    account = ingest(lake, tmp_path)
    assert account.refused == [
        (str(path), "its batch was planned, and now it cannot be read: No such file or directory")
    ]
    assert span_names(lake) == Counter(["span 2"])
    write(tmp_path / "in", "a.jsonl", data)
    ingest(lake, tmp_path)
    assert span_names(lake) == Counter(["span 1", "span 2"])


def test_a_file_that_was_away_for_a_run_is_taken_when_it_is_back(lake: Lake, tmp_path: Path) -> None:
    """A disk that was not mounted: name, size and time of the file are the same afterwards."""
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    with driving(tmp_path / "checkpoint") as checkpoint:
        (source,) = filter(None, map(examine, find_files([path])))
        checkpoint.plan([source], at_us=1)
    away = path.rename(tmp_path / "away")
    assert len(ingest(lake, tmp_path).refused) == 1
    away.rename(path)
    assert ingest(lake, tmp_path).received == 1
    assert ingest(lake, tmp_path).received == 0
    assert span_names(lake) == Counter(["span 1"])


def test_a_checkpoint_is_not_used_for_another_lake(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    ingest(lake, tmp_path)
    other = esker.connect(f"sqlite:///{tmp_path}/other/catalog.db")
    with pytest.raises(InvalidInput, match=r"its batches are in otel.spans, which this lake has not"):
        ingest(other, tmp_path)
    lake.drop_table("otel.spans")
    ingest(lake, tmp_path, checkpoint="second")
    with pytest.raises(Conflict, match=r"its batches are in another otel.spans than this lake has"):
        ingest(lake, tmp_path)


def test_a_checkpoint_of_files_is_not_one_of_telemetry(lake: Lake, tmp_path: Path) -> None:
    Checkpoint(tmp_path / "checkpoint", kind="files-a.b").close()
    write(tmp_path / "in", "a.jsonl", spans([1]))
    with pytest.raises(InvalidInput, match=r"for otlp: it is one of files-a.b"):
        ingest(lake, tmp_path)


def test_what_is_no_file_is_refused(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot ingest .*nothing: No such file"):
        ingest(lake, tmp_path, tmp_path / "nothing")


def test_hidden_and_unfinished_files_are_passed_over(lake: Lake, tmp_path: Path) -> None:
    for name in (".hidden", "_side", "a.jsonl.tmp", "b.open", "c.part"):
        write(tmp_path / "in", name, spans([1]))
    write(tmp_path / "in", "whole.jsonl", spans([2]))
    ingest(lake, tmp_path)
    assert span_names(lake) == Counter(["span 2"])


def test_rows_tell_where_they_come_from(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    ingest(lake, tmp_path)
    (row,) = lake.table("otel.spans").scan(columns=["_source", "_batch_id"]).to_arrow().to_pylist()
    assert row["_source"] == str(path)
    assert row["_batch_id"].endswith("/0")


def test_of_a_file_that_has_grown_only_the_new_part_counts(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]))
    ingest(lake, tmp_path)
    path.write_bytes(path.read_bytes() + spans([2]))
    assert ingest(lake, tmp_path).received == 1
    path.write_bytes(path.read_bytes() + spans([3]) + spans([4]))
    assert ingest(lake, tmp_path).received == 2
    assert span_names(lake) == Counter(["span 1", "span 2", "span 3", "span 4"])


@pytest.mark.parametrize("framed", [False, True])
def test_what_was_cut_when_a_file_was_ingested_is_read_when_it_has_grown(
    lake: Lake, tmp_path: Path, framed: bool
) -> None:
    def request(number: int) -> bytes:
        return len(spans([number])).to_bytes(4, "big") + spans([number]) if framed else spans([number])

    whole = request(1) + request(2)
    path = write(tmp_path / "in", "a.jsonl", whole[:-40])
    account = ingest(lake, tmp_path)
    assert (account.received, account.dead_letters, account.holds) == (2, 1, True)
    path.write_bytes(whole + request(3))
    account = ingest(lake, tmp_path)
    assert (account.received, account.dead_letters, account.holds) == (2, 0, True)
    path.write_bytes(whole + request(3) + b"" if framed else b"\n\n" + request(4))
    ingest(lake, tmp_path)
    assert set(span_names(lake).values()) == {1}
    assert set(span_names(lake)) >= {"span 1", "span 2", "span 3"}


def test_a_line_without_its_end_is_not_taken_again_when_the_file_grows(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl", spans([1]) + spans([2]).rstrip())
    assert ingest(lake, tmp_path).received == 2
    path.write_bytes(spans([1]) + spans([2]) + b"\n \n" + spans([3]))
    assert ingest(lake, tmp_path).received == 1
    assert span_names(lake) == Counter(["span 1", "span 2", "span 3"])


def test_a_compressed_file_that_has_grown_is_refused(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "in", "a.jsonl.gz", gzip.compress(spans([1])))
    ingest(lake, tmp_path)
    path.write_bytes(path.read_bytes() + gzip.compress(spans([2])))
    account = ingest(lake, tmp_path)
    assert account.refused == [(str(path), "it has grown since it was ingested; give what is new in a file of its own")]
    assert span_names(lake) == Counter(["span 1"])


def test_too_many_dead_letters_stop_the_run_after_the_batch(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]), b"{broken\n")
    write(tmp_path / "in", "b.jsonl", spans([2]), b"{broken\n", b"{broken\n")
    write(tmp_path / "in", "c.jsonl", spans([3]))
    account = ingest(lake, tmp_path, batch_bytes=1, most_dead=0.5)
    assert account.stopped is not None
    assert account.stopped.startswith("batch 1 is committed, and 67% of its records are dead letters, more than 50%")
    assert (account.received, account.holds) == (5, True)
    assert span_names(lake) == Counter(["span 1", "span 2"])
    assert ingest(lake, tmp_path, most_dead=0.5).received == 1
