"""Health: scores by their formulas, one action for each finding; maintain does what it recommends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from reachability import objects_of
from sound_tables import rows_of
from with_deletes import commit_deletes, equality_delete, position_delete

import esker
from esker.errors import Conflict, InvalidInput
from esker.maintain.table_health import Health, Measure
from esker.table import Table

QUICK = {"commit.retry.min-wait-ms": "0", "history.expire.max-snapshot-age-ms": "1"}


def orders(appends: int = 0, **how: Any) -> Table:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    properties = {**QUICK, **how.pop("properties", {})}
    table = lake.create_table("s.t", "id bigint, region string", properties=properties, **how)
    for n in range(appends):
        table.append({"id": [n], "region": ["eu"]})
    return table


def measure(table: Table, name: str, **how: Any) -> Measure:
    (found,) = [one for one in table.health(**how).measures if one.name == name]
    return found


def test_an_empty_table_and_a_new_one_are_healthy() -> None:
    table = orders()
    assert (table.health().score, table.health().findings) == (100, ())
    table.append({"id": [1], "region": ["eu"]})
    assert table.health().score == 100
    assert repr(table.health()) == "<Health of s.t: 100 of 100, 0 findings>"


def test_small_files_are_those_that_a_compaction_would_join() -> None:
    table = orders(20)
    found = measure(table, "small files")
    assert (found.score, found.call, found.effect) == (5, "compact()", "20 files become 1")
    plan = table.compact(dry_run=True)
    assert (plan.files, plan.files_after) == (20, 1)
    few = orders(4)  # fewer than a compaction takes
    assert measure(few, "small files").score == 100
    apart = orders(partition_by=["region"])
    for n in range(9):
        apart.append({"id": [n, n], "region": [f"r{n}", "eu"]})
    assert measure(apart, "small files").effect == "18 files become 10"  # one of eu, nine others


def test_deletes_are_folded_or_compacted_away() -> None:
    table = orders()
    table.append({"id": list(range(1000)), "region": ["eu"] * 1000})
    file = table.scan().plan().tasks[0].data_file
    for n in range(3):
        commit_deletes(table, position_delete(table, file, [n]))
    found = measure(table, "deletes")
    assert (found.call, found.effect) == ("rewrite_position_deletes()", "3 delete files become about 1")
    assert found.score == 0  # two more than needed, for one data file
    table.rewrite_position_deletes()
    assert measure(table, "deletes").score == 99  # three of 1,000 rows
    commit_deletes(table, position_delete(table, file, list(range(100, 300)), named=True))
    found = measure(table, "deletes")
    assert found.call == "compact(delete_file_threshold=1, remove_dangling_deletes=True)"
    assert found.effect == "2 delete files become about 0"
    table.compact(**found.arguments)
    assert measure(table, "deletes").score == 100
    assert len(rows_of(table)) == 797
    table.delete("id = 500")
    commit_deletes(table, equality_delete(table, [600], table.scan().plan().tasks[0].data_file))
    assert measure(table, "deletes").action == "compact"


def test_manifests_and_snapshots() -> None:
    table = orders(40)
    manifests, snapshots = measure(table, "manifests"), measure(table, "snapshots")
    assert (manifests.score, manifests.effect) == (50, "40 manifests become about 1")
    assert (snapshots.score, snapshots.effect) == (25, "40 snapshots become 1")
    assert measure(table, "metadata").score == 100


def test_skew_has_no_verb() -> None:
    table = orders(partition_by=["region"])
    for region in "abcd":
        table.append(
            {"id": list(range(20_000 if region == "a" else 1)), "region": [region] * (20_000 if region == "a" else 1)}
        )
    found = measure(table, "skew")
    assert found.score < 90
    assert (found.call, found.needs_action) == (None, True)


def test_orphans_are_estimated_when_asked() -> None:
    table = orders(1)
    place = f"{table.location}/data/lost.parquet"
    objects_of(table)[place] = (b"12345", 1)
    found = measure(table, "orphans", orphans=True)
    assert found.said.startswith("1 orphans of ")
    assert found.effect == "1 files are deleted"
    assert "orphans" not in [one.name for one in table.health().measures]


def test_the_score_is_the_weighted_mean_and_the_worst_comes_first() -> None:
    def one(name: str, score: int, weight: int) -> Measure:
        return Measure(name=name, score=score, weight=weight, formula="", said="", action="compact")

    found = Health(name="t", measures=(one("a", 50, 10), one("b", 0, 30), one("c", 95, 60)))
    assert found.score == round((500 + 0 + 5700) / 100)
    assert [finding.name for finding in found.findings] == ["b", "a"]
    assert found.formula == "(10 × a + 30 × b + 60 × c) / sum of weights"


# ---------------------------------------------------------------- maintain


def test_maintain_does_what_health_recommends_and_says_before_and_after() -> None:
    table = orders(30, properties={"write.delete.mode": "merge-on-read"})
    table.delete("id = 3")
    before = rows_of(table)
    there = set(objects_of(table))
    plan = table.maintain(dry_run=True)
    assert set(objects_of(table)) == there
    assert [step.verb for step in plan.steps] == ["compact", "rewrite_manifests", "expire_snapshots"]
    assert all(step.report is None and step.plan is not None for step in plan.steps)
    assert (plan.done, plan.after) == (False, None)
    report = table.maintain()
    assert report.after is not None
    assert report.before.score < 60
    assert report.after.score == 100, str(report.after)
    assert rows_of(table.refresh()) == before
    assert len(table.snapshots) == 1
    assert len(table.inspect.files()) == 1
    assert table.verify(deep=True).findings == ()
    assert table.maintain().steps == ()
    assert "health" in str(report)
    assert "after 100" in report._repr_html_()


def test_a_budget_leaves_steps_out() -> None:
    table = orders(20)
    report = table.maintain(max_bytes=10)
    assert [step.verb for step in report.steps if step.report is not None] == ["expire_snapshots"]
    (skipped,) = [step for step in report.steps if step.verb == "compact"]
    assert skipped.skipped is not None
    assert "the budget is 10 B" in skipped.skipped
    late = orders(20).maintain(max_seconds=0)
    assert {step.skipped for step in late.steps} == {"skipped: the time is used up"}


def test_a_compaction_over_the_budget_takes_what_fits_and_the_next_call_the_rest() -> None:
    table = orders(20)
    before = rows_of(table)
    sizes = table.inspect.files().column("file_size_in_bytes").to_pylist()
    budget = sum(sizes) // 2
    (planned,) = [step for step in table.maintain(max_bytes=budget, dry_run=True).steps if step.verb == "compact"]
    assert 0 < planned.plan.bytes <= budget
    report = table.maintain(max_bytes=budget)
    (first,) = [step for step in report.steps if step.verb == "compact"]
    assert first.skipped is None
    assert 5 <= first.report.files_rewritten < 20
    assert first.report.bytes_rewritten <= budget
    assert 1 < len(table.refresh().inspect.files()) < 20
    assert rows_of(table) == before
    table.maintain(max_bytes=10 * budget)
    assert len(table.refresh().inspect.files()) == 1
    assert rows_of(table) == before


def test_equality_deletes_that_apply_to_no_file_are_removed() -> None:
    """A compaction has nothing to rewrite then."""
    table = orders(1)
    file = table.scan().plan().tasks[0].data_file
    commit_deletes(table, equality_delete(table, [600], file))
    table.overwrite({"id": [1], "region": ["eu"]})
    assert measure(table, "deletes").action == "compact"
    assert [step.verb for step in table.maintain(dry_run=True).steps] == ["rewrite_position_deletes"]
    report = table.maintain()
    assert [step.verb for step in report.steps] == ["rewrite_position_deletes"]
    assert table.inspect.delete_files().num_rows == 0
    assert rows_of(table) == [1]
    assert table.maintain().steps == ()


def test_positions_of_files_that_are_gone_are_removed() -> None:
    """The delete file is about two files, which two compactions have rewritten. So none of them could remove it."""
    by_partition = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = orders(properties=by_partition)
    for first in (0, 10):
        table.append({"id": list(range(first, first + 4)), "region": ["eu"] * 4})
    table.delete("id in (1, 11)")
    for _ in range(2):
        table.compact(delete_file_threshold=1, max_files=1)
    assert table.inspect.delete_files().num_rows == 1
    assert [(step.verb, dict(step.arguments)) for step in table.maintain().steps] == [
        ("rewrite_position_deletes", {"rewrite_all": True})
    ]
    assert table.inspect.delete_files().num_rows == 0
    assert rows_of(table) == [0, 2, 3, 10, 12, 13]
    assert table.maintain().steps == ()


def test_a_step_that_loses_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(20)

    def loses(*, dry_run: bool = False, **_: Any) -> str:
        if dry_run:
            return "plan"
        raise Conflict("another writer was faster")

    monkeypatch.setattr(table, "compact", loses)
    report = table.maintain()
    assert [(s.verb, s.skipped) for s in report.steps if s.skipped] == [
        ("compact", "failed: another writer was faster")
    ]
    assert len(table.snapshots) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_step_that_the_table_refuses_does_not_stop_the_others(dry_run: bool) -> None:
    table = orders(30, properties={"gc.enabled": "false"})
    report = table.maintain(dry_run=dry_run)
    refused = [step for step in report.steps if step.skipped is not None]
    assert [step.verb for step in report.steps] == ["compact", "rewrite_manifests", "expire_snapshots"]
    assert [(step.verb, step.plan) for step in refused] == [("expire_snapshots", None)]
    assert "refused: cannot delete files of the table: its property gc.enabled is false" in str(refused[0])
    assert len(table.refresh().inspect.data_files()) == (30 if dry_run else 1)


def test_a_table_that_refuses_to_look_for_orphans_is_maintained_without() -> None:
    table = orders(30, properties={"gc.enabled": "false"})
    report = table.maintain(orphans=True)
    assert [(s.verb, (s.skipped or "")[:8]) for s in report.steps][-1] == ("remove_orphans", "refused:")
    assert len(table.inspect.data_files()) == 1


def test_a_table_opened_by_its_path_has_a_health_and_no_maintenance(tmp_path: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    lake.create_namespace("s")
    made = lake.create_table("s.t", "id bigint")
    for n in range(6):
        made.append({"id": [n]})
    table = esker.open_table(made.location)
    assert table.health().findings[0].action == "compact"
    (tmp_path / "link").symlink_to(made.location)
    assert measure(esker.open_table(tmp_path / "link"), "metadata").said == "unknown size"
    with pytest.raises(InvalidInput, match="read-only"):
        table.maintain()


# ---------------------------------------------------------------- repair


def with_wrong_totals(table: Table) -> Table:
    """The same table, whose last snapshot counts wrongly, as some writers do."""
    last = table.snapshots[-1]
    wrong = replace(last, summary={**last.summary, "total-records": "7", "total-data-files": "9"})
    home = table._at_home()
    changed = replace(table.metadata, snapshots=(*table.snapshots[:-1], wrong))
    home.catalog.swap(home.name, table._state, changed)
    return table.refresh()


def test_totals_are_repaired_by_a_new_snapshot() -> None:
    table = with_wrong_totals(orders(3))
    first = table.snapshots[-1].snapshot_id
    plan = table.verify(repair=True, dry_run=True)
    assert (plan.repairable, plan.repaired) == (("wrong-total",), ())
    assert len(table.snapshots) == 3
    result = table.verify(repair=True)
    assert result.repaired == ("wrong-total",)
    assert {finding.snapshot_id for finding in result.findings} == {first}  # that one stays as it is
    last = table.snapshots[-1]
    assert (last.summary["total-records"], last.summary["total-data-files"], last.operation) == ("3", "3", "replace")
    assert rows_of(table) == [0, 1, 2]
    table.append({"id": [3], "region": ["eu"]})
    assert table.snapshots[-1].summary["total-records"] == "4"
    table.expire_snapshots(older_than=1 << 60)
    assert table.verify(deep=True).findings == ()


def test_dangling_deletes_and_a_late_hint_are_repaired(tmp_path: Any) -> None:
    lake = esker.connect(f"file://{tmp_path}/w")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1, 2]})
    plan = table.scan().plan()
    file = plan.tasks[0].data_file
    commit_deletes(table, position_delete(table, replace(file, path=file.path + ".gone"), [1], named=True))
    hint = tmp_path / "w/s/t/metadata/version-hint.text"
    hint.write_text("1")
    assert table.verify(repair=True, dry_run=True).repairable == ("dangling-delete", "stale-hint")
    result = table.verify(repair=True)
    assert result.repaired == ("dangling-delete", "stale-hint")
    assert {finding.snapshot_id for finding in result.findings} <= {s.snapshot_id for s in table.snapshots[:-1]}
    assert table.inspect.delete_files().num_rows == 0
    assert rows_of(table) == [1, 2]


def test_a_late_hint_of_an_empty_table_is_repaired(tmp_path: Any) -> None:
    lake = esker.connect(f"file://{tmp_path}/w")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    with table.alter() as change:
        change.set_properties({"x": "1"})
    (tmp_path / "w/s/t/metadata/version-hint.text").write_text("1")
    result = table.verify(repair=True)
    assert (result.repaired, result.findings) == (("stale-hint",), ())
    assert table.snapshots == ()


def test_a_sound_table_is_not_changed_by_a_repair() -> None:
    table = orders(2)
    result = table.verify(repair=True)
    assert (result.repaired, result.findings, len(table.snapshots)) == ((), (), 2)
