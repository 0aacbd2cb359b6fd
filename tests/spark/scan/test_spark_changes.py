"""Change feeds in Spark: the rows that Arrow tells, read by Spark's own readers where they can."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delete_strategies import with_deletes
from history_strategies import histories
from hypothesis import HealthCheck, Phase, given, settings
from spark_tables import agrees, on_disk
from table_maker import TableMaker
from table_strategies import Story, stories

import esker
from esker.model.schema import Schema
from esker.model.types import DOUBLE, LONG, STRING, Field, ListType, MapType, StructType, TimestampType, children
from esker.ports.engine import CHANGE_COLUMNS
from esker.read.scan_changes import ChangeScan
from esker.tree.data_file import DataFile
from esker.tree.manifest import EntryStatus

PLAIN = Schema(fields=(Field(id=1, name="id", type=LONG, required=True), Field(id=2, name="name", type=STRING)))


@dataclass
class Feed:
    """A feed as the comparison of two engines takes it."""

    changes: ChangeScan

    @property
    def projection(self) -> Schema:
        return Schema(fields=(*self.changes.projection, *CHANGE_COLUMNS))

    def to_arrow(self) -> pa.Table:
        return self.changes.to_arrow()

    def to_spark(self, session: Any) -> Any:
        return self.changes.to_spark(session)


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": at, "name": f"n{at % 7}" if at % 5 else None} for at in range(start, start + count)]


def plan_of(frame: Any) -> str:
    return frame._jdf.queryExecution().toString()


def of_vectors(version: int = 3) -> TableMaker:
    """An append, a delete by a vector, a larger vector in its place, and the file gone."""
    maker = TableMaker(PLAIN, format_version=version)
    data = [maker.data_file(rows(5000), row_group_size=1000), maker.data_file(rows(10, 5000))]
    appended = maker.manifest(data)
    maker.snapshot()
    first = maker.manifest([maker.vector([0, 4095, 4096], data[0])])
    maker.snapshot([appended, first], summary={"operation": "delete"})
    second = maker.manifest([maker.vector([0, 7, 4095, 4096, 4999], data[0]), maker.vector([3], data[1])])
    maker.snapshot([appended, second], summary={"operation": "delete"})
    maker.snapshot([], summary={"operation": "delete"})
    return maker


def test_rows_that_vectors_take_are_deletes(route: str, tmp_path: Path, spark: Any) -> None:
    table = on_disk(of_vectors(), tmp_path)
    assert agrees(Feed(table.scan_changes(None)), spark) == 5010 + 3 + 3 + 5004
    deletes = table.scan_changes(table.snapshots[0].snapshot_id, table.snapshots[2].snapshot_id)
    assert agrees(Feed(deletes), spark) == 6
    plan = plan_of(deletes.to_spark(spark))
    assert "MapInArrow" not in plan
    assert "Window" not in plan, "nothing came, so nothing is compared"
    assert agrees(Feed(table.scan_changes(None, where="id >= 4095 and id < 5001")), spark) > 0


def rewritten(maker: TableMaker, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> tuple[DataFile, DataFile]:
    """A snapshot with a file, and one that has another in its place."""
    files = maker.data_file(old), maker.data_file(new)
    first = maker.manifest([files[0]])
    maker.snapshot([first])
    second = maker.manifest([files[1]], status=EntryStatus.ADDED)
    maker.snapshot([second], summary={"operation": "overwrite"})
    return files


def test_rows_that_were_only_moved_are_left_out(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    twice = [{"id": 1, "name": "twin"}] * 3
    rewritten(maker, rows(100) + twice, rows(90) + twice[:2] + [{"id": 95, "name": "other"}])
    table = on_disk(maker, tmp_path)
    feed = table.scan_changes(table.snapshots[0].snapshot_id)
    assert agrees(Feed(feed), spark) == 10 + 1 + 1
    plan = plan_of(feed.to_spark(spark))
    assert "MapInArrow" not in plan
    assert agrees(Feed(table.scan_changes(table.snapshots[0].snapshot_id, columns=["name"])), spark) == 12


def test_keys_make_updates(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    rewritten(maker, rows(50), [{**row, "name": "new"} if row["id"] < 3 else row for row in rows(52, 1)])
    table = on_disk(maker, tmp_path)
    feed = table.scan_changes(table.snapshots[0].snapshot_id, keys=["id"])
    assert agrees(Feed(feed), spark) == 1 + 2 + 2 + 3
    kinds = feed.to_arrow()["_change_type"].to_pylist()
    assert kinds == ["delete", *["update_before", "update_after"] * 2, *["insert"] * 3]


def test_keys_that_several_rows_share_are_refused(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN)
    rewritten(maker, [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], [{"id": 1, "name": "c"}])
    table = on_disk(maker, tmp_path)
    feed = table.scan_changes(table.snapshots[0].snapshot_id, keys=["id"])
    with pytest.raises(esker.InvalidInput, match="cannot tell updates of snapshot 1001 by id: several rows"):
        feed.to_arrow()
    with pytest.raises(Exception, match="cannot compute updates by id: several rows"):
        feed.to_spark(spark).collect()


NESTED = Schema(
    fields=(
        Field(id=1, name="id", type=LONG, required=True),
        Field(id=2, name="d", type=DOUBLE),
        Field(
            id=3, name="s", type=StructType((Field(id=4, name="x", type=DOUBLE), Field(id=5, name="y", type=STRING)))
        ),
        Field(id=6, name="l", type=ListType(element_id=7, element=DOUBLE)),
        Field(id=8, name="m", type=MapType(key_id=9, key=STRING, value_id=10, value=LONG)),
    )
)


def nested(at: int, **changes: Any) -> dict[str, Any]:
    row = {"id": at, "d": 0.0, "s": {"x": math.nan, "y": None}, "l": [0.0, None], "m": [("a", 1), ("b", None)]}
    return {**row, **changes}


def test_nested_rows_compare_to_the_last_bit(tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(NESTED)
    old = [nested(at) for at in range(10)] + [nested(10, s=None, l=None, m=None), nested(11, d=None)]
    changed = {
        0: nested(0, d=-0.0),
        1: nested(1, s={"x": 1.0, "y": None}),
        2: nested(2, l=[-0.0, None]),
        3: nested(3, l=[]),
        4: nested(4, m=[("a", 1), ("b", 2)]),
        10: nested(10, s={"x": None, "y": None}, l=None, m=None),
    }
    rewritten(maker, old, [changed.get(row["id"], row) for row in old])
    table = on_disk(maker, tmp_path)
    feed = table.scan_changes(table.snapshots[0].snapshot_id)
    found = feed.to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted([*changed, *changed])
    assert sorted(row.id for row in feed.to_spark(spark).select("id").collect()) == sorted([*changed, *changed])


def test_net_changes_are_those_that_arrow_tells(tmp_path: Path, spark: Any) -> None:
    """Rows that come and go, come back, come several times, and differ by the sign of a zero alone."""
    maker = TableMaker(NESTED)
    zero, minus = nested(1), nested(1, d=-0.0)
    states = [
        [nested(0), zero],
        [minus, nested(2), nested(2)],
        [nested(0), nested(2)],
        [nested(0), minus, *[nested(2)] * 3, nested(3, m=None)],
    ]
    for state in states:
        maker.snapshot([maker.manifest([maker.data_file(state)])], summary={"operation": "overwrite"})
    table = on_disk(maker, tmp_path)
    start = table.snapshots[0].snapshot_id
    feed = table.scan_changes(start, columns=["id", "d"], net=True)
    told = [tuple(row.values())[:-1] for row in feed.to_arrow().to_pylist()]
    assert [(id_, math.copysign(1, d), kind, at) for id_, d, kind, at in told] == [
        (1, 1.0, "delete", 0),
        *[(2, 1.0, "insert", 0)] * 3,
        (1, -1.0, "insert", 2),
        (3, 1.0, "insert", 2),
    ]
    assert agrees(Feed(feed), spark) == 6
    assert agrees(Feed(table.scan_changes(None, net=True, columns=["id"])), spark) == 6


def test_a_file_that_many_commits_touch_is_read_for_each(route: str, tmp_path: Path, spark: Any) -> None:
    maker = TableMaker(PLAIN, format_version=3)
    data = maker.data_file(rows(100))
    appended = maker.manifest([data])
    maker.snapshot([appended])
    for count in range(1, 8):
        maker.snapshot(
            [appended, maker.manifest([maker.vector(range(count * 3), data)])], summary={"operation": "delete"}
        )
    table = on_disk(maker, tmp_path)
    assert agrees(Feed(table.scan_changes(None)), spark) == 100 + 21
    assert agrees(Feed(table.scan_changes(table.snapshots[3].snapshot_id, where="name is not null")), spark) > 0


def test_rows_are_compared_by_columns_that_spark_has_no_type_for(tmp_path: Path, spark: Any) -> None:
    fine = Field(id=3, name="ns", type=TimestampType(nanos=True))
    maker = TableMaker(Schema(fields=(*PLAIN.fields, fine)), format_version=3)
    old = [{"id": at, "name": "n", "ns": at} for at in range(5)]
    rewritten(maker, old, [*old[:3], {"id": 3, "name": "n", "ns": 99}])
    table = on_disk(maker, tmp_path)
    feed = table.scan_changes(table.snapshots[0].snapshot_id, columns=["id", "name"])
    assert agrees(Feed(feed), spark) == 3
    assert agrees(Feed(replace(feed, net=True)), spark) == 3
    with pytest.raises(esker.Unsupported, match="cannot give column 'ns' to Spark"):
        table.scan_changes(None).to_spark(spark)


def test_lists_of_nothing_but_null_are_compared(tmp_path: Path, spark: Any) -> None:
    listed = Field(id=2, name="l", type=ListType(element_id=3, element=DOUBLE))
    maker = TableMaker(Schema(fields=(PLAIN.fields[0], listed)), format_version=3)
    rewritten(maker, [{"id": 1, "l": [None]}, {"id": 2, "l": [None, None]}], [{"id": 1, "l": [None]}])
    feed = on_disk(maker, tmp_path).scan_changes(None)
    assert agrees(Feed(feed), spark) == 3
    assert agrees(Feed(replace(feed, net=True)), spark) == 1


def test_no_changes_are_an_empty_frame(tmp_path: Path, spark: Any) -> None:
    maker = of_vectors()
    table = on_disk(maker, tmp_path)
    frame = table.scan_changes("main").to_spark(spark)
    assert frame.count() == 0
    assert frame.columns == ["id", "name", "_change_type", "_change_ordinal", "_commit_snapshot_id"]


def is_shown(f: Field) -> bool:
    """Spark has no nanoseconds."""
    return not (isinstance(f.type, TimestampType) and f.type.nanos) and all(map(is_shown, children(f.type)))


@pytest.mark.slow
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(story=histories(with_deletes(stories(versions=(2, 3)))))
def test_spark_tells_the_changes_that_arrow_tells(spark: Any, story: Story) -> None:
    with tempfile.TemporaryDirectory() as folder:
        feed = on_disk(story.maker, Path(folder)).scan_changes(None)
        if all(map(is_shown, feed.projection)):
            agrees(Feed(feed), spark)
            agrees(Feed(replace(feed, net=True)), spark)
