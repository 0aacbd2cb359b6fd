"""Batches that are applied once: a writer that does not know whether its last commit succeeded may send it again.

An application numbers its batches upwards. Each commit of a batch records the number twice: in the summary of its
snapshot, and in a table property that is set by the same commit. The property remains when the snapshot expires. The
summary moves with the snapshot, for example to another branch. A batch up to the highest recorded number is applied
already, and committing it again changes nothing.

A table records the last batch per branch and application: at most 200 of those that committed within 30 days.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from esker.errors import InvalidInput
from esker.tree.table_metadata import TableMetadata
from esker.write.table_changes import ancestors

PREFIX = "esker.applied."
APPLICATION, NUMBER = "esker.application", "esker.batch"
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
"""How Iceberg's own sink of Spark's streams marks a batch: a query may have changed its sink under one checkpoint."""

KEEP_MS = 30 * 24 * 3_600_000
KEEP_APPLICATIONS = 200

_NAME = re.compile(r"[!-~]{1,200}")  # printable, without blanks: it becomes part of a property's key
_VALUE = re.compile(r"(\d{1,19})@(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of an application. Later batches have higher numbers."""

    application: str
    number: int

    @classmethod
    def of(cls, given: object) -> Batch:
        """The batch from an application's name and a number. Raises ``InvalidInput`` if they are not valid."""
        match given:
            case Batch():
                return given
            case (str(application), int(number)) if not isinstance(number, bool):
                if not _NAME.fullmatch(application):
                    raise InvalidInput(
                        f"cannot mark a batch of the application {application!r}: its name has 1 to 200 letters, "
                        "digits and signs of ASCII, and no blank",
                        application=application,
                    )
                if not 0 <= number < 1 << 63:
                    raise InvalidInput(f"cannot mark batch {number}: batches are numbered from 0", number=number)
                return cls(application, number)
            case _:
                raise InvalidInput(f"cannot mark a batch by {given!r}: give an application's name and a number")

    @property
    def summary(self) -> dict[str, str]:
        """The entries of a snapshot's summary."""
        return {APPLICATION: self.application, NUMBER: str(self.number)}


def is_applied(metadata: TableMetadata, ref: str, head: int | None, batch: Batch) -> bool:
    """Whether the batch, or a later one of its application, is in the branch with this head."""
    number, _ = _remembered(metadata.properties, _key(ref, batch.application))
    return batch.number <= number or batch.number <= last_applied(metadata, ref, head, batch.application)


def last_applied(metadata: TableMetadata, ref: str, head: int | None, application: str) -> int:
    """The highest batch of an application in the branch with this head; -1 if there is none."""
    number, at_ms = _remembered(metadata.properties, _key(ref, application))
    for snapshot in ancestors(metadata, head):
        if snapshot.timestamp_ms <= at_ms:  # older snapshots cannot have a higher number than the property
            break
        marked = _marked(snapshot.summary, application)
        if marked is not None:
            return max(marked, number)
    return number


def with_batch(metadata: TableMetadata, ref: str, batch: Batch) -> TableMetadata:
    """The table with the batch recorded, and without applications that have not committed for long."""
    own = _key(ref, batch.application)
    now_ms = metadata.last_updated_ms
    others = {
        key: int(found[2])
        for key, value in metadata.properties.items()
        if key.startswith(PREFIX) and key != own and (found := _VALUE.fullmatch(value))
    }
    newest = sorted(others, key=lambda key: -others[key])[: KEEP_APPLICATIONS - 1]
    stale = others.keys() - {key for key in newest if others[key] > now_ms - KEEP_MS}
    kept = {key: value for key, value in metadata.properties.items() if key not in stale}
    return replace(metadata, properties={**kept, own: f"{batch.number}@{now_ms}"})


def _marked(summary: Mapping[str, str], application: str) -> int | None:
    """The application's batch number in a snapshot's summary; None if it has none."""
    for name, number in ((APPLICATION, NUMBER), (QUERY, EPOCH)):
        text = summary.get(number, "")
        if summary.get(name) == application and text.isascii() and text.isdecimal():
            return int(text)
    return None


def _key(ref: str, application: str) -> str:
    return f"{PREFIX}{ref}/{application}"


def _remembered(properties: Mapping[str, str], key: str) -> tuple[int, int]:
    """The highest recorded number and the time of its commit; -1 if none is recorded. Raises ``InvalidInput``."""
    text = properties.get(key)
    if text is None:
        return -1, -1
    found = _VALUE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"cannot find out which batches are applied: the table property {key} is {text!r}, no number and time; "
            "correct it, or remove it to use only the summaries of snapshots",
            property=key,
        )
    return int(found[1]), int(found[2])
