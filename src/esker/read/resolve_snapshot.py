"""First step of a scan: which snapshot is read, and with which schema."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.model.display_text import show_ms
from esker.model.schema import Schema
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import TableMetadata

MAIN = "main"
AsOf = datetime | str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A snapshot (None: the table is empty) and the schema to read it with."""

    snapshot: Snapshot | None
    schema: Schema


def resolve_snapshot(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    as_of: AsOf | None = None,
    ref: str | None = None,
) -> Resolved:
    """The snapshot that was asked for, by default the current one.

    A snapshot by id, time or tag is read with its own schema. A branch is read with the table's current schema, because
    its work continues. Raises `InvalidInput` if more than one is given, and `NoSuchSnapshot` if there is none.
    """
    if sum(choice is not None for choice in (snapshot_id, as_of, ref)) > 1:
        raise InvalidInput("cannot choose a snapshot twice: give one of snapshot_id, as_of and ref")
    if snapshot_id is not None:
        return _with_own_schema(metadata, _by_id(metadata, snapshot_id))
    if as_of is not None:
        return _with_own_schema(metadata, _by_time(metadata, to_epoch_ms(as_of)))
    if ref is not None and ref != MAIN:
        return _by_ref(metadata, ref)
    if metadata.current_snapshot_id is None:
        return Resolved(snapshot=None, schema=metadata.schema)
    return Resolved(snapshot=_by_id(metadata, metadata.current_snapshot_id), schema=metadata.schema)


def to_epoch_ms(moment: AsOf) -> int:
    """Milliseconds of a datetime, an ISO 8601 string or epoch milliseconds. Without a zone, the time is UTC."""
    if isinstance(moment, bool) or not isinstance(moment, datetime | str | int):
        raise InvalidInput(f"cannot read {moment!r} as a time: give a datetime, an ISO string or epoch milliseconds")
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        text = moment.strip()
        if text.lstrip("-").isdigit() and len(text.lstrip("-")) > 8:  # shorter ones are dates: 20240101
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidInput(f"cannot read {text!r} as a time: write it as 2026-01-31T12:00:00+00:00") from error
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    whole = zoned.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1000 + whole.microseconds // 1000


def _by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    found = metadata.snapshot(snapshot_id)
    if found is None:
        raise NoSuchSnapshot(
            f"no snapshot {snapshot_id}: it never existed, or it has expired; {_what_there_is(metadata)}",
            snapshot_id=snapshot_id,
        )
    return found


def _by_time(metadata: TableMetadata, moment_ms: int) -> Snapshot:
    """The log entry with the largest time up to the moment, at any position: clocks may go back."""
    best: tuple[int, int] | None = None
    for entry in metadata.snapshot_log or _implied_log(metadata):
        if entry.timestamp_ms <= moment_ms and (best is None or entry.timestamp_ms >= best[0]):
            best = (entry.timestamp_ms, entry.snapshot_id)
    if best is None:
        raise NoSuchSnapshot(
            f"no snapshot as of {show_ms(moment_ms)}: the table's history begins later; {_what_there_is(metadata)}",
            as_of_ms=moment_ms,
        )
    found = metadata.snapshot(best[1])
    if found is None:
        raise NoSuchSnapshot(
            f"no snapshot as of {show_ms(moment_ms)}: snapshot {best[1]}, current then, has expired; "
            f"{_what_there_is(metadata)}",
            as_of_ms=moment_ms,
            snapshot_id=best[1],
        )
    return found


def _implied_log(metadata: TableMetadata) -> list[Snapshot]:
    """The current snapshot and its ancestors, for a table whose writer recorded no log."""
    chain: list[Snapshot] = []
    seen: set[int] = set()
    at = metadata.current_snapshot
    while at is not None and at.snapshot_id not in seen:
        seen.add(at.snapshot_id)
        chain.append(at)
        at = None if at.parent_snapshot_id is None else metadata.snapshot(at.parent_snapshot_id)
    return chain[::-1]


def _by_ref(metadata: TableMetadata, ref: str) -> Resolved:
    named = metadata.refs.get(ref)
    if named is None:
        raise NoSuchSnapshot(f"no branch or tag {ref!r}; {_what_there_is(metadata)}", ref=ref)
    found = metadata.snapshot(named.snapshot_id)
    if found is None:
        raise NoSuchSnapshot(
            f"{named.kind.value} {ref!r} names snapshot {named.snapshot_id}, which has expired; "
            f"{_what_there_is(metadata)}",
            ref=ref,
            snapshot_id=named.snapshot_id,
        )
    if named.kind is RefKind.BRANCH:
        own = metadata.schema if named.schema_id is None else metadata.schema_by_id[named.schema_id]
        return Resolved(snapshot=found, schema=own)
    return _with_own_schema(metadata, found)


def _with_own_schema(metadata: TableMetadata, snapshot: Snapshot) -> Resolved:
    own = None if snapshot.schema_id is None else metadata.schema_by_id.get(snapshot.schema_id)
    return Resolved(snapshot=snapshot, schema=own or metadata.schema)


def _what_there_is(metadata: TableMetadata) -> str:
    if not metadata.snapshots:
        return "the table has no snapshots"
    kept = sorted(metadata.snapshots, key=lambda s: s.timestamp_ms)
    shown = ", ".join(str(s.snapshot_id) for s in kept[-5:])
    if len(kept) == 1:
        said = f"available: {shown} from {show_ms(kept[0].timestamp_ms)}"
    else:
        said = f"available: {'the last of ' if len(kept) > 5 else ''}{len(kept)} snapshots {shown}, "
        said += f"the oldest from {show_ms(kept[0].timestamp_ms)}"
    names = sorted(set(metadata.refs) | {MAIN})
    return f"{said}; refs: {', '.join(names[:20])}"
