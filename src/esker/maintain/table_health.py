"""The health of a table: a score for each thing that makes it slow or large, with its formula, and what to do about it.

A score is from 0 to 100. One pass over the entries of the current snapshot is enough for all scores. Orphans are
counted only when asked, because the whole location has to be listed for them. `maintain` runs the verbs that low scores
recommend.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from esker.errors import Conflict, EskerError, InvalidInput, StorageFailed, Unsupported
from esker.maintain.tended_table import TendedTable, log
from esker.model.display_text import card, show_bytes
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.write.build_manifests import MergePolicy
from esker.write.properties import whole_number
from esker.write.refs.retention import retained

GOOD = 90  # a score from here on needs no action
TARGET, TARGET_SIZE = 512 << 20, "write.target-file-size-bytes"
SMALL = 0.75  # of the target, as in compact()
MIN_INPUT = 5  # small files of a partition, as in compact()
MANY_DELETES = 0.3  # of the rows, as in compact()
FEW_MANIFESTS = 20
FEW_SNAPSHOTS = 10
LARGE_METADATA = 10 << 20
SKEWED = 10  # times the median


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One score, how it is computed, and what would improve it."""

    name: str
    score: int
    weight: int
    formula: str
    said: str  # the numbers in the formula
    action: str | None = None  # a verb of the table; None: no verb does it
    arguments: Mapping[str, Any] = field(default_factory=dict)
    effect: str | None = None  # what the action would change

    @property
    def needs_action(self) -> bool:
        """Whether the score is low enough to do something."""
        return self.score < GOOD

    @property
    def call(self) -> str | None:
        """The action as a call."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return None if self.action is None else f"{self.action}({given})"

    def __str__(self) -> str:
        what = f"; {self.call}: {self.effect}" if self.needs_action and self.call else ""
        return f"{self.name} {self.score} ({self.said}){what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The scores of a table. ``score`` is their mean, weighted; ``findings`` are the scores that need an action."""

    name: str
    measures: tuple[Measure, ...]

    @property
    def score(self) -> int:
        """The weighted mean, from 0 to 100."""
        weights = sum(measure.weight for measure in self.measures)
        return round(sum(one.score * one.weight for one in self.measures) / weights) if weights else 100

    @property
    def formula(self) -> str:
        """How the score is computed."""
        return "(" + " + ".join(f"{one.weight} × {one.name}" for one in self.measures) + ") / sum of weights"

    @property
    def findings(self) -> tuple[Measure, ...]:
        """The measures that need an action, the most important first."""
        bad = [measure for measure in self.measures if measure.needs_action]
        return tuple(sorted(bad, key=lambda one: (one.score - 100) * one.weight))

    def has(self, name: str) -> bool:
        """Whether there is a measure of this name."""
        return any(measure.name == name for measure in self.measures)

    def __repr__(self) -> str:
        return f"<Health of {self.name}: {self.score} of 100, {len(self.findings)} findings>"

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.score} of 100", *map(str, self.measures)])

    def _repr_html_(self) -> str:
        return card(
            f"Health of {self.name}",
            [("score", f"{self.score} of 100"), *((one.name, f"{one}\n{one.formula}") for one in self.measures)],
        )


# ---------------------------------------------------------------- one pass over the snapshot


@dataclass(slots=True)
class _Part:
    """The data files of one partition."""

    files: int = 0
    bytes: int = 0
    small: int = 0
    small_bytes: int = 0


@dataclass(slots=True)
class _Seen:
    """The sums over the files of the current snapshot."""

    target: int
    manifests: Sequence[ManifestFile] = ()
    parts: dict[tuple[int, tuple[Any, ...]], _Part] = field(default_factory=lambda: defaultdict(_Part))
    files: int = 0
    rows: int = 0
    delete_files: int = 0
    equality_files: int = 0
    position_files: int = 0  # without vectors, of which a data file has one
    deleted: int = 0  # positions
    touched: set[tuple[int, tuple[Any, ...]]] = field(default_factory=set)  # partitions with position deletes

    def take(self, live: Entries) -> None:
        """Add the files of a batch."""
        is_partitioned = bool(live.spec.fields)
        for row in range(len(live)):
            key = (live.spec.spec_id, live.partition_tuple(row) if is_partitioned else ())
            size = int(live.file_size[row])
            match FileContent(int(live.content[row])):
                case FileContent.DATA:
                    self._data(self.parts[key], size)
                    self.rows += int(live.record_count[row])
                case FileContent.POSITION_DELETES:
                    self.delete_files += 1
                    self.position_files += live.file_format[row].as_py() != "puffin"
                    self.deleted += int(live.record_count[row])
                    self.touched.add(key)
                case FileContent.EQUALITY_DELETES:
                    self.delete_files += 1
                    self.equality_files += 1

    def _data(self, part: _Part, size: int) -> None:
        self.files += 1
        part.files += 1
        part.bytes += size
        if size < SMALL * self.target:
            part.small += 1
            part.small_bytes += size


def _look(table: TendedTable) -> _Seen:
    metadata, snapshot = table.metadata, table.metadata.current_snapshot
    seen = _Seen(target=whole_number(metadata.properties, TARGET_SIZE, TARGET, at_least=1))
    if snapshot is None:
        return seen
    seen.manifests = table.format.manifests(metadata, snapshot)
    live = [manifest for manifest in seen.manifests if manifest.may_hold_live_files]
    for batch in table.format.entries(metadata, live, EntryColumns(rest=False)):
        seen.take(batch.take(batch.is_live))
    return seen


# ---------------------------------------------------------------- the scores


def health(table: TendedTable, *, now_ms: int) -> Health:
    """The health of the current snapshot and of the history. Nothing is changed."""
    seen = _look(table)
    return Health(
        name=table.name,
        measures=(
            _small_files(seen),
            _deletes(table, seen),
            _manifests(table, seen),
            _snapshots(table, now_ms),
            _metadata_size(table),
            _skew(seen),
        ),
    )


def _percent(share: float) -> int:
    return max(0, min(100, math.floor(100 * share)))


def _small_files(seen: _Seen) -> Measure:
    after = seen.files
    for part in seen.parts.values():
        if part.small >= MIN_INPUT or part.small_bytes > seen.target:
            after -= part.small - max(1, math.ceil(part.small_bytes / seen.target))
    small = sum(part.small for part in seen.parts.values())
    return Measure(
        name="small files",
        score=_percent(after / seen.files if seen.files else 1),
        weight=35,
        formula="100 × files after compact() / files",
        said=f"{seen.files:,} files, {small:,} below 75 % of {show_bytes(seen.target)}",
        action="compact",
        effect=f"{seen.files:,} files become {after:,}",
    )


def _deletes(table: TendedTable, seen: _Seen) -> Measure:
    by_partition = table.metadata.properties.get("write.delete.granularity", "file").lower() == "partition"
    spare = max(0, seen.position_files - (len(seen.touched) if by_partition else seen.files))
    share = seen.deleted / seen.rows if seen.rows else 0.0
    files = (spare + seen.equality_files) / seen.files if seen.files else 0.0
    folds = seen.equality_files == 0 and share < MANY_DELETES / 2
    after = seen.delete_files - spare if folds else 0
    lost = _percent(1 - share / MANY_DELETES)
    return Measure(
        name="deletes",
        score=min(max(lost, GOOD) if share < MANY_DELETES / 2 else lost, _percent(1 - files / 2)),
        weight=25,
        formula="100 × the smaller of 1 - deleted rows / rows / 0.3 and 1 - spare delete files / data files / 2; "
        "below 15 % of deleted rows, the first is at least 0.9; spare are equality deletes and position deletes that "
        "can be folded",
        said=f"{seen.delete_files:,} delete files, {seen.deleted:,} deleted positions of {seen.rows:,} rows",
        action="rewrite_position_deletes" if folds else "compact",
        arguments={} if folds else {"delete_file_threshold": 1, "remove_dangling_deletes": True},
        effect=f"{seen.delete_files:,} delete files become about {after:,}",
    )


def _manifests(table: TendedTable, seen: _Seen) -> Measure:
    target = whole_number(
        table.metadata.properties, "commit.manifest.target-size-bytes", MergePolicy().target_size, at_least=1
    )
    sizes: dict[tuple[int, ManifestContent], int] = defaultdict(int)
    for manifest in seen.manifests:
        sizes[manifest.spec_id, manifest.content] += manifest.length
    needed = sum(math.ceil(size / target) for size in sizes.values())
    count = len(seen.manifests)
    return Measure(
        name="manifests",
        score=_percent(max(needed, FEW_MANIFESTS) / count if count else 1),
        weight=15,
        formula="100 × the larger of 20 and bytes of manifests / target size, / manifests",
        said=f"{count:,} manifests, {show_bytes(sum(sizes.values()))}",
        action="rewrite_manifests",
        effect=f"{count:,} manifests become about {needed:,}",
    )


def _snapshots(table: TendedTable, now_ms: int) -> Measure:
    total = len(table.metadata.snapshots)
    kept = len(retained(table.metadata, now_ms=now_ms).snapshot_ids)
    return Measure(
        name="snapshots",
        score=_percent(max(kept, FEW_SNAPSHOTS) / total if total else 1),
        weight=15,
        formula="100 × the larger of 10 and the snapshots that the retention keeps, / snapshots",
        said=f"{total:,} snapshots, {total - kept:,} past their age",
        action="expire_snapshots",
        effect=f"{total:,} snapshots become {kept:,}",
    )


def _metadata_size(table: TendedTable) -> Measure:
    size = _size_of(table, table.state.metadata_location)
    return Measure(
        name="metadata",
        score=_percent(LARGE_METADATA / size if size else 1),
        weight=5,
        formula="100 × 10 MiB / size of the metadata file",
        said="unknown size" if size is None else show_bytes(size),
        action="expire_snapshots",
        effect="every commit writes less",
    )


def _size_of(table: TendedTable, location: str) -> int | None:
    """The length of a file. None if it cannot be reached, such as a table that was opened through a link."""
    try:
        return table.storage.size(location)
    except StorageFailed:
        raise
    except EskerError:
        return None


def _skew(seen: _Seen) -> Measure:
    sizes = sorted(part.bytes for part in seen.parts.values())
    ratio = sizes[-1] / max(median(sizes), 1) if len(sizes) >= 4 else 1.0
    return Measure(
        name="skew",
        score=_percent(SKEWED / ratio),
        weight=5,
        formula="100 × 10 / (bytes of the largest partition / bytes of the median one)",
        said=f"{len(sizes):,} partitions, the largest has {ratio:,.1f} times the median",
        effect="alter() can add a partition field, for example bucket(16, id)",
    )


def orphan_measure(orphans: int, orphan_bytes: int, listed: int) -> Measure:
    """The score of orphans, from a plan of their removal."""
    return Measure(
        name="orphans",
        score=_percent(1 - orphans / listed if listed else 1),
        weight=10,
        formula="100 × (1 - orphans / files below the location)",
        said=f"{orphans:,} orphans of {listed:,} files, {show_bytes(orphan_bytes)}",
        action="remove_orphans",
        effect=f"{orphans:,} files are deleted",
    )


# ---------------------------------------------------------------- doing what is recommended


# Rewriting comes first: it makes manifests and snapshots, which the later steps tidy.
ORDER = ("compact", "rewrite_position_deletes", "rewrite_manifests", "expire_snapshots", "remove_orphans")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One verb: why it is called, and what came of it."""

    verb: str
    arguments: Mapping[str, Any]
    why: str
    effect: str
    plan: Any = field(repr=False)  # what the verb returned for dry_run=True; None: the table refuses the verb
    report: Any = field(default=None, repr=False)  # what it returned; None: it did not run
    skipped: str | None = None  # why it did not run

    def __str__(self) -> str:
        said = self.skipped or (repr(self.report) if self.report is not None else f"would: {self.effect}")
        return f"{self.verb}: {said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What ``maintain`` would do (``done`` is False) or did, with the health before and after."""

    name: str
    done: bool
    steps: tuple[Step, ...]
    before: Health
    after: Health | None = None

    def __repr__(self) -> str:
        return f"<Maintenance of {self.name}: {len(self.steps)} steps, {self._scores()}>"

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self._scores()}", *map(str, self.steps)])

    def _repr_html_(self) -> str:
        steps = "\n".join(map(str, self.steps))
        return card(f"Maintenance of {self.name}", [("health", self._scores()), ("steps", steps or "none")])

    def _scores(self) -> str:
        after = "" if self.after is None else f", after {self.after.score}"
        return f"health {self.before.score} of 100{after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a maintenance may use. A compaction takes the files that fit; another step that would need more is left
    out. No step is begun after the time."""

    max_bytes: int | None = None  # that a step may rewrite
    until_ms: int | None = None

    def limits(self, verb: str) -> dict[str, Any]:
        """The arguments that keep a step within the budget."""
        return {"max_bytes": self.max_bytes} if verb == "compact" and self.max_bytes is not None else {}

    def refusal(self, plan: Any, now_ms: int) -> str | None:
        """Why a step may not run; None if it may."""
        if self.until_ms is not None and now_ms >= self.until_ms:
            return "skipped: the time is used up"
        if self.max_bytes is not None and getattr(plan, "groups", None) == () and not getattr(plan, "dangling", ()):
            return f"skipped: no group of files fits, the budget is {show_bytes(self.max_bytes)}"
        size = getattr(plan, "bytes", None)
        if self.max_bytes is not None and isinstance(size, int) and size > self.max_bytes:
            return f"skipped: it would rewrite {show_bytes(size)}, the budget is {show_bytes(self.max_bytes)}"
        return None


def maintain(
    before: Health,
    verb_of: Callable[[str], Callable[..., Any]],
    measure: Callable[[], Health],
    *,
    asked: Sequence[str] = (),
    budget: Budget,
    clock_ms: Callable[[], int],
    dry_run: bool,
) -> Maintenance:
    """Run the verbs that the findings name, and those in ``asked``, each once. ``verb_of`` gives the verb of a name.

    A step that loses against other writers, or that the table refuses, is reported and does not stop the others.
    """
    steps: list[Step] = []
    left: list[Measure] = []  # findings about deletes of no file that a compaction rewrites
    for name in ORDER:
        found = [finding for finding in before.findings if finding.action == name]
        is_left = bool(left) and name == "rewrite_position_deletes"
        found += left if is_left else []
        if not found and name not in asked:
            continue
        arguments = {key: value for one in found if one.action == name for key, value in one.arguments.items()}
        arguments |= budget.limits(name) | ({"rewrite_all": True} if is_left else {})
        plan, report, skipped = None, None, None
        try:
            plan = verb_of(name)(dry_run=True, **arguments)
            if name == "compact" and getattr(plan, "groups", None) == () and budget.max_bytes is None:
                left = [one for one in found if one.name == "deletes"]
                continue
            if not dry_run:
                skipped = budget.refusal(plan, clock_ms())
                if skipped is None:
                    log.info("%s…", name)
                    report = verb_of(name)(**arguments)
        except Conflict as error:
            skipped = f"failed: {error.message}"
        except (InvalidInput, Unsupported) as error:  # such as expire_snapshots() where gc.enabled is false
            skipped = f"refused: {error.message}"
        steps.append(
            Step(
                verb=name,
                arguments=arguments,
                why="; ".join(f"{finding.name} {finding.score}: {finding.said}" for finding in found) or "asked for",
                effect="; ".join(finding.effect or "" for finding in found),
                plan=plan,
                report=report,
                skipped=skipped,
            )
        )
    return Maintenance(
        name=before.name,
        done=not dry_run,
        steps=tuple(steps),
        before=before,
        after=None if dry_run else measure(),
    )
