"""Real tables of other engines, read where they lie: rows, content and every listed snapshot."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus_index, corpus_root, of_each

import esker

# Where the recorded checksum is the answer of one reader that does not follow the spec.
OTHER_CONTENT = {
    # one reader only, which gives null for a column whose initial-default is -1; its Parquet twin says -1 (E4)
    "impala/iceberg_v3_default_value_avro": "14d2ec91b06107ac",
}
NEEDED_TO_READ = ("datafile(current)", "manifest-list(current)", "manifest(current)")


@cache
def table_sum() -> Any:
    path = corpus_root().parent / "tools" / "table_sum.py"
    spec = importlib.util.spec_from_file_location("table_sum", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.table_sum


def is_whole(entry: dict[str, Any]) -> bool:
    return not any(part in entry["missing"] for part in NEEDED_TO_READ)


def directory(entry: dict[str, Any]) -> Path:
    return corpus_root() / "iceberg" / entry["id"]


WHOLE = [entry for entry in corpus_index() if is_whole(entry)]
PLANNED = [entry for entry in corpus_index() if not is_whole(entry) and entry["expected_rows"] is not None]


def by_id(entries: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return of_each("entry", entries, ids=[entry["id"] for entry in entries])


@by_id(WHOLE)
def test_a_table_of_another_engine_reads_with_its_rows_and_content(entry: dict[str, Any]) -> None:
    table = esker.open_table(directory(entry))
    rows = table.scan().to_arrow()
    assert rows.num_rows == entry["expected_rows"]
    assert table.scan().count() == entry["expected_rows"]
    expected = OTHER_CONTENT.get(entry["id"], entry["content_sum"])
    if expected is not None:
        assert table_sum()(rows)[0] == expected


@by_id(WHOLE)
def test_every_listed_snapshot_reads_by_time_travel(entry: dict[str, Any]) -> None:
    table = esker.open_table(directory(entry))
    for snapshot_id, facts in entry["snapshot_rows"].items():
        if facts["rows"] is not None:
            assert table.scan(snapshot_id=int(snapshot_id)).to_arrow().num_rows == facts["rows"], snapshot_id


@by_id(PLANNED)
def test_a_table_without_its_data_files_can_still_be_planned(entry: dict[str, Any]) -> None:
    plan = esker.open_table(directory(entry)).scan().plan()
    assert plan.funnel.files_kept == plan.funnel.files_total
    assert plan.funnel.rows_kept >= entry["expected_rows"]  # deletes take away from what the files hold


@by_id([entry for entry in corpus_index() if "manifest-list(current)" in entry["missing"]])
def test_a_table_without_its_manifest_list_says_which_file_is_gone(entry: dict[str, Any]) -> None:
    with pytest.raises(esker.NoSuchFile, match=r"its manifest list .*snap-.*\.avro is missing"):
        esker.open_table(directory(entry)).scan().to_arrow()


@by_id([entry for entry in WHOLE if entry["expected_rows"]])
def test_counting_equals_reading_for_every_column_kept_or_left_out(entry: dict[str, Any]) -> None:
    """A projection of one column gives the same rows, and the column reads as in the whole table."""
    table = esker.open_table(directory(entry))
    whole = table.scan().to_arrow()
    for name in whole.column_names[:3]:
        alone = table.scan(columns=[name]).to_arrow()
        assert alone.column_names == [name]
        assert alone.column(0).to_pylist() == whole.column(name).to_pylist()


def test_more_tables_read_than_by_any_peer() -> None:
    """The corpus counts what peers returned; of the tables here, Esker must be right on more than each of them."""
    assert corpus_root()  # or the test is skipped
    right = 0
    peers: dict[str, int] = {}
    for entry in WHOLE:
        for peer, rows in entry["peer_rows"].items():
            peers[peer] = peers.get(peer, 0) + (rows == entry["expected_rows"])
        right += esker.open_table(directory(entry)).scan().count() == entry["expected_rows"]
    assert right == len(WHOLE)
    assert all(right > count for peer, count in peers.items()), peers
