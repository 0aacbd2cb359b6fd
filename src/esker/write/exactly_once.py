"""Batches that count once: a writer that cannot know whether its last commit arrived may send it again.

An application numbers its batches upwards. Each commit of a batch carries the number twice: in the summary of its
snapshot, and in a table property that is set by the same swap of metadata. The property outlives the snapshot when
that expires; the summary goes where the snapshot goes, be it to another branch. A batch up to the highest number
that either knows of is applied already, and committing it again changes nothing.

A table remembers the last batch per branch and application: of those that committed within 30 days, 200 at most.
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

_NAME = re.compile(r"[!-~]{1,200}")  # printable, no blanks: it becomes part of a property's key
_VALUE = re.compile(r"(\d{1,19})@(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of an application; what an application sends has ever higher numbers."""

    application: str
    number: int

    @classmethod
    def of(cls, given: object) -> Batch:
        """A batch as a user names it: an application and a number."""
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
        """What a snapshot's summary says of it."""
        return {APPLICATION: self.application, NUMBER: str(self.number)}


def is_applied(metadata: TableMetadata, ref: str, head: int | None, batch: Batch) -> bool:
    """Whether the batch, or a later one of its application, is in the branch whose head that is."""
    number, _ = _remembered(metadata.properties, _key(ref, batch.application))
    return batch.number <= number or batch.number <= last_applied(metadata, ref, head, batch.application)


def last_applied(metadata: TableMetadata, ref: str, head: int | None, application: str) -> int:
    """The highest batch of an application in the branch whose head that is; -1 where there is none."""
    number, at_ms = _remembered(metadata.properties, _key(ref, application))
    for snapshot in ancestors(metadata, head):
        if snapshot.timestamp_ms <= at_ms:  # what is older than the property cannot know more than it
            break
        marked = _marked(snapshot.summary, application)
        if marked is not None:
            return max(marked, number)
    return number


def with_batch(metadata: TableMetadata, ref: str, batch: Batch) -> TableMetadata:
    """The table that remembers the batch, and has forgotten applications that are silent for long."""
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
    """The batch of an application that a snapshot is; None where it is none of its."""
    for name, number in ((APPLICATION, NUMBER), (QUERY, EPOCH)):
        text = summary.get(number, "")
        if summary.get(name) == application and text.isascii() and text.isdecimal():
            return int(text)
    return None


def _key(ref: str, application: str) -> str:
    return f"{PREFIX}{ref}/{application}"


def _remembered(properties: Mapping[str, str], key: str) -> tuple[int, int]:
    """The highest number and when it was committed; below all numbers where nothing is remembered."""
    text = properties.get(key)
    if text is None:
        return -1, -1
    found = _VALUE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"cannot tell which batches are applied: the table property {key} holds {text!r}, not a number and a time; "
            "set it right, or remove it to rely on the summaries of snapshots",
            property=key,
        )
    return int(found[1]), int(found[2])
