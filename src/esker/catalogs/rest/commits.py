"""Commits to a REST catalog: what is sent, what the answer means, and what a lost answer comes to.

An answer of 409 says that a requirement was not met. It counts only if no earlier attempt of the same commit may have
been made: after a time-out or a 5xx, 409 may be the answer to this commit's own success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esker.catalogs.rest.apply_updates import applied, failed_requirement
from esker.catalogs.rest.loaded import LoadedTable, loaded_table
from esker.catalogs.rest.metadata_updates import Document, requirements_of, updates_of
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.server_errors import error_in, failure, is_unreadable
from esker.catalogs.rest.service import RestService, Told
from esker.errors import EskerError, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import Rejected, TableState, Unanswered, Verdict
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """The change of one table, as it is sent."""

    name: TableName
    base: TableMetadata | None
    updates: Sequence[Document]
    requirements: Sequence[Document]

    @classmethod
    def of(cls, name: TableName, base: TableMetadata | None, new: TableMetadata) -> TableCommit:
        """The change from ``base`` to ``new``; a new table where there is no base."""
        updates = updates_of(base, new)
        return cls(name=name, base=base, updates=updates, requirements=requirements_of(base, updates))

    def document(self) -> Document:
        """The body of the request."""
        return {
            "identifier": identifier(self.name),
            "requirements": list(self.requirements),
            "updates": list(self.updates),
        }

    @property
    def compares_all(self) -> bool:
        """Whether the same change cannot be applied twice, since the first breaks a requirement of the second."""
        if self.base is None:
            return True
        return failed_requirement(applied(self.base, self.updates), self.requirements) is not None

    @property
    def _added(self) -> list[int]:
        return [one["snapshot"]["snapshot-id"] for one in self.updates if one["action"] == "add-snapshot"]

    @property
    def adds_snapshots(self) -> bool:
        """Whether the change can be recognised by a snapshot of its own."""
        return bool(self._added)

    def has_its_snapshots(self, metadata: TableMetadata) -> bool:
        """Whether the newest snapshot that the change adds is in a version of the table: a server may keep few."""
        known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        known |= {snapshot.parent_snapshot_id or 0 for snapshot in metadata.snapshots}
        return known.issuperset(self._added[-1:])

    def is_in(self, now: TableState) -> bool | None:
        """Whether the change is in a later version of the table; None where that cannot be known."""
        if self.base is None:
            return None
        if self.adds_snapshots:
            if self.has_its_snapshots(now.metadata):
                return True
            return False if self._is_overtaken(now.metadata) else None
        return True if _changes_nothing(now.metadata, self.updates) else None

    def _is_overtaken(self, now: TableMetadata) -> bool:
        """Whether a ref that the change sets went on from where it was by commits of others, all of them known."""
        for one in self.requirements:
            if one["type"] != "assert-ref-snapshot-id" or failed_requirement(now, [one]) is None:
                continue
            ref = now.all_refs.get(one["ref"])
            if ref is None:
                continue
            at: int | None = ref.snapshot_id
            while at is not None and at != one["snapshot-id"]:
                snapshot = now.snapshot(at)
                if snapshot is None:
                    break
                at = snapshot.parent_snapshot_id
            else:
                if at == one["snapshot-id"]:
                    return True
        return False


def identifier(name: TableName) -> Document:
    """A name as the protocol writes it."""
    return {"namespace": list(name.namespace), "name": name.name}


def commit_table(
    service: RestService, commit: TableCommit, *, at: str = "", verdict: Verdict | None = None
) -> LoadedTable | Rejected | Unanswered:
    """Send one change. Raises what the server clearly refuses for another reason than a lost race.

    ``at`` is the version of Nessie's catalog that the change is compared with. ``verdict`` says after a lost answer
    whether the change is in the table; without it the requirements and the snapshots do.
    """
    doing = f"commit to {commit.name}"
    service.require(Operation.UPDATE_TABLE, doing)
    resend = bool(at) or commit.compares_all
    told = service.tell(Operation.UPDATE_TABLE, commit.name, commit.document(), resend=resend, at=at)
    answer = told.answer
    if answer is not None and answer.is_success:
        try:
            loaded = loaded_table(answer, f"the answer of {service.address} for {commit.name}")
        except EskerError:
            return Unanswered("the answer of the server cannot be read", verdict=verdict or commit.is_in)
        if commit.has_its_snapshots(loaded.state.metadata):
            return loaded
        why = "the server reported success, but the new snapshot is not in its answer"
        return Unanswered(why, verdict=verdict or commit.is_in)
    return _refused(service, told, doing, verdict or commit.is_in)


def check_transactions(service: RestService, doing: str) -> None:
    """``Unsupported`` where the server cannot change several tables in one step."""
    if not service.offers(Operation.COMMIT_TRANSACTION):
        raise Unsupported(
            f"cannot {doing}: the REST catalog at {service.address} does not offer the operation "
            f"{Operation.COMMIT_TRANSACTION.value}; nothing was changed; commit to one table at a time",
            feature="transactions over several tables",
        )


def commit_tables(
    service: RestService, commits: Sequence[TableCommit], *, at: str = ""
) -> Rejected | Unanswered | None:
    """Send the changes of several tables; None where the server says that all of them are made."""
    doing = f"commit to {', '.join(str(commit.name) for commit in commits)} together"
    check_transactions(service, doing)
    body = {"table-changes": [commit.document() for commit in commits]}
    resend = bool(at) or any(commit.compares_all for commit in commits)
    told = service.tell(Operation.COMMIT_TRANSACTION, None, body, resend=resend, at=at)
    if told.answer is not None and told.answer.is_success:
        return None
    return _refused(service, told, doing, None)


def _refused(service: RestService, told: Told, doing: str, verdict: Verdict | None) -> Rejected | Unanswered:
    if told.may_be_made:
        return Unanswered(told.why, verdict=verdict)
    if told.answer is None:
        raise service.silence(doing, told.why)
    error = error_in(told.answer, service.secrets)
    if told.answer.status == 404:
        if is_unreadable(told.answer):
            raise failure(told.answer, doing, service.address, service.secrets)
        return Rejected(f"the table was dropped or renamed: {error}")
    if told.answer.status == 409:
        return Rejected(f"the table was changed, dropped or renamed: {error}")
    raise failure(told.answer, doing, service.address, service.secrets)


def _changes_nothing(now: TableMetadata, updates: Sequence[Document]) -> bool:
    try:
        after = applied(now, updates)
    except EskerError:
        return False
    return (
        all(
            getattr(after, field) == getattr(now, field)
            for field in (
                *(
                    "format_version",
                    "uuid",
                    "location",
                    "current_schema_id",
                    "default_spec_id",
                    "default_sort_order_id",
                ),
                *("properties", "all_refs", "statistics", "partition_statistics", "encryption_keys"),
            )
        )
        and all(set(getattr(after, field)) == set(getattr(now, field)) for field in ("schemas", "specs", "sort_orders"))
        and len(after.snapshots) == len(now.snapshots)
    )
