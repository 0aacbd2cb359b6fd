"""A table driven at random: two handles, branches, rollbacks, transactions that are given up; and a model beside it.

Whatever was done before, each branch holds the rows that the model says, and every snapshot still shows its own.
"""

from __future__ import annotations

import pytest
from doors import MemoryLake
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from row_models import MODES, NAME, PARTITIONINGS, Change, Model, beginnings, changes, in_order, make
from sound_tables import check_sound

from esker.table import Table

BRANCHES = ("main", "side")


class TableMachine(RuleBasedStateMachine):
    """The table, and what every snapshot of it must show."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryLake()
        self.heads: dict[str, int] = {}  # by branch
        self.rows: dict[int, Model] = {}  # by snapshot

    @initialize(
        version=st.sampled_from([1, 2, 3]), modes=MODES, partition_by=st.sampled_from(PARTITIONINGS), first=beginnings
    )
    def begin(self, version: int, modes: dict[str, str], partition_by: tuple[str, ...], first: Change) -> None:
        table = make(self.memory.lake(), version, modes, partition_by)
        with table.transaction() as tx:
            first.change(tx)
        self._note(table, "main", first.model([]))
        self.stale = self._open()

    def _open(self) -> Table:
        return self.memory.lake().table(NAME)

    def _note(self, table: Table, ref: str, model: Model) -> None:
        if ref in table.refs:
            self.heads[ref] = table.refs[ref].snapshot_id
            self.rows[self.heads[ref]] = model

    @rule(step=changes, ref=st.sampled_from(BRANCHES))
    def change(self, step: Change, ref: str) -> None:
        if ref not in self.heads:
            return
        table = self._open()
        with table.transaction(ref=ref) as tx:
            step.change(tx)
        self._note(table, ref, step.model(self.rows[self.heads[ref]]))

    @rule(step=changes)
    def change_by_a_handle_that_has_not_looked(self, step: Change) -> None:
        """Its base is old. It is refused, or counts as if it had come just now."""
        from esker.errors import Conflict

        try:
            with self.stale.transaction() as tx:
                step.change(tx)
        except Conflict:
            self.stale = self._open()
            return
        table = self._open()
        if table.refs["main"].snapshot_id != self.heads["main"]:  # else it found nothing to do where it looked
            self._note(table, "main", step.model(self.rows[self.heads["main"]]))

    @rule(steps=st.lists(changes, min_size=1, max_size=3))
    def give_up(self, steps: list[Change]) -> None:
        tx = self._open().transaction()
        for step in steps:
            step.change(tx)
        tx.abandon()

    @precondition(lambda self: "side" not in self.heads and "main" in self.heads)
    @rule()
    def branch_off(self) -> None:
        self._open().branch("side")
        self.heads["side"] = self.heads["main"]

    @precondition(lambda self: "side" in self.heads)
    @rule()
    def drop_the_branch(self) -> None:
        self._open().drop_ref("side")
        del self.heads["side"]

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        table = self._open()
        history = [entry.snapshot_id for entry in table.history]
        parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.snapshots}
        older: list[int] = []
        at = parents.get(self.heads["main"])
        while at is not None:
            older.append(at)
            at = parents.get(at)
        older = [id_ for id_ in older if id_ in history]
        if older:
            target = data.draw(st.sampled_from(older))
            table.rollback(target)
            self.heads["main"] = target

    @invariant()
    def every_branch_holds_its_rows(self) -> None:
        for ref, head in self.heads.items():
            found = in_order(self._open().scan(ref=ref).to_arrow().to_pylist())
            assert found == in_order(self.rows[head]), ref

    def teardown(self) -> None:
        """At the end every snapshot is looked at again."""
        if not self.heads:
            return
        table = self._open()
        for id_, model in self.rows.items():
            assert in_order(table.scan(snapshot_id=id_).to_arrow().to_pylist()) == in_order(model)
        check_sound(self.memory.lake(), NAME)


TableMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestTable = pytest.mark.slow(TableMachine.TestCase)
