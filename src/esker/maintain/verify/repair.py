"""Repair what can be repaired from what is there: totals, a late hint, and deletes that apply to nothing.

Snapshots never change, so a repair is a new snapshot of the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from esker.errors import EskerError
from esker.maintain.tended_table import TendedTable
from esker.maintain.verify.findings import Finding
from esker.maintain.verify.manifest_facts import facts_of, read_each
from esker.maintain.verify.verify_table import totals_of
from esker.ports.catalog import TableState
from esker.tree.snapshot import extended
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import Proposal, commit
from esker.write.context import Home, MetadataNames, Scratch
from esker.write.table_changes import next_ms

REPAIR = "esker.repair"  # in the summary of the snapshot


def repairable(table: TendedTable, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The rules whose findings about the current snapshot of main a repair can end."""
    current = table.metadata.current_snapshot_id
    rules = {
        finding.rule
        for finding in findings
        if finding.rule == "stale-hint"
        or (finding.rule in ("wrong-total", "dangling-delete") and finding.snapshot_id == current)
    }
    return tuple(sorted(rules))


def repair_totals(table: TendedTable, home: Home) -> TableState:
    """Commit a snapshot of the same files with the right totals. The commit also writes the hint of the version."""
    return commit(home.catalog, home.name, table.state, _RightTotals(table, home))


@dataclass(slots=True)
class _RightTotals:
    """A snapshot of the files of its base, whatever that is, with totals that were counted."""

    table: TendedTable
    home: Home
    _inner: SnapshotChange | None = None

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The same files and the right totals. A table without snapshots gets a version for its hint alone."""
        head = base.metadata.current_snapshot
        if head is None:
            return Proposal(metadata=replace(base.metadata, last_updated_ms=next_ms(base.metadata)))
        tools = self.home.tools
        self._inner = SnapshotChange(
            tools=tools,
            steps=(),
            scratch=Scratch(tools.storage),
            names=MetadataNames(),
            start=head,
            operation="replace",
            extra={REPAIR: "totals"},
        )
        proposal = self._inner.propose(base, attempt)
        made = self._inner.snapshot
        assert proposal is not None  # an operation is named, so there is a snapshot
        assert made is not None
        right = replace(made, summary={**made.summary, **self._totals(base)})
        return replace(
            proposal,
            metadata=replace(proposal.metadata, snapshots=extended(base.metadata.snapshots, right)),
        )

    def _totals(self, base: TableState) -> dict[str, str]:
        table = replace(self.table, state=base)
        head = base.metadata.current_snapshot
        assert head is not None
        manifests = table.format.manifests(base.metadata, head)
        facts = []
        for manifest, outcome in read_each(table, manifests, full_metrics=False):
            if isinstance(outcome, EskerError):
                raise outcome
            facts.append(facts_of(base.metadata, manifest, outcome))
        return {key: str(value) for key, value in totals_of(facts).items()}

    def abandon(self) -> None:
        """Delete the new manifest list."""
        if self._inner is not None:
            self._inner.abandon()
