"""Plans that Spark's workers make, as this process makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.read import prune_on_workers
from esker.read.prune_on_workers import MODE


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_on_workers, "MANIFESTS_IN_A_PART", 2)


def made(spark: Any, folder: Path) -> Any:
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", spark=spark)
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id bigint, weight double, name string", partition_by=["truncate(4, name)"])
    for number in range(5):
        ids = range(number * 10, number * 10 + 10)
        names = [f"n{number}-{at}" for at in ids]
        table.append(pa.table({"id": list(ids), "weight": [float(at) for at in ids], "name": names}))
    table.delete("id = 12")
    return table


def test_workers_plan_what_this_process_plans(spark: Any, tmp_path: Path, small_parts: None) -> None:
    table = made(spark, tmp_path)
    jobs = spark.sparkContext._jsc.sc().dagScheduler()
    for where in (None, "id >= 25", "name LIKE 'n3%' AND weight < 33.5"):
        here = table.scan(where).plan()
        before = jobs.numTotalJobs()
        spread = table.scan(where).planned_on_workers().plan()
        assert list(spread.tasks) == list(here.tasks)
        assert (spread.funnel, spread.effects) == (here.funnel, here.effects)
        assert (jobs.numTotalJobs() > before) == (here.funnel.manifests_read > 2)


def test_a_property_of_the_table_asks_for_the_workers(spark: Any, tmp_path: Path, small_parts: None) -> None:
    table = made(spark, tmp_path)
    expected = sorted(table.scan("id >= 5").to_spark().collect())
    with table.alter() as change:
        change.set_properties({MODE: "distributed"})
    jobs = spark.sparkContext._jsc.sc().dagScheduler()
    before = jobs.numTotalJobs()
    frame = table.scan("id >= 5").to_spark()
    assert jobs.numTotalJobs() > before
    assert sorted(frame.collect()) == expected


def test_the_workers_use_the_compiled_walk_that_is_installed_here(spark: Any) -> None:
    pytest.importorskip("esker.avro._shred")
    from esker.spark.scan.spread_jobs import spread

    assert list(spread(spark, _Walk(), [1, 2])) == ["esker.avro._shred"] * 2


class _Walk:
    """Which walk a worker uses. Its pickle refers to no module of the tests."""

    def __reduce__(self) -> Any:
        return eval, ("lambda part: __import__('esker.avro._shred', fromlist=['x']).__name__",)
