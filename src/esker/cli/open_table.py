"""Opens the table, view or catalog that a user named on the command line, and finds the snapshot that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from esker.cli.shared_options import Settings, current_settings

if TYPE_CHECKING:
    from esker.lake import Lake
    from esker.ports.storage import Storage
    from esker.table import Table
    from esker.tree.snapshot import Snapshot
    from esker.view import View


def looks_like_path(text: str) -> bool:
    """Whether a TABLE argument is a place on disk rather than a name in a catalog."""
    if "/" in text or os.sep in text or text in (".", "..") or text.endswith((".json", ".json.gz")):
        return True
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def open_named(text: str) -> Table:
    """The table that a TABLE argument means."""
    if looks_like_path(text):
        from esker.wiring import open_table

        return open_table(text, allowed_roots=current_settings().allowed_roots)
    return open_lake(current_settings()).table(text)


def open_table_or_view(text: str) -> Table | View:
    """The table that an argument means, or the view."""
    from esker.errors import NoSuchTable

    try:
        return open_named(text)
    except NoSuchTable as error:
        if error.facts.get("there") != "view":
            raise
    return open_lake(current_settings()).view(text)


def open_to_change(text: str) -> Table:
    """The table of the catalog that a TABLE argument means; a path has no catalog that a change could go to."""
    from esker.errors import InvalidInput

    if "/" in text or os.sep in text or text.endswith((".json", ".json.gz")):
        raise InvalidInput(
            f"cannot change {text}: a table opened by its path is read-only; "
            "take it into a catalog with: esker register NAME METADATA_FILE",
            path=text,
        )
    return open_lake(current_settings()).table(text)


def open_lake(settings: Settings, *, trusted_views: bool | Iterable[str] = False, may_make: bool = False) -> Lake:
    """The catalog that was asked for.

    One that was named and is not there is a `NoSuchFile`, since the name may be a typo; a command that makes lakes on
    first use says ``may_make``.
    """
    from esker.wiring import connect

    return connect(
        settings.catalog,
        warehouse=settings.warehouse,
        allowed_roots=settings.allowed_roots,
        trusted_views=trusted_views,
        must_exist=settings.catalog is not None and not may_make,
    )


def storage_of(table: Table) -> Storage:
    """Where the table's files lie, for their sizes."""
    return table._workings.storage


def chosen_snapshot(table: Table, snapshot_id: int | None, as_of: str | None, ref: str | None) -> Snapshot | None:
    """The snapshot that the options choose, the current one without any; None while the table is empty."""
    from esker.read.resolve_snapshot import resolve_snapshot

    return resolve_snapshot(table.metadata, snapshot_id=snapshot_id, as_of=as_of, ref=ref).snapshot


def snapshot_named(table: Table, text: str) -> Snapshot | None:
    """A snapshot by id, branch, tag, ``current`` or time, whichever fits first."""
    from esker.errors import InvalidInput, NoSuchSnapshot
    from esker.read.resolve_snapshot import resolve_snapshot

    metadata = table.metadata
    if text in metadata.refs or text == "main":
        return resolve_snapshot(metadata, ref=text).snapshot
    if text == "current":
        return resolve_snapshot(metadata).snapshot
    if text.lstrip("-").isdigit() and metadata.snapshot(int(text)) is not None:
        return metadata.snapshot(int(text))
    try:
        return resolve_snapshot(metadata, as_of=text).snapshot
    except InvalidInput as error:
        if text.lstrip("-").isdigit():
            return resolve_snapshot(metadata, snapshot_id=int(text)).snapshot
        try:
            return resolve_snapshot(metadata, ref=text).snapshot
        except NoSuchSnapshot as missing:
            raise NoSuchSnapshot(
                missing.message.replace("no branch or tag", "no snapshot, branch, tag or time", 1), **missing.facts
            ) from error


def relative_path(path: str, location: str) -> str:
    """A file's path below the table, which is how people tell files apart."""
    base = location.rstrip("/") + "/"
    return path.removeprefix(base)
