"""Frames are made once for a version of a table, and anew for every other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import esker
from esker.spark.sql.queries.query_frames import KnownFrames


def test_a_frame_is_made_once_per_key_and_session() -> None:
    known, made = KnownFrames(), []
    one: Any = object()
    other: Any = object()

    def get(session: Any, key: str) -> Any:
        def make() -> Any:
            made.append(key)
            return f"frame {len(made)}"

        return known.get(session, key, make)

    assert [get(one, "a"), get(one, "b"), get(one, "a")] == ["frame 1", "frame 2", "frame 1"]
    assert get(other, "a") == "frame 3"
    assert get(one, "a") == "frame 4"


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
