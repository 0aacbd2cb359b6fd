"""A plan: how few of a table's files it keeps, told in numbers and to a person, and made without opening the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from counting_storage import CountingStorage
from table_maker import TableMaker

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY
from esker.model.types import LONG, STRING, TIMESTAMP, Field
from esker.model.values import to_bytes
from esker.read.plan_tasks import Funnel
from esker.tree import manifest
from esker.tree.data_file import DataFile, Metrics

ROWS = 100
EVENTS = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="ts", type=TIMESTAMP),
        Field(id=3, name="mission", type=STRING),
    )
)
BY_DAY = PartitionSpec(fields=(PartitionField(source_id=2, field_id=1000, name="ts_day", transform=DAY),))
BY_MISSION_AND_DAY = PartitionSpec(
    fields=(
        PartitionField(source_id=3, field_id=1000, name="mission", transform=IDENTITY),
        PartitionField(source_id=2, field_id=1001, name="ts_day", transform=DAY),
    )
)
FIRST_DAY = 20_454  # 2026-01-01


def file(name: str, *partition: object, first_id: int = 0) -> DataFile:
    """A file of which only the entry exists: a plan never opens it."""
    low, high = to_bytes(LONG, first_id), to_bytes(LONG, first_id + ROWS - 1)
    return DataFile(
        path=f"mem:/t/data/{name}.parquet",
        file_format="parquet",
        record_count=ROWS,
        file_size=1000,
        partition=partition,
        metrics=Metrics(value_counts={1: ROWS}, null_counts={1: 0}, lower_bounds={1: low}, upper_bounds={1: high}),
    )


def daily(days: int) -> TableMaker:
    """A manifest a day, as daily ingest leaves them; four files in each, by id."""
    maker = TableMaker(EVENTS, specs=[BY_DAY])
    for day in range(days):
        files = [file(f"{day}-{part}", FIRST_DAY + day, first_id=part * ROWS) for part in range(4)]
        maker.manifest(files)
    return maker


def opened(maker: TableMaker, where: str) -> tuple[Funnel, list[str]]:
    storage = CountingStorage(maker.storage)
    funnel = maker.table(storage).scan(where).plan().funnel
    assert all(count == 1 for count in storage.opened.values())  # nothing is read twice
    return funnel, storage.opened_like("/m-")


@pytest.fixture(scope="module")
def year() -> TableMaker:
    return daily(365)


def test_p5_of_365_daily_manifests_a_month_opens_30(year: TableMaker) -> None:
    funnel, manifests = opened(year, "ts >= '2026-01-01' AND ts < '2026-01-31'")
    assert len(manifests) == 30
    assert funnel.manifests_total - len(manifests) == 335
    assert funnel == Funnel(
        manifests_total=365,
        manifests_read=30,
        files_total=365 * 4,
        files_kept=120,
        rows_kept=120 * ROWS,
        bytes_kept=120_000,
    )


def test_p3_a_week_of_a_year_drops_ninety_five_in_a_hundred(year: TableMaker) -> None:
    funnel, manifests = opened(year, "ts BETWEEN TIMESTAMP_NTZ '2026-03-02' AND TIMESTAMP_NTZ '2026-03-08 23:59:59'")
    assert len(manifests) == funnel.manifests_read == 7
    assert 1 - funnel.manifests_read / funnel.manifests_total > 0.95


def test_p1_manifests_of_other_partitions_are_never_opened(year: TableMaker) -> None:
    storage = CountingStorage(year.storage)
    table = year.table(storage)
    table.scan("ts = '2026-07-04 12:00:00'").plan()
    [only] = storage.opened_like("/m-")
    held = {task.data_file.partition for task in table.scan("ts = '2026-07-04 12:00:00'").plan().tasks}
    assert held == {(FIRST_DAY + 184,)}
    assert only in {manifest.path for manifest in year.manifests}
    assert not storage.opened_like("/data/")


def test_a_filter_that_nothing_meets_opens_no_manifest(year: TableMaker) -> None:
    funnel, manifests = opened(year, "ts >= '2030-01-01'")
    assert manifests == []
    assert (funnel.files_kept, funnel.rows_kept, funnel.bytes_kept) == (0, 0, 0)
    assert funnel.files_total == 365 * 4


def missions() -> Iterator[tuple[str, int]]:
    """40 missions × 1,000 days, as a rewrite clusters them: by mission, then by day."""
    for mission in range(40):
        for day in range(1000):
            yield f"mission-{mission:02}", FIRST_DAY + day


@pytest.mark.slow
def test_p2_a_mission_and_a_week_of_40000_partitions_keep_at_most_6_manifests() -> None:
    maker = TableMaker(EVENTS, specs=[BY_MISSION_AND_DAY])
    listed = [file(f"{mission}-{day}", mission, day) for mission, day in missions()]
    for start in range(0, len(listed), 100):  # 400 manifests of 100 partitions
        maker.manifest(listed[start : start + 100])
    funnel, manifests = opened(maker, "mission = 'mission-17' AND ts >= '2026-05-01' AND ts < '2026-05-08'")
    assert len(manifests) == funnel.manifests_read <= 6
    assert funnel.files_kept == 7
    assert funnel.files_total == 40_000
    alone, _ = opened(maker, "mission = 'mission-17'")
    assert 1 - alone.manifests_read / alone.manifests_total >= 0.95  # P3
    assert alone.files_kept == 1000


def test_p2_daily_ingest_before_any_rewrite_keeps_a_manifest_a_day() -> None:
    maker = TableMaker(EVENTS, specs=[BY_MISSION_AND_DAY])
    for day in range(FIRST_DAY, FIRST_DAY + 30):
        maker.manifest([file(f"{mission}-{day}", f"mission-{mission:02}", day) for mission in range(40)])
    funnel, manifests = opened(maker, "mission = 'mission-17' AND ts >= '2026-01-05' AND ts < '2026-01-12'")
    assert len(manifests) == 7
    assert funnel.files_kept == 7


# ---------------------------------------------------------------- numbers


def test_p4_statistics_narrow_what_partitions_left(year: TableMaker) -> None:
    funnel, _ = opened(year, "ts >= '2026-01-01' AND ts < '2026-01-03' AND id < 100")
    assert (funnel.manifests_read, funnel.files_kept, funnel.rows_kept) == (2, 2, 2 * ROWS)


def test_files_in_unopened_manifests_count_by_the_snapshot_where_the_list_does_not_say() -> None:
    maker = TableMaker(EVENTS, specs=[BY_DAY], format_version=1)
    maker.manifest([file("a", FIRST_DAY)], added_files=None)
    maker.manifest([file("b", FIRST_DAY + 9), file("c", FIRST_DAY + 9)], added_files=None)
    where = "ts < '2026-01-02'"
    assert maker.table().scan(where).plan().funnel.files_total == 1  # nobody says more
    maker.snapshot(summary={"operation": "append", "total-data-files": "3"})
    assert maker.table().scan(where).plan().funnel.files_total == 3


def test_delete_manifests_count_among_manifests_and_not_among_files() -> None:
    maker = daily(2)
    keys = Schema(fields=EVENTS.fields[:1])
    maker.manifest([maker.equality_deletes(keys, [{"id": 1}], partition=(FIRST_DAY,))], sequence_number=2)
    funnel = maker.table().scan().plan().funnel
    assert (funnel.manifests_total, funnel.manifests_read, funnel.files_total, funnel.deletes_kept) == (3, 3, 8, 1)


def test_an_empty_table_plans_nothing() -> None:
    plan = TableMaker(EVENTS).table().scan("id = 1").plan()
    assert len(plan.tasks) == 0
    assert plan.snapshot is None
    assert plan.funnel == Funnel(
        manifests_total=0, manifests_read=0, files_total=0, files_kept=0, rows_kept=0, bytes_kept=0
    )


# ---------------------------------------------------------------- tasks


def test_tasks_are_made_when_asked_for(year: TableMaker) -> None:
    tasks = year.table().scan().plan().tasks
    assert len(tasks) == 365 * 4
    assert tasks[0].data_file.path == "mem:/t/data/0-0.parquet"
    assert tasks[-1] == tasks[len(tasks) - 1]
    assert tasks[-1].data_file.path == "mem:/t/data/364-3.parquet"
    assert [task.data_file.path for task in tasks[4:6]] == ["mem:/t/data/1-0.parquet", "mem:/t/data/1-1.parquet"]
    assert tasks[0] is not tasks[0]
    with pytest.raises(IndexError, match="task 1460 of 1460"):
        tasks[1460]


def test_tasks_in_a_row_are_those_that_are_asked_for_one_by_one(
    year: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are made at a time. The last portion may be smaller."""
    monkeypatch.setattr(manifest, "_AT_ONCE", 7)
    for where in (None, "ts < '2026-02-20' AND id > 50"):
        tasks = year.table().scan(where).plan().tasks
        assert len(tasks) % 7
        assert list(tasks) == [tasks[at] for at in range(len(tasks))]


def test_a_plan_is_made_once_for_a_scan(year: TableMaker) -> None:
    storage = CountingStorage(year.storage)
    scan = year.table(storage).scan("ts < '2026-01-02'")
    assert scan.plan() is scan.plan()
    scan.explain()
    assert all(count == 1 for count in storage.opened.values())


# ---------------------------------------------------------------- explain


def test_explain_tells_the_funnel_and_what_each_term_prunes(year: TableMaker) -> None:
    text = year.table().scan("ts < TIMESTAMP_NTZ '2026-01-11' AND id >= 300").explain()
    assert text.splitlines() == [
        "snapshot   1000 of 2023-11-14 22:13:20 UTC",
        "filter     ts < TIMESTAMP_NTZ '2026-01-11 00:00:00' AND id >= 300",
        "manifests  10 of 365 opened (97.3 % left out)",
        "files      10 of 1,460 to read (99.3 % left out)",
        "rows       at most 1,000 in 9.8 KiB",
        "terms      each alone would drop",
        "  ts < TIMESTAMP_NTZ '2026-01-11 00:00:00'  355 manifests by partition, 0 files by statistics",
        "  id >= 300                                 0 manifests by partition, 30 files by statistics",
    ]


def test_explain_of_an_empty_table_says_so() -> None:
    text = TableMaker(EVENTS).table().scan().explain()
    assert text.startswith("snapshot   none: the table is empty\nfilter     none\nmanifests  0 of 0 opened\n")


def test_explain_counts_the_deletes() -> None:
    maker = daily(1)
    keys = Schema(fields=EVENTS.fields[:1])
    maker.manifest([maker.equality_deletes(keys, [{"id": 1}], partition=(FIRST_DAY,))], sequence_number=2)
    assert "deletes    1 delete files considered" in maker.table().scan().explain()


def test_the_days_are_days() -> None:
    """The fixture's own claim: what is called 2026-01-01 is that day."""
    assert daily(1).table().scan("ts >= '2026-01-01' AND ts < '2026-01-02'").plan().funnel.files_kept == 4
