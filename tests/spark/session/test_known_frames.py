"""Frames are made once for a version of a table, and again for every other. Each has a view that nobody sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import esker
from esker.model.predicates.predicate import TRUE
from esker.spark.scan import group_files, spark_reader
from esker.spark.scan.late_frames import LateFrames
from esker.spark.sql.queries import query_frames
from esker.spark.sql.queries.query_frames import KnownFrame, KnownFrames


@pytest.fixture
def without_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_frames, "is_connect", lambda _: True)


@pytest.mark.usefixtures("without_views")
def test_a_frame_is_made_once_per_key_and_session() -> None:
    known, made = KnownFrames(), []
    one: Any = object()
    other: Any = object()

    def get(session: Any, key: str) -> Any:
        def make() -> Any:
            made.append(key)
            return KnownFrame(f"frame {len(made)}")  # type: ignore[arg-type]

        return known.get(session, key, make).frame

    assert [get(one, "a"), get(one, "b"), get(one, "a")] == ["frame 1", "frame 2", "frame 1"]
    assert get(other, "a") == "frame 3"
    assert get(one, "a") == "frame 4"


@pytest.mark.usefixtures("without_views")
def test_only_the_frames_used_last_are_kept() -> None:
    known, session = KnownFrames(), object()
    made: list[int] = []

    def get(key: int) -> None:
        known.get(session, key, lambda: made.append(key) or f"frame {key}")  # type: ignore[arg-type,func-returns-value,return-value]

    for key in (*range(64), 0, 64, 0, 1):
        get(key)
    assert made == [*range(65), 1]


def test_a_query_sees_every_commit_though_frames_are_kept(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint")

    def ids(where: str = "true") -> list[int]:
        return [row[0] for row in lake.sql(f"SELECT * FROM a.t WHERE {where} ORDER BY 1").collect()]

    assert ids() == []
    table.append([{"id": 1}])
    assert ids() == ids() == [1]
    table.append([{"id": 2}])
    assert ids() == [1, 2]
    assert (ids("id < 2"), ids("id > 1")) == ([1], [2])
    with table.alter() as change:
        change.rename_column("id", "key")
    assert lake.sql("SELECT * FROM a.t").columns == ["key"]
    lake.drop_table("a.t")
    lake.create_table("a.t", "id bigint").append([{"id": 3}])
    assert ids() == [3]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> esker.Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint, day int", partition_by=["day"]).append(
        [{"id": n, "day": n % 4} for n in range(20)]
    )
    return lake


def test_a_query_again_makes_few_calls_and_leaves_nothing_to_see(
    lake: esker.Lake, spark: Any, jvm_calls: Callable[[], int]
) -> None:
    text = "SELECT sum(id) FROM a.t WHERE day = 3 AND id > 3"
    seen = [view.name for view in spark.catalog.listTables()]
    first = lake.sql(text).collect()
    before = jvm_calls()
    frame = lake.sql(text)
    assert jvm_calls() - before <= 8
    assert frame.collect() == first == [(7 + 11 + 15 + 19,)]
    assert [view.name for view in spark.catalog.listTables()] == seen


def test_a_column_that_partitions_decide_is_not_read(lake: esker.Lake) -> None:
    plan = lake.sql("SELECT sum(id) FROM a.t WHERE day IN (1, 2)")._jdf.queryExecution().toString()
    assert "DataFilters: []" in plan
    assert "ReadSchema: struct<id:bigint>" in plan


def test_the_views_of_frames_that_are_not_kept_are_dropped(
    lake: esker.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def views() -> int:
        return sum(view.name.startswith("esker_") for view in spark.catalog.listTables("global_temp"))

    monkeypatch.setattr(query_frames, "_KEPT", 2)
    before = views()
    for day in range(4):
        assert lake.sql(f"SELECT count(DISTINCT id) FROM a.t WHERE day = {day}").head() == (5,)
    assert views() == before + 2


def test_a_query_whose_view_another_thread_has_dropped_runs_all_the_same(lake: esker.Lake, spark: Any) -> None:
    text = "SELECT max(id) FROM a.t WHERE id + 0 < 7"
    lake.sql(text)
    for view in spark.catalog.listTables("global_temp"):
        if view.name.startswith("esker_"):
            spark.catalog.dropGlobalTempView(view.name)
    assert lake.sql(text).head() == (6,)
    with pytest.raises(Exception, match="nothing"):
        lake.sql("SELECT nothing FROM a.t WHERE id + 0 < 7")


def test_queries_of_the_same_files_share_a_frame(
    lake: esker.Lake, spark: Any, jvm_calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    frame = LateFrames.frame
    monkeypatch.setattr(LateFrames, "frame", lambda *given: made.append(given) or frame(*given))  # type: ignore[func-returns-value]

    def ids(where: str) -> list[int]:
        return [row[0] for row in lake.sql(f"SELECT id FROM a.t WHERE {where} ORDER BY id").collect()]

    assert ids("day = 3 AND id > 3") == [7, 11, 15, 19]
    before = jvm_calls()
    found = lake.sql("SELECT id FROM a.t WHERE day = 3 AND id > 12 ORDER BY id")
    assert jvm_calls() - before <= 8
    assert [row[0] for row in found.collect()] == [15, 19]
    assert ids("day >= 3 AND id <= 7") == [3, 7]  # a condition that only the first query's files prove
    assert ids("id % 4 = 3 AND day > 2") == [3, 7, 11, 15, 19]
    assert len(made) == 1
    assert ids("day > 1 AND id = 2") == [2]
    assert ids("day = 2 AND id = 3") == []
    lake.table("a.t").append([{"id": 23, "day": 3}])
    assert ids("day = 3 AND id > 12") == [15, 19, 23]


def test_a_frame_of_floats_is_not_shared(lake: esker.Lake) -> None:
    lake.create_table("a.f", "id bigint, weight double").append([{"id": n, "weight": n - 1.0} for n in range(4)])
    for least in range(4):
        found = lake.sql(f"SELECT id FROM a.f WHERE weight >= {least - 1.0} ORDER BY id").collect()
        assert [row[0] for row in found] == list(range(least, 4))


def test_workers_that_read_files_apply_each_filter(lake: esker.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    frame = spark_reader.frame_through_arrow

    def noted(session: Any, engine: Any, request: Any, tasks: Any) -> Any:
        asked.extend(str(task.residual) for task in tasks)
        return frame(session, engine, request, tasks)

    monkeypatch.setattr(spark_reader, "frame_through_arrow", noted)
    monkeypatch.setattr(group_files, "can_be_native", lambda *_: False)
    lake.create_table("a.w", "id bigint").append([{"id": n} for n in range(9)])
    for least in (3, 5, 3):
        found = lake.sql(f"SELECT id FROM a.w WHERE id >= {least} ORDER BY id").collect()
        assert [row[0] for row in found] == list(range(least, 9))
    assert len({text for text in asked if text != str(TRUE)}) == 2
