"""Verify a table: everything that a retained snapshot refers to exists, and all counts agree.

Each manifest and each data file is looked at once, however many snapshots refer to it. Memory is some tens of bytes for
each file of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from esker.errors import EskerError, NoSuchFile, StorageFailed
from esker.maintain.tended_table import KeySet, TendedTable, ask_each, in_groups, log, path_key
from esker.maintain.verify.check_metadata import check_metadata, check_statistics
from esker.maintain.verify.findings import Finding, Severity, Verification
from esker.maintain.verify.manifest_facts import ManifestFacts, facts_of, read_each
from esker.model.arrow_arrays import binary_array
from esker.model.pruning.orderable import decode
from esker.model.types import Type
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Keys = npt.NDArray[np.int64]

_AT_ONCE = 256  # manifests


def verify(table: TendedTable, *, deep: bool = False, most: int = 10_000) -> Verification:
    """Everything that is wrong with the table, at most ``most`` findings.

    With ``deep``, data files are read and compared with their counts and bounds. Raises ``StorageFailed`` if the
    storage does not answer: then nothing is known.
    """
    walk = _Walk(table, deep=deep)
    found: list[Finding] = []
    for finding in walk.findings():
        if len(found) >= most:
            break
        found.append(finding)
    return Verification(
        name=table.name,
        deep=deep,
        snapshots=walk.snapshots,
        manifests=len(walk.facts),
        files=walk.files,
        rows_read=walk.rows_read,
        findings=tuple(found),
        is_cut=len(found) >= most,
    )


@dataclass(slots=True)
class _Walk:
    """One verification. The fields count what was seen so far."""

    table: TendedTable
    deep: bool
    snapshots: int = 0
    files: int = 0
    rows_read: int = 0
    facts: dict[str, ManifestFacts | None] = field(default_factory=dict)  # by path; None: cannot be read
    seen: KeySet = field(default_factory=KeySet)
    rows: dict[str, list[ManifestFile]] = field(default_factory=dict)  # how lists describe each manifest, by path

    def findings(self) -> Iterator[Finding]:
        """Top-down: metadata, lists, manifests, files, and then the totals of each snapshot."""
        metadata = self.table.metadata
        yield from check_metadata(self.table)
        yield from check_statistics(self.table)
        lists: dict[int, list[str]] = {}  # the manifests of each snapshot that can be read
        waiting: dict[str, ManifestFile] = {}
        for snapshot in metadata.snapshots:
            self.snapshots += 1
            try:
                manifests = self.table.format.manifests(metadata, snapshot)
            except EskerError as error:
                yield _broken(error, snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}", snapshot)
                continue
            yield from check_list(metadata, snapshot, manifests)
            lists[snapshot.snapshot_id] = [manifest.path for manifest in manifests]
            new = [manifest for manifest in manifests if self._is_new(manifest)]
            waiting |= {manifest.path: manifest for manifest in new}
            if len(waiting) >= _AT_ONCE:
                yield from self._read(list(waiting.values()))
                waiting.clear()
        yield from self._read(list(waiting.values()))
        yield from self._check_other_rows()
        for snapshot in metadata.snapshots:
            paths = lists.get(snapshot.snapshot_id)
            known = [self.facts.get(path) for path in paths or ()]
            if paths is not None and None not in known:
                yield from check_snapshot(snapshot, [facts for facts in known if facts is not None], self._name)
        log.info("verified %d files", self.files)

    def _is_new(self, manifest: ManifestFile) -> bool:
        """Whether no list has named the manifest before. A row that differs from earlier ones is checked later."""
        known = self.rows.setdefault(manifest.path, [])
        if manifest not in known:
            known.append(manifest)
            return len(known) == 1
        return False

    def _check_other_rows(self) -> Iterator[Finding]:
        """Lists of several snapshots describe one manifest, and each description must be right."""
        for path, rows in self.rows.items():
            facts = self.facts.get(path)
            if facts is not None and len(rows) > 1:
                yield from self._check_lengths(rows[1:])
                for row in rows[1:]:
                    yield from check_manifest(self.table.metadata, row, facts)
                    yield from _check_inherited(rows[0], row)

    def _read(self, manifests: Sequence[ManifestFile]) -> Iterator[Finding]:
        for group in in_groups(manifests, _AT_ONCE):
            yield from self._check_lengths(group)
            for manifest, outcome in read_each(self.table, group, full_metrics=self.deep):
                if isinstance(outcome, EskerError):
                    self.facts[manifest.path] = None
                    yield _broken(outcome, manifest.path)
                    continue
                facts = facts_of(self.table.metadata, manifest, outcome)
                self.facts[manifest.path] = facts
                yield from check_manifest(self.table.metadata, manifest, facts)
                for batch in outcome:
                    yield from self._check_files(manifest, batch.take(batch.is_live))
            log.info("verified %d manifests and %d files…", len(self.facts), self.files)

    def _check_lengths(self, manifests: Sequence[ManifestFile]) -> Iterator[Finding]:
        sizes = ask_each(self.table.storage, self._size, [manifest.path for manifest in manifests])
        for manifest, size in zip(manifests, sizes, strict=True):
            if isinstance(size, int) and manifest.length != size:
                why = f"it has {size} bytes where its manifest list records {manifest.length}"
                yield Finding(rule="wrong-length", file=manifest.path, why=why)

    def _check_files(self, manifest: ManifestFile, live: Entries) -> Iterator[Finding]:
        """Each file once: it exists, with the recorded length; with ``deep``, its rows are as recorded."""
        import numpy as np

        paths = live.path.to_pylist()
        keys = np.fromiter(map(path_key, paths), np.int64)
        _, first = np.unique(keys, return_index=True)
        new = np.sort(first[~self.seen.has(keys[first])])
        sizes = ask_each(self.table.storage, self._size, [paths[at] for at in new])
        broken: set[str] = set()
        for at, size in zip(new, sizes, strict=True):
            self.files += 1
            if not isinstance(size, int):
                broken.add(paths[at])
                yield _broken(size, paths[at], within=manifest.path)
            elif size != int(live.file_size[at]):
                why = f"it has {size} bytes where {manifest.path} records {int(live.file_size[at])}"
                yield Finding(rule="wrong-length", file=paths[at], why=why)
        self.seen.add(keys[new])
        if self.deep:
            # several vectors share one file
            rows = new if manifest.content is ManifestContent.DATA else np.arange(len(live))
            yield from self._check_rows(live, [int(at) for at in rows if paths[at] not in broken])

    def _check_rows(self, live: Entries, rows: Sequence[int]) -> Iterator[Finding]:
        from esker.maintain.verify.check_rows import check_rows

        for at in rows:
            file = live.data_file(at)
            self.rows_read += file.record_count
            yield from check_rows(self.table, file)

    def _name(self, facts: ManifestFacts, at: int) -> str:
        """The live file at a place of a manifest. The manifest is read again: names of data files are not kept."""
        batches = self.table.format.entries(self.table.metadata, (facts.manifest,), EntryColumns(rest=False))
        names = [name for batch in batches for name in batch.take(batch.is_live).path.to_pylist()]
        return str(names[at])

    def _size(self, location: str) -> int | EskerError:
        try:
            return self.table.storage.size(location)
        except StorageFailed:
            raise
        except EskerError as error:
            return error


def _broken(error: EskerError, file: str, snapshot: Snapshot | None = None, within: str | None = None) -> Finding:
    """The finding for a file that cannot be read. A storage that does not answer is no finding: it is raised."""
    if isinstance(error, StorageFailed):
        raise error
    named = str(error.facts.get("file", file)) if snapshot is not None and snapshot.manifests else file
    missing = isinstance(error, NoSuchFile)
    why = "it does not exist" if missing else error.message
    if missing and within is not None:
        why += f", and {within} lists it"
    return Finding(
        rule="missing-file" if missing else "unreadable-file",
        file=named,
        why=why,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
    )


# ---------------------------------------------------------------- lists and manifests


def check_list(metadata: TableMetadata, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> Iterator[Finding]:
    """What a manifest list says by itself."""
    where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
    seen: set[str] = set()
    for manifest in manifests:
        if manifest.path in seen:
            yield Finding(rule="listed-twice", file=manifest.path, why=f"{where} lists it twice")
        seen.add(manifest.path)
        if manifest.spec_id not in metadata.spec_by_id:
            why = f"it has partition spec {manifest.spec_id}, which the table does not have"
            yield Finding(rule="unknown-spec", file=manifest.path, why=why, snapshot_id=snapshot.snapshot_id)
        if metadata.format_version > 1 and manifest.sequence_number > snapshot.sequence_number:
            why = f"its sequence number is {manifest.sequence_number}, above {snapshot.sequence_number} of its snapshot"
            yield Finding(rule="sequence-number", file=manifest.path, why=why, snapshot_id=snapshot.snapshot_id)


_STATUSES = ("added", "existing", "deleted")


def check_manifest(metadata: TableMetadata, manifest: ManifestFile, facts: ManifestFacts) -> Iterator[Finding]:
    """A manifest against the row of its list."""
    for what, counted in (("files", facts.files), ("rows", facts.rows)):
        for status, count in zip(_STATUSES, counted, strict=True):
            listed: int | None = getattr(manifest, f"{status}_{what}")
            if listed is not None and listed != count:
                why = f"it has {count} {status} {what} where its manifest list records {listed}"
                yield Finding(rule="wrong-count", file=manifest.path, why=why)
    yield from _check_summaries(metadata, manifest, facts)
    if metadata.format_version == 1:
        return
    if facts.lowest is not None and facts.lowest != manifest.min_sequence_number:
        # A lower number only makes a reader open the manifest; a higher one makes deletes miss their files.
        severity = Severity.ERROR if manifest.min_sequence_number > facts.lowest else Severity.WARNING
        why = f"its lowest sequence number is {facts.lowest}, recorded is {manifest.min_sequence_number}"
        yield Finding(rule="sequence-number", file=manifest.path, why=why, severity=severity)
    if facts.highest is not None and facts.highest > manifest.sequence_number:
        why = f"a file has sequence number {facts.highest}, above {manifest.sequence_number} of its manifest"
        yield Finding(rule="sequence-number", file=manifest.path, why=why)


def _check_inherited(one: ManifestFile, other: ManifestFile) -> Iterator[Finding]:
    """Files inherit these numbers, so two lists must record the same. A list from before version 3 has no row id."""
    if one.sequence_number != other.sequence_number:
        why = f"one manifest list records sequence number {one.sequence_number}, another {other.sequence_number}"
        yield Finding(rule="sequence-number", file=one.path, why=why)
    if None not in (one.first_row_id, other.first_row_id) and one.first_row_id != other.first_row_id:
        why = f"one manifest list records first row id {one.first_row_id}, another {other.first_row_id}"
        yield Finding(rule="row-ids", file=one.path, why=why)


def _check_summaries(metadata: TableMetadata, manifest: ManifestFile, facts: ManifestFacts) -> Iterator[Finding]:
    """The partitions of the live files are within the summaries, by which a scan leaves the manifest unread (C4)."""
    spec = metadata.spec_by_id.get(manifest.spec_id)
    if spec is None or manifest.partitions is None or len(manifest.partitions) != len(spec.fields):
        return
    for field_, seen, summary in zip(spec.fields, facts.partitions, manifest.partitions, strict=False):
        wrong = []
        if seen.has_null and not summary.contains_null:
            wrong.append("no null")
        if seen.has_nan and summary.contains_nan is False:
            wrong.append("no NaN")
        if seen.lowest is not None:
            lower, upper = (_bound(seen.type, bound) for bound in (summary.lower_bound, summary.upper_bound))
            if lower is not None and seen.lowest < lower:
                wrong.append("a higher lowest value")
            if upper is not None and seen.highest > upper:
                wrong.append("a lower highest value")
        if wrong:
            why = f"for the partition field {field_.name} of its files, its manifest list records {', '.join(wrong)}"
            yield Finding(rule="wrong-bounds", file=manifest.path, why=why)


def _bound(type_: Type, bound: bytes | None) -> Any:
    """A bound in the form in which partition values are compared. None: unknown."""
    if bound is None:
        return None
    found = decode(type_, binary_array([bound]))
    return found.values[0] if found.known[0] else None


# ---------------------------------------------------------------- snapshots


NameOf = Callable[[ManifestFacts, int], str]


def check_snapshot(snapshot: Snapshot, manifests: Sequence[ManifestFacts], name_of: NameOf) -> Iterator[Finding]:
    """The totals of a snapshot, and what must hold for all its files together."""
    yield from _check_totals(snapshot, manifests)
    # A live file is listed once (B6, F53).
    for number, at in _repeated([facts.live for facts in manifests]):
        name = name_of(manifests[number], at)
        why = "the snapshot lists it more than once"
        yield Finding(rule="listed-twice", file=name, why=why, snapshot_id=snapshot.snapshot_id)
    # A data file has at most one vector.
    for number, at in _repeated([facts.targets[facts.is_vector] for facts in manifests]):
        facts = manifests[number]
        name = [name for name, is_vector in zip(facts.names, facts.is_vector, strict=True) if is_vector][at]
        why = "the snapshot has more than one deletion vector for it"
        yield Finding(rule="two-vectors", file=name, why=why, snapshot_id=snapshot.snapshot_id)
    yield from _check_targets(snapshot, manifests)
    # Each row has its own id (v3).
    for number, at in _overlapping([facts.row_ids for facts in manifests]):
        name = name_of(manifests[number], at)
        why = "its row ids are those of another file, too"
        yield Finding(rule="row-ids", file=name, why=why, snapshot_id=snapshot.snapshot_id)


def _check_totals(snapshot: Snapshot, manifests: Sequence[ManifestFacts]) -> Iterator[Finding]:
    for key, value in totals_of(manifests).items():
        recorded = snapshot.summary.get(key)
        if recorded is not None and recorded != str(value):
            why = f"its {key} is {value}, its summary records {recorded}"
            where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
            yield Finding(rule="wrong-total", file=where, why=why, snapshot_id=snapshot.snapshot_id)


def totals_of(manifests: Sequence[ManifestFacts]) -> Mapping[str, int]:
    """The totals of the live files, by the key of a summary."""
    found: dict[str, int] = defaultdict(int)
    for facts in manifests:
        for key, value in facts.totals.items():
            found[key] += value
    return found


def _repeated(parts: Sequence[Keys]) -> list[tuple[int, int]]:
    """Where keys are that were in an earlier place: the number of the part and the place in it."""
    import numpy as np

    if sum(map(len, parts)) < 2:
        return []
    keys = np.concatenate(parts)
    order = np.argsort(keys, kind="stable")
    return _places(order[1:][keys[order][1:] == keys[order][:-1]], [len(part) for part in parts])


def _overlapping(parts: Sequence[Keys]) -> list[tuple[int, int]]:
    """Where ranges are that begin before the end of one that begins earlier: the number of the part, the place in it.
    A range is its first number and the one after its last; a first number below zero is none."""
    import numpy as np

    ranges = np.concatenate(parts) if parts else np.empty((0, 2), np.int64)
    known = np.flatnonzero((ranges[:, 0] >= 0) & (ranges[:, 1] > ranges[:, 0]))
    if len(known) < 2:
        return []
    order = known[np.argsort(ranges[known, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[order, 1])
    again = order[1:][ranges[order[1:], 0] < ends[:-1]]
    return _places(again, [len(part) for part in parts])


def _places(found: Keys, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """The number of the part, and the place in it, of each place in all parts together."""
    import numpy as np

    ends = np.cumsum(lengths)
    places = []
    for place in np.sort(found):
        number = int(np.searchsorted(ends, place, side="right"))
        places.append((number, int(place - (ends[number] - lengths[number]))))
    return places


def _check_targets(snapshot: Snapshot, manifests: Sequence[ManifestFacts]) -> Iterator[Finding]:
    """A delete that names a data file, and the snapshot does not have that file (I5)."""
    import numpy as np

    naming = [facts for facts in manifests if len(facts.targets)]
    if not naming:
        return
    data = [facts.live for facts in manifests if facts.is_data]
    there = KeySet()
    for keys in data:
        there.add(keys)
    for facts in naming:
        for at in np.flatnonzero(~there.has(facts.targets)):
            file, target = facts.deletes[at], facts.names[at]
            yield Finding(
                rule="dangling-delete",
                file=file,
                why=f"it deletes rows of {target}, which the snapshot does not have",
                snapshot_id=snapshot.snapshot_id,
                severity=Severity.WARNING,
            )
