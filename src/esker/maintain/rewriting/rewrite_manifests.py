"""Rewrite manifests: files of the same partition are listed together, in manifests of the target size.

A plan then opens few manifests, and a filter on the partition skips most of them. No data file is read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from esker.errors import InvalidInput
from esker.maintain.rewriting.exchange import exchange
from esker.model.display_text import card, show_bytes
from esker.ports.catalog import TableState
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_manifests import TARGET_SIZE
from esker.write.build_snapshot import head_of
from esker.write.context import Home, Tools
from esker.write.properties import whole_number
from esker.write.steps import ReplaceManifests


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Manifests of one spec and content that become others."""

    manifests: tuple[ManifestFile, ...]
    after: int  # how many they become

    @property
    def size(self) -> int:
        """The bytes of the manifests."""
        return sum(manifest.length for manifest in self.manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """What ``rewrite_manifests`` would do: ``groups`` of manifests, found in ``snapshot``. Nothing is changed."""

    snapshot: Snapshot | None
    groups: tuple[ManifestGroup, ...]
    total: int  # manifests of the snapshot

    @property
    def manifests(self) -> int:
        """How many manifests are rewritten."""
        return sum(len(group.manifests) for group in self.groups)

    @property
    def manifests_after(self) -> int:
        """How many they become."""
        return sum(group.after for group in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes of these manifests."""
        return sum(group.size for group in self.groups)

    def __repr__(self) -> str:
        if not self.groups:
            return "<esker.ManifestPlan: nothing to rewrite>"
        return (
            f"<esker.ManifestPlan: {self.manifests:,} of {self.total:,} manifests ({show_bytes(self.bytes)}), "
            f"to {self.manifests_after:,}>"
        )

    def _repr_html_(self) -> str:
        return card(
            "rewrite manifests",
            [
                ("manifests now", f"{self.total:,}"),
                ("manifests to rewrite", f"{self.manifests:,} ({show_bytes(self.bytes)})"),
                ("they become", f"{self.manifests_after:,}"),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReport:
    """What ``rewrite_manifests`` did. ``before`` and ``after`` are the manifests of the branch."""

    snapshot: Snapshot | None  # None: there was nothing to do
    rewritten: int
    added: int
    before: int
    after: int

    def __repr__(self) -> str:
        return f"<esker.ManifestReport: {self.rewritten:,} manifests to {self.added:,}>"

    def _repr_html_(self) -> str:
        return card(
            "rewrite manifests",
            [
                ("manifests before", f"{self.before:,}"),
                ("manifests after", f"{self.after:,}"),
                ("rewritten", f"{self.rewritten:,}"),
                ("added", f"{self.added:,}"),
                ("snapshot", None if self.snapshot is None else self.snapshot.snapshot_id),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """Which manifests to rewrite, and how large the new ones are."""

    target_size: int
    spec_id: int | None = None  # None: of every spec
    rewrite_all: bool = False  # also if there are not fewer afterwards
    sort_by: tuple[str, ...] = ()  # partition fields that come first in the order of the entries
    max_retries: int = 3

    @classmethod
    def of(cls, metadata: TableMetadata, given: Mapping[str, Any]) -> ManifestOptions:
        """The options that a user gave; None means the default. Raises ``InvalidInput``."""
        asked = {name: value for name, value in given.items() if value is not None}
        asked.setdefault("target_size", whole_number(metadata.properties, TARGET_SIZE, 8 << 20, at_least=1))
        for name, least in (("target_size", 1), ("max_retries", 0)):
            value = asked.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInput(f"cannot use {name}={value!r}: give a whole number from {least}", **{name: value})
        if asked.get("spec_id") is not None and asked["spec_id"] not in metadata.spec_by_id:
            known = ", ".join(map(str, sorted(metadata.spec_by_id)))
            raise InvalidInput(f"cannot rewrite manifests of spec {asked['spec_id']}: the table has {known}")
        asked["sort_by"] = _sort_fields(metadata, asked.get("spec_id"), asked.get("sort_by", ()))
        return cls(**asked)


def _sort_fields(metadata: TableMetadata, spec_id: int | None, names: Sequence[str]) -> tuple[str, ...]:
    """The partition fields to sort by. Raises ``InvalidInput`` for one that the spec does not have."""
    spec = metadata.spec_by_id[metadata.default_spec_id if spec_id is None else spec_id]
    known = [part.name for part in spec.fields]
    if isinstance(names, str):
        raise InvalidInput(f"cannot sort manifests by {names!r}: give a list of partition fields: [{names!r}]")
    for name in names:
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidInput(
                f"cannot sort manifests by {name!r}: it is not a partition field of spec {spec.spec_id}; {there}"
            )
    if len(set(names)) < len(names):
        raise InvalidInput(f"cannot sort manifests by {', '.join(names)}: name each partition field once")
    return tuple(names)


def plan_manifests(
    tools: Tools, metadata: TableMetadata, head: Snapshot | None, options: ManifestOptions
) -> ManifestPlan:
    """The manifests to rewrite. Only the manifest list is read."""
    manifests = () if head is None else tools.format.manifests(metadata, head)
    by_kind: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in manifests:
        if manifest.may_hold_live_files and options.spec_id in (None, manifest.spec_id):
            by_kind.setdefault((manifest.spec_id, manifest.content), []).append(manifest)
    groups = (
        ManifestGroup(tuple(group), max(1, -(-sum(m.length for m in group) // options.target_size)))
        for group in by_kind.values()
    )
    return ManifestPlan(
        snapshot=head,
        groups=tuple(group for group in groups if options.rewrite_all or len(group.manifests) > group.after),
        total=len(manifests),
    )


def rewrite_manifests(
    home: Home, state: TableState, plan: ManifestPlan, options: ManifestOptions, *, ref: str, extra: Mapping[str, str]
) -> tuple[TableState, ManifestReport]:
    """Do what the plan says. If another commit changed one of the manifests, plan again on the newest version.

    Raises ``Conflict`` if that happens too often. Returns the table's new version, too.
    """
    tools = home.tools
    steps = _Steps(tools, options, ref, plan)
    state, snapshot = exchange(home, state, steps, ref=ref, extra=extra, max_retries=options.max_retries)
    head = head_of(state.metadata, ref)
    left = 0 if head is None else len(tools.format.manifests(state.metadata, head))
    return state, ManifestReport(
        snapshot=snapshot,
        rewritten=steps.plan.manifests if snapshot is not None else 0,
        added=sum(len(step.bins) for step in steps.made) if snapshot is not None else 0,
        before=plan.total,
        after=left,
    )


@dataclass(slots=True)
class _Steps:
    """Makes the steps for one version of the table: of the first plan, and after a conflict of a new one."""

    tools: Tools
    options: ManifestOptions
    ref: str
    plan: ManifestPlan
    made: list[ReplaceManifests] = field(default_factory=list)
    is_first: bool = True

    def __call__(self, metadata: TableMetadata) -> Sequence[ReplaceManifests]:
        if not self.is_first:
            self.plan = plan_manifests(self.tools, metadata, head_of(metadata, self.ref), self.options)
        self.is_first = False
        self.made = [
            ReplaceManifests(
                frozenset(manifest.path for manifest in group.manifests),
                tuple(_bins(self.tools, metadata, group, self.options.sort_by)),
            )
            for group in self.plan.groups
        ]
        return self.made

    def discard(self) -> None:
        """Nothing was written."""


def _bins(
    tools: Tools, metadata: TableMetadata, group: ManifestGroup, sort_by: Sequence[str]
) -> Iterable[tuple[Entries, ...]]:
    """The live entries of the manifests, by partition, divided into equal parts."""
    batches = [
        batch.take(batch.is_live)
        for batch in tools.format.entries(metadata, group.manifests, EntryColumns(full_metrics=True))
    ]
    places = [(at, row) for at, batch in enumerate(batches) for row in range(len(batch))]
    names = [part.name for part in metadata.spec_by_id[group.manifests[0].spec_id].fields]
    first = [names.index(name) for name in sort_by if name in names]
    fields = [*first, *(at for at in range(len(names)) if at not in first)]
    keys = [_partition_order(batch, row, fields) for batch in batches for row in range(len(batch))]
    order = sorted(range(len(places)), key=keys.__getitem__)
    for part in np.array_split(np.array(order, dtype=np.int64), min(group.after, len(order)) or 1):
        rows: dict[int, list[int]] = {}
        for place in part:
            at, row = places[int(place)]
            rows.setdefault(at, []).append(row)
        if rows:
            yield tuple(batches[at].take(np.array(chosen, dtype=np.int64)) for at, chosen in rows.items())


def _partition_order(batch: Entries, row: int, fields: Sequence[int]) -> tuple[tuple[bool, Any], ...]:
    """A key by which partitions are sorted, by the fields in this order: null first, NaN last."""
    values = batch.partition_tuple(row)
    return tuple(
        (False, 0) if value is None else (True, float("inf") if value != value else value)
        for value in (values[at] for at in fields)
    )
