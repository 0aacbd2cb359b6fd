"""What docs/ingest.md says in numbers, and what a batch that is done again must find on disk."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import run
from documentation import ROOT
from telemetry_samples import logs, span_names, spans, write

import esker
from esker.errors import EskerError
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.source_files import examine, find_files
from esker.ingest.job import DataFiles
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import pending_receipts
from esker.ingest.run_batches import BATCH_BYTES
from esker.otlp.decoding.decode import Limits

PAGE = (ROOT / "docs" / "ingest.md").read_text()


def test_a_batch_and_a_part_of_it_are_as_large_as_the_page_says() -> None:
    assert re.findall(r"(\d+) MiB of (?:them|columns)", PAGE) == [str(BATCH_BYTES >> 20), str(Limits().batch >> 20)]


def test_a_plan_is_synced_before_it_is_acted_on(tmp_path: Path) -> None:
    """SQLite's EXTRA: a commit returns when the database, and the removal of its journal, are on disk."""
    opened: list[sqlite3.Connection] = []

    class Watched(sqlite3.Connection):
        def __init__(self, *args: object, **how: object) -> None:
            super().__init__(*args, **how)  # type: ignore[arg-type]
            opened.append(self)

    with closing(Checkpoint(tmp_path, kind="otlp", connection=Watched)):
        [database] = opened
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("died", [True, False], ids=["continued", "planned now"])
def test_rows_have_the_time_that_their_batch_was_planned_at(tmp_path: Path, died: bool) -> None:
    """A batch that is done again makes the same rows, whenever that is."""
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    write(tmp_path / "in", "a.jsonl", spans([1, 2]))
    if died:  # after the plan was written and before anything else was
        with closing(Checkpoint(tmp_path / "checkpoint", kind="otlp")) as checkpoint:
            sources = [source for found in find_files([tmp_path / "in"]) if (source := examine(found))]
            checkpoint.plan(sources, at_us=1_700_000_000_000_000)
    account = ingest_otlp(lake, Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint"))
    assert (account.received, account.holds) == (2, True)
    assert set(span_names(lake)) == {"span 1", "span 2"}
    times = lake.table("otel.spans").scan(columns=["_ingested_at"]).to_arrow().column(0)
    [planned] = {time.as_py().timestamp() for time in times}
    assert (planned == 1_700_000_000) == died


def test_a_table_that_has_the_mark_is_passed_over_though_its_files_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run died after its commit; then the rows were rewritten, and the files that the receipt names removed."""
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    write(tmp_path / "in", "a.jsonl", spans([1, 2]))
    asked = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "tick_off", die)
        with pytest.raises(KeyboardInterrupt):
            ingest_otlp(lake, asked)
    [receipt] = pending_receipts(tmp_path / "checkpoint")
    table = lake.table("otel.spans")
    table.overwrite(table.scan().to_arrow())
    for delivery in receipt.deliveries:
        for path in delivery.paths:
            Path(path.removeprefix("file://")).unlink()
    account = ingest_otlp(lake, asked)
    assert (account.already_committed, account.failures, account.holds) == (1, [], True)
    assert span_names(lake).total() == 2
    assert not pending_receipts(tmp_path / "checkpoint")


def test_the_number_of_a_withdrawn_batch_is_not_given_again(tmp_path: Path) -> None:
    with closing(Checkpoint(tmp_path, kind="otlp")) as checkpoint:
        first = checkpoint.plan((), at_us=1)
        checkpoint.withdraw(first.number)
        assert checkpoint.unfinished() == []
        assert checkpoint.plan((), at_us=2).number == first.number + 1


def test_a_batch_that_fails_before_its_receipt_leaves_no_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    write(tmp_path / "in", "a.jsonl", spans([1]), logs([1]))
    asked = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint")
    written: list[str] = []

    def fail(files: DataFiles, **_: object) -> None:
        written.extend(file.path for file in files.files)
        raise EskerError("the batch cannot be finished")

    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, "delivery", fail)
        with pytest.raises(EskerError, match="the batch cannot be finished"):
            ingest_otlp(lake, asked)
    assert written
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    assert ingest_otlp(lake, asked).received == 2


@pytest.mark.parametrize("place", ["s3://bucket/checkpoint", "gs://bucket/c", "file:///tmp/c", "abfss://c@a/b"])
def test_a_checkpoint_or_a_spool_is_never_a_local_folder_with_the_name_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", "a.jsonl", spans([1]))
    for arguments in (("ingest", "otlp", "in", "--checkpoint", place), ("receive", "--port", "0", "--spool", place)):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        scheme, _, rest = place.partition("://")
        assert f"in {scheme}://{rest.lstrip('/')}: it needs locks" in result.output
    assert not (tmp_path / f"{place.partition('://')[0]}:").exists()
