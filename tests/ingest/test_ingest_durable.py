"""What an ingest has on disk before its next step: a power cut takes nothing that a step relies on."""

from __future__ import annotations

from pathlib import Path

import pytest
from power_cut import WatchedDisk, watch_disk
from telemetry_samples import logs, spans, write

import esker
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.receipts import BatchCounts, Receipt, Receipts


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> WatchedDisk:
    return watch_disk(monkeypatch)


def test_a_receipt_and_its_data_files_are_on_disk_before_the_first_commit(tmp_path: Path, disk: WatchedDisk) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    write(tmp_path / "in", "a.jsonl", spans([1]), logs([1]))
    ingest_otlp(lake, Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint"))
    names = list(disk.named)
    receipt = tmp_path / "checkpoint/pending/000000000000.json"
    data = [name for name in names if name.suffix == ".parquet"]
    commits = [name for name in names if name.suffix == ".avro"]  # manifests are the first files of a commit
    assert len(data) == 2
    assert max(map(names.index, data)) < names.index(receipt) < min(map(names.index, commits))
    assert disk.named[receipt].isdisjoint(data), "the receipt names files that a power cut would take"
    assert disk.named[commits[0]].isdisjoint([receipt, *data]), "a power cut would take the receipt"


def test_a_receipt_is_on_disk_once_it_is_written(tmp_path: Path, disk: WatchedDisk) -> None:
    receipts = Receipts(tmp_path)
    receipts.write(Receipt(application="a", number=3, deliveries=(), counts=BatchCounts()))
    assert list(disk.named) == [receipts.path(3)]
    assert not disk.at_risk()
