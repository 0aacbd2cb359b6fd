"""The findings of a verification, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from esker.model.display_text import card, first_of


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"  # rows are lost, wrong, or cannot be read
    WARNING = "warning"  # rows are right; space or time is wasted


RULES: Mapping[str, str] = {
    "missing-file": "Every file that a retained snapshot refers to exists.",
    "unreadable-file": "Every file that a retained snapshot refers to can be read.",
    "wrong-length": "A file has the length that is recorded for it.",
    "wrong-count": "A manifest has as many files and rows as its manifest list records.",
    "wrong-total": "The totals in a snapshot's summary are the sums over its files.",
    "sequence-number": "Sequence numbers increase, and none is above that of its snapshot.",
    "listed-twice": "A snapshot lists a file once.",
    "two-vectors": "A data file has at most one deletion vector.",
    "dangling-delete": "A delete that names a data file names one of the same snapshot.",
    "unknown-spec": "The table has the partition spec of every manifest.",
    "unknown-schema": "The table has the schema of every snapshot.",
    "unknown-snapshot": "Refs and the current snapshot are snapshots of the table.",
    "row-ids": "Row ids of snapshots and files do not overlap and are below the table's next row id.",
    "stale-hint": "The version hint names the current version.",
    "wrong-rows": "A data file has as many rows, nulls and NaNs as its manifest records.",
    "wrong-bounds": "The values of a column or of a partition field are between the recorded bounds.",
    "wrong-partition": "The rows of a data file belong to the partition that its manifest records.",
}
"""What is checked, by the name that findings have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: the rule that is broken, the file, and why."""

    rule: str
    file: str
    why: str
    snapshot_id: int | None = None  # None: the finding is not about one snapshot
    severity: Severity = Severity.ERROR

    @property
    def must_hold(self) -> str:
        """The rule as a sentence."""
        return RULES[self.rule]

    def __str__(self) -> str:
        return f"{self.severity.value} {self.rule}: {self.file}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What ``verify`` looked at, and what it found. ``ok`` is True if there is no error; warnings may remain."""

    name: str
    deep: bool
    snapshots: int
    manifests: int
    files: int
    rows_read: int
    findings: tuple[Finding, ...] = field(repr=False)
    is_cut: bool = False  # there may be more findings than these
    repairable: tuple[str, ...] = ()  # the rules whose findings about the current snapshot a repair would end
    repaired: tuple[str, ...] = ()  # the rules that were repaired before this verification

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings there are, by rule."""
        return Counter(finding.rule for finding in self.findings)

    def __repr__(self) -> str:
        return f"<Verification of {self.name}: {self._verdict()}, {self.files:,} files>"

    def __str__(self) -> str:
        seen = f"{self.snapshots:,} snapshots, {self.manifests:,} manifests, {self.files:,} files"
        return "\n".join([f"{self.name}: {self._verdict()} in {seen}", *map(str, self.findings)])

    def _repr_html_(self) -> str:
        return card(
            f"Verification of {self.name}",
            [
                ("verdict", self._verdict()),
                ("snapshots", self.snapshots),
                ("manifests", self.manifests),
                ("files", self.files),
                ("rows read", self.rows_read if self.deep else None),
                ("repaired", ", ".join(self.repaired) or None),
                ("findings", first_of(map(str, self.findings), 20, "\n") or None),
            ],
        )

    def _verdict(self) -> str:
        errors, warnings = len(self.errors), len(self.findings) - len(self.errors)
        said = [f"{errors} error{'s' * (errors != 1)}"] * (errors > 0)
        said += [f"{warnings} warning{'s' * (warnings != 1)}"] * (warnings > 0)
        return ", ".join(said) or "nothing wrong"
